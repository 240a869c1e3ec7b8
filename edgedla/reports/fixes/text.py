"""The answer of `fix` as text: rewrites, figures before and after, proofs, and remaining refusals."""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from edgedla.fixes.judge import Figures, pays, value_of
from edgedla.fixes.result import FixResult, RefusedSite
from edgedla.reports.page.numbers import beside, milliseconds, significant
from edgedla.reports.text import Line, aligned, clean
from edgedla.reports.words import count, macs_text, percent

#: Offenders and refusals named before "and N more".
SHOWN = 8
_ERROR = re.compile(r"differs by \S+ \(relative L2\), allowed is (\S+)")


def _time(value_us: Optional[float]) -> str:
    return "-" if value_us is None else milliseconds(value_us)


#: (name, function that gives its text), for every network.
ROWS: Tuple[Tuple[str, Callable[[Figures], str]], ...] = (
    ("DLA loadables", lambda f: str(f.loadables)),
    ("dropped by the cap", lambda f: str(f.dropped)),
    ("transitions", lambda f: str(f.transitions)),
    ("layers on the DLA", lambda f: f"{f.layers_dla} of {f.layers}"),
    ("unknown layers", lambda f: str(f.layers_unknown)),
    ("MACs on the DLA", lambda f: percent(f.share_macs_dla)),
    ("MACs", lambda f: macs_text(f.macs)),
    ("latency per frame", lambda f: _time(f.latency_us)),
    ("latency on the GPU alone", lambda f: _time(f.gpu_us)),
)
#: One more row for the requested objective.
OBJECTIVE_ROWS: Mapping[str, Tuple[str, Callable[[Figures], str]]] = {
    "throughput": ("busiest device, per frame", lambda f: _time(f.period_us)),
    "gpu-time": ("GPU time per frame", lambda f: _time(f.busy_gpu_us)),
    "energy": ("energy per frame", lambda f: "-" if f.energy_mj is None else f"{significant(f.energy_mj)} mJ"),
}
#: The objective in the headline of a gain; the number of loadables is in the table.
OBJECTIVE_WORDS: Mapping[str, str] = {
    "latency": "latency per frame",
    "throughput": "busiest device's time per frame",
    "energy": "energy per frame",
    "gpu-time": "GPU time per frame",
}


def subject(result: FixResult) -> str:
    return f"{clean(result.name)} on {build_of(result)}"


def build_of(result: FixResult) -> str:
    """Module, precision, release and purpose."""
    p = result.platform
    return f"{p['title']}, {result.precision.upper()}, TensorRT {p['trt']}, for {result.purpose} builds"


def headline(result: FixResult) -> Tuple[str, str]:
    """(style, one sentence)."""
    if not result.applied and result.purpose != "hybrid" and result.after.passes:
        return "good", f"nothing to rewrite: a {result.purpose} build passes as it is (predicted)"
    if result.after.refused:
        return "bad", f"TensorRT's parser {'still ' if result.applied else ''}refuses it"
    if not result.applied and result.types:
        return "good", f"{result.types.partition(' (')[0]}, no site rewritten{_gain(result)}"
    if not result.applied and result.before.refused:
        return "good", f"no site rewritten; accepted now, before: {clean(result.before.refused)}"
    if not result.applied:
        gain = _gain(result)
        if gain:
            # Constants are folded whatever else is done.
            return "good", f"no site rewritten; constants folded{gain}"
        return "mixed", "nothing to rewrite: none applies, or none lowers the predicted cost"
    kinds = ", ".join(f"{n} {rewrite}" for rewrite, n in result.counts.items())
    sentence = f"{count(len(result.applied), 'site')} rewritten: {kinds}"
    if result.before.refused and not result.after.refused:
        sentence += f"; accepted now, before: {clean(result.before.refused)}"
    if result.purpose == "hybrid":
        if not pays(result.before, result.after, result.purpose, result.objective):
            return "mixed", f"{sentence}; no notable gain (predicted)"
        return "good", sentence + _gain(result)
    if result.after.passes:
        return "good", f"{sentence}; a {result.purpose} build passes (predicted)"
    return ("bad", f"{sentence}; a {result.purpose} build still fails: {count(len(result.after.offenders), 'layer')} in its way")


def _gain(result: FixResult) -> str:
    """The predicted gain of the objective; "" if it is unknown or not a gain."""
    if result.objective not in OBJECTIVE_WORDS:
        return ""
    before, after = (value_of(figures, result.objective) for figures in (result.before, result.after))
    if not 0 < after <= before < float("inf"):
        return ""
    times = f"{before / after:.2f}"
    gain = f"; {OBJECTIVE_WORDS[result.objective]} {times} times better (predicted)" if times != "1.00" else ""
    return gain + against_gpu(result) if gain else ""


