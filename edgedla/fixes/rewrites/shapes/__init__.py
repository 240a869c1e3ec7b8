"""Layers that move or select elements: one rewrite a file."""

from __future__ import annotations
