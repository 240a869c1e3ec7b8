"""`edgedla help TOPIC`, and the documentation pages that a command's `--help` names."""

from __future__ import annotations

import copy
import math
import re
import sys
from typing import Sequence, Set, Tuple

import click

from edgedla.cli.examples import BELOW, EXAMPLES, Shown
from edgedla.cli.output import echo
from edgedla.cli.terminal.topics import topics, topics_of
from edgedla.errors import RuleError
from edgedla.text.pages import page_url

_HEADING = re.compile(r"^#.*", re.M)


def show_topics(ctx: click.Context) -> None:
    """The help of `edgedla`, then every topic."""
    formatter = ctx.make_formatter()
    with formatter.section("Topics (edgedla help TOPIC)"):
        formatter.write_dl([(topic.name, topic.title) for topic in topics().values()])
    echo(f"{ctx.get_help()}\n\n{formatter.getvalue()}", nl=False)


def show_topic(name: str) -> bool:
    """Prints the page of a topic; returns False if no topic has this name."""
    topic = topics().get(name)
    if topic is None:
        return False
    text = topic.text()
    if sys.stdout is not None and sys.stdout.isatty():
        text = _rendered(text)
    echo(f"{text}\nPage: {topic.page}", color=True)
    return True


def show_found(words: Sequence[str]) -> bool:
    """Lists the five topics that `words` fit best, by titles, then headings, then texts; returns False if they fit none."""
    read = [(x, x.text()) for x in topics().values()]
    held = [(x, _words(f"{x.name} {x.title}"), _words(" ".join(_HEADING.findall(t))), _words(t)) for x, t in read]
    # A word that many pages hold says little.
    weight = {w: math.log(1 + len(held) / (1 + sum(w in text for *_, text in held))) for w in _words(" ".join(words))}
    scored = [
        (sum(v * (5 * (w in title) + 2 * (w in heads) + (w in text)) for w, v in weight.items()), x)
        for x, title, heads, text in held
    ]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[:5]
    for _, topic in best:
        echo(f"edgedla help {topic.name:24} {topic.title}")
    return bool(best)


def _words(text: str) -> Set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z0-9]+", text.lower())}


def with_topics(verb: str, command: click.Command) -> click.Command:
    """The command; its `--help` begins with examples, groups options, and ends with its documentation page and related topics."""
    try:
        names = [topic.name for topic in topics_of(verb)]
    except RuleError:
        names = []
    lines = [f"Topics (edgedla help TOPIC): {', '.join(names)}."] if names else []
    lines += [f"Page: {page_url('command', verb)}"] if page_url("command", verb) else []
    complete = _shown(command, EXAMPLES.get(verb, ()))
    if isinstance(complete, click.Group):
        complete.commands = {n: _shown(c, BELOW.get(f"{verb} {n}", ())) for n, c in complete.commands.items()}
    complete.epilog = "\n\n".join([*([command.epilog] if command.epilog else []), *lines])
    return complete


def _shown(command: click.Command, examples: Tuple[str, ...]) -> click.Command:
    """The command as its help shows it: with these examples and groups of options."""
    complete, kind = copy.copy(command), type(command)
    complete.__class__ = type(kind.__name__, (Shown, kind), {"examples": examples})
    return complete


def _rendered(markdown: str) -> str:
    """Markdown rendered for a terminal; unchanged if rich is missing."""
    try:
        import io

        from rich.console import Console
        from rich.markdown import Markdown
    except ImportError:
        return markdown
    from edgedla.reports.text import color_system

    console = Console(file=io.StringIO(), force_terminal=True, color_system=color_system())
    console.print(Markdown(markdown, hyperlinks=False))
    return str(console.file.getvalue())  # type: ignore[attr-defined]
