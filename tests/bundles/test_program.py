"""The program of a bundle, apart from what it runs."""

from __future__ import annotations

import os
import subprocess
import sys


def test_a_closed_output_ends_a_bundle_without_a_traceback() -> None:
    """As `python3 BUNDLE | head -1` closes it."""
    program = """
import edgedla.bundles.program as program
program._main = lambda root, given: print("line\\n" * 100000) or 0
raise SystemExit(program.main(".", []))
"""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")
