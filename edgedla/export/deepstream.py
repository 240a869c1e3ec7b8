"""DeepStream: nvinfer's configuration file.

Keys: Gst-nvinfer of the DeepStream guide, and gstnvinfer_property_parser.h of DeepStream 6.x to 8.0.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

from edgedla.errors import UsageError
from edgedla.export.handover import NO_CACHE, NO_ONNX, Export, Files, Handover, carry
from edgedla.export.nvinfer import NETWORK_MODES, Pictures, common_gaps, layer_entries, pictures_of

#: network-type: detector 0, classifier 1, segmentation 2, other 100.
NETWORK_TYPES = {"classification": 1, "segmentation": 2}
DETECTORS = ("ssd", "yolov5", "yolov8", "yolo11", "pose", "centernet")
OTHER = 100
READ_BY = "DeepStream 6.x to 8.0 (nvinfer; not nvinferserver)"


def export(handover: Handover, number: int = 1) -> Export:
    """config_infer_NAME.txt and the files that it names.

    Args:
        number: gie-unique-id; unique for each model of a pipeline.

    Raises:
        UsageError: nvinfer cannot run the model as edgedla does.
    """
    pictures = pictures_of(handover, "nvinfer")
    entries, lost = layer_entries(handover)
    files: Files = {}
    missing: Dict[str, str] = {}
    carry(files, missing, handover.onnx_name, handover.onnx, NO_ONNX)
    if handover.engine is not None:
        files[_engine_name(handover)] = handover.engine
    if handover.precision == "int8":
        carry(files, missing, "calibration.cache", handover.calibration, NO_CACHE)
    if handover.decode.labels:
        files["labels.txt"] = "".join(f"{label}\n" for label in handover.decode.labels)
    name = f"config_infer_{handover.name}.txt"
    files[name] = _text(_properties(handover, pictures, number, entries), _class_attributes(handover))
    gaps = common_gaps(handover, lost)
    kind = handover.decode.kind
    if kind not in ("none", *NETWORK_TYPES) and not (kind in DETECTORS and handover.parser):
        gaps.insert(
            0,
            "the decoding of boxes: network-type is 100 and each frame carries the raw outputs "
            "(output-tensor-meta). With a library that parses them: --parser FUNCTION --parser-library FILE",
        )
    steps = (
        f"gst-launch-1.0 ... ! nvstreammux name=m batch-size={handover.batch} width=... height=... ! "
        f"nvinfer config-file-path={name} ! ...",
        *(() if handover.engine is not None else ("the first start builds the engine and takes minutes",)),
    )
    return Export(files, missing, READ_BY, steps, tuple(gaps))


def _engine_name(handover: Handover) -> str:
    # The name that nvinfer gives an engine that it builds.
    device = "gpu0" if handover.core is None else f"dla{handover.core}"
    return f"{handover.onnx_name}_b{handover.batch}_{device}_{handover.precision}.engine"


def _properties(handover: Handover, p: Pictures, number: int, entries: List[str]) -> List[Tuple[str, str]]:
    kind = handover.decode.kind
    detector = kind in DETECTORS and bool(handover.parser)
    pairs: List[Tuple[str, str]] = [
        ("gpu-id", "0"),
        ("gie-unique-id", str(number)),
        ("process-mode", "1"),
        ("onnx-file", handover.onnx_name),
        ("model-engine-file", _engine_name(handover)),
        ("batch-size", str(handover.batch)),
        ("network-mode", str(NETWORK_MODES[handover.precision])),
        ("infer-dims", ";".join(map(str, p.dims_chw))),
        ("network-input-order", "0"),
        ("model-color-format", {"rgb": "0", "bgr": "1"}[p.colour]),
        ("net-scale-factor", repr(p.factor)),
        ("offsets", ";".join(f"{v:g}" for v in p.means)),
        ("maintain-aspect-ratio", str(int(p.keep_aspect))),
        ("symmetric-padding", str(int(p.keep_aspect))),
        ("network-type", "0" if detector else str(NETWORK_TYPES.get(kind, OTHER))),
    ]
    if handover.precision == "int8":
        pairs.append(("int8-calib-file", "calibration.cache"))
    if handover.core is not None:
        pairs += [("enable-dla", "1"), ("use-dla-core", str(handover.core))]
    if entries:
        pairs.append(("layer-device-precision", ";".join(entries)))
    if handover.decode.labels:
        pairs.append(("labelfile-path", "labels.txt"))
        if detector:
            pairs.append(("num-detected-classes", str(len(handover.decode.labels))))
    if handover.outputs:
        pairs.append(("output-blob-names", ";".join(b.name for b in handover.outputs)))
    if detector:
        pairs += [("parse-bbox-func-name", handover.parser), ("cluster-mode", "2")]
        if handover.parser_library:
            pairs.append(("custom-lib-path", handover.parser_library))
    elif kind == "classification":
        pairs.append(("classifier-threshold", f"{handover.decode.score:g}"))
    elif kind == "segmentation":
        pairs.append(("segmentation-threshold", "0"))
    else:
        pairs.append(("output-tensor-meta", "1"))
    _check_values(pairs, handover)
    return pairs


def _check_values(pairs: List[Tuple[str, str]], handover: Handover) -> None:
    """Refuses line breaks: one in a name would start a key of its own."""
    for key, value in pairs:
        if any(c in value for c in "\n\r"):
            raise UsageError(f"{key} holds a line end", where=handover.where, allowed="names of one line")


def _class_attributes(handover: Handover) -> List[Tuple[str, str]]:
    if handover.decode.kind not in DETECTORS or not handover.parser:
        return []
    d = handover.decode
    return [("pre-cluster-threshold", f"{d.score:g}"), ("nms-iou-threshold", f"{d.iou:g}"), ("topk", str(d.limit))]


def _text(properties: List[Tuple[str, str]], attributes: List[Tuple[str, str]]) -> str:
    lines = ["[property]", *(f"{key}={value}" for key, value in properties)]
    if attributes:
        lines += ["", "[class-attrs-all]", *(f"{key}={value}" for key, value in attributes)]
    return "\n".join(lines) + "\n"
