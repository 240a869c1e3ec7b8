"""The boundary examples of rules: sample layers that a rule must pass or fail. Read by the pages and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.io.strict_yaml import Table
from edgedla.rules.loader import kind_class
from edgedla.rules.rule import Case, Rule
from edgedla.targets import Platform, platform_for
from edgedla.vocabulary import CHECK_MODES, PRECISIONS

#: Platforms to try, in this order, for an example that names none.
_PLATFORMS = (
    ("agx-orin-64gb", "10.3"),
    ("agx-xavier-32gb", "8.5.2"),
    ("agx-orin-64gb", "8.5.2"),
    ("agx-orin-64gb", "8.6"),
    ("agx-orin-64gb", "8.4"),
    ("agx-orin-64gb", "10.7"),
    ("agx-orin-64gb", "11.4.1"),
    ("agx-orin-64gb", "8.5.0"),
    ("agx-xavier-32gb", "8.4"),
    ("agx-xavier-32gb", "8.2"),
    ("agx-xavier-32gb", "8.0"),
    ("agx-xavier-32gb", "7.1"),
)
_TARGETS = {"xavier": "agx-xavier-32gb", "orin": "agx-orin-64gb"}


@dataclass(frozen=True)
class Example:
    """A sample layer with the answer that the rule must give."""

    rule: Rule
    case: Case
    kind: Kind
    passes: bool
    facts: Mapping[str, Any]
    element_bytes: int
    where: str


def examples_of(rule: Rule) -> Tuple[Example, ...]:
    """The rule's examples. Raises RuleError if one is malformed or outside the rule's scope."""
    return tuple(_example(rule, table) for table in rule.examples)


def _example(rule: Rule, table: Table) -> Example:
    table.only((), ("pass", "fail", "at", "facts"))
    if ("pass" in table) == ("fail" in table):
        raise table.error("an example has either `pass` or `fail`")
    passes = "pass" in table
    at = table.table("at") if "at" in table else None
    precision = "fp16"
    mode: Optional[str] = None
    platforms: List[Tuple[str, str]] = list(_PLATFORMS)
    if at is not None:
        at.only((), ("target", "trt", "precision", "mode"))
        precision = at.text("precision", "fp16")
        mode = at.text("mode") if "mode" in at else None
        platforms = [
            p
            for p in platforms
            if ("target" not in at or _TARGETS.get(at.text("target")) == p[0])
            and ("trt" not in at or p[1].startswith(at.text("trt")) or at.text("trt").startswith(p[1]))
        ] or [(_TARGETS[at.text("target", "orin")], at.text("trt"))]
    tried_precisions = (precision,) if at is not None and "precision" in at else PRECISIONS
    for target, trt in platforms:
        platform = platform_for(target, trt=trt)
        for p in tried_precisions:
            for m in (mode,) if mode else CHECK_MODES:
                for case in rule.cases:
                    if case.scope.matches(platform, p, m):
                        return _made(rule, case, table, passes, platform, p)
    raise table.error(f"no platform of this example lies in the scope of {rule.id}")


def _made(rule: Rule, case: Case, table: Table, passes: bool, platform: Platform, precision: str) -> Example:
    given: Dict[str, Any] = {k: _tupled(v) for k, v in table.table("pass" if passes else "fail").items()}
    name = given.pop("kind", rule.kinds[0])
    cls = kind_class(name)
    if name and "type" not in given:
        given["type"] = name
    try:
        kind = cls(**given)
    except TypeError as e:
        raise table.error(f"not a sample {cls.__name__}: {e}") from e
    size = 1 if precision == "int8" else 2
    facts = table.table("facts") if "facts" in table else {}
    return Example(rule, case, kind, passes, facts, size, table.where())


def _tupled(value: Any) -> Any:
    return tuple(_tupled(v) for v in value) if isinstance(value, list) else value
