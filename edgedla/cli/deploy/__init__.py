"""The commands that lead from any framework to an artifact on a board: convert, deploy, bundle."""

from __future__ import annotations
