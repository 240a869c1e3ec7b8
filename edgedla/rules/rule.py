"""A rule as a value: what it checks, where it holds, how sure it is, and its message."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.tensor import dims_text
from edgedla.io.strict_yaml import Table
from edgedla.rules.predicates import PREDICATES
from edgedla.rules.scope import Scope
from edgedla.rules.verdict import Effect

STATUSES = ("agreed", "disputed", "observed")
STAGES = ("layer", "subgraph")


@dataclass(frozen=True)
class Case:
    """One scope of a rule with its own limits. A rule without `cases` in YAML has one Case."""

    scope: Scope
    parameters: Mapping[str, Any]
    status: str
    message: str
    sources: Tuple[str, ...]
    note: str = ""
    where: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule of rules/.

    Attributes:
        id, name: for example CONV009 and conv-buffer-overflow.
        kinds: TensorRT layer types that it applies to; ("",) for every kind.
        summary: what must hold, in one sentence.
        check: the predicate's name.
        effect: what failing means: reject, unknown, warn or slow. A disputed rejection answers unknown.
        stage: "layer" (TensorRT's first check) or "subgraph" (its second look at a candidate).
        select: facts that must have one of these values for the rule to apply.
        fixes: ids of remedies. `fix_where`: for some of them, the facts that the layer must have for the remedy to help.
        cases: where it holds, with which limits.
        covers: ids of the documented facts that the rule encodes.
        examples: the YAML of its boundary examples, read by docs.generator.rule_examples; () if a check loaded the rule.
        where: file:line.
    """

    id: str
    name: str
    kinds: Tuple[str, ...]
    summary: str
    check: str
    effect: Effect
    stage: str
    select: Mapping[str, Tuple[Any, ...]]
    cases: Tuple[Case, ...]
    fixes: Tuple[str, ...]
    covers: Tuple[str, ...]
    note: str
    examples: Tuple[Table, ...] = field(compare=False, default=())
    where: str = field(compare=False, default="")
    fix_where: Mapping[str, Mapping[str, Tuple[Any, ...]]] = field(default_factory=dict)

    @property
    def sources(self) -> Tuple[str, ...]:
        return tuple(dict.fromkeys(s for case in self.cases for s in case.sources))

    @property
    def statuses(self) -> Tuple[str, ...]:
        return tuple(dict.fromkeys(case.status for case in self.cases))

    def effect_of(self, case: Case) -> Effect:
        """The effect in this case: a disputed rejection answers unknown."""
        return Effect.UNKNOWN if case.status == "disputed" and self.effect is Effect.REJECT else self.effect

    def applies_to(self, kind: Kind) -> bool:
        return _shows(kind, self.select)

    def fixes_for(self, kind: Kind) -> Tuple[str, ...]:
        """The remedies that help this layer, by its facts."""
        if not self.fix_where:
            return self.fixes
        return tuple(fix for fix in self.fixes if _shows(kind, self.fix_where.get(fix, {})))

    def failure(self, kind: Kind, case: Case, element_bytes: int) -> Optional[Dict[str, Any]]:
        """The numbers for the message if the layer does not meet the rule, else None."""
        if self.select and not self.applies_to(kind):
            return None
        return PREDICATES[self.check].function(kind, element_bytes, **case.parameters)

    def render(self, kind: Kind, case: Case, measured: Mapping[str, Any]) -> Tuple[str, Dict[str, Any]]:
        """The message with its numbers filled in, and these numbers."""
        facts: Dict[str, Any] = dict(measured)
        for name in message_fields(case.message):
            if name not in facts:
                facts[name] = case.parameters[name] if name in case.parameters else getattr(kind, name)
        return case.message.format(**{k: dims_text(v) if k.endswith("_dims") else _shown(v) for k, v in facts.items()}), facts


def _shows(kind: Kind, select: Mapping[str, Tuple[Any, ...]]) -> bool:
    return all(getattr(kind, fact) in values for fact, values in select.items())


@lru_cache(maxsize=None)
def message_fields(message: str) -> Tuple[str, ...]:
    """The names in braces of a message template."""
    return tuple(dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(message) if name))


def _shown(value: Any) -> str:
    """Dims and kernels as 3x3, lists as "a, b", whole floats without their zero."""
    if isinstance(value, (tuple, list)):
        if value and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value):
            return "x".join(_shown(v) for v in value) if isinstance(value, tuple) else ", ".join(_shown(v) for v in value)
        # Among allowed formats ":" means a tensor for which the build names no format.
        return ", ".join(_shown(v) for v in value if v != ":") or "()"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
