"""Makes the decoder, a function of output arrays, from a pipeline's `decode` settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.original_outputs import decoded_names, original_names, original_outputs
from edgedla.errors import UsageError
from edgedla.preprocess.geometry import Geometry
from edgedla.processes.python_files import function_of
from edgedla.runtime.decode import DECODERS, BoxSettings, NmsOptions
from edgedla.runtime.decode.detections import check_labels
from edgedla.runtime.decode.own import call, is_own
from edgedla.runtime.frames import Result
from edgedla.vocabulary import did_you_mean

Results = List[Result]
Decoder = Callable[[Mapping[str, np.ndarray], Geometry], Results]
#: Decoders that read the outputs of the last convolutions.
RAW_HEADS = frozenset({"yolov5", "yolov8", "yolo11"})
#: Decoders of boxes whose sides are distributions over `reg_max` bins.
BINNED = ("yolov8", "yolo11", "pose", "instances")
#: Limits of settings that determine array sizes before any output is known.
MOST = {"reg_max": 256, "keypoints": 1000}


@dataclass(frozen=True)
class DecodeOptions:
    """How outputs become results.

    Attributes:
        kind: classification, segmentation, instances, pose, ssd, yolov5, yolov8, yolo11, centernet, depth, final (boxes after
            NMS), none (the outputs' shapes and ranges only), or a function of your own, module:function or FILE.py:function.
            It is called with ({output name: array (1, ...) in real values}, the Geometry that brings boxes back to the frame,
            these options). It returns a list of results: Detection, ClassScore, or any object with to_dict() and, to be
            drawn, draw(image, scale).
        labels: class names; those in the model's metadata if not given.
        outputs: names of the outputs in the decoder's order; the artifact's order if empty.
        score: drop detections below it. iou: threshold of NMS. limit: maximum detections per frame. k: of the classification top-k.
        reg_max: bins per side of a YOLOv8 box. priors: .npy file with SSD's prior boxes.
        keypoints: number of keypoints per person of a pose network.
        anchors: of YOLOv5, one text per stride, "8: 10,13 16,30 33,23" (w,h in pixels); the stock anchors if empty.
    """

    kind: str = "none"
    labels: Tuple[str, ...] = ()
    outputs: Tuple[str, ...] = ()
    score: float = 0.25
    iou: float = 0.45
    limit: int = 300
    k: int = 5
    reg_max: int = 16
    priors: str = ""
    anchors: Tuple[str, ...] = ()
    keypoints: int = 17
    #: Names of the fields set by a file or option, even to their default.
    given: FrozenSet[str] = field(default=frozenset(), compare=False, repr=False, metadata={"internal": True})


def make_decoder(options: DecodeOptions, artifact: Artifact) -> Decoder:
    """The decoder for the artifact's outputs.

    If `fix` changed the artifact's outputs, the decoder reads the original ones if it needs them; `outputs` may name them.
    A decoder of raw YOLO heads reads the heads left by decoder-cut.

    Raises:
        UsageError: unknown decoder or output, or a required setting is missing.
    """
    current = [b.name for b in artifact.outputs]
    decoded = decoded_names(artifact)
    raw = options.kind in RAW_HEADS or options.kind == "none"
    needs_decoder = bool(decoded) and (bool({*options.outputs} - {*current}) or (not options.outputs and not raw))
    restore = original_outputs(artifact, decoder=needs_decoder)
    default = original_names(artifact) if needs_decoder else current
    inner = _decoder_of(options, artifact, default, [*current, *decoded])
    if restore is None:
        return inner
    back = restore
    return lambda arrays, geometry: inner(back(arrays), geometry)


def _decoder_of(options: DecodeOptions, artifact: Artifact, default: List[str], choices: List[str]) -> Decoder:
    for name in options.outputs:
        if name not in choices:
            raise UsageError(f"the artifact has no output {name!r}", allowed=", ".join(choices))
    for key in ("score", "iou"):
        if not 0 <= getattr(options, key) <= 1:
            raise UsageError(f"{key} is {getattr(options, key)}", allowed="0 to 1")
    for key, most in MOST.items():
        if not 1 <= getattr(options, key) <= most:
            raise UsageError(f"{key} is {getattr(options, key)}", allowed=f"1 to {most}")
    names = list(options.outputs or default)
    if options.kind == "none":
        return lambda arrays, geometry: [_summary(n, arrays[n]) for n in names]
    if is_own(options.kind):
        return _own(options, names)
    if options.kind not in DECODERS:
        choices = ["none", *sorted(DECODERS)]
        raise UsageError(
            f"unknown decoder {options.kind!r}",
            allowed=", ".join([*choices, "module:function"]),
            hint=did_you_mean(options.kind, choices),
        )
    if options.kind in _OF_ONE_OUTPUT:
        return _OF_ONE_OUTPUT[options.kind](options, names[0])
    if options.kind == "ssd":
        return _ssd(options, names, _settings(options, artifact))
    extra: Dict[str, Any] = {}
    if options.kind in BINNED:
        extra["reg_max"] = options.reg_max
    if options.kind == "yolov5" and options.anchors:
        extra["anchors"] = parse_anchors(options.anchors)
    if options.kind == "pose":
        extra["keypoints"] = options.keypoints
    decode, settings = DECODERS[options.kind], _settings(options, artifact)
    return lambda arrays, geometry: list(decode([arrays[n] for n in names], replace(settings, geometry=geometry), **extra))


def _settings(options: DecodeOptions, artifact: Artifact) -> BoxSettings:
    h, w = artifact.inputs[0].shape_nchw[-2:]
    return BoxSettings((h, w), NmsOptions(options.score, options.iou, options.limit), labels=options.labels)


def _own(options: DecodeOptions, names: Sequence[str]) -> Decoder:
    function = function_of(options.kind, "decoder")
    return lambda arrays, geometry: call(function, options.kind, {n: arrays[n] for n in names}, geometry, options)


#: Decoders that read only the first output.
_OF_ONE_OUTPUT: Mapping[str, Callable[[DecodeOptions, str], Decoder]] = {
    "classification": lambda o, name: lambda arrays, _: list(DECODERS["classification"](arrays[name], o.k, o.labels)),
    "segmentation": lambda o, name: lambda arrays, geometry: [_classes(arrays[name], geometry, o.labels)],
    "depth": lambda o, name: lambda arrays, geometry: [DECODERS["depth"](arrays[name], geometry)],
}


def _ssd(options: DecodeOptions, names: Sequence[str], settings: BoxSettings) -> Decoder:
    if not options.priors:
        raise UsageError("the ssd decoder needs its prior boxes", allowed="priors: FILE.npy of shape (n, 4) in 0..1")
    priors = _priors(options.priors)
    if len(names) != 2:
        raise UsageError(f"the ssd decoder reads two outputs, found {len(names)}", hint="outputs: [locations, confidences]")
    locations, confidences = names
    return lambda arrays, geometry: list(
        DECODERS["ssd"](arrays[locations], arrays[confidences], priors, replace(settings, geometry=geometry))
    )


def parse_anchors(texts: Sequence[str]) -> Dict[int, Tuple[Tuple[float, float], ...]]:
    """{stride: ((w, h), ...)} from texts like "8: 10,13 16,30 33,23".

    Raises:
        UsageError: another form, or a number that is not above 0.
    """
    table = {}
    for text in texts:
        stride, _, sizes = text.partition(":")
        try:
            pairs = tuple((float(w), float(h)) for w, h in (pair.split(",") for pair in sizes.split()))
            table[int(stride)] = pairs
        except ValueError:
            pairs = ()
        if not pairs or int(stride) < 1 or not all(0 < v < math.inf for pair in pairs for v in pair):
            raise UsageError(f"anchors {text!r}", allowed='"STRIDE: W,H W,H ...", as in "8: 10,13 16,30 33,23"')
    return table


def _priors(path: str) -> np.ndarray:
    try:
        priors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise UsageError(f"the prior boxes cannot be read: {e}", where=path, allowed="a .npy file") from e
    if not isinstance(priors, np.ndarray) or priors.ndim != 2 or priors.shape[1] != 4:
        raise UsageError(f"prior boxes of shape {getattr(priors, 'shape', None)}", where=path, allowed="(n, 4)")
    return priors


@dataclass(frozen=True)
class OutputSummary:
    """Summary of an output without a decoder, over its finite values; NaN if it has none."""

    name: str
    shape: Tuple[int, ...]
    low: float
    high: float
    mean: float

    def to_dict(self) -> Dict[str, Any]:
        return {"output": self.name, "shape": list(self.shape), "min": self.low, "max": self.high, "mean": self.mean}


def _summary(name: str, array: np.ndarray) -> OutputSummary:
    finite = np.isfinite(array)
    a = array if finite.all() else array[finite]
    if not a.size:
        return OutputSummary(name, array.shape, math.nan, math.nan, math.nan)
    return OutputSummary(name, array.shape, float(a.min()), float(a.max()), float(a.mean(dtype=np.float64)))


@dataclass(frozen=True)
class ClassShares:
    """Share of each class in a segmentation, and the class map.

    `area_xywh`: the part of the frame that it covers (left, top, width, height in pixels; None: all of it).
    """

    shares: Mapping[str, float]
    class_map: Optional[np.ndarray] = None
    area_xywh: Optional[Tuple[int, int, int, int]] = None

    def to_dict(self) -> Dict[str, Any]:
        return {"shares": dict(self.shares)}


def _classes(logits: np.ndarray, geometry: Geometry, labels: Tuple[str, ...]) -> ClassShares:
    # Cut out the letterbox's picture before resizing to the frame.
    dh, dw = geometry.dst_hw
    full = DECODERS["segmentation"](logits, (dh, dw))
    if not np.issubdtype(logits.dtype, np.integer):
        check_labels(labels, logits.shape[1])
    (ox, oy), (h, w) = geometry.offset_xy, geometry.size_hw
    part = full[oy : oy + h, ox : ox + w]
    ids, counts = np.unique(part, return_counts=True)
    name = [labels[i] if i < len(labels) else str(i) for i in ids]
    return ClassShares({n: round(float(c) / part.size, 4) for n, c in zip(name, counts)}, part, geometry.src_xywh)
