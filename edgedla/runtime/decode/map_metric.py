"""mAP as a metric of `edgedla evaluate`: a decoder makes boxes from outputs, and COCO's average precision scores them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Optional, Sequence

import numpy as np

from edgedla.accuracy.metrics import Metric, Outputs
from edgedla.accuracy.scores.labels import boxes_fault
from edgedla.errors import DataError, UsageError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode import WITHOUT_BOXES
from edgedla.runtime.decode.accuracy import Matches, Truth, accuracy_of, matches
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.decode.make_decoder import BINNED, DecodeOptions, make_decoder
from edgedla.runtime.decode.own import is_own

#: Detections from this score on count: average precision needs low scores too.
LEAST_SCORE = 0.01
#: IoU threshold of NMS: closer boxes than on a screen count too.
_NMS_IOU = 0.6
_RESAMPLES = 40


def map_options(decode: Optional[str], reg_max: Optional[int] = None, iou: Optional[float] = None) -> DecodeOptions:
    """The decoder's settings for mAP.

    Raises:
        UsageError: no decoder, one that finds no boxes, or a number that it does not use.
    """
    if decode is None:
        raise UsageError("mAP needs a decoder", where="--metric map", hint="for example --decode yolov8")
    if decode in WITHOUT_BOXES:
        raise UsageError(f"{decode} finds no boxes, and mAP compares boxes", where="decode", allowed="a detector's decoder")
    if decode == "ssd":
        raise UsageError(
            "ssd needs the network's prior boxes, which mAP has no setting for",
            where="decode",
            hint="A decoder of your own can read them: FILE.py:function.",
        )
    if reg_max is not None and decode not in BINNED and not is_own(decode):
        raise UsageError(f"boxes of {decode} have no bins", where="reg_max", allowed=f"with {', '.join(BINNED)}")
    plain = DecodeOptions(decode, score=LEAST_SCORE, iou=_NMS_IOU if iou is None else iou)
    return plain if reg_max is None else replace(plain, reg_max=reg_max)


def map_metric(options: DecodeOptions, outputs: Sequence[str], input_shape: Sequence[int]) -> Metric:
    """mAP at IoU 0.5 to 0.95 over frames of the network's own size.

    A label is (objects, 5): class, x1, y1, x2, y2 in pixels of the network input; rows of class -1 are padding.

    Args:
        outputs: names of the network's outputs, in order. input_shape: (1, 3, H, W).

    Raises:
        UsageError: unknown decoder, or a required setting is missing.
    """
    network: Any = SimpleNamespace(
        inputs=(SimpleNamespace(shape_nchw=tuple(input_shape)),),
        outputs=tuple(SimpleNamespace(name=n) for n in outputs),
        changed_outputs=(),
    )
    decode = make_decoder(options, network)
    hw = (int(input_shape[-2]), int(input_shape[-1]))
    geometry = Geometry.fit(hw, hw)

    def of_sample(arrays: Outputs, label: object, _: Optional[Outputs]) -> Matches:
        text = boxes_fault(label, *hw)
        if text:
            raise DataError(text, where="labels")
        rows = np.asarray(label, np.float64)
        rows = rows[rows[:, 0] >= 0]
        detections = [d for d in decode(dict(arrays), geometry) if isinstance(d, Detection)]
        return matches(detections, Truth(rows[:, 1:], rows[:, 0].astype(int)))

    def combine(frames: Sequence[Matches]) -> float:
        classes = [int(frame.objects.max()) + 1 for frame in frames if len(frame.objects)]
        return accuracy_of(frames, max(classes, default=1)).map50_95

    return Metric("map", of_sample, combine, resamples=_RESAMPLES, fault=lambda label, _: boxes_fault(label, *hw))
