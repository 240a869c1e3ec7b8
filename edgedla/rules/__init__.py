"""The engine that reads rules/: load, check, explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgedla.rules.ruleset import RuleSet, load_rules
from edgedla.rules.verdict import Effect, Finding, Support, Verdict

if TYPE_CHECKING:
    from edgedla.rules.docs import all_rules, explain, rule_for, rules_markdown, sources
    from edgedla.rules.rule import Case, Rule
    from edgedla.rules.scope import Scope

#: Public name -> module, imported on first use: only explaining rules needs these.
_LATER = {
    "Case": "rule",
    "Rule": "rule",
    "Scope": "scope",
    "all_rules": "docs",
    "explain": "docs",
    "rule_for": "docs",
    "rules_markdown": "docs",
    "sources": "docs",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"edgedla.rules.{_LATER[name]}"), name)
    raise AttributeError(f"module 'edgedla.rules' has no attribute {name!r}")


__all__ = [
    "Case",
    "Effect",
    "Finding",
    "Rule",
    "RuleSet",
    "Scope",
    "Support",
    "Verdict",
    "all_rules",
    "explain",
    "load_rules",
    "rule_for",
    "rules_markdown",
    "sources",
]
