"""Which dataclasses of a room may be changed after they were made."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Set

PACKAGE = Path(__file__).resolve().parents[1] / "edgedla"


def changeable(room: str) -> Set[str]:
    """Names of the dataclasses of edgedla/ROOM that are not frozen: whoever holds one may change it for all who hold it.

    Modules whose library is missing here are left out.
    """
    found: Set[str] = set()
    for path in sorted((PACKAGE / room).rglob("*.py")):
        if "dataclass" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(("edgedla", *path.relative_to(PACKAGE).with_suffix("").parts))
        try:
            module = importlib.import_module(name)
        except ImportError as e:
            if (e.name or "edgedla").startswith("edgedla"):
                raise
            continue
        for value in vars(module).values():
            own = isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == name
            if own and not value.__dataclass_params__.frozen:
                found.add(value.__name__)
    return found
