"""One call from a model to an accepted artifact: tries each level's changes step by step, and keeps those that help."""

from __future__ import annotations
