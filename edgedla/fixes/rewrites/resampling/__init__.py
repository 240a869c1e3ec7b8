"""Resizing, strided selection and padding: one rewrite a file."""

from __future__ import annotations
