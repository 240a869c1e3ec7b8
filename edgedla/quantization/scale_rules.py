"""rules/int8_scales.yaml: tensors that share an INT8 scale on the DLA, and scales for tensors without one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import FrozenSet, Optional, Tuple

from edgedla.graph.layer import Layer
from edgedla.io.data import rules_dir
from edgedla.io.strict_yaml import Table, load
from edgedla.rules.scope import Scope, read_scope
from edgedla.targets import Platform

TENSORS = ("inputs", "inputs-and-outputs")
ORIGINS = ("input", "bound", "product", "node")
STATUSES = ("agreed", "disputed", "derived")


@dataclass(frozen=True)
class ScaleRule:
    """One rule of rules/int8_scales.yaml; the head of that file explains the fields. Empty `layers`, `ops` mean all."""

    id: str
    name: str
    summary: str
    status: str
    sources: Tuple[str, ...]
    layers: FrozenSet[str]
    ops: FrozenSet[str]
    scope: Scope
    tensors: str = ""
    origin: str = ""
    bound: float = 0.0

    def fits(self, layer: Layer) -> bool:
        return (not self.layers or layer.type in self.layers) and (
            not self.ops or str(layer.params.get("op", layer.params.get("type", ""))) in self.ops
        )

    def holds(self, platform: Optional[Platform]) -> bool:
        """True if the rule applies to this platform. None stands for a platform with the newest release."""
        return platform is None or self.scope.matches(platform, "int8", "fallback")


@dataclass(frozen=True)
class ScaleRules:
    """The content of int8_scales.yaml.

    Attributes:
        equal: rules for tensors that share a scale. missing: rules for tensors without one, in order of preference.
        fp16_only: ONNX operators that the DLA computes in FP16 even in an INT8 build.
    """

    equal: Tuple[ScaleRule, ...]
    missing: Tuple[ScaleRule, ...]
    fp16_only: FrozenSet[str]


@lru_cache(maxsize=None)
def scale_rules() -> ScaleRules:
    """The rules, read once.

    Raises:
        RuleError: the file is missing or broken, with file and line.
    """
    document = load(rules_dir() / "int8_scales.yaml").only(("equal", "missing", "fp16_only"))
    equal = tuple(_rule(t, ("tensors",), ()) for t in document.tables("equal"))
    missing = tuple(_rule(t, ("from",), ("bound",)) for t in document.tables("missing"))
    seen = set()
    for key in ("equal", "missing", "fp16_only"):
        for table in document.tables(key):
            if table.text("id") in seen:
                raise table.error(f"the id {table.text('id')} appears twice", "id")
            seen.add(table.text("id"))
    return ScaleRules(equal, missing, frozenset(op for t in document.tables("fp16_only") for op in _operators(t)))


def _operators(table: Table) -> Tuple[str, ...]:
    table.only(("id", "name", "onnx", "summary", "status", "sources"), ())
    if table.text("status") not in STATUSES:
        raise table.error(f"unknown status {table.text('status')!r}", "status", allowed=", ".join(STATUSES))
    return table.texts("onnx")


def _rule(table: Table, required: Tuple[str, ...], optional: Tuple[str, ...]) -> ScaleRule:
    table.only(("id", "name", "summary", "status", "sources", *required), ("layer", "op", "when", *optional))
    for key, allowed in (("tensors", TENSORS), ("from", ORIGINS), ("status", STATUSES)):
        if key in table and table.text(key) not in allowed:
            raise table.error(f"unknown {key} {table.text(key)!r}", key, allowed=", ".join(allowed))
    bound = float(table.number("bound", 0.0))
    if (table.get("from") == "bound") != (bound > 0):
        raise table.error("a positive bound goes with `from: bound`", "from")
    layers = (table.text("layer"),) if isinstance(table.get("layer"), str) else table.texts("layer")
    return ScaleRule(
        id=table.text("id"),
        name=table.text("name"),
        summary=table.text("summary"),
        status=table.text("status"),
        sources=table.texts("sources"),
        layers=frozenset(layers),
        ops=frozenset(table.texts("op")),
        scope=read_scope(table.table("when") if "when" in table else None),
        tensors=table.text("tensors", " ").strip(),
        origin=table.text("from", " ").strip(),
        bound=bound,
    )
