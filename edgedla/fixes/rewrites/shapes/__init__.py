"""Layers that move or select elements: one rewrite per file."""

from __future__ import annotations
