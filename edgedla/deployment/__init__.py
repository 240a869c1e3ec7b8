"""One call from a model to an accepted artifact: what each level may change, tried step by step, kept where it helps."""

from __future__ import annotations
