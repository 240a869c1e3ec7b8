"""Runs models: sources, preprocessing, runners, the pipeline, statistics."""

from __future__ import annotations
