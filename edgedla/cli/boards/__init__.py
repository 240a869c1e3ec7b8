"""Verbs about the board that edgedla runs on, and truth reports of boards."""

from __future__ import annotations
