"""Exact solvers, bounds and heuristics over a placement problem."""

from __future__ import annotations
