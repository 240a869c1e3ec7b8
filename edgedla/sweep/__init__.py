"""Thousands of models: every model x platform x setting as a task, run by engines that lose nothing but a row."""

from __future__ import annotations
