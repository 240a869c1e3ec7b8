"""Rows of a TensorRT engine: its layers from the inspector, its file's header, its calibration cache."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from edgedla.inspection.facts.fact import Fact, scalars, unique, yes
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.records.engine_info import EngineInfo
from edgedla.records.plan_header import PlanHeader


def of_engine(info: EngineInfo) -> Tuple[Fact, ...]:
    rows = scalars(
        "Engine",
        [
            ("layers", len(info.layers)),
            ("detailed", yes(info.detailed)),
            ("inputs and outputs", ", ".join(info.bindings)),
            ("DLA nodes", len(info.dla_nodes) if info.detailed else None),
            ("ForeignNodes of unknown device", len(info.undecided) or None),
            ("reformats", len(info.reformats)),
        ],
    )
    for layer in info.dla_nodes:
        ins = ", ".join(_tensor(t) for t in layer.inputs)
        outs = ", ".join(_tensor(t) for t in layer.outputs)
        rows.append(Fact("Loadables on the DLA", layer.name, f"{ins} -> {outs}"))
    rows += [Fact("ForeignNodes of unknown device", layer.name, "") for layer in unique(info.undecided)]
    gpu = [layer for layer in info.layers if layer.device == "GPU" and not layer.is_reformat]
    rows += [Fact("Layers on the GPU", layer.name, layer.type) for layer in unique(gpu)]
    for layer in unique(info.reformats):
        formats = " to ".join(_tensor(t) for t in (*layer.inputs[:1], *layer.outputs[:1]))
        rows.append(Fact("Reformats", layer.name, formats))
    return tuple(rows)


def of_plan_header(header: PlanHeader) -> Tuple[Fact, ...]:
    rows = scalars(
        "TensorRT engine",
        [("written by TensorRT", header.version or "not in this form of the header"), ("begins at byte", header.offset or None)],
    )
    if header.metadata:
        rows += scalars("Metadata before the engine", sorted((str(k), str(v)) for k, v in header.metadata.items()))
    return tuple(rows)


def of_cache(absmax: Mapping[str, float]) -> Tuple[Fact, ...]:
    """A calibration cache: the largest magnitude of each tensor, and its scale (that divided by 127)."""
    rows = [Fact("Calibration cache", "tensors with a scale", str(len(absmax)))]
    rows += [Fact("Ranges", name, f"{value:g}, scale {value / INT8_MAX:g}") for name, value in absmax.items()]
    return tuple(rows)


def _tensor(tensor: Any) -> str:
    dims = "x".join(str(d) for d in tensor.dims)
    return " ".join(part for part in (tensor.name, dims, tensor.dtype, tensor.format) if part)
