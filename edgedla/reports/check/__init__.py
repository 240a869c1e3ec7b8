"""The forms of a check report."""

from __future__ import annotations
