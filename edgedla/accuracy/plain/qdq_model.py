"""Converts a model with Q/DQ to the form for `quantize`: plain ONNX, plus the scales and FP16 nodes of its Q/DQ."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional, Tuple

from edgedla.importers.model_file.onnx_file import read
from edgedla.quantization.qdq import Stripped, has_qdq, strip_qdq


@contextmanager
def plain_model(path: Path) -> Iterator[Tuple[Path, Optional[Stripped]]]:
    """(file of the model without Q/DQ, the removed Q/DQ); the original file and None if it has no Q/DQ.

    Raises:
        ModelError: unreadable, or a cache cannot express a Q/DQ node; names the node.
    """
    if not has_qdq(read(path).model):
        yield path, None
        return
    from edgedla.builder.building import as_file
    from edgedla.builder.onnx_input import read_model

    stripped = strip_qdq(read_model(path))
    with as_file(stripped.model) as plain:
        yield plain, stripped
