"""The page of a sweep: every row in a table that sorts and filters, and models against platforms as a heat map."""

from __future__ import annotations
