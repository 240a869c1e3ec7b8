"""The engine that reads rules/: load, check, explain."""

from __future__ import annotations

from edgedla.rules.ruleset import RuleSet, load_rules
from edgedla.rules.verdict import Effect, Finding, Support, Verdict

__all__ = ["Effect", "Finding", "RuleSet", "Support", "Verdict", "load_rules"]
