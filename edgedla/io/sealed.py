"""Documents that edgedla keeps for itself, with a hash of their content: damage is found, whoever did it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from edgedla.io.files import sha256_of_bytes, write_atomic


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a JSON object with its hash.

    Raises:
        As `write_atomic`.
    """
    write_atomic(path, json.dumps(sealed(document), indent=1) + "\n", follow=False)


def read_sealed(path: Path) -> Optional[Dict[str, Any]]:
    """The object as it was written; None where there is none, or where anything in it changed since."""
    try:
        # A pipe would never end.
        return unsealed(path.read_bytes()) if is_plain_file(path) else None
    except OSError:
        return None


def sealed(document: Mapping[str, Any]) -> Dict[str, Any]:
    """The object with the hash of its content."""
    # As it will be read: keys are text, tuples are lists.
    content = json.loads(json.dumps(document))
    return {"content": content, "sha256": _digest(content)}


def unsealed(text: bytes) -> Optional[Dict[str, Any]]:
    """The content of a sealed object as JSON text; None where it is none, or changed since."""
    try:
        found = json.loads(text.decode("utf-8"))
        content: Dict[str, Any] = found["content"]
        return content if found["sha256"] == _digest(content) and isinstance(content, dict) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def is_plain_file(path: Path) -> bool:
    """Whether a file stands there, and no link to one."""
    return os.path.isfile(path) and not os.path.islink(path)


def _digest(document: Mapping[str, Any]) -> str:
    return sha256_of_bytes(json.dumps(document, sort_keys=True).encode())
