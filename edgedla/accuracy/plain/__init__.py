"""A model as `quantize` and `deploy` take it: in FLOAT and without Q/DQ, whatever it came as."""

from __future__ import annotations
