"""Rows of a document of edgedla, or of a profile."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from edgedla.inspection.facts.fact import Fact, devices_of, scalars


def of_document(document: Any, kind: str) -> Tuple[Fact, ...]:
    """An edgedla document: its plain values, the lengths of its lists, and devices by layer if it has layers."""
    if isinstance(document, list):
        rows = [r for r in document if isinstance(r, Mapping)]
        count = next((r["count"] for r in rows if isinstance(r.get("count"), (int, float)) and r["count"] > 0), None)
        averages = []
        for r in {str(r.get("name", "")): r for r in rows if "averageMs" in r or "timeMs" in r}.values():
            average = r.get("averageMs")
            if average is None and count and isinstance(r["timeMs"], (int, float)):
                # TensorRT 7 writes only the total.
                average = round(r["timeMs"] / count, 6)
            averages.append(Fact("Average time in ms", str(r.get("name", "")), "unknown" if average is None else f"{average}"))
        return tuple(averages)
    facts: List[Fact] = []
    layers: Dict[str, str] = {}
    for key, value in document.items():
        if isinstance(value, (str, int, float)) or value is None:
            facts += scalars(kind, [(key, value)])
        elif isinstance(value, Mapping):
            plain = [(f"{key} {k}", v) for k, v in value.items() if isinstance(v, (str, int, float))]
            facts += scalars(kind, plain)
        elif isinstance(value, list):
            facts += scalars(kind, [(key, "1 entry" if len(value) == 1 else f"{len(value)} entries")])
            if key == "layers":
                layers = _placed(value)
    return tuple(facts + devices_of("Layers", layers))


def _placed(entries: Sequence[Any]) -> Dict[str, str]:
    devices: Dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            device = entry.get("placed", entry.get("device", entry.get("type", "")))
            devices.setdefault(entry["name"], str(device))
    return devices
