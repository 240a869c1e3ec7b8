"""Descriptions of commands under `python -OO`, which drops their docstrings."""

from __future__ import annotations

import ast
import inspect
from contextlib import suppress

import click


def with_description(command: click.Command) -> click.Command:
    """The command and its subcommands, with descriptions read from their source if Python has dropped them."""
    if command.help is None and command.callback is not None:
        command.help = _from_source(command.callback)
    for below in getattr(command, "commands", {}).values():
        with_description(below)
    return command


def _from_source(function: object) -> str:
    """The docstring in the function's source; "" if there is none."""
    module = inspect.getmodule(function)
    name = getattr(function, "__name__", "")
    # Python may have been installed without sources.
    with suppress(OSError, TypeError, SyntaxError):
        for node in ast.parse(inspect.getsource(module)).body if module is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return ast.get_docstring(node) or ""
    return ""
