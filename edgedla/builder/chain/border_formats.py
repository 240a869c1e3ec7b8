"""Formats of the tensors that pass between the stages of a chain, so that the DLA needs no reformat at either end."""

from __future__ import annotations

from typing import AbstractSet, Dict, Mapping, Sequence, Tuple

from edgedla.formats import IoFormat, TensorFormat
from edgedla.formats.choose import NATIVE
from edgedla.formats.tensor_format import TYPE_PREFIX
from edgedla.graph import LayerGraph
from edgedla.quantization.scale_rules import scale_rules
from edgedla.rules import load_rules
from edgedla.rules.verdict import Effect
from edgedla.targets.platform import Platform


def border_formats(
    stages: Sequence[Tuple[LayerGraph, Sequence[bool]]],
    platform: Platform,
    precision: str,
    mode: str,
    ranges: Sequence[Mapping[str, float]],
    precisions: Sequence[Mapping[str, str]],
    network: AbstractSet[str],
) -> Dict[str, IoFormat]:
    """Tensor name -> type and format, the same for the stage that writes the tensor and all stages that read it.

    - FP16 CHW16, the DLA's own format, where a DLA layer is at either end.
    - INT8 CHW32 in an INT8 build if the tensor has a scale and its writer, or every reader, computes in INT8.
    - The tensor's own type in LINEAR where no DLA layer touches it, for other types and ranks, where the rules refuse
      the DLA's own format, and in releases where tensor types decide (there CHW16 and CHW32 for FP16 and INT8 tensors
      that the DLA alone touches).

    Args:
        stages: by stage its graph and whether each layer is on the DLA.
        ranges: by stage, tensor -> absmax. precisions: by stage, layer -> precision asked for.
        network: the network's own inputs and outputs, whose format is not chosen here.
    """
    read = {n for graph, _ in stages for n in graph.inputs} - network
    written = [n for graph, _ in stages for n in graph.outputs if n in read]
    formats = {}
    for name in written:
        ends = []
        for (graph, on_dla), scales, asked in zip(stages, ranges, precisions):
            producer = graph.producer(name)
            if producer is not None and name in graph.output_names:
                ends.append([_computes(graph, producer, on_dla, precision, scales, asked)])
            elif name in graph.input_names:
                ends.append([_computes(graph, i, on_dla, precision, scales, asked) for i in graph.consumers(name)])
        graph = next(g for g, _ in stages if name in g.outputs)
        linear = IoFormat(TensorFormat.LINEAR, graph.tensors[name].dtype)
        chosen = _format(linear, graph.tensors[name].rank, ends, platform.release.strongly_typed, any(name in r for r in ranges))
        formats[name] = chosen if all(_legal(g, name, chosen, platform, precision, mode) for g, _ in stages) else linear
    return formats


def _computes(
    graph: LayerGraph,
    index: int,
    on_dla: Sequence[bool],
    precision: str,
    ranges: Mapping[str, float],
    precisions: Mapping[str, str],
) -> str:
    """Where or in which precision a layer at the border computes: "gpu", "fp16" or "int8"."""
    if not on_dla[index]:
        return "gpu"
    layer = graph.layers[index]
    tensors = [t.name for t in graph.activations(layer)] + list(layer.outputs)
    int8 = precision == "int8" and precisions.get(layer.name, "int8") == "int8" and layer.onnx_op not in scale_rules().fp16_only
    return "int8" if int8 and all(t in ranges for t in tensors) else "fp16"


def _format(linear: IoFormat, rank: int, ends: Sequence[Sequence[str]], typed: bool, scaled: bool) -> IoFormat:
    writes, reads = ends[0], [c for end in ends[1:] for c in end]
    if rank != 4 or not any(c != "gpu" for c in (*writes, *reads)):
        return linear
    if typed:
        # From 10.13 on NvInfer.h promises CHW16 for the DLA alone.
        return IoFormat(NATIVE.get(linear.dtype, linear.format), linear.dtype) if "gpu" not in (*writes, *reads) else linear
    if linear.dtype not in ("FLOAT", "HALF"):
        return IoFormat(NATIVE.get(linear.dtype, linear.format), linear.dtype)
    int8 = scaled and (writes == ["int8"] or (bool(reads) and all(c == "int8" for c in reads)))
    dtype = "INT8" if int8 else "HALF"
    return IoFormat(NATIVE[dtype], dtype)


def _legal(graph: LayerGraph, name: str, io: IoFormat, platform: Platform, precision: str, mode: str) -> bool:
    if name not in (*graph.inputs, *graph.outputs):
        return True
    border = "fp16" if io.dtype != "INT8" else precision
    spelled = {name: f"{TYPE_PREFIX.get(io.dtype, io.dtype.lower())}:{io.format.spelling}"}
    check_mode = "standalone" if mode == "standalone" else "fallback"
    findings = load_rules().check_io(graph, platform, border, check_mode, spelled)
    return not any(f.effect is Effect.REJECT and f.layer == name for f in findings)
