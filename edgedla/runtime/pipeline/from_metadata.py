"""What the metadata of an engine or model says of pictures, outputs and classes, where the user says nothing of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Dict, Optional

from edgedla.builder.artifact.artifact import BARE_ENGINE, Artifact
from edgedla.errors import UsageError
from edgedla.records.ultralytics import UltralyticsMetadata
from edgedla.runtime.pipeline.settings import ModelConfig
from edgedla.runtime.runners.engine_file import metadata_of

log = logging.getLogger("edgedla.runtime.pipeline")
#: Decoder of each task whose outputs are decoded here.
DECODER_OF = {"detect": "yolov8", "segment": "instances", "pose": "pose", "classify": "classification"}
#: How pictures get into the network. Ultralytics divides by 255 in every task, and fills up a letterbox with 114.
FIT_OF = {"classify": "crop"}


def with_metadata(config: ModelConfig, artifact: Artifact) -> ModelConfig:
    """The settings with what the metadata says filled in; what a file or option gave stays. An artifact knows the class names.

    Raises:
        UsageError: the engine reads or writes INT8, whose scale it does not hold.
    """
    if artifact.kind != BARE_ENGINE:
        labels = tuple(artifact.model.get("labels") or ())
        if config.decode.labels or "labels" in config.decode.given:
            return config
        return replace(config, decode=replace(config.decode, labels=labels))
    steps = [b.name for b in artifact.bindings if b.dtype == "INT8"]
    if steps:
        raise UsageError(
            f"{', '.join(steps)}: INT8 whose scale the engine does not hold",
            where=config.artifact,
            allowed="an engine with FP32 or FP16 inputs and outputs",
            hint="build it without --inputIOFormats=int8, or build the artifact with `edgedla build`, which keeps the scales",
        )
    metadata = metadata_of(artifact)
    if metadata is None:
        return config
    decode, given = config.decode, config.decode.given
    of_engine: Dict[str, Any] = {"kind": _decoder(metadata), "labels": metadata.labels or None}
    if metadata.keypoints:
        of_engine["keypoints"] = metadata.keypoints
    decode = replace(decode, **{k: v for k, v in of_engine.items() if v is not None and k not in given})
    preprocess = config.preprocess
    if "fit" not in preprocess.given and metadata.task in FIT_OF:
        preprocess = replace(preprocess, fit=FIT_OF[metadata.task])
    _compare_size(metadata, artifact)
    return replace(config, decode=decode, preprocess=preprocess)


def _decoder(metadata: UltralyticsMetadata) -> Optional[str]:
    """The decoder of the engine's outputs; None where there is none here, which is said."""
    if metadata.final_boxes and metadata.task == "detect" and not metadata.transformer:
        return "final"
    readable = metadata.task in DECODER_OF and not metadata.transformer and not metadata.final_boxes
    if readable and metadata.keypoint_values in (0, 3):
        return DECODER_OF[metadata.task]
    what = "RT-DETR" if metadata.transformer else f"task {metadata.task or 'unknown'}"
    log.warning("%s: no decoder is known for its outputs; the results show their shapes and ranges", what)
    return None


def _compare_size(metadata: UltralyticsMetadata, artifact: Artifact) -> None:
    dims = artifact.inputs[0].shape_nchw if artifact.inputs else ()
    if metadata.input_hw is not None and len(dims) == 4 and tuple(dims[2:]) != metadata.input_hw:
        height, width = metadata.input_hw
        log.warning("the metadata says %dx%d, the engine reads %dx%d: using the engine's", height, width, *dims[2:])
