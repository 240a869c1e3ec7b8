"""A placement as the document `edgedla.placement`."""

from __future__ import annotations

from typing import Sequence

from edgedla.placement.result.placement import Placement


def to_json(placement: Placement, files: Sequence[str], terminal: bool, everything: bool) -> str:
    return placement.to_json()
