"""Generates RULES.md and the text of `edgedla rules explain` from the rule data, with the same words in both."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, List, Mapping, Tuple

from edgedla.errors import RuleError, UsageError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.rules.remedies import remedies
from edgedla.rules.rule import Case, Rule
from edgedla.rules.ruleset import load_rules
from edgedla.vocabulary import did_you_mean

_MEANING = {"reject": "not on the DLA", "unknown": "nobody knows", "warn": "legal, with a warning", "slow": "legal, at a cost"}
#: Answers of the engine itself, in the same form: id to name and text.
ENGINE_RULES = {
    "GEN000": (
        "no-dla",
        "The module and release have a DLA. Which pairs do is in rules/releases.yaml, table dla; `edgedla targets MODULE` "
        "prints it.",
    ),
    "GEN099": (
        "no-rule-written",
        "Some rule file was written for this layer kind and platform. Without one the answer is unknown, never supported: add "
        "the kind to rules/layers/ (rules/README.md).",
    ),
}
_STAGE = {"layer": "TensorRT's first per-layer check", "subgraph": "TensorRT's second look, inside a candidate subgraph"}


@lru_cache(maxsize=None)
def sources() -> Mapping[str, Mapping[str, str]]:
    """rules/sources.yaml: id to title, kind and url."""
    return _table("sources.yaml", "sources", ("id", "kind", "title", "url"))


@lru_cache(maxsize=None)
def all_rules() -> Tuple[Rule, ...]:
    """Every rule that ships with edgedla, by id."""
    return load_rules().rules()


def rule_for(rule_id: str) -> Rule:
    """The rule with this id or name.

    Raises:
        UsageError: there is none.
    """
    key = rule_id.strip()
    every_rule = all_rules()
    for rule in every_rule:
        if key.upper() == rule.id or key.lower() == rule.name:
            return rule
    names = [r.id for r in every_rule] + [r.name for r in every_rule]
    raise UsageError(
        f"unknown rule {rule_id!r}", allowed="an id or a name that `edgedla rules list` prints", hint=did_you_mean(key, names)
    )


def explain(rule_id: str) -> str:
    """What a rule says, where it holds, how sure it is, its sources and remedies, as plain text."""
    for engine_id, (name, text) in ENGINE_RULES.items():
        if rule_id.strip().upper() == engine_id or rule_id.strip().lower() == name:
            return f"{engine_id} {name}\n\n{text}\n"
    rule = rule_for(rule_id)
    lines = [f"{rule.id} {rule.name}", "", f"Needed: {rule.summary}"]
    lines += ["", f"If not met: {_MEANING[rule.effect.value]} ({_STAGE[rule.stage]})."]
    if rule.kinds != ("",):
        lines.append(f"Layers: {', '.join(rule.kinds)}{_selected(rule)}")
    for case in rule.cases:
        lines.append("")
        lines.append(f"Where: {case.scope}")
        lines += [f"  limits: {limits}" for limits in [_limits(case)] if limits]
        lines.append(f"  status: {case.status}")
        lines.append(f"  message: {case.message}")
        lines += [f"  {case.note}"] if case.note else []
        lines += [f"  source: {_source(s)}" for s in case.sources]
    if rule.note:
        lines += ["", rule.note]
    for fix in rule.fixes:
        remedy = remedies()[fix]
        lines += ["", f"Remedy {fix}: {remedy.title}. {remedy.text}"]
        if remedy.rewrites:
            lines.append(f"  `edgedla fix MODEL -o OUT --only {fix}` does it: {', '.join(remedy.rewrites)}.")
    return "\n".join(lines) + "\n"


def remedy_entry(remedy_id: str) -> Dict[str, Any]:
    """A remedy as plain values: what it changes, which rewrites do it, and which rules name it."""
    remedy = remedies()[remedy_id]
    return {
        "id": remedy.id,
        "title": remedy.title,
        "text": remedy.text,
        "effect": remedy.effect,
        "rewrites": list(remedy.rewrites),
        "rules": [
            {"id": rule.id, "summary": rule.summary, "where": {k: list(v) for k, v in rule.fix_where.get(remedy_id, {}).items()}}
            for rule in all_rules()
            if remedy_id in rule.fixes
        ],
    }


def rules_markdown() -> str:
    """RULES.md: all rules by layer kind, with limits, scope, status, sources and remedies."""
    groups: Dict[str, List[Rule]] = {}
    for rule in all_rules():
        title = "Every layer" if rule.kinds == ("",) else ", ".join(rule.kinds[:4]) + (" ..." if len(rule.kinds) > 4 else "")
        groups.setdefault(title, []).append(rule)
    out = [
        "# DLA rules",
        "",
        "Generated from rules/ by `edgedla rules docs`; do not edit. How to add a rule: README.md in this folder.",
        "",
        "If a rule is not met: **reject** = not on the DLA; **unknown** = nobody knows; **warn** = legal with a warning; "
        "**slow** = legal at a cost. Status: *agreed* by the sources; *disputed* (they differ: a rejection then answers "
        "unknown); *observed* (rests on build logs only). Rules marked (subgraph) belong to TensorRT's second look.",
        "",
    ]
    for title in sorted(groups, key=lambda t: (t != "Every layer", t)):
        out += [f"## {title}", ""]
        for rule in groups[title]:
            out += _markdown(rule)
    out += ["## Answers of the engine itself", ""]
    out += [f"- {key} {name}: {text}" for key, (name, text) in sorted(ENGINE_RULES.items())]
    out += ["", "## Sources", ""]
    out += [f"- `{key}`: {_source(key)}" for key in sorted(sources())]
    return "\n".join(out) + "\n"


def _markdown(rule: Rule) -> List[str]:
    mark = " (subgraph)" if rule.stage == "subgraph" else ""
    lines = [f"### {rule.id} {rule.name}", "", f"{rule.summary} If not: **{rule.effect}**{mark}.{_selected(rule)}", ""]
    lines += ["| where | limits | status | sources |", "|---|---|---|---|"]
    for case in rule.cases:
        limits = _limits(case).replace("|", "/") or "-"
        lines.append(f"| {case.scope} | {limits} | {case.status} | {', '.join(case.sources)} |")
    lines.append("")
    notes = [n for n in [rule.note] + [c.note for c in rule.cases] if n]
    lines += [" ".join(notes), ""] if notes else []
    lines += [f"Remedies: {'; '.join(remedies()[f].title for f in rule.fixes)}.", ""] if rule.fixes else []
    return lines


def _source(source_id: str) -> str:
    entry = sources()[source_id]
    return entry["title"] + (f" <{entry['url']}>" if entry["url"] else "")


def _limits(case: Case) -> str:
    return ", ".join(f"{k} {_plain(v)}" for k, v in case.parameters.items())


def _plain(value: object) -> str:
    return "[" + ", ".join(str(v) for v in value) + "]" if isinstance(value, (list, tuple)) else str(value)


def _selected(rule: Rule) -> str:
    if not rule.select:
        return ""
    parts = [f"{fact} {' or '.join(str(v) for v in values)}" for fact, values in rule.select.items()]
    return f" Only where {', '.join(parts)}."


def _table(file: str, key: str, columns: Tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    root = strict_yaml.load(rules_dir() / file)
    if not isinstance(root, strict_yaml.Table):
        raise RuleError("not a mapping", where=f"rules/{file}")
    rows: Dict[str, Mapping[str, str]] = {}
    for row in root.only((key,)).tables(key):
        row.only(columns)
        entry = {c: row.text(c) for c in columns}
        if entry["id"] in rows:
            raise row.error(f"the id {entry['id']} appears twice", "id")
        rows[entry["id"]] = entry
    return rows
