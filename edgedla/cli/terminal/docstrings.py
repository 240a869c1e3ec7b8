"""Descriptions of commands under `python -OO`, which drops the docstrings that they stand in."""

from __future__ import annotations

import ast
import inspect
from contextlib import suppress

import click


def with_description(command: click.Command) -> click.Command:
    """The command, and those below it, with the description that its source holds where Python has dropped it."""
    if command.help is None and command.callback is not None:
        command.help = _from_source(command.callback)
    for below in getattr(command, "commands", {}).values():
        with_description(below)
    return command


def _from_source(function: object) -> str:
    """ "" where there is no source, or no docstring in it."""
    module = inspect.getmodule(function)
    wanted = getattr(function, "__name__", "")
    # Python may have been installed without sources.
    with suppress(OSError, TypeError, SyntaxError):
        for node in ast.parse(inspect.getsource(module)).body if module is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == wanted:
                return ast.get_docstring(node) or ""
    return ""
