"""Accuracy on the user's samples: what INT8 loses, where, what repairs it, and metrics with confidence intervals."""

from __future__ import annotations
