"""What every form of a check report says first: the headline, the key figures, and the layers grouped by cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Cause, Placed
from edgedla.rules.docs import fixes as load_fixes
from edgedla.rules.verdict import Effect, Finding, Support


@dataclass(frozen=True)
class Headline:
    """The answer in one line. `tone` is "good", "mixed", "bad" or "unknown"."""

    tone: str
    text: str


@dataclass(frozen=True)
class Group:
    """Layers that share a rule or cause.

    Attributes:
        key: rule id, or the cause where no rule stands behind it.
        title: the rule's name, or the cause in words.
        entries: (message, layers with that message), in network order.
    """

    key: str
    title: str
    entries: Tuple[Tuple[str, Tuple[LayerReport, ...]], ...]

    @property
    def layers(self) -> int:
        return len({layer.index for _, layers in self.entries for layer in layers})


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
    loadables = f"{totals.regions} {'loadable' if totals.regions == 1 else 'loadables'}"
    if totals.layers_unknown:
        unknown = f"{totals.layers_unknown} {'layer is' if totals.layers_unknown == 1 else 'layers are'} unknown"
        return Headline("unknown", f"UNKNOWN IN PART: {unknown}; {share} on the DLA in {loadables}")
    if report.strict is not None and report.strict.passes is None:
        return Headline("unknown", f"UNKNOWN whether the {build_kind(report)} succeeds; {share} on the DLA")
    if totals.layers_dla == 0:
        return Headline("bad", f"NOTHING ON THE DLA: all {live} layers run on the GPU")
    if totals.layers_gpu == 0:
        return Headline("good", f"ALL ON THE DLA: {live} layers in {loadables}")
    return Headline("mixed", f"PARTLY ON THE DLA: {share} in {loadables}, {totals.layers_gpu} on the GPU")


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
    return f"{report.model} on {p.module.title} ({p.module.id}), {release}, {report.precision}, {mode[report.mode]}"


def refused(report: CheckReport) -> Tuple[Group, ...]:
    """Layers on the GPU because of what they are themselves, by rule; the largest group first."""
    return _grouped(report, lambda layer: layer.placed is Placed.GPU and layer.cause.is_root and not _unknown(layer))


def unknown(report: CheckReport) -> Tuple[Group, ...]:
    """Layers of which nobody knows, by rule."""
    return _grouped(report, lambda layer: layer.placed is not Placed.FOLDED and _unknown(layer))


def knocked_on(report: CheckReport) -> Tuple[Group, ...]:
    """Layers that the DLA could run, on the GPU because of others, by cause."""
    return _grouped(report, lambda layer: layer.placed is Placed.GPU and not layer.cause.is_root)


def warnings(report: CheckReport) -> Tuple[Group, ...]:
    """What holds for layers that do run on the DLA: warnings and slow forms, by rule."""
    found: Dict[str, Dict[str, List[LayerReport]]] = {}
    names: Dict[str, str] = {}
    for layer in report.layers:
        if layer.placed is not Placed.DLA:
            continue
        for finding in layer.findings:
            if finding.effect in (Effect.WARN, Effect.SLOW):
                found.setdefault(finding.rule, {}).setdefault(finding.message, []).append(layer)
                names[finding.rule] = finding.rule_name
    return _as_groups(found, names)


CAUSES = {
    Cause.RULE: "refused",
    Cause.UNKNOWN: "no rule and no evidence",
    Cause.VALIDATION: "refused by TensorRT's second look, inside its candidate",
    Cause.FUSED: "merged into a layer that the GPU runs",
    Cause.SUBGRAPH_LIMIT: "over the number of loadables one core takes",
    Cause.NO_DLA: "no DLA",
}


def decisive(layer: LayerReport) -> Tuple[Finding, ...]:
    """The findings behind where the layer ends: rejections, else what is unknown."""
    rejections = tuple(f for f in layer.findings if f.effect is Effect.REJECT)
    return rejections or tuple(f for f in layer.findings if f.effect is Effect.UNKNOWN)


def fix_text(fixes: Iterable[str]) -> str:
    """Remedies by title, with their ids: `Use a narrower input (narrower-input)`."""
    known = load_fixes()
    return "; ".join(f"{known[fix]['title']} ({fix})" if fix in known else fix for fix in fixes)


def percent(share: float) -> str:
    """A share as text; only what is exactly all or nothing is called 100 % or 0 %."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    return f"{min(max(share * 100, 0.1), 99.9):.1f} %"


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def macs_text(macs: int) -> str:
    """MACs with a decimal prefix: 4.09 G."""
    for size, prefix in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if macs >= size:
            return f"{macs / size:.3g} {prefix}"
    return str(macs)


def _unknown(layer: LayerReport) -> bool:
    return layer.support is Support.UNKNOWN


def _grouped(report: CheckReport, wanted: Callable[[LayerReport], bool]) -> Tuple[Group, ...]:
    found: Dict[str, Dict[str, List[LayerReport]]] = {}
    names: Dict[str, str] = {}
    for layer in report.layers:
        if not wanted(layer):
            continue
        reasons = decisive(layer) if layer.cause in (Cause.RULE, Cause.UNKNOWN) else ()
        for finding in reasons:
            found.setdefault(finding.rule, {}).setdefault(finding.message, []).append(layer)
            names[finding.rule] = finding.rule_name
        if not reasons:
            found.setdefault(str(layer.cause), {}).setdefault(layer.reason, []).append(layer)
            names[str(layer.cause)] = CAUSES.get(layer.cause, "")
    return _as_groups(found, names)


def _as_groups(found: Dict[str, Dict[str, List[LayerReport]]], names: Dict[str, str]) -> Tuple[Group, ...]:
    groups = [
        Group(key, names[key], tuple((message, tuple(layers)) for message, layers in messages.items()))
        for key, messages in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.layers, group.key)))
