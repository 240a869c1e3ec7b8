"""The page of a sweep: a sortable, filterable table of all rows, and a heat map of models and platforms."""

from __future__ import annotations
