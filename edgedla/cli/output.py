"""Writes a verb's result: to stdout in one format, or into files, each in the format of its ending."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Callable, Iterator, List, Optional, Sequence, TextIO, Tuple

import click

from edgedla.cli.terminal.screen import columns
from edgedla.cli.terminal.waiting import in_its_place
from edgedla.errors import UsageError
from edgedla.io.files import write_atomic
from edgedla.text.printable import printable_text
from edgedla.text.shown import FORMAT_OF_ENDING, form_of_file


def destinations(
    output_format: Optional[str], outputs: Sequence[str], formats: Sequence[str], option: str = "-o"
) -> Tuple[Tuple[str, str], ...]:
    """(format, file or "-" for stdout) of each output, checked before any work is done.

    Args:
        option: the option that named the files.

    Raises:
        UsageError: without --format, a file whose ending names no format of this command; or a file that the command reads.
    """
    if not outputs:
        return ((output_format or "text", "-"),)
    require_apart(option, *outputs)
    pairs = []
    for path in outputs:
        if path.lower().endswith(".onnx"):
            # With --format it would perhaps overwrite a model that a folder or pattern stands for.
            raise UsageError("a report cannot have a model's ending", where=path, allowed=", ".join(_endings(formats)))
        if output_format or path == "-":
            pairs.append((output_format or "text", path))
            continue
        form = form_of_file(path)
        if form not in formats:
            raise UsageError(
                "the ending of this file names no output form of this command",
                where=path,
                allowed=", ".join(_endings(formats)),
                hint=f"Or choose one with --format {'|'.join(formats)}.",
            )
        pairs.append((form, path))
    return tuple(pairs)


def _endings(formats: Sequence[str]) -> List[str]:
    return sorted(e for e, f in FORMAT_OF_ENDING.items() if f in formats)


def require_apart(option: str, *outputs: str) -> None:
    """Refuses to write over a file that the running command reads, such as the model of a report.

    Args:
        option: the option that named the outputs.

    Raises:
        UsageError: another argument of the running command names such a file.
    """
    context = click.get_current_context(silent=True)
    for output in outputs:
        if context is not None and any(option not in p.opts for p in _named(context, output)):
            raise UsageError(
                "this command reads this file and would overwrite it", where=output, hint=f"give {option} another file"
            )


def _named(context: click.Context, file: str) -> Iterator[click.Parameter]:
    """The parameters of the running command that name this file."""
    if file == "-" or not os.path.isfile(file):
        return
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        for text in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(text, (str, os.PathLike)) and os.path.isfile(text) and os.path.samefile(text, file):
                yield parameter


def echo(text: str, *, err: bool = False, nl: bool = True, color: Optional[bool] = None) -> None:
    """Prints text without control characters, by which a name could move the cursor or clear the screen.

    All commands print with it. Whole lines of prose fit a terminal; a JSON document, and text rendered for the terminal
    (`nl`, `color`), stay as they are.
    """
    # Work goes on if progress and warnings cannot be printed (stderr closed, or on a full disk).
    with in_its_place(), contextlib.suppress(*((OSError, ValueError) if err else ())):
        shown = printable_text(text)
        if nl and color is None and not text.startswith(("{", "[")):
            shown = on_terminal(shown, sys.stderr if err else sys.stdout)
        click.echo(shown, err=err, nl=nl, color=color)


def say(line: str) -> None:
    """Prints one line on stderr: what functions of the Python interface take as `say`."""
    echo(line, err=True)


def on_terminal(text: str, stream: Optional[TextIO]) -> str:
    """Lines as the stream shows them: on a terminal, too wide lines are wrapped and their continuation indented."""
    width = columns(stream)
    if not width or max(map(len, text.splitlines()), default=0) <= width:
        return text
    from edgedla.reports.text import wrapped

    return wrapped(text, width)


def deliver(targets: Sequence[Tuple[str, str]], render: Callable[[str, bool], str]) -> None:
    """Renders and writes each output. `render(format, terminal)` gets terminal=True where stdout is a terminal."""
    for form, path in targets:
        if path == "-":
            # The process was started with stdout closed.
            text = render(form, sys.stdout is not None and sys.stdout.isatty())
            if form == "text":
                text = on_terminal(text, sys.stdout)
            # color=True: the renderer has already decided; click must not strip what it chose.
            echo(text, nl=not text.endswith("\n"), color=True)
        else:
            text = render(form, False)
            write_atomic(path, text if text.endswith("\n") else text + "\n")


def say_where(targets: Sequence[Tuple[str, str]], verdict: Callable[[], str], beside: Sequence[str] = ()) -> None:
    """If every output went into a file, prints the short answer and a line with the files.

    Args:
        beside: other files that were written.
    """
    files = [path for _, path in targets if path != "-"]
    if not files or len(files) < len(targets):
        return
    echo(verdict(), nl=False)
    echo(f"written: {', '.join([*beside, *files])}")
