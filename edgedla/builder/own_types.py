"""Errors for models that compute in types other than FLOAT, with the command that converts them."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from edgedla.builder.onnx_source import OnnxSource
from edgedla.errors import ModelError
from edgedla.graph import LayerGraph
from edgedla.targets import Platform, target_options


def require_fp32(graph: LayerGraph, path: Path, platform: Platform) -> None:
    """Raises:
    ModelError: a layer computes in FP16 or BF16 by the model's own types, so that it would get no scale and no rounding.
    """
    half, typed = graph.narrow, platform.release.strongly_typed
    if half:
        raise ModelError(
            f"{len(half)} of {len(graph.layers)} layers compute in {graph.narrow_text} first "
            f"{half[0].name!r}: edgedla measures and simulates INT8 only on models in FP32",
            where=graph.name,
            hint="`edgedla quantize` writes it as Q/DQ in FP32" if typed else _turn(path, "int8", platform),
        )


@contextmanager
def types_named(source: OnnxSource, precision: str, platform: Platform) -> Iterator[None]:
    """Adds the file to ONNX Runtime's errors and, for a model in other types, the command that converts it to FLOAT."""
    try:
        yield
    except ModelError as e:
        from edgedla.importers.model_file.float32_types import own_types

        own = own_types(source.file.model) if e.hint is None else None
        if own is None:
            if e.where is not None:
                raise
            raise ModelError(e.what, where=str(source.path), hint=e.hint) from e
        raise ModelError(f"{own.text}: {e.what}", where=str(source.path), hint=_turn(source.path, precision, platform)) from e


def _turn(path: Path, precision: str, platform: Platform) -> str:
    how = "--precision int8" if precision == "int8" else "--only float32-types"
    where = f"{shlex.quote(str(path))} {target_options(platform)}"
    return f"`edgedla fix {where} {how} -o OUT.onnx` turns the types and proves it"
