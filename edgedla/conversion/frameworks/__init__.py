"""Conversion programs, one per framework. They run by path, so they also work in a Python without edgedla."""

from __future__ import annotations
