"""Verbs that run what was built, and look at what it runs on: run, sources, bench, monitor."""

from __future__ import annotations
