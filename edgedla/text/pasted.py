"""A model's file as an argument of the commands that reports show, to be pasted."""

from __future__ import annotations

import shlex

#: What a model that came by a pipe is called in reports.
STANDARD_INPUT = "standard input"
#: Stands in commands for the file that only the user knows.
_PLACEHOLDER = "MODEL.onnx"


def file_of(shown: str) -> str:
    """The path that a command can take: a placeholder for a model from a pipe, and no name that looks like an option."""
    if shown == STANDARD_INPUT:
        return _PLACEHOLDER
    return f"./{shown}" if shown.startswith("-") else shown


def argument(shown: str) -> str:
    """`file_of`, quoted for a shell."""
    return shlex.quote(file_of(shown))
