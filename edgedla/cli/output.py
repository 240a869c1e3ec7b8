"""Where a verb's result goes: to stdout in one format, or into files, each in the format that its ending names."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

import click

from edgedla.errors import UsageError
from edgedla.files import write_atomic
from edgedla.printable import printable_text

#: Ending -> format. The longest ending that fits wins.
FORMAT_OF_ENDING: Mapping[str, str] = {
    ".txt": "text", ".log": "text",
    ".json": "json",
    ".md": "markdown", ".markdown": "markdown",
    ".sarif": "sarif", ".sarif.json": "sarif",
    ".xml": "junit", ".junit": "junit",
    ".html": "html", ".htm": "html",
    ".csv": "csv",
}  # fmt: skip


def destinations(
    output_format: Optional[str], outputs: Sequence[str], formats: Sequence[str], option: str = "-o"
) -> Tuple[Tuple[str, str], ...]:
    """(format, file or "-" for stdout) of everything that is to be written; checked before any work is done.

    Args:
        option: that named the files.

    Raises:
        UsageError: a file's ending names no format of this command, and --format is not given; or the command reads the file.
    """
    if not outputs:
        return ((output_format or "text", "-"),)
    require_apart(option, *outputs)
    pairs = []
    for path in outputs:
        if path.lower().endswith(".onnx"):
            # With --format it would be written, over a model of a folder or pattern perhaps.
            raise UsageError("a model's ending, and this is a report", where=path, allowed=", ".join(_endings(formats)))
        if output_format or path == "-":
            pairs.append((output_format or "text", path))
            continue
        endings = [e for e in FORMAT_OF_ENDING if path.lower().endswith(e)]
        wanted = FORMAT_OF_ENDING[max(endings, key=len)] if endings else ""
        if wanted not in formats:
            raise UsageError(
                "the ending of this file names no format of this command",
                where=path,
                allowed=", ".join(_endings(formats)),
                hint=f"Or say which with --format {'|'.join(formats)}.",
            )
        pairs.append((wanted, path))
    return tuple(pairs)


def _endings(formats: Sequence[str]) -> List[str]:
    return sorted(e for e, f in FORMAT_OF_ENDING.items() if f in formats)


def require_apart(option: str, *outputs: str) -> None:
    """Lets files pass that a command is to write: a report in place of the model that it is of would be a loss.

    Args:
        option: that named them.

    Raises:
        UsageError: another argument of the running command names such a file.
    """
    context = click.get_current_context(silent=True)
    for output in outputs:
        if context is not None and any(option not in p.opts for p in _named(context, output)):
            raise UsageError(
                "this command reads the file that it is to write", where=output, hint=f"give {option} another file"
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
    """Prints text of which no name can move the cursor, clear the screen or set the title. Every verb prints by it."""
    # Progress and warnings that nobody can read (stderr closed, or on a full disk) end no work.
    with contextlib.suppress(*((OSError, ValueError) if err else ())):
        click.echo(printable_text(text), err=err, nl=nl, color=color)


def deliver(targets: Sequence[Tuple[str, str]], render: Callable[[str, bool], str]) -> None:
    """Renders each format and writes it. `render(format, terminal)` gets True where a person looks at a terminal."""
    for wanted, path in targets:
        if path == "-":
            # Started with stdout closed there is no stream at all.
            text = render(wanted, sys.stdout is not None and sys.stdout.isatty())
            # color=True: the renderer has already decided; click must not strip what it chose.
            echo(text, nl=not text.endswith("\n"), color=True)
        else:
            text = render(wanted, False)
            write_atomic(path, text if text.endswith("\n") else text + "\n")


def say_where(targets: Sequence[Tuple[str, str]], verdict: Callable[[], str], beside: Sequence[str] = ()) -> None:
    """Where everything went into files: the answer in short, and one line with the files, so that nobody has to look.

    Args:
        beside: files that were written beside the report.
    """
    files = [path for _, path in targets if path != "-"]
    if not files or len(files) < len(targets):
        return
    echo(verdict(), nl=False)
    echo(f"written: {', '.join([*beside, *files])}")