def against_gpu(result: FixResult) -> str:
    """The fixed model against the user's own on the GPU alone: what decides whether to use the DLA; "" if it is not known."""
    now, alone = result.after.latency_us, result.before.gpu_us
    if not now or not alone or result.purpose != "hybrid":
        return ""
    return f"; now {milliseconds(now)}, {beside(now, alone)} your model on the GPU alone ({milliseconds(alone)})"


def figure_rows(before: Figures, after: Figures, objective: str = "latency") -> List[Tuple[str, str, str]]:
    """(name, before, after); times and energy are predicted. A network that the parser refuses has no figures."""

    def cells(what: str, text: Callable[[Figures], str]) -> Tuple[str, str, str]:
        return what, "-" if before.refused else text(before), "-" if after.refused else text(after)

    rows = [cells(what, text) for what, text in ROWS]
    if objective in OBJECTIVE_ROWS:
        rows.append(cells(*OBJECTIVE_ROWS[objective]))
    if before.refused or after.refused:
        parser = ["refuses it" if f.refused else "takes it" for f in (before, after)]
        rows.insert(0, ("TensorRT's parser", parser[0], parser[1]))
    return rows


def proof_text(result: FixResult) -> str:
    """How far the rewritten network is proven."""
    proofs = result.proofs()
    parts = [f"{n} {status}" for status, n in sorted(proofs.items())]
    sentence = "sites: " + (", ".join(parts) if parts else "none")
    network = result.network
    if network.within is None:
        return f"{sentence}; whole network: {network.detail}"
    if not network.rel_l2:
        return f"{sentence}; whole network: no difference"
    verdict = "within rounding" if network.within else "beyond rounding"
    if network.within and any(site.proof.equality == "approximate" for site in result.applied):
        verdict = "within the error that was allowed"
    return f"{sentence}; whole network: {verdict} (differs by {network.rel_l2:.1e}, noise {network.noise:.1e}, relative L2)"


def refused_groups(result: FixResult) -> List[Tuple[str, str, str, List[str]]]:
    """(cause, rewrite, reason, nodes) of sites that stay; the reasons with most nodes first."""
    groups: Dict[Tuple[str, str, str], List[str]] = {}
    for site in result.refused:
        groups.setdefault((site.cause, site.rewrite, _generic(site)), []).append(clean(site.node))
    return [(*key, nodes) for key, nodes in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))]


def _generic(site: RefusedSite) -> str:
    """The reason without a value's name or its error, so that similar sites form one group."""
    if site.cause == "proof":
        return _ERROR.sub(r"differs by more than the allowed \1 (relative L2)", clean(site.reason))
    return " ".join("..." if "/" in word and len(word) > 8 else word for word in clean(site.reason).split())


def report_lines(result: FixResult) -> Iterator[Line]:
    """The report, line by line."""
    yield "title", 0, subject(result)
    style, sentence = headline(result)
    yield style, 0, sentence
    yield "", 0, ""
    rows = [("", "before", "after"), *figure_rows(result.before, result.after, result.objective)]
    yield from (("", 2, line) for line in aligned(rows))
    yield "dim", 2, "predicted by edgedla's cost model"
    yield "", 0, ""
    yield "", 0, f"Proofs (ONNX Runtime, CPU): {proof_text(result)}"
    if result.types:
        yield "", 0, clean(f"T{result.types[1:]}")
    yield from (("mixed", 2, clean(text)) for text in result.interface)
    yield from (("mixed", 2, clean(note)) for note in result.notes)
    yield from _refused(result)
    if result.after.offenders and result.purpose != "hybrid":
        yield from (("", 0, ""), ("title", 0, f"Still in the way of a {result.purpose} build"))
        yield "", 2, _some([clean(o) for o in result.after.offenders])


def _refused(result: FixResult) -> Iterator[Line]:
    groups = refused_groups(result)
    if not groups:
        return
    yield from (("", 0, ""), ("title", 0, "Not rewritten"))
    for _, rewrite, reason, nodes in groups[:SHOWN]:
        yield "", 2, f"{rewrite} ({len(nodes)}): {reason}"
        yield "dim", 4, _some(nodes[:3] if len(nodes) > 3 else nodes, len(nodes))
    if len(groups) > SHOWN:
        yield "dim", 2, f"and {len(groups) - SHOWN} more reasons; --format json has them all"


def _some(names: Sequence[str], total: int = 0) -> str:
    total = total or len(names)
    shown = names[:SHOWN]
    return ", ".join(shown) + (f", and {total - len(shown)} more" if total > len(shown) else "")
