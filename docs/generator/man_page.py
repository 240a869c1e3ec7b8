"""The manual page of `edgedla`, from its commands: `python -m docs.generator.man_page > docs/edgedla.1`. The wheel installs it."""

from __future__ import annotations

import sys
from typing import Iterator, List

import click

from docs.generator.command_pages import command
from edgedla.cli.main import EPILOG, VERBS, main

#: Environment variables that a user may set -> what they do.
VARIABLES = {
    "EDGEDLA_BOARDS": "The inventory of boards, in place of boards.yaml in the user's settings.",
    "EDGEDLA_DOCS": "Address of a copy of the documentation, to which reports link.",
    "EDGEDLA_SOURCE": "Sources of `edgedla run`, for addresses with a password.",
    "EDGEDLA_DEBUG": "1 prints the traceback of an error.",
}


def man_page() -> str:
    """The page in man(7)'s macros; the same commands give the same page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield '.TH EDGEDLA 1 "" edgedla "User Commands"'
    yield from (".SH NAME", r"edgedla \- neural networks on the DLA cores of NVIDIA Jetson modules")
    yield from (".SH SYNOPSIS", r".B edgedla", _roff("[OPTIONS] COMMAND [ARGUMENTS]"))
    yield ".SH DESCRIPTION"
    yield _roff(
        "Checks a model on a laptop for the DLA, layer by layer with rule, limit, source and remedy; places layers on the DLA "
        "cores and the GPU; rewrites and quantises; builds on the device; runs camera pipelines. "
        "Times are predictions with their spread unless they are called measured."
    )
    yield ".SH OPTIONS"
    yield from _options(main)
    yield ".SH COMMANDS"
    for verb, (_, line) in VERBS.items():
        yield from (".SS " + _roff(f"edgedla {verb}"), _roff(line))
        found = command(verb)
        below = found.list_commands(click.Context(found)) if isinstance(found, click.Group) else []
        if below:
            yield from (
                ".PP",
                _roff(f"Commands below it: {', '.join(below)}. `edgedla {verb} COMMAND --help` has their options."),
            )
        yield from _options(found)
    yield from (".SH EXIT STATUS", _roff(" ".join(EPILOG.replace("Exit codes: ", "").split())))
    yield ".SH ENVIRONMENT"
    for name, meaning in VARIABLES.items():
        yield from (".TP", ".B " + _roff(name), _roff(meaning))
    yield from (".SH FILES", ".TP", ".B edgedla.toml, pyproject.toml", _roff("Defaults of a project: edgedla help project-file."))
    yield from (".SH SEE ALSO", _roff("`edgedla help` lists topics, `edgedla help TOPIC` prints one. trtexec, tegrastats(1)."))


def _options(found: click.Command) -> Iterator[str]:
    context = click.Context(found, info_name=found.name)
    for parameter in found.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None and "--help" not in parameter.opts:
            yield from (".TP", ".B " + _roff(record[0]), _roff(" ".join(record[1].split())))


def _roff(text: str) -> str:
    """Text as roff takes it: no macro at its start, hyphens that can be copied, ASCII."""
    out: List[str] = [_ESCAPED.get(mark, mark) if ord(mark) < 128 else f"\\[u{ord(mark):04X}]" for mark in text]
    joined = "".join(out)
    return rf"\&{joined}" if joined[:1] in (".", "'") else joined


_ESCAPED = {"\\": r"\e", "-": r"\-", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}

if __name__ == "__main__":
    sys.stdout.write(man_page())
