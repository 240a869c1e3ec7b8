"""The answer of `fix` as one HTML page: figures, both networks coloured by device, each rewrite with its gain and proof."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Set, Tuple

from edgedla.fixes.result import FixResult, PlacedLayer
from edgedla.reports.fixes.rewrites import rewrite_rows
from edgedla.reports.fixes.text import build_of, figure_rows, headline, proof_text, refused_groups
from edgedla.reports.page.figures import Fact, Figure
from edgedla.reports.page.render import render_page
from edgedla.reports.page.verdict import Verdict

#: Offenders named on the page.
MOST_NAMED = 40


def to_html(result: FixResult) -> str:
    """The page. Names from the model are escaped; a policy in the page forbids every load."""
    style, sentence = headline(result)
    network = result.network
    proven = "good" if network.within else "unknown" if network.within is None else "bad"
    changed_before = {name for site in result.applied for name in site.before}
    changed_after = {name for site in result.applied for name in site.after}
    return render_page(
        "fix.html.j2",
        command="fix",
        title=f"{result.name} fixed",
        name=result.name,
        about=build_of(result),
        answers=[
            Verdict(style, "Rewritten" if result.applied or result.types else "Nothing changed", sentence),
            Verdict(proven, "Proven" if network.within else "Not proven as a whole", proof_text(result)),
        ],
        figures=[
            Figure(what, after, note=f"before: {before}")
            for what, before, after in figure_rows(result.before, result.after, result.objective)
        ],
        sites=rewrite_rows(result),
        interface=result.interface,
        networks=[
            ("Before", _cells(result.layers_before, changed_before)),
            ("After", _cells(result.layers_after, changed_after)),
        ],
        refused=[
            {"rewrite": rewrite, "count": len(nodes), "reason": reason, "first": nodes[0]}
            for _, rewrite, reason, nodes in refused_groups(result)
        ],
        offenders=result.after.offenders[:MOST_NAMED] if result.purpose != "hybrid" else (),
        purpose=result.purpose,
        facts=[
            Fact("Figures", "predicted by edgedla's cost model, TensorRT's own placement", "predicted"),
            Fact("Proofs", "each site by itself, ONNX Runtime without optimisation on the CPU", "measured"),
            *(Fact("Note", note) for note in (result.types, *result.notes) if note),
        ],
    )


def _cells(layers: Sequence[PlacedLayer], changed: Set[str]) -> List[Mapping[str, Any]]:
    styles = {"dla": "cell", "gpu": "cell no", "folded": "cell gone"}
    return [
        {"style": styles[layer.placed], "device": layer.placed, "changed": layer.node in changed, "title": _title(layer)}
        for layer in layers
    ]


def _title(layer: PlacedLayer) -> str:
    where = f"loadable {layer.loadable}" if layer.loadable is not None else layer.placed.upper()
    parts: Tuple[str, ...] = (f"{layer.type} {layer.name}", where, layer.reason)
    return ": ".join(p for p in parts if p)
