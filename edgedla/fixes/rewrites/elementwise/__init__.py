"""Elementwise layers and activations: one rewrite per file."""

from __future__ import annotations
