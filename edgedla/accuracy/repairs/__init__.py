"""Repairs that reduce INT8 and FP16 errors. A step is kept only if the held-out error falls."""

from __future__ import annotations
