"""The smallest installation that runs one pipeline: its artifacts and only those modules that it uses, without pip."""

from __future__ import annotations
