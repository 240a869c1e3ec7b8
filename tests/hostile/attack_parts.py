"""One campaign in parts, on several machines or cores: the cases of each part, and the sum of the parts' figures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from tests.hostile.attack_files import SURFACES
from tests.hostile.attack_processes import PROCESSES

#: Campaigns whose cases have numbers; a soak runs undivided.
NUMBERED = (
    "kills",
    "tampered_artifacts",
    "unmutated_models",
    "mutated_patterns",
    "mutated_models",
    *(f"files_{n}" for n in SURFACES),
    *(f"processes_{n}" for n in PROCESSES),
)
#: What a campaign's figures do when its parts come together; everything else must be equal in all of them.
TOGETHER: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "cases": sum,
    "wrong": sum,
    "most_cpu_s": max,
    "most_memory_mib": max,
    "exit_codes": lambda parts: added(parts),
    "verbs": lambda parts: added(parts),
    "first_wrong": lambda parts: [case for part in parts for case in part][:20],
    "native_crashes": lambda parts: [case for part in parts for case in part][:20],
}


def share(text: str) -> Tuple[int, int]:
    """ "3/16" as (3, 16); the first part is 1."""
    part, _, count = text.partition("/")
    if not (part.isdigit() and count.isdigit() and 1 <= int(part) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: give PART/COUNT, for example 1/4")
    return int(part), int(count)


def numbers_of(part: Tuple[int, int], numbers: range) -> range:
    """The part's share of the numbers; all parts together are all of them, each once."""
    index, count = part
    return numbers[len(numbers) * (index - 1) // count : len(numbers) * index // count]


def added(counts: Sequence[Mapping[str, int]]) -> Dict[str, int]:
    keys = sorted({key for part in counts for key in part})
    return {key: sum(part.get(key, 0) for part in counts) for key in keys}


def merged(parts: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """The figures of all parts. ValueError where parts are of different commits, seeds or sets of models."""
    figures: Dict[str, Any] = {"parts": len(parts), "hours": round(sum(part["hours"] for part in parts), 3)}
    for key in ("commit", "versions", "seed"):
        figures[key] = _same(key, [part[key] for part in parts])
    for campaign in NUMBERED:
        tallies = [part[campaign] for part in parts if campaign in part]
        if tallies:
            figures[campaign] = {
                key: TOGETHER[key]([t[key] for t in tallies]) if key in TOGETHER else _same(key, [t[key] for t in tallies])
                for key in tallies[0]
            }
    return figures


def _same(key: str, values: List[Any]) -> Any:
    if any(value != values[0] for value in values):
        raise ValueError(f"the parts differ in {key}: {values}")
    return values[0]


def merged_files(paths: Sequence[Path]) -> Dict[str, Any]:
    return merged([json.loads(path.read_text(encoding="utf-8")) for path in paths])
