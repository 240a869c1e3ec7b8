"""Resizing, strided selection and padding: one rewrite per file."""

from __future__ import annotations
