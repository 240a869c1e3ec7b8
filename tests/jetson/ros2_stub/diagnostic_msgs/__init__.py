"""A stub of diagnostic_msgs."""

from __future__ import annotations
