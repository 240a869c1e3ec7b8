"""Sweeps over thousands of models: each model x platform x setting is a task, and a failing task costs only its row."""

from __future__ import annotations
