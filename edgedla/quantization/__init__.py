"""Calibration, scales and their caches, Q/DQ both ways."""

from __future__ import annotations
