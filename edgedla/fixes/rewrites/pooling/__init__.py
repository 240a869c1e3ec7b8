"""Pooling: one rewrite per file."""

from __future__ import annotations
