"""Converts a model to the form that `quantize` and `deploy` need: in FLOAT and without Q/DQ."""

from __future__ import annotations
