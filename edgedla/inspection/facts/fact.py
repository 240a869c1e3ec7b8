"""The row type, and rows common to several kinds of files."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple


class Fact(NamedTuple):
    """One row. Keys are unique within their section; `key` is "" for a row that only has text."""

    section: str
    key: str
    value: str

    def to_dict(self) -> Dict[str, str]:
        return {"section": self.section, "key": self.key, "value": self.value}


def scalars(section: str, rows: Iterable[Tuple[str, Any]]) -> List[Fact]:
    """Rows with a value; unknown values are left out."""
    return [Fact(section, key, str(value)) for key, value in rows if value is not None and value != ""]


def grouped(section: str, rows: Sequence[Tuple[str, str]]) -> List[Fact]:
    return [Fact(section, layer, reason or "no reason logged") for layer, reason in dict(reversed(rows)).items()][::-1]


def counted(section: str, values: Sequence[str]) -> List[Fact]:
    ordered = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [Fact(section, value, str(count)) for value, count in ordered]


def devices_of(section: str, devices: Mapping[str, str]) -> List[Fact]:
    counts = ", ".join(f"{n} {device}" for device, n in sorted(Counter(devices.values()).items()))
    if not devices:
        return []
    return [Fact(f"{section}, in sum", "layers", counts)] + [Fact(section, n, d) for n, d in devices.items()]


def unique(items: Iterable[Any]) -> List[Any]:
    return list({item.name: item for item in items}.values())


def yes(value: Optional[bool]) -> Optional[str]:
    return None if value is None else "yes" if value else "no"
