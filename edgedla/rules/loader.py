"""Reads rules/layers/*.yaml, io.yaml, pools.yaml and loadable.yaml into Rule values, strictly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Type

from edgedla.errors import RuleError
from edgedla.graph import kinds as graph_kinds
from edgedla.graph.kinds.base import Kind
from edgedla.io import strict_yaml
from edgedla.io.strict_yaml import Table
from edgedla.rules.predicates import PREDICATES
from edgedla.rules.rule import STAGES, STATUSES, Case, Rule, message_fields
from edgedla.rules.scope import Scope, read_scope
from edgedla.rules.verdict import Effect

#: Kinds of rules about the border of a network, not about layers.
BORDER_KINDS = ("IO_TENSOR", "LOADABLE", "POOL")
_FILE_KEYS = (("kinds", "rules"), ("written_for",))
_REQUIRED = ("id", "name", "summary", "check", "message", "sources", "examples")
_OPTIONAL = ("with", "when", "cases", "effect", "stage", "status", "select", "fixes", "covers", "note")
_ID = re.compile(r"[A-Z]{2,5}[0-9]{3}\Z")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class RuleFile(NamedTuple):
    """One rule file: its layer kinds, the platforms that it was written for, and its rules."""

    kinds: Tuple[str, ...]
    written_for: Tuple[Scope, ...]
    rules: Tuple[Rule, ...]


def kind_class(name: str) -> Type[Kind]:
    """The class whose fields are the facts of rules for this kind."""
    if name in BORDER_KINDS:
        from edgedla.rules.io_kinds import IO_KINDS  # lazily: most uses of the rules never ask for them

        return IO_KINDS[name]
    return graph_kinds.kind_class(name)


def load_file(path: Path, examples: bool = False) -> RuleFile:
    """The rules of one file, with their examples if `examples` is True.

    Raises:
        RuleError: with file:line at the first thing that is wrong.
    """
    skip = frozenset() if examples else frozenset({"examples"})
    return read_file(strict_yaml.load(path, skip), "/".join(path.parts[-2:]))


def read_file(root: Any, name: str) -> RuleFile:
    """A rule file from its YAML value."""
    if not isinstance(root, Table):
        raise RuleError("a rule file is a mapping with `kinds` and `rules`", where=name)
    root.only(*_FILE_KEYS)
    kinds = root.texts("kinds")
    if not kinds:
        raise root.error("'kinds' is empty", "kinds", hint='Use [""] for rules that hold for every kind.')
    classes = {kind_class(k) for k in kinds}
    if len(classes) != 1:
        raise root.error("the kinds of one file must have the same facts", "kinds")
    rules: List[Rule] = []
    for table in root.tables("rules"):
        rule = _rule(table, kinds, classes.copy().pop())
        if any(rule.id == r.id or rule.name == r.name for r in rules):
            raise table.error(f"the id {rule.id} or the name {rule.name} appears twice", "id")
        rules.append(rule)
    written = tuple(read_scope(t) for t in root.tables("written_for"))
    if not written and kinds != ("",):
        raise root.error("'written_for' is missing: which platforms did the author look at?")
    return RuleFile(kinds, written, tuple(rules))


def _rule(table: Table, kinds: Tuple[str, ...], facts: Type[Kind]) -> Rule:
    table.only(_REQUIRED, _OPTIONAL)
    rule_id, name, check = table.text("id"), table.text("name"), table.text("check")
    if not _ID.match(rule_id):
        raise table.error(f"{rule_id!r} is not a rule id", "id", allowed="letters and three digits, like CONV009")
    if not _NAME.match(name):
        raise table.error(f"{name!r} is not a rule name", "name", allowed="lower case words with hyphens")
    if check not in PREDICATES:
        raise table.error(f"unknown predicate {check!r}", "check", allowed=", ".join(sorted(PREDICATES)))
    effect = table.text("effect", "reject")
    if effect not in [e.value for e in Effect]:
        raise table.error(f"unknown effect {effect!r}", "effect", allowed=", ".join(e.value for e in Effect))
    stage = table.text("stage", "layer")
    if stage not in STAGES:
        raise table.error(f"unknown stage {stage!r}", "stage", allowed=", ".join(STAGES))
    examples: Tuple[Table, ...] = ()
    if table["examples"] is not strict_yaml.SKIPPED:
        examples = table.tables("examples")
        if not examples:
            raise table.error("a rule without examples is not tested", "examples")
    fixes = _fixes(table, facts)
    return Rule(
        id=rule_id,
        name=name,
        kinds=kinds,
        summary=table.text("summary"),
        check=check,
        effect=Effect(effect),
        stage=stage,
        select=_select(table, facts),
        cases=_cases(table, check, facts),
        fixes=tuple(fixes),
        fix_where={fix: where for fix, where in fixes.items() if where},
        covers=table.texts("covers"),
        note=table.text("note", ""),
        examples=examples,
        where=table.where(),
    )


def _fixes(table: Table, facts: Type[Kind]) -> Dict[str, Mapping[str, Tuple[Any, ...]]]:
    """Remedy id -> the facts that the layer must have for the remedy to help. A row is an id, or {id, where}."""
    rows = table.get("fixes", [])
    if not isinstance(rows, list):
        raise table.error("'fixes' must be a list of remedies", "fixes")
    fixes: Dict[str, Mapping[str, Tuple[Any, ...]]] = {}
    for row in rows:
        if isinstance(row, Table):
            row.only(("id", "where"))
            fix, where = row.text("id"), _select(row, facts, "where")
        elif isinstance(row, str):
            fix, where = row, {}
        else:
            raise table.error(f"{row!r} is not a remedy", "fixes", allowed="an id, or {id, where}")
        if fix in fixes:
            raise table.error(f"the remedy {fix} appears twice", "fixes")
        fixes[fix] = where
    return fixes


def _select(table: Table, facts: Type[Kind], name: str = "select") -> Mapping[str, Tuple[Any, ...]]:
    if name not in table:
        return {}
    select = table.table(name)
    for key, values in select.items():
        if not isinstance(values, list):
            raise select.error(f"{key!r} must be a list of values", key)
        _require_fact(select, key, key, facts)
    return {key: tuple(values) for key, values in select.items()}


def _cases(table: Table, check: str, facts: Type[Kind]) -> Tuple[Case, ...]:
    if "cases" not in table:
        return (_case(table, table, check, facts),)
    for key in ("with", "when", "status"):
        if key in table:
            raise table.error(f"{key!r} stands in each case, not beside `cases`", key)
    cases: List[Case] = []
    for row in table.tables("cases"):
        row.only((), ("when", "with", "status", "message", "sources", "note"))
        case = _case(row, table, check, facts)
        for other in cases:
            if case.scope.meets(other.scope):
                raise row.error(f"this case and the one at {other.where} match the same platform", "when")
        cases.append(case)
    if not cases:
        raise table.error("'cases' is empty", "cases")
    return tuple(cases)


def _case(row: Table, table: Table, check: str, facts: Type[Kind]) -> Case:
    status = row.text("status", "agreed")
    if status not in STATUSES:
        raise row.error(f"unknown status {status!r}", "status", allowed=", ".join(STATUSES))
    message = row.text("message") if "message" in row else table.text("message")
    sources = row.texts("sources") if "sources" in row else table.texts("sources")
    if not sources:
        raise row.error("a rule without a source is a guess", "sources")
    parameters = _parameters(row, check, facts)
    try:
        names = message_fields(message)
    except ValueError as e:
        raise row.error(f"the message is not a template: {e}", "message") from e
    for name in names:
        if name not in parameters and not hasattr(facts, name) and name not in _COMPUTED:
            raise row.error(f"the message names {name!r}, which is neither a fact nor a limit", "message")
    return Case(
        scope=read_scope(row.table("when") if "when" in row else None),
        parameters=parameters,
        status=status,
        message=message,
        sources=sources,
        note=row.text("note", "") if row is not table else "",
        where=row.where(),
    )


#: Names of numbers that predicates compute for messages.
_COMPUTED = frozenset({"banks", "data_banks", "extent", "large", "limit", "padding", "size", "small", "value", "weight_banks"})


def _parameters(row: Table, check: str, facts: Type[Kind]) -> Dict[str, Any]:
    predicate = PREDICATES[check]
    given: Optional[Table] = row.table("with") if "with" in row else None
    if given is None:
        if predicate.parameters:
            raise row.error(f"{check} needs `with:`", allowed=", ".join(predicate.parameters))
        return {}
    given.only(predicate.parameters)
    for parameter in predicate.facts:
        _require_fact(given, parameter, given.text(parameter), facts)
    return dict(given)


def _require_fact(table: Table, key: str, name: str, facts: Type[Kind]) -> None:
    if not hasattr(facts, name) or name.startswith("_"):
        names = sorted(n for n in dir(facts) if not n.startswith("_") and n not in ("of", "common", "facts", "TYPE"))
        raise table.error(f"{name!r} is not a fact of {facts.__name__}", key, allowed=", ".join(names))
