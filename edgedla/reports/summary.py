"""What every form of a check report says first: the headline, the key figures, and the layers grouped by cause."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from edgedla.regions.report import CheckReport, LayerReport, NodeReport
from edgedla.regions.values import Cause, Placed, RankedChange
from edgedla.rules.docs import fixes as load_fixes
from edgedla.rules.remedies import remedies
from edgedla.rules.verdict import Effect, Finding, Support


class Headline(NamedTuple):
    """The answer in one line. `tone` is "good", "mixed", "bad" or "unknown"."""

    tone: str
    text: str


class Entry(NamedTuple):
    """Layers with one message. `names` are shown, `fixes` are ids of remedies."""

    message: str
    names: Tuple[str, ...]
    fixes: Tuple[str, ...] = ()


class Group(NamedTuple):
    """What shares a rule or cause: `key` is the rule's id, or the cause where no rule stands behind it."""

    key: str
    title: str
    entries: Tuple[Entry, ...]
    noun: str = "layer"

    @property
    def size(self) -> str:
        """ "3 layers"."""
        return count(len({name for entry in self.entries for name in entry.names}), self.noun)


def verdict(report: CheckReport) -> Tuple[str, str]:
    """(tone, word) of the whole model, as pages and tables say it."""
    totals = report.totals
    if report.platform.dla_unknown:
        return "unknown", "Unknown whether there is a DLA"
    if not report.platform.has_dla:
        return "plain", "No DLA here"
    if report.strict is not None and report.strict.passes is False:
        return "bad", "Does not build"
    if unknowns(report) or (report.strict is not None and report.strict.passes is None):
        return "unknown", "Unknown in part"
    if not totals.layers_dla:
        return ("bad" if totals.layers_gpu else "plain"), "Nothing on the DLA"
    return ("mixed", "Partly on the DLA") if totals.layers_gpu else ("good", "All on the DLA")


def sentence(report: CheckReport) -> str:
    """The verdict with its numbers, in one or two short sentences."""
    totals = report.totals
    if report.platform.no_dla:
        return report.platform.no_dla
    if report.strict is not None and report.strict.passes is False:
        return headline(report).text
    live = totals.layers_dla + totals.layers_gpu
    text = f"{totals.layers_dla} of {live} layers run on the DLA."
    n = unknowns(report)
    if n:
        text += f" {n} {'is' if n == 1 else 'are'} unknown and counted on the GPU."
    return text


def headline(report: CheckReport) -> Headline:
    """The verdict on the whole model, for the mode that was asked for."""
    totals = report.totals
    if report.platform.dla_unknown:
        return Headline("unknown", f"UNKNOWN WHETHER THERE IS A DLA: {report.platform.no_dla}")
    if not report.platform.has_dla:
        return Headline("bad", f"NO DLA HERE: {report.platform.no_dla}")
    if report.strict is not None and report.strict.passes is False:
        at = report.strict.first_offender or "the network as a whole"
        return Headline("bad", f"FAILS as a {build_kind(report)}, at {at}")
    live = totals.layers_dla + totals.layers_gpu
    share = f"{totals.layers_dla} of {live} layers"
    if totals.macs:
        share += f" ({percent(totals.share_macs_dla)} of MACs)"
    loadables = count(totals.regions, "loadable")
    if report.strict is not None and report.strict.passes is None and report.strict.unknowns:
        first, *others = report.strict.unknowns
        more = f" and {len(others)} more" if others else ""
        return Headline(
            "unknown", f"NOT KNOWN whether the {build_kind(report)} succeeds: {first}{more}; {share} on the DLA"
        )
    n = unknowns(report)
    if n:
        open_ones = f"{n} {'layer is' if n == 1 else 'layers are'} unknown"
        return Headline("unknown", f"UNKNOWN IN PART: {open_ones}; {share} on the DLA in {loadables}")
    if report.strict is not None and report.strict.passes is None:
        return Headline("unknown", f"UNKNOWN whether the {build_kind(report)} succeeds; {share} on the DLA")
    if live == 0:
        return Headline("mixed", "NOTHING TO RUN: TensorRT works out the whole network when it builds the engine")
    if totals.layers_dla == 0:
        alone = "the only layer runs" if live == 1 else f"all {live} layers run"
        return Headline("bad", f"NOTHING ON THE DLA: {alone} on the GPU")
    if totals.layers_gpu == 0:
        return Headline("good", f"ALL ON THE DLA: {count(live, 'layer')} in {loadables}")
    return Headline("mixed", f"PARTLY ON THE DLA: {share} in {loadables}, {totals.layers_gpu} on the GPU")


