"""Outputs of results: one per file."""

from __future__ import annotations
