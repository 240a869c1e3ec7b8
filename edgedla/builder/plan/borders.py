"""What TensorRT refuses in the formats that were asked for network inputs and outputs."""

from __future__ import annotations

from typing import AbstractSet, Iterator, Mapping, NamedTuple, Sequence, Tuple

from edgedla.errors import UsageError
from edgedla.formats import IoFormat, TensorFormat, layout
from edgedla.formats.tensor_format import TYPE_PREFIX
from edgedla.graph import LayerGraph
from edgedla.rules import load_rules
from edgedla.rules.verdict import Effect, Finding
from edgedla.targets.platform import Platform

#: TensorRT converts these among each other at the border, never to a type of floats or of INT8 with a scale.
_INTEGERS = ("INT32", "INT64", "BOOL")


class Border(NamedTuple):
    """A build, as far as its border depends on it.

    Attributes:
        precision: "fp16" or "int8". mode: one of CHECK_MODES. typed: whether tensor types of the model decide (TensorRT 11).
        ranged: inputs and outputs with an INT8 range. on_dla: whether any layer runs there, so that its rules hold.
    """

    precision: str
    mode: str
    typed: bool
    ranged: AbstractSet[str]
    on_dla: bool = True


def format_offences(
    graph: LayerGraph, platform: Platform, border: Border, formats: Mapping[str, IoFormat]
) -> Iterator[Tuple[str, str]]:
    """(input or output, offence)."""
    for name, io in formats.items():
        tensor = graph.tensors[name]
        if border.typed and io.dtype != tensor.dtype:
            yield (
                name,
                f"typed-border: {name} as {io.dtype}: the model has {tensor.dtype}, and in TensorRT 11 the tensors' own types hold",
            )
        # A tensor that is INT8 in the model itself needs no scale at the border.
        if io.dtype == "INT8" and name not in border.ranged and not border.typed and tensor.dtype != "INT8":
            half = "; ranges are measured on FP32 tensors: `edgedla fix --precision int8` turns them"
            why = half if tensor.dtype == "HALF" else ""
            yield name, f"int8-scale: {name} is INT8 at the border and has no range{why}"
        whole = tensor.dtype in _INTEGERS
        if whole and (io.dtype not in _INTEGERS or io.format is not TensorFormat.LINEAR):
            yield (
                name,
                f"integer-border: {name} as {io.dtype} {io.format}: the network has {tensor.dtype}, which stays so, in LINEAR",
            )
        elif not tensor.is_dynamic:
            try:
                layout(io.format, io.dtype, tensor.dims, chip=platform.chip, gpu_fallback=border.mode == "fallback")
            except UsageError as e:
                yield name, f"buffer-layout: {name}: {e}"
    for finding in _findings(graph, platform, border, formats):
        if finding.effect is Effect.REJECT:
            yield finding.layer, rejected(finding)


def unknown_formats(graph: LayerGraph, platform: Platform, border: Border, formats: Mapping[str, IoFormat]) -> Tuple[str, ...]:
    """Notes about inputs and outputs of which no source says whether the DLA takes their format."""
    found = _findings(graph, platform, border, formats)
    return tuple(f"unknown: {rejected(finding)}" for finding in found if finding.effect is Effect.UNKNOWN)


def _findings(graph: LayerGraph, platform: Platform, border: Border, formats: Mapping[str, IoFormat]) -> Sequence[Finding]:
    if not border.on_dla:
        return ()
    spelled = {name: f"{TYPE_PREFIX.get(io.dtype, io.dtype.lower())}:{str(io.format).lower()}" for name, io in formats.items()}
    return load_rules().check_io(graph, platform, border.precision, border.mode, spelled)


def rejected(finding: Finding) -> str:
    """A finding's rule, place and message in one line."""
    return f"{finding.rule} {finding.rule_name}: {finding.layer}: {finding.message}"
