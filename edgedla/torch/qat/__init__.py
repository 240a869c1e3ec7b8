"""Training with the DLA's rounding: values are rounded where the DLA stores INT8 or FP16, as the host backend does."""

from __future__ import annotations
