"""Adapts modules to the DLA before training."""

from __future__ import annotations
