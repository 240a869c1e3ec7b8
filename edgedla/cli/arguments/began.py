"""When the running command began: time limits count from there."""

from __future__ import annotations

import time
from typing import NamedTuple

import click


class Began(NamedTuple):
    """Seconds on time.process_time's clock, and on time.monotonic's."""

    at: float
    wall: float


def spent_s() -> float:
    """Processor seconds since the running command began; 0 if its caller set no start."""
    began = click.get_current_context().find_root().obj
    return time.process_time() - began.at if isinstance(began, Began) else 0.0


def waited_s() -> float:
    """Wall seconds since the running command began; 0 if its caller set no start."""
    began = click.get_current_context().find_root().obj
    return time.monotonic() - began.wall if isinstance(began, Began) else 0.0
