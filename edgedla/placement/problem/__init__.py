"""The placement problem: items, links, costs, hard constraints, and the value of an assignment."""

from __future__ import annotations
