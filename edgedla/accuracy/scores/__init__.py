"""What makes a score worth something: finite outputs, labels that fit, intervals, and samples that can notice a fall."""

from __future__ import annotations
