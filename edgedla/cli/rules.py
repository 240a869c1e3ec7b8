"""`edgedla rules`: the rules behind the verdicts, listed, explained, and as the document RULES.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.options import output_options
from edgedla.cli.output import deliver, destinations, echo
from edgedla.vocabulary import one_of

if TYPE_CHECKING:
    from edgedla.rules.rule import Rule

FORMATS = ("text", "json")


@click.group()
def rules() -> None:
    """List and explain the rules behind the verdicts."""


@rules.command("list")
@option("--kind", metavar="TYPE", help="Only rules for this TensorRT layer type, for example CONVOLUTION.")
@output_options(*FORMATS)
def list_rules(kind: Optional[str], output_format: Optional[str], output: Tuple[str, ...]) -> None:
    """List every rule: what must hold, for which layers, and how sure that is."""
    where = destinations(output_format, output, FORMATS)
    from edgedla.reports.rules import render_rules

    chosen = rules_for(kind)
    deliver(where, lambda wanted, terminal: render_rules(chosen, wanted, terminal))


def rules_for(kind: Optional[str]) -> List[Rule]:
    """The rules for layers of a type, with those for every layer; all rules for None.

    Raises:
        UsageError: there is no such type.
    """
    from edgedla.graph.kinds import KINDS
    from edgedla.rules.docs import all_rules

    every = all_rules()
    if kind is not None:
        kinds = {k for rule in every for k in rule.kinds if k}.union(KINDS)
        kind = one_of("layer type", kind.upper(), sorted(kinds), "--kind")
    return [rule for rule in every if kind is None or kind in rule.kinds or rule.kinds == ("",)]


@rules.command("explain")
@click.argument("rule")
def explain_rule(rule: str) -> None:
    """Say what RULE (an id such as CONV009, or a name) asks for, where it holds, its sources and remedies."""
    from edgedla.rules.docs import explain
    from edgedla.text.pages import page_of

    text = explain(rule)
    echo(f"{text}\nPage: {page_of('rule', text.split()[0])}")


@rules.command("docs")
@option("-o", "--output", default="-", metavar="FILE", help="Write to FILE.")
def write_docs(output: str) -> None:
    """Print all rules as one Markdown document: the file rules/RULES.md."""
    from edgedla.rules.docs import rules_markdown

    deliver([("markdown", output)], lambda wanted, terminal: rules_markdown())
