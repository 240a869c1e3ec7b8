"""Rewriting needs Python 3.10; tests/cli/test_fix_needs.py says what happens on older ones."""

from __future__ import annotations

import sys

collect_ignore_glob = ["test_*.py"] if sys.version_info < (3, 10) else []