def costs(report: CheckReport) -> Iterator[Tuple[str, str]]:
    """(label, text) of the predicted cost of one frame, as placed and on the GPU alone."""
    from edgedla.reports.worth import way

    parts: List[str] = []
    for name, where in (("tensorrt", "as placed above"), ("gpu", "on the GPU alone")):
        priced = way(report, name)
        if priced is not None:
            cost, unit = priced.cost, "" if parts else " per frame"
            parts.append(f"{cost.latency_us / 1e3:.3g} ms{unit} (±{cost.spread * 100:.0f} %, {cost.basis}) {where}")
    if parts:
        yield "cost", f"predicted {'; '.join(parts)}"


def build_kind(report: CheckReport) -> str:
    """What a mode without fallback builds."""
    return "standalone loadable" if report.mode == "standalone" else "build without GPU fallback"


def subject(report: CheckReport) -> str:
    """Model, platform, precision and mode in one line."""
    p = report.platform
    release = f"TensorRT {p.release.trt_text}"
    if p.release.jetpack:
        release = f"JetPack {p.release.jetpack}, {release}"
    mode = {"fallback": "with GPU fallback", "strict": "without GPU fallback", "standalone": "standalone loadable"}
    return f"{report.model} on {p.module.title} ({p.module.id}), {release}, {report.precision.upper()}, {mode[report.mode]}"


def is_unknown(layer: LayerReport) -> bool:
    """Whether nobody knows of the layer: by its own rules, or by TensorRT's second look."""
    nobody_knows = layer.support is Support.UNKNOWN or layer.cause is Cause.UNKNOWN
    return nobody_knows and layer.placed is not Placed.FOLDED


def unknown_nodes(report: CheckReport) -> Tuple[NodeReport, ...]:
    """ONNX nodes of which nobody knows what TensorRT makes: there is no layer to speak of."""
    return tuple(node for node in report.nodes if node.support is Support.UNKNOWN and not node.layers)


def unknowns(report: CheckReport) -> int:
    """How many layers, and nodes without a layer, nobody knows of."""
    return sum(map(is_unknown, report.layers)) + len(unknown_nodes(report))


def refused(report: CheckReport) -> Tuple[Group, ...]:
    """Layers on the GPU because of what they are themselves, by rule; the largest group first."""
    return _grouped(report, lambda layer: layer.placed is Placed.GPU and layer.cause.is_root and not is_unknown(layer))


def unknown(report: CheckReport) -> Tuple[Group, ...]:
    """Layers, and nodes without a layer, of which nobody knows, by rule."""
    nodes_by_reason: Dict[str, List[str]] = {}
    for node in unknown_nodes(report):
        nodes_by_reason.setdefault(node.reason, []).append(f"{node.op} {node.name}")
    entries = tuple(Entry(reason, tuple(names)) for reason, names in nodes_by_reason.items())
    nodes = (Group("unknown", "ONNX nodes whose layers nobody knows", entries, "node"),) if entries else ()
    return nodes + _grouped(report, is_unknown)


def knocked_on(report: CheckReport) -> Tuple[Group, ...]:
    """Layers that the DLA could run, on the GPU because of others, by cause."""
    return _grouped(report, lambda layer: layer.placed is Placed.GPU and not layer.cause.is_root)


def warnings(report: CheckReport) -> Tuple[Group, ...]:
    """What holds for layers that do run on the DLA: warnings and slow forms, by rule."""
    groups = _Groups()
    for layer in report.layers:
        if layer.placed is Placed.DLA:
            for finding in layer.findings:
                if finding.effect in (Effect.WARN, Effect.SLOW):
                    groups.add(finding.rule, finding.rule_name, finding.message, layer, finding.fixes)
    return groups.sorted()


def sections(report: CheckReport) -> Tuple[Tuple[str, str, Tuple[Group, ...]], ...]:
    """(title, tone, groups) of all findings on layers, failures first; without the empty ones."""
    if not report.platform.has_dla:
        return ()
    candidates = (
        ("Refused by the DLA", "bad", refused(report)),
        ("Unknown: verify on the device", "unknown", unknown(report)),
        ("On the GPU because of other layers", "mixed", knocked_on(report)),
        ("Runs on the DLA, but", "title", warnings(report)),
    )
    return tuple(section for section in candidates if section[2])


CAUSES = {
    Cause.RULE: "refused",
    Cause.UNKNOWN: "no rule and no evidence",
    Cause.VALIDATION: "refused by TensorRT's second look, inside its group",
    Cause.FUSED: "merged into a layer that the GPU runs",
    Cause.SUBGRAPH_LIMIT: "over the limit of loadables per core",
    Cause.NO_DLA: "no DLA",
    Cause.OPEN_SIZES: "sizes left open by a network input",
}


