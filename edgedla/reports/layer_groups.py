"""The layers of a check report by where they run and why: refused, unknown, on the GPU because of others, with warnings."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Tuple

from edgedla.regions.report import CheckReport, LayerReport, NodeReport
from edgedla.regions.values import Cause, Placed
from edgedla.reports.words import count
from edgedla.rules.verdict import Effect, Finding, Support


class Entry(NamedTuple):
    """Layers with one message. `names` are shown, `fixes` are ids of remedies."""

    message: str
    names: Tuple[str, ...]
    fixes: Tuple[str, ...] = ()


class Group(NamedTuple):
    """Layers with one rule or cause: `key` is the rule's id, or the cause if there is no rule."""

    key: str
    title: str
    entries: Tuple[Entry, ...]
    noun: str = "layer"

    @property
    def size(self) -> str:
        """ "3 layers"."""
        return count(len({name for entry in self.entries for name in entry.names}), self.noun)


CAUSES = {
    Cause.RULE: "refused",
    Cause.UNKNOWN: "no rule and no evidence",
    Cause.VALIDATION: "refused by TensorRT's second look, inside its group",
    Cause.FUSED: "merged into a layer that the GPU runs",
    Cause.SUBGRAPH_LIMIT: "over the limit of loadables per core",
    Cause.NO_DLA: "no DLA",
    Cause.OPEN_SIZES: "sizes left open by a network input",
    Cause.TYPE_BORDER: "Casts at the border of the FP16 part",
}


def is_unknown(layer: LayerReport) -> bool:
    """True if no rule decides the layer, alone or in TensorRT's second look."""
    nobody_knows = layer.support is Support.UNKNOWN or layer.cause is Cause.UNKNOWN
    return nobody_knows and layer.placed is not Placed.FOLDED


def unknown_nodes(report: CheckReport) -> Tuple[NodeReport, ...]:
    """ONNX nodes whose TensorRT layers are unknown."""
    return tuple(node for node in report.nodes if node.support is Support.UNKNOWN and not node.layers)


def unknowns(report: CheckReport) -> int:
    """Number of undecided layers, and of nodes whose layers are unknown."""
    return sum(map(is_unknown, report.layers)) + len(unknown_nodes(report))


def refused(report: CheckReport) -> Tuple[Group, ...]:
    """Layers on the GPU because the DLA refuses them, by rule; the largest group first."""
    return _grouped(report, lambda layer: layer.placed is Placed.GPU and layer.cause.is_root and not is_unknown(layer))


def unknown(report: CheckReport) -> Tuple[Group, ...]:
    """Undecided layers, and nodes whose layers are unknown, by rule."""
    nodes_by_reason: Dict[str, List[str]] = {}
    for node in unknown_nodes(report):
        nodes_by_reason.setdefault(node.reason, []).append(f"{node.op} {node.name}")
    entries = tuple(Entry(reason, tuple(names)) for reason, names in nodes_by_reason.items())
    nodes = (Group("unknown", "ONNX nodes whose layers are not known", entries, "node"),) if entries else ()
    return nodes + _grouped(report, is_unknown)


def sections(report: CheckReport) -> Tuple[Tuple[str, str, Tuple[Group, ...]], ...]:
    """(title, tone, groups) of all findings on layers, failures first; without the empty ones."""
    if not report.platform.has_dla:
        return ()
    pulled = _grouped(report, lambda layer: layer.placed is Placed.GPU and not layer.cause.is_root)
    remarked = _grouped(report, lambda layer: layer.placed is Placed.DLA and bool(remarks(layer)))
    candidates = (
        ("Refused by the DLA", "bad", refused(report)),
        ("Unknown: verify on the device", "unknown", unknown(report)),
        ("On the GPU because of other layers", "mixed", pulled),
        ("Runs on the DLA, but", "title", remarked),
    )
    return tuple(section for section in candidates if section[2])


def decisive(layer: LayerReport) -> Tuple[Finding, ...]:
    """The findings that decide where the layer runs: rejections, else unknowns."""
    rejections = tuple(f for f in layer.findings if f.effect is Effect.REJECT)
    return rejections or tuple(f for f in layer.findings if f.effect is Effect.UNKNOWN)


def remarks(layer: LayerReport) -> Tuple[Finding, ...]:
    """Warnings, and findings that say why the DLA runs it slowly."""
    return tuple(f for f in layer.findings if f.effect in (Effect.WARN, Effect.SLOW))


def _layer(layer: LayerReport) -> str:
    nodes = [n for n in layer.onnx_nodes if n and n != layer.name]
    return f"{layer.type} {layer.name}" + (f"  from {', '.join(nodes)}" if nodes else "")


class _Groups:
    """Collects layers by rule and message, in their order."""

    def __init__(self) -> None:
        self.titles: Dict[str, str] = {}
        self.names: Dict[str, Dict[str, List[str]]] = {}
        self.fixes: Dict[Tuple[str, str], Tuple[str, ...]] = {}

    def add(self, key: str, title: str, message: str, layer: LayerReport, fixes: Tuple[str, ...] = ()) -> None:
        self.titles[key] = title
        self.names.setdefault(key, {}).setdefault(message, []).append(_layer(layer))
        self.fixes[key, message] = fixes

    def sorted(self) -> Tuple[Group, ...]:
        groups = [
            Group(key, self.titles[key], tuple(Entry(m, tuple(n), self.fixes[key, m]) for m, n in messages.items()))
            for key, messages in self.names.items()
        ]
        return tuple(sorted(groups, key=lambda g: (-sum(len(e.names) for e in g.entries), g.key)))


def _grouped(report: CheckReport, belongs: Callable[[LayerReport], bool]) -> Tuple[Group, ...]:
    groups = _Groups()
    for layer in filter(belongs, report.layers):
        reasons = remarks(layer) if layer.placed is Placed.DLA else decisive(layer) if layer.cause.is_root else ()
        for finding in reasons:
            groups.add(finding.rule, finding.rule_name, finding.message, layer, finding.fixes)
        if not reasons:
            groups.add(str(layer.cause), CAUSES.get(layer.cause, ""), layer.reason, layer)
    return groups.sorted()
