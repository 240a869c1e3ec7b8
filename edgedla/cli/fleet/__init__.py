"""Verbs of boards and fleets: board, sweep, costs."""

from __future__ import annotations
