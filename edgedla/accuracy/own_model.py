"""Whose the model.onnx in an output folder is: `quantize` writes one where it changes the model, and takes away its own alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional

from edgedla.errors import DocumentError, UsageError
from edgedla.files import sha256_of, sha256_of_bytes
from edgedla.strict_documents import read_json


def require_no_foreign_model(folder: Path, name: str, report: str, written: Optional[bytes] = None) -> None:
    """Lets a folder pass that holds no model, or one that an earlier result wrote.

    Args:
        name, report: of the model and the report there.
        written: what is to be written as the model; one that holds the same may stand there.

    Raises:
        UsageError: somebody else's model stands there.
    """
    model = folder / name
    if not model.is_file():
        return
    digest = sha256_of(model)
    if digest not in (_of_report(folder / report), None if written is None else sha256_of_bytes(written)):
        raise UsageError(
            f"the folder holds a {name} that `edgedla quantize` did not write, and may have to write its own there",
            where=str(folder),
            hint=f"-o {folder / 'scales'}, or another folder",
        )


def _of_report(report: Path) -> Optional[str]:
    """SHA-256 of the model that the report in the folder is for; None where no report names one."""
    try:
        document: Any = read_json(report) if report.is_file() else None
    except DocumentError:
        return None
    model = document.get("model") if isinstance(document, Mapping) else None
    return str(model["sha256"]) if isinstance(model, Mapping) and "sha256" in model else None
