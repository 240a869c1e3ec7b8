"""Every option of the command line stands in a page that a user reads: not only in the generated reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, Tuple

import click
import pytest

from edgedla.cli import main

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]


def options_of(command: click.Command, context: click.Context) -> Iterator[Tuple[str, ...]]:
    """The spellings of each option of a command and of those below it."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options_of(below, click.Context(below, parent=context))


def test_every_option_stands_in_a_page_an_example_or_the_readme() -> None:
    pages = [p for p in (ROOT / "docs").rglob("*.md") if "reference" not in p.parts]
    examples = [p for end in ("md", "py", "sh") for p in (ROOT / "examples").rglob(f"*.{end}")]
    text = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "README.md", *pages, *examples))
    told = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))
    untold = {spelled for spelled in options_of(main.main, click.Context(main.main)) if not told & set(spelled)}
    assert untold == set(), "name it where a user would look for it, or take it out"
