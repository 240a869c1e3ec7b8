"""Failures of PyTorch's exporters, each in one line that names the cause."""

from __future__ import annotations

import re
from typing import Any, List, Optional

from edgedla.errors import ModelError

_ERROR_CHARACTERS = 300
#: Most errors followed in an exporter's chain.
_CAUSES = 8
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Dynamo's exporter needs every size, or a condition on it, before it runs; TorchScript's writes what the example made of it.
_OF_THE_DATA = "a size depends on the data, as in a detector's decoding: use the torchscript exporter, or leave the decoding out"
_HINT = "try the other exporter, or look at torch.onnx.export's own message"


def export_failure(error: BaseException, last: Any) -> ModelError:
    """The failure in one line: its two innermost causes, because outer errors only say which step failed."""
    chain: List[str] = []
    cause: Optional[BaseException] = error
    while cause is not None and len(chain) < _CAUSES:
        line = next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
        chain.append(_COLOURS.sub("", line)[:_ERROR_CHARACTERS])
        cause = cause.__cause__
    where = f"after {last}" if last is not None else None
    text = ": ".join(chain[-2:])
    hint = _OF_THE_DATA if "data-dependent" in text else _HINT
    return ModelError(f"PyTorch cannot export the module: {text}", where=where, hint=hint)