def decisive(layer: LayerReport) -> Tuple[Finding, ...]:
    """The findings behind where the layer ends: rejections, else what is unknown."""
    rejections = tuple(f for f in layer.findings if f.effect is Effect.REJECT)
    return rejections or tuple(f for f in layer.findings if f.effect is Effect.UNKNOWN)


def fix_text(fixes: Iterable[str]) -> str:
    """Remedies by title, with their ids: `Use a narrower input (narrower-input)`."""
    known = load_fixes()
    return "; ".join(f"{known[fix]['title']} ({fix})" if fix in known else fix for fix in fixes)


def fix_command(report: CheckReport) -> List[str]:
    """The command that does ranked changes, in one line; none where no remedy of theirs has a rewrite."""
    known = remedies()
    named = dict.fromkeys(f for c in report.ranking for f in c.fixes if f in known and known[f].rewrites)
    if not named or report.with_fixes is not None:
        return []
    return [f"`edgedla fix MODEL -o OUT` rewrites what pays and proves it; it knows {', '.join(named)}"]


def with_fixes(report: CheckReport) -> List[Tuple[int, str]]:
    """(indent, line) of what `edgedla fix` would make of the model, where the report holds it."""
    fixed = report.with_fixes
    if fixed is None:
        return []
    after = fixed["after"]
    lines = [(0, ""), (0, "With `edgedla fix` (predicted)")]
    if not fixed["rewrites"]:
        return [*lines, (2, "nothing changes: no rewrite holds here, or none lowers the predicted cost")]
    lines.append((2, ", ".join(f"{n} {rewrite}" for rewrite, n in fixed["rewrites"].items())))
    text = f"{count(after['loadables'], 'loadable')}, {count(after['transitions'], 'transition')}, "
    text += (
        f"{after['layers_dla']} of {after['layers']} layers and {percent(after['share_macs_dla'])} of MACs on the DLA"
    )
    if fixed["speedup"]:
        text += f"; {after['latency_us'] / 1e3:.3g} ms per frame, 1/{fixed['speedup']:.2f} of now"
    lines.append((2, text))
    if after["passes"] is not None:
        lines.append((2, f"a {report.mode} build {'passes' if after['passes'] else 'still fails'}"))
    return [*lines, *((2, text) for text in fixed["interface"])]


def remedy_text(fix: str) -> str:
    """What to do, in one or two sentences; "" for a remedy that is not known."""
    return load_fixes()[fix]["text"] if fix in load_fixes() else ""


def percent(share: float) -> str:
    """A share as text; only what is exactly all or nothing is called 100 % or 0 %."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    return f"{min(max(share * 100, 0.1), 99.9):.1f} %"


def gains(report: CheckReport, change: RankedChange) -> str:
    """What a change brings on top of those before it: `+2 layers, +0.1 % of MACs, 1 loadable fewer`."""
    parts = [f"{change.layers_gained:+d} layer{'s' * (abs(change.layers_gained) != 1)}"]
    if report.totals.macs:
        sign = "-" if change.macs_gained < 0 else "+"
        parts.append(f"{sign}{percent(abs(change.macs_gained) / report.totals.macs)} of MACs")
    if change.regions_merged:
        fewer = "fewer" if change.regions_merged > 0 else "more"
        parts.append(f"{count(abs(change.regions_merged), 'loadable')} {fewer}")
    return ", ".join(parts)


def place_of(layer: LayerReport) -> str:
    """Where the user finds the layer: its line in the model's own code where the file says it, else its name."""
    if layer.source is not None and layer.source.file:
        return str(layer.source)
    return layer.name or f"(unnamed {layer.type})"


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def macs_text(macs: int) -> str:
    """MACs with a decimal prefix: 4.09 G."""
    for size, prefix in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if macs >= size:
            return f"{macs / size:.3g} {prefix}"
    return str(macs)


def _layer(layer: LayerReport) -> str:
    nodes = [n for n in layer.onnx_nodes if n and n != layer.name]
    return f"{layer.type} {layer.name}" + (f"  from {', '.join(nodes)}" if nodes else "")


class _Groups:
    """Collects layers by rule and message, in the order in which they come."""

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


def _grouped(report: CheckReport, wanted: Callable[[LayerReport], bool]) -> Tuple[Group, ...]:
    groups = _Groups()
    for layer in filter(wanted, report.layers):
        reasons = decisive(layer) if layer.cause.is_root else ()
        for finding in reasons:
            groups.add(finding.rule, finding.rule_name, finding.message, layer, finding.fixes)
        if not reasons:
            groups.add(str(layer.cause), CAUSES.get(layer.cause, ""), layer.reason, layer)
    return groups.sorted()
