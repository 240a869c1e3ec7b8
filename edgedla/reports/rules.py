"""The table behind `edgedla rules list`, as text or JSON."""

from __future__ import annotations

from typing import Sequence

from edgedla.documents import header
from edgedla.reports.json_document import dump
from edgedla.reports.text import aligned, print_lines
from edgedla.rules import Rule, load_rules


def render_rules(rules: Sequence[Rule], output_format: str, terminal: bool = False) -> str:
    """One line a rule, by id."""
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
        table.append(
            [rule.id, rule.name, str(rule.effect), ", ".join(rule.statuses), kinds or "every layer", rule.summary]
        )
    lines = [("title" if i == 0 else "", 0, line) for i, line in enumerate(aligned(table))]
    return print_lines(lines, terminal)
