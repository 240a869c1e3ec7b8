"""The command line: one file per verb, which parses its options, makes one library call, and renders the result."""

from __future__ import annotations

import signal
import sys


def run() -> None:
    """Runs the command line and ends the process with the documented exit code."""
    # Until the handler that prints "interrupted" is set up, Ctrl-C ends the process as by default, without a traceback.
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from edgedla.cli.main import run as run_command
    except ImportError as e:
        if not e.name or e.name.partition(".")[0] == "edgedla":
            raise
        text = f"edgedla: error: the Python library {e.name!r} cannot be imported ({e})\n  pip install edgedla\n"
        sys.stderr.write(text)
        # EnvironmentMissing's exit code: something is missing here.
        sys.exit(4)
    signal.signal(signal.SIGINT, interrupt)
    run_command()
