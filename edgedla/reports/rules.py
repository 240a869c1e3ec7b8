"""The tables behind `edgedla rules list` and `edgedla fix --list`."""

from __future__ import annotations

from typing import Sequence

from edgedla.io.documents import header
from edgedla.reports.json_document import dump
from edgedla.reports.text import print_lines, table_lines
from edgedla.rules import load_rules
from edgedla.rules.remedies import all_entries, fixes_markdown
from edgedla.rules.rule import Rule


def render_rules(rules: Sequence[Rule], output_format: str, terminal: bool = False) -> str:
    """One line per rule, by id."""
    if output_format == "json":
        return dump(
            {
                **header("edgedla.rules"),
                "rules_version": load_rules().version,
                "rules": [
                    {
                        "id": rule.id,
                        "name": rule.name,
                        "summary": rule.summary,
                        "kinds": [kind for kind in rule.kinds if kind],
                        "effect": str(rule.effect),
                        "stage": rule.stage,
                        "cases": [
                            {
                                "where": str(case.scope),
                                "status": case.status,
                                "limits": dict(case.parameters),
                                "sources": list(case.sources),
                            }
                            for case in rule.cases
                        ],
                        "fixes": list(rule.fixes),
                    }
                    for rule in rules
                ],
            }
        )
    table = [["RULE", "NAME", "IF NOT", "STATUS", "LAYERS", "WHAT MUST HOLD"]]
    for rule in rules:
        kinds = ", ".join(rule.kinds[:3]) + (f" and {len(rule.kinds) - 3} more" if len(rule.kinds) > 3 else "")
        table.append([rule.id, rule.name, str(rule.effect), ", ".join(rule.statuses), kinds or "every layer", rule.summary])
    return print_lines(table_lines(table, terminal), terminal)


def render_rewrites(output_format: str, terminal: bool = False) -> str:
    """The rewrites of `edgedla fix`: one line each as text, everything as Markdown."""
    if output_format == "markdown":
        return fixes_markdown()
    table = [["REWRITE", "EQUALITY", "USE", "WHAT BECOMES WHAT"]]
    table += [[entry.id, entry.equality, entry.use, entry.summary] for entry in all_entries().values()]
    return print_lines(table_lines(table, terminal), terminal)
