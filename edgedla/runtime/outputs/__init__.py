"""Where results go: one output per file."""

from __future__ import annotations
