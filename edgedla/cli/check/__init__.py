"""`edgedla check`: the command, and its table of platforms."""

from __future__ import annotations
