"""Savant: the model's part of module.yml.

Fields: Savant's manual, "nvinfer@ models" and "Additional NvInfer Parameters"; each becomes a key of nvinfer.
"""

from __future__ import annotations

from typing import Any, Dict

import yaml

from edgedla.export.deepstream import DETECTORS
from edgedla.export.handover import NO_CACHE, NO_ONNX, Export, Files, Handover, carry
from edgedla.export.nvinfer import common_gaps, layer_entries, pictures_of

ELEMENTS = {"classification": "nvinfer@classifier", **{kind: "nvinfer@detector" for kind in DETECTORS}}
READ_BY = "Savant, on the DeepStream release of its container (6.x to 8.0)"


def export(handover: Handover, number: int = 1) -> Export:
    """module.yml with one element, to be copied into the user's module.

    Raises:
        UsageError: nvinfer, which Savant uses, cannot run the model as edgedla does.
    """
    pictures = pictures_of(handover, "Savant's nvinfer")
    entries, lost = layer_entries(handover)
    files: Files = {}
    missing: Dict[str, str] = {}
    model: Dict[str, Any] = {
        "format": "onnx",
        "model_file": handover.onnx_name,
        "batch_size": handover.batch,
        "precision": handover.precision,
    }
    carry(files, missing, handover.onnx_name, handover.onnx, NO_ONNX)
    if handover.engine is not None:
        model["engine_file"] = f"{handover.name}.engine"
        files[f"{handover.name}.engine"] = handover.engine
    if handover.precision == "int8":
        model["int8_calib_file"] = "calibration.cache"
        carry(files, missing, "calibration.cache", handover.calibration, NO_CACHE)
    if handover.core is not None:
        model.update(enable_dla=True, use_dla_core=handover.core)
    if entries:
        model["layer_device_precision"] = entries
    if handover.decode.labels:
        model["label_file"] = "labels.txt"
        files["labels.txt"] = "".join(f"{label}\n" for label in handover.decode.labels)
    model["input"] = {
        "layer_name": next(iter(handover.dims)),
        "shape": list(pictures.dims_chw),
        "maintain_aspect_ratio": pictures.keep_aspect,
        "symmetric_padding": pictures.keep_aspect,
        "scale_factor": pictures.factor,
        "offsets": list(pictures.means),
        "color_format": pictures.colour.upper(),
    }
    if handover.outputs:
        model["output"] = {"layer_names": [b.name for b in handover.outputs]}
    element = {"element": ELEMENTS.get(handover.decode.kind, "nvinfer@complex_model"), "name": handover.name, "model": model}
    files[f"{handover.name}.module.yml"] = yaml.safe_dump({"pipeline": {"elements": [element]}}, sort_keys=False)
    gaps = ["the decoding of outputs: `model.output.converter` is a class of yours", *common_gaps(handover, lost)]
    steps = (
        f"copy the element of {handover.name}.module.yml into your module, and the files to its model folder "
        "(`parameters.model_path`, one folder per model name)",
    )
    return Export(files, missing, READ_BY, steps, tuple(gaps))
