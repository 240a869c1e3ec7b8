"""`edgedla explain LINE`: what a line of a TensorRT log, or a whole log, says about the DLA."""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.options import output_options
from edgedla.cli.output import deliver, destinations
from edgedla.errors import DocumentError, UsageError

FORMATS = ("text", "json")
Render = Callable[[str, bool], str]
#: One word that looks like a log file's name.
_LOG_NAME = re.compile(r"^\S+\.(?:log|txt|out|gz)$", re.IGNORECASE)
#: Control characters that no text holds. ESC is left out: terminal colours begin with it.
_BINARY = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f]")


@click.command()
@click.argument("words", nargs=-1, metavar="LINE")
@option("--list", "list_all", is_flag=True, help="List every message of the catalogue.")
@output_options(*FORMATS)
def explain(words: Tuple[str, ...], list_all: bool, output_format: Optional[str], output: Tuple[str, ...]) -> int:
    """Say what a line of a TensorRT, trtexec or cuDLA log means and what to do.

    LINE is a log line or a part of it, in quotes, a log file, or - for a log on standard input. It can also be an id from a report:
    of a message (MSG201), a rule (CONV006), a remedy (average-pool) or a rewrite (channel-gate); or a word of a report, such as
    "WORTH IT". Exit code 1: edgedla does not know the line, and names the nearest known ids, or knows no line of the log; 3: the
    file is not text.
    """
    targets, line = destinations(output_format, output, FORMATS), " ".join(words)
    if bool(line) == list_all:
        raise UsageError("nothing to explain", allowed="a line in quotes, a log file, -, or --list")
    is_log = line == "-" or os.path.isfile(line) or _is_pipe(line)
    render, known = _catalogue() if list_all else answer(line, None if is_log else [line])
    deliver(targets, render)
    return 0 if known else 1


def _catalogue() -> Tuple[Render, bool]:
    from edgedla.reports.explain import render_explained
    from edgedla.rules.messages import Explained, messages

    return partial(render_explained, tuple(Explained(message) for message in messages()), ()), True


def answer(text: str, lines: Optional[Sequence[str]]) -> Tuple[Render, bool]:
    """(what writes the meaning: (form, terminal) -> text; whether there is one) of an id, a line, or the lines of a log.

    Args:
        lines: of a text that is no file; None for a file or "-", whose lines are read if `text` is no id.

    Raises:
        DocumentError: the file is not text, or the text is the name of a file that does not exist.
    """
    from edgedla.cli.terminal.topics import term_of
    from edgedla.reports.explain import render_explained
    from edgedla.rules.by_id import entry_of
    from edgedla.rules.docs import remedy_entry
    from edgedla.rules.messages import Explained, explain_log, messages
    from edgedla.rules.nearest import holding
    from edgedla.rules.remedies import remedies

    by_id = {name: message for message in messages() for name in (message.id, message.name)}
    if text in remedies():
        return partial(render_explained, (), (), remedies=[remedy_entry(text)]), True
    if text in by_id:
        return partial(render_explained, (Explained(by_id[text]),), ()), True
    named = entry_of(text) or (None if lines is None else term_of(text))
    if named is not None:
        return partial(render_explained, (), (), entries=[named]), True
    is_log, lines = lines is None, _lines(text) if lines is None else lines
    explained, unknown = explain_log(lines, echoes=not is_log and len(lines) == 1)
    if not explained and not unknown and is_log and any(_BINARY.search(line) for line in lines):
        raise DocumentError(
            "explain reads logs, and this is not a text file",
            where="standard input" if text == "-" else text,
            hint="`edgedla inspect` says what a file is",
        )
    near: Tuple[Tuple[str, str], ...] = ()
    if not explained and not is_log and len(lines) == 1:
        if _LOG_NAME.search(text):
            raise DocumentError("no such file", where=text, hint="A line of a log is given in quotes.")
        explained, unknown = tuple(Explained(message) for message in holding(text)), ((1, text),)
        unknown = () if explained else unknown
        near = () if explained else _near(text)
    return partial(render_explained, explained, unknown, near=near), bool(explained)


def _near(line: str) -> Tuple[Tuple[str, str], ...]:
    """(id, description) of entries that the line may mean: of any kind if it looks like an id, else messages by words."""
    from edgedla.rules.docs import all_rules
    from edgedla.rules.messages import messages
    from edgedla.rules.nearest import nearest_ids, nearest_messages
    from edgedla.rules.remedies import remedies

    descriptions = {name: remedy.title for name, remedy in remedies().items()}
    descriptions.update({name: rule.summary for rule in all_rules() for name in (rule.id, rule.name)})
    descriptions.update({name: m.examples[0] for m in messages() for name in (m.id, m.name)})
    ids = tuple((name, descriptions[name]) for name in nearest_ids(line, tuple(descriptions)))
    return ids or tuple((m.id, text) for m, text in nearest_messages(line))


def _is_pipe(line: str) -> bool:
    """Whether the argument is the pipe that a shell made of <(COMMAND)."""
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.stat(line).st_mode)
    return False


def _lines(line: str) -> List[str]:
    from edgedla.records.build_log_prefix import split_prefix
    from edgedla.records.text_lines import BROKEN_STREAM, Source, text_lines

    texts: List[str] = []
    source: Source = line
    if line == "-":
        source = sys.stdin.buffer.read()
    elif _is_pipe(line):
        source = Path(line).read_bytes()
    with suppress(*BROKEN_STREAM):  # a damaged gzip file: read up to the damage
        for text in text_lines(source):
            texts.append(split_prefix(text)[1])
    return texts
