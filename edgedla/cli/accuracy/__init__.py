"""The verbs `quantize` and `evaluate`."""

from __future__ import annotations
