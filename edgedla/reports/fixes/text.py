"""The answer of `fix` as text: what was rewritten, the figures before and after, the proofs, and what stays."""

from __future__ import annotations

from typing import Dict, Iterator, List, Sequence, Tuple

from edgedla.fixes.judge import Figures
from edgedla.fixes.result import FixResult, RefusedSite, speedup
from edgedla.reports.summary import count, percent
from edgedla.reports.text import Line, aligned, clean

#: Offenders and refusals named before "and N more".
SHOWN = 8


def subject(result: FixResult) -> str:
    p = result.platform
    return f"{clean(result.name)} on {p['title']}, {result.precision.upper()}, TensorRT {p['trt']}, for {result.purpose} builds"


def headline(result: FixResult) -> Tuple[str, str]:
    """(style, one sentence)."""
    if not result.applied:
        return "mixed", "nothing to rewrite: no rewrite holds here, or none lowers the predicted cost"
    kinds = ", ".join(f"{n} {rewrite}" for rewrite, n in result.counts.items())
    sentence = f"{count(len(result.applied), 'site')} rewritten: {kinds}"
    if result.purpose == "hybrid":
        gain = speedup(result.before, result.after)
        if gain is not None:
            sentence += f"; 1/{gain:.2f} of the latency per frame (predicted)" if gain >= 1 else ""
        return "good", sentence
    if result.after.passes:
        return "good", f"{sentence}; a {result.purpose} build passes (predicted)"
    return (
        "bad",
        f"{sentence}; a {result.purpose} build still fails: {count(len(result.after.offenders), 'layer')} in its way",
    )


def figure_rows(before: Figures, after: Figures) -> List[Tuple[str, str, str]]:
    """(what, before, after); times are predicted."""

    def us(value: object) -> str:
        return f"{value:.0f} us" if isinstance(value, float) else "-"

    if before.refused:
        rows = [("parser", f"refused: {clean(before.refused)}", "accepted" if not after.refused else "refused")]
        before = Figures()
    else:
        rows = []
    rows += [
        ("DLA loadables", str(before.loadables), str(after.loadables)),
        ("dropped by the cap", str(before.dropped), str(after.dropped)),
        ("transitions", str(before.transitions), str(after.transitions)),
        ("layers on the DLA", f"{before.layers_dla} of {before.layers}", f"{after.layers_dla} of {after.layers}"),
        ("unknown layers", str(before.layers_unknown), str(after.layers_unknown)),
        ("MACs on the DLA", percent(before.share_macs_dla), percent(after.share_macs_dla)),
        ("MACs", f"{before.macs / 1e9:.3f} G", f"{after.macs / 1e9:.3f} G"),
        ("latency per frame", us(before.latency_us), us(after.latency_us)),
        ("latency, all on the GPU", us(before.gpu_us), us(after.gpu_us)),
    ]
    return rows


def proof_text(result: FixResult) -> str:
    """How far the rewritten network is proven."""
    proofs = result.proofs()
    parts = [f"{n} {status}" for status, n in sorted(proofs.items())]
    sentence = "sites: " + (", ".join(parts) if parts else "none")
    network = result.network
    if network.within is None:
        return f"{sentence}; whole network: {network.detail}"
    verdict = "within its own noise" if network.within else "outside its own noise"
    return f"{sentence}; whole network: {verdict} (differs by {network.rel_l2:.1e}, noise {network.noise:.1e}, relative L2)"


def refused_groups(result: FixResult) -> List[Tuple[str, str, str, List[str]]]:
    """(cause, rewrite, reason, nodes) of places that stay, the reasons with most nodes first."""
    groups: Dict[Tuple[str, str, str], List[str]] = {}
    for site in result.refused:
        groups.setdefault((site.cause, site.rewrite, _generic(site)), []).append(clean(site.node))
    return [(*key, nodes) for key, nodes in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))]


def _generic(site: RefusedSite) -> str:
    """The reason without the name of one value, so that like places group."""
    return " ".join("..." if "/" in word and len(word) > 8 else word for word in clean(site.reason).split())


def report_lines(result: FixResult, written: Sequence[str] = ()) -> Iterator[Line]:
    """The report, line by line."""
    yield "title", 0, subject(result)
    style, sentence = headline(result)
    yield style, 0, sentence
    yield "", 0, ""
    rows = [("", "before", "after"), *figure_rows(result.before, result.after)]
    yield from (("", 2, line) for line in aligned(rows))
    yield "dim", 2, "predicted by edgedla's cost model"
    yield "", 0, ""
    yield "", 0, f"Proofs (ONNX Runtime, CPU): {proof_text(result)}"
    yield from (("mixed", 2, clean(text)) for text in result.interface)
    yield from (("mixed", 2, clean(note)) for note in result.notes)
    yield from _refused(result)
    if result.after.offenders and result.purpose != "hybrid":
        yield from (("", 0, ""), ("title", 0, f"Still in the way of a {result.purpose} build"))
        yield "", 2, _some([clean(o) for o in result.after.offenders])
    for path in written:
        yield "", 0, f"written: {path}"


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
