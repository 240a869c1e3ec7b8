"""The legal formats of each input and output, and the one that needs no reformat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import UsageError
from edgedla.formats.layout import Layout, layout
from edgedla.formats.tensor_format import TYPE_PREFIX, IoFormat, TensorFormat
from edgedla.graph.layer_graph import LayerGraph
from edgedla.rules import load_rules
from edgedla.rules.verdict import Effect, Finding
from edgedla.targets.platform import Platform
from edgedla.text.printable import Fields

DLA, GPU = "DLA", "GPU"
#: Element type of an input or output, by the precision of its layers.
DTYPE_OF = {"fp16": "HALF", "int8": "INT8"}
#: The DLA's own feature format by element type; the GPU reads and writes it too (rule F-24 of NVIDIA's FAQ).
NATIVE = {"HALF": TensorFormat.CHW16, "INT8": TensorFormat.CHW32}

#: Best first, among formats that need no reformat. An image in DLA_HWC4 spares the first convolution the padding of 3
#: channels to a full vector: TensorRT 10.3 on AGX Orin timed the same ResNet-50 (INT8) at 1.08 ms with DLA_HWC4, 1.28
#: with CHW32 and 1.37 with DLA_LINEAR as input; as output CHW32 was 0.05 ms faster than DLA_LINEAR.
_INPUT_ORDER = (TensorFormat.DLA_HWC4, None, TensorFormat.DLA_LINEAR, TensorFormat.LINEAR)
#: The DLA reads images in DLA_HWC4 but never writes them.
_OUTPUT_ORDER = (None, TensorFormat.DLA_LINEAR, TensorFormat.LINEAR)

_DLA_FORMATS = frozenset({TensorFormat.DLA_HWC4, TensorFormat.DLA_LINEAR})


@dataclass(frozen=True)
class FormatOption(Fields):
    """One format at one border tensor.

    Attributes:
        io: format and element type.
        legal: False with a finding that rejects it or a layout that cannot hold the tensor; None if a rule is undecided.
        reformat: whether TensorRT adds a reformat layer here; None if that depends on the GPU's kernels.
        why: one sentence; empty if there is nothing against it.
        findings: the rules that it breaks.
        layout: its memory layout; None if the format cannot hold the tensor.
    """

    io: IoFormat
    legal: Optional[bool]
    reformat: Optional[bool]
    why: str = ""
    findings: Tuple[Finding, ...] = ()
    layout: Optional[Layout] = None

    def to_dict(self) -> Dict[str, Any]:
        document = super().to_dict()
        return {**document.pop("io"), "trtexec": self.io.trtexec(), **document}


@dataclass(frozen=True)
class IoChoice(Fields):
    """A network input or output with all its options.

    Attributes:
        devices: devices of the layers that read the input or write (and read) the output: DLA, GPU or both.
        chosen: the first legal option without a reformat, else the first legal one; None if none is legal.
        options: best first.
    """

    name: str
    is_input: bool
    devices: Tuple[str, ...]
    chosen: Optional[FormatOption]
    options: Tuple[FormatOption, ...]


def choose_io(
    graph: LayerGraph,
    platform: Platform,
    precision: str,
    mode: str,
    *,
    on_dla: Optional[Sequence[bool]] = None,
    precisions: Optional[Mapping[int, str]] = None,
) -> Tuple[IoChoice, ...]:
    """Every network input, then every output, with its legal formats and the choice that needs no reformat.

    Args:
        precision: "fp16" or "int8".
        mode: "fallback", "strict" or "standalone".
        on_dla: per live layer, whether it runs on the DLA; required in mode "fallback", by default all do.
        precisions: layer index to "fp16" or "int8" if other than `precision` (INT8 Softmax runs in FP16).

    Raises:
        UsageError: unknown precision or mode, or no devices for mode "fallback".
    """
    if precision not in DTYPE_OF:
        raise UsageError(f"unknown precision {precision!r}", allowed=", ".join(sorted(DTYPE_OF)))
    if on_dla is None:
        if mode == "fallback" and platform.has_dla:
            raise UsageError("with GPU fallback, formats depend on the layers' devices, which are not given")
        on_dla = [platform.has_dla] * len(graph.layers)
    chosen: List[IoChoice] = []
    for is_input, names in ((True, graph.inputs), (False, graph.outputs)):
        for name in names:
            near = graph.consumers(name) if is_input else _near_output(graph, name)
            # Without fallback an input that nothing reads needs a format of the DLA too.
            unread = (DLA,) if mode != "fallback" and platform.has_dla else (GPU,)
            devices = tuple(sorted({DLA if on_dla[i] else GPU for i in near})) or unread
            precisions_near = {(precisions or {}).get(i, precision) for i in near if on_dla[i]} or {precision}
            # If two readers have different precisions, the tensor has the finer type, and the other reader converts it.
            compute = "fp16" if "fp16" in precisions_near else "int8"
            options = _options(graph, name, is_input, devices, platform, compute, mode)
            legal = [o for o in options if o.legal]
            best = next((o for o in legal if o.reformat is False), legal[0] if legal else None)
            chosen.append(IoChoice(name, is_input, devices, best, options))
    return tuple(chosen)


def _near_output(graph: LayerGraph, name: str) -> Tuple[int, ...]:
    producer = graph.producer(name)
    return (() if producer is None else (producer,)) + graph.consumers(name)


def _options(
    graph: LayerGraph, name: str, is_input: bool, devices: Tuple[str, ...], platform: Platform, compute: str, mode: str
) -> Tuple[FormatOption, ...]:
    tensor = graph.tensors[name]
    linear = IoFormat(TensorFormat.LINEAR, tensor.dtype)
    dtype = DTYPE_OF[compute]
    options: List[FormatOption] = []
    for format in _INPUT_ORDER if is_input else _OUTPUT_ORDER:
        io = IoFormat(format or NATIVE[dtype], dtype)
        if io.format is TensorFormat.LINEAR:
            io = linear
        elif tensor.dtype not in ("FLOAT", "HALF", "INT8") or DLA not in devices:
            continue  # no DLA layer uses it, or the DLA does not compute with its type
        options.append(_option(graph, name, is_input, io, devices, platform, compute, mode))
    return tuple(options)


def _option(
    graph: LayerGraph,
    name: str,
    is_input: bool,
    io: IoFormat,
    devices: Tuple[str, ...],
    platform: Platform,
    compute: str,
    mode: str,
) -> FormatOption:
    tensor = graph.tensors[name]
    reformat = _reformat(io.format, devices)
    try:
        buffer = layout(io.format, io.dtype, tensor.dims, chip=platform.chip, gpu_fallback=mode == "fallback")
    except UsageError as e:
        return FormatOption(io, None if tensor.is_dynamic else False, reformat, str(e))
    format_text = f"{TYPE_PREFIX.get(io.dtype, io.dtype.lower())}:{io.format.value.lower()}"
    findings = tuple(
        f for f in load_rules().check_io(graph, platform, compute, mode, formats={name: format_text}) if f.layer == name
    )
    legal: Optional[bool] = True
    why = ""
    for effect, answer in ((Effect.UNKNOWN, None), (Effect.REJECT, False)):
        against = [f for f in findings if f.effect is effect]
        if against:
            legal, why = answer, against[0].message
    return FormatOption(io, legal, reformat, why, findings, buffer)


def _reformat(format: TensorFormat, devices: Tuple[str, ...]) -> Optional[bool]:
    """Whether a tensor in this format is converted before its layers can use it.

    DLA layers read the DLA's own formats directly; GPU layers read LINEAR; both can read CHW16 (FP16) and CHW32 (INT8). Whether
    a given GPU kernel does is only known once TensorRT has timed it; then the result is None.
    """
    if format is TensorFormat.LINEAR:
        return DLA in devices
    if devices == (DLA,):
        return False
    if format in _DLA_FORMATS:
        return True
    return False if DLA in devices else None
