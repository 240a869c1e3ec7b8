"""A placement as trtexec commands, one per engine."""

from __future__ import annotations

from typing import Sequence

from edgedla.placement.result.export import trtexec_commands
from edgedla.placement.result.placement import Placement


def to_trtexec(placement: Placement, files: Sequence[str], terminal: bool, everything: bool) -> str:
    return "\n".join(trtexec_commands(placement, tuple(files) or None)) + "\n"
