"""The placement as a document: figures, reasons, export."""

from __future__ import annotations
