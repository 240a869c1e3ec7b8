"""Elementwise layers and activations: one rewrite a file."""

from __future__ import annotations
