"""The engine that reads rules/: load, check, explain."""

from __future__ import annotations

from edgedla.rules.docs import all_rules, explain, fixes, rule_for, rules_markdown, sources
from edgedla.rules.rule import Case, Rule
from edgedla.rules.ruleset import RuleSet, load_rules
from edgedla.rules.scope import Scope
from edgedla.rules.verdict import Effect, Finding, Support, Verdict

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
    "fixes",
    "load_rules",
    "rule_for",
    "rules_markdown",
    "sources",
]
