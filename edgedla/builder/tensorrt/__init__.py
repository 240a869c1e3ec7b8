"""Builds with TensorRT's Python API, on a Jetson."""

from __future__ import annotations
