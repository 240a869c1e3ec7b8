"""Modules made over for the DLA before they are trained."""

from __future__ import annotations
