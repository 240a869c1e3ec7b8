"""A placement on both DLA cores, built as one engine per stage."""

from __future__ import annotations
