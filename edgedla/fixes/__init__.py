"""Verified ONNX rewrites, one a file: pattern, check, apply."""

from __future__ import annotations
