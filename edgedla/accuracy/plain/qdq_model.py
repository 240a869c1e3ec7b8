"""A model that may hold Q/DQ as `quantize` takes it: plain ONNX, with the scales and FP16 nodes that its Q/DQ said."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional, Tuple

from edgedla.importers.model_file.onnx_file import read
from edgedla.quantization.qdq import Stripped, has_qdq, strip_qdq


@contextmanager
def plain_model(path: Path) -> Iterator[Tuple[Path, Optional[Stripped]]]:
    """(file of the model without Q/DQ, what was taken out); the file itself and None where it holds none.

    Raises:
        ModelError: unreadable, or the Q/DQ says what a cache cannot say, with the node.
    """
    if not has_qdq(read(path).model):
        yield path, None
        return
    from edgedla.builder.building import as_file
    from edgedla.builder.onnx_input import read_model

    stripped = strip_qdq(read_model(path))
    with as_file(stripped.model) as plain:
        yield plain, stripped
