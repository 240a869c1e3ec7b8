"""A page for each command, with every option, from the commands themselves."""

from __future__ import annotations

import importlib
from typing import Dict, Iterator, List, Tuple

import click

from docs.generator.markdown import code, page, plain, table
from edgedla.cli.examples import BELOW, EXAMPLES, grouped
from edgedla.cli.main import EPILOG, main
from edgedla.cli.verbs import GROUPS, VERBS
from edgedla.text.pages import FOLDERS


def command(verb: str) -> click.Command:
    """The click command of a verb."""
    module, _, attribute = VERBS[verb][0].partition(":")
    found: click.Command = getattr(importlib.import_module(module), attribute)
    return found


def every_command() -> Iterator[Tuple[str, click.Command]]:
    """("board add", its command), for each command and each command below it."""
    for verb in VERBS:
        yield from _below(verb, command(verb))


def _below(path: str, found: click.Command) -> Iterator[Tuple[str, click.Command]]:
    yield path, found
    if isinstance(found, click.Group):
        for name in found.list_commands(click.Context(found)):
            below = found.get_command(click.Context(found), name)
            assert below is not None
            yield from _below(f"{path} {name}", below)


def command_pages() -> Dict[str, str]:
    """Path within the site -> Markdown."""
    made: Dict[str, str] = {}
    for verb in VERBS:
        lines: List[str] = []
        for path, found in _below(verb, command(verb)):
            if path != verb:
                lines += [f"## edgedla {path}", ""]
            lines += _described(path, found)
        made[f"{FOLDERS['command']}/{verb}.md"] = page(f"edgedla {verb}", lines, description=VERBS[verb][1])
    ctx = click.Context(main, info_name="edgedla")
    tables: List[str] = []
    for title, rows in GROUPS.items():
        cells = [[f"[{code('edgedla ' + verb)}]({verb}.md)", plain(line)] for verb, (_, line) in rows.items()]
        tables += [f"## {title}", "", *table(["Command", "What it does"], cells)]
    made[f"{FOLDERS['command']}/index.md"] = page(
        "Commands",
        tables,
        ["## Options and exit codes", ""],
        table(["Option of `edgedla`", "Meaning"], [_option(p, ctx) for p in main.get_params(ctx) if isinstance(p, click.Option)]),
        plain(" ".join(EPILOG.split())),
    )
    return made


def _described(path: str, found: click.Command) -> List[str]:
    ctx = click.Context(found, info_name=f"edgedla {path}")
    first, *rest = ([plain(part.replace("\b", "")), ""] for part in (found.help or "").split("\n\n"))
    examples = ["```console", *(f"$ {line}" for line in {**EXAMPLES, **BELOW}[path]), "```", ""]
    usage = ["```text", " ".join(found.get_usage(ctx).replace("Usage: ", "").split()), "```", ""]
    lines = [*first, *examples, *usage, *(line for part in rest for line in part)]
    groups = grouped(found, ctx)
    for title, options in groups.items():
        lines += [f"**{title}**", ""] if len(groups) > 1 else []
        lines += table(["Option", "Meaning"], [_option(option, ctx) for option in options])
    hidden = [code(name) for param in found.params if getattr(param, "hidden", False) for name in param.opts]
    lines += [f"Taken over from trtexec, as it spells them: {', '.join(hidden)}.", ""] if hidden else []
    lines += [plain(" ".join(found.epilog.replace("\b", "").split())), ""] if found.epilog else []
    return lines


def _option(option: click.Option, ctx: click.Context) -> List[str]:
    names, meaning = option.get_help_record(ctx) or ("", "")
    return [code(names.replace("  ", " ")), plain(meaning)]
