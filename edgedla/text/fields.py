"""Values whose document is their fields, and values as JSON holds them."""

from __future__ import annotations

from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Dict, Mapping

_AS_THEY_ARE = (str, int, float, bool, type(None))


class Fields:
    """Base of dataclasses whose document has a key for each of their fields."""

    def to_dict(self) -> Dict[str, Any]:
        return {name: as_json(value) for name, value in vars(self).items()}


def as_json(value: Any) -> Any:
    """Tuples become lists, words of an Enum and paths text; a value with a document of its own becomes that."""
    if type(value) in _AS_THEY_ARE:
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, (Enum, Path)):
        return str(value)
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {key: as_json(x) for key, x in value.items()}
    return [as_json(x) for x in value] if isinstance(value, (list, tuple)) else value
