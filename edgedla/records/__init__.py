"""Files written by other tools (build logs, engine records, loadables), read as they are, without a verdict."""

from __future__ import annotations
