"""Latency and layer times of artifacts."""

from __future__ import annotations
