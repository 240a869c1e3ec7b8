"""`python -m edgedla` is the `edgedla` command."""

from __future__ import annotations

from edgedla.cli import run

if __name__ == "__main__":
    run()
