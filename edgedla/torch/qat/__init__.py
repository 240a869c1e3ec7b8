"""Training with the DLA's numbers: rounding stands where the DLA stores INT8 or FP16, as the host backend simulates it."""

from __future__ import annotations
