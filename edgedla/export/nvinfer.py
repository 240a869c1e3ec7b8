"""nvinfer's settings of one model, which DeepStream and Savant share: keys of [property] as their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Tuple

from edgedla.errors import UsageError
from edgedla.export.handover import Handover, LayerEntry, linear_float, not_expressed, open_sizes, scale_and_means

#: network-mode: FP32 is 0, INT8 1, FP16 2 (Gst-nvinfer, table of the group property).
NETWORK_MODES = {"int8": 1, "fp16": 2}
#: nvinfer copies an entry of layer-device-precision into a buffer of 64 bytes with its terminator
#: (gstnvinfer_property_parser.cpp of DeepStream 6.x to 8.0): a longer entry is cut, and names another layer.
MOST_ENTRY_BYTES = 63
#: Separators of the parts and entries of layer-device-precision, and characters special to an INI reader.
SEPARATORS = ":;\\\n\r"


@dataclass(frozen=True)
class Pictures:
    """How pictures become the input: y = factor * (x - means), with x in 0..255."""

    factor: float
    means: Tuple[float, ...]
    keep_aspect: bool
    colour: str
    dims_chw: Tuple[int, ...]


def pictures_of(handover: Handover, runtime: str) -> Pictures:
    """Raises UsageError if nvinfer cannot prepare pictures for this model."""
    linear_float(handover, runtime, ("FLOAT",))
    if len(handover.dims) != 1:
        raise UsageError(f"{handover.name} has {len(handover.dims)} inputs", where=handover.where, allowed=f"one, for {runtime}")
    (dims,) = handover.dims.values()
    if len(dims) != 4 or dims[1] != 3:
        raise UsageError(f"the input is {list(dims)}: {runtime} prepares pictures", where=handover.where, allowed="N x 3 x H x W")
    factor, means = scale_and_means(handover.preprocess, handover.where, runtime)
    return Pictures(factor, means, handover.preprocess.fit == "letterbox", handover.preprocess.colour, tuple(dims[1:]))


def layer_entries(handover: Handover) -> Tuple[List[str], List[str]]:
    """(entries NAME:PRECISION:DEVICE, notes on entries that cannot be written).

    With enable-dla every layer goes to the DLA, or falls back to the GPU. So only layers that the DLA could run but that are
    to stay on the GPU need an entry.

    Raises:
        UsageError: a required entry cannot be written, and there is no engine that already holds the placement.
    """
    if handover.core is None:
        return [], []
    entries, lost = [], []
    for layer in handover.layers:
        if layer.device != "GPU" or layer.forced:
            continue
        entry = f"{layer.name}:{layer.precision}:gpu"
        why = _unwritable(entry, layer)
        if not why:
            entries.append(entry)
        elif handover.engine is not None:
            lost.append(f"layer-device-precision of {layer.name}: {why}. The engine holds it; a new one would not")
        else:
            raise UsageError(
                f"layer {layer.name} is to run on the GPU, which nvinfer cannot be told: {why}",
                where=handover.where,
                allowed=f"entries of {MOST_ENTRY_BYTES} bytes",
                hint="build the engine on the board (edgedla build --placement) and export that artifact, or give the ONNX "
                "node a shorter name",
            )
    return entries, lost


def _unwritable(entry: str, layer: LayerEntry) -> str:
    size = len(entry.encode("utf-8"))
    if size > MOST_ENTRY_BYTES:
        return f"its entry has {size} bytes, and from 64 on nvinfer cuts it"
    bad = sorted({c for c in layer.name if c in SEPARATORS})
    return f"its name holds {' '.join(map(repr, bad))}, which separates entries" if bad else ""


def common_gaps(handover: Handover, lost: List[str]) -> List[str]:
    """Notes for the README on what this configuration does not contain."""
    gaps = not_expressed(handover) + lost + ([] if handover.engine is not None else open_sizes(handover))
    gaps.append("memory pools of the DLA (edgedla's plan sets them): nvinfer leaves TensorRT's defaults")
    return gaps
