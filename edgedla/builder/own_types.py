"""Models that compute in other types than FLOAT, where a build measures or simulates: what to turn them with."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from edgedla.builder.onnx_source import OnnxSource
from edgedla.errors import ModelError
from edgedla.graph import LayerGraph


def require_fp32(graph: LayerGraph, path: Path, typed: bool) -> None:
    """Raises:
    ModelError: a layer computes in FP16 or BF16 by the model's own types, so that it would get no scale and no rounding.
    """
    half = graph.narrow
    if half:
        raise ModelError(
            f"{len(half)} of {len(graph.layers)} layers compute in {graph.narrow_types} by the model's own types, first "
            f"{half[0].name!r}: INT8 is measured and simulated in FP32 only",
            where=graph.name,
            hint="`edgedla quantize` writes it as Q/DQ in FP32" if typed else _turn(path, "int8"),
        )


@contextmanager
def types_named(source: OnnxSource, precision: str) -> Iterator[None]:
    """Where ONNX Runtime refuses a model that computes in other types, as in DOUBLE, says so and what turns them."""
    try:
        yield
    except ModelError as e:
        from edgedla.quantization.float32_types import own_types

        own = own_types(source.file.model) if e.hint is None else None
        if own is None:
            raise
        raise ModelError(f"{own.text}: {e.what}", where=str(source.path), hint=_turn(source.path, precision)) from e


def _turn(path: Path, precision: str) -> str:
    how = "--precision int8" if precision == "int8" else "--only float32-types"
    return f"`edgedla fix {shlex.quote(str(path))} {how} -o OUT.onnx` turns the types and proves it"
