"""The command line: one verb a file, each parses its options, makes one library call, and renders the result."""

from __future__ import annotations
