"""`python -m edgedla` is the `edgedla` command."""

from __future__ import annotations

from edgedla.interrupts import interrupts_held


def main() -> None:
    """Entry point of the `edgedla` command."""
    with interrupts_held():
        from edgedla.cli.main import run
    run()


if __name__ == "__main__":
    main()
