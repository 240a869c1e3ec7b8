"""Network outputs to results. To add a decoder, write its file and list it in DECODERS."""

from __future__ import annotations

from typing import Callable, Dict

from edgedla.runtime.decode.centernet import decode_centers
from edgedla.runtime.decode.dense import ClassScore, segmentation, top_k
from edgedla.runtime.decode.depth import DepthMap, decode_depth
from edgedla.runtime.decode.detections import BoxSettings, Detection, NmsOptions
from edgedla.runtime.decode.instances import Instance, decode_instances
from edgedla.runtime.decode.pose import decode_pose
from edgedla.runtime.decode.rows import decode_final
from edgedla.runtime.decode.ssd import decode_ssd
from edgedla.runtime.decode.yolo import decode_anchors, decode_dfl

DECODERS: Dict[str, Callable] = {
    "classification": top_k,
    "segmentation": segmentation,
    "instances": decode_instances,
    "centernet": decode_centers,
    "depth": decode_depth,
    "pose": decode_pose,
    "ssd": decode_ssd,
    "final": decode_final,
    "yolov5": decode_anchors,
    "yolov8": decode_dfl,
    "yolo11": decode_dfl,
}
#: Decoders without boxes: nothing of them can be cropped, tracked, or scored by mAP.
WITHOUT_BOXES = ("none", "classification", "segmentation", "depth")

__all__ = ["DECODERS", "WITHOUT_BOXES", "BoxSettings", "ClassScore", "DepthMap", "Detection", "Instance", "NmsOptions"]
