"""The test report of a deployment as one page: before and after, both networks, timeline, errors, proofs, commands."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

from edgedla.deployment.deployment import Deployment
from edgedla.reports.deployment.rows import TONES, answer, basis, gain, proofs, repeats, rows, subject, unchanged, worth
from edgedla.reports.page.figures import Fact, Figure
from edgedla.reports.page.numbers import significant
from edgedla.reports.page.render import render_page
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.text import clean
from edgedla.text.printable import number


def to_html(deployment: Deployment, terminal: bool = False) -> str:
    """The page. Names from the model are escaped; a policy in the page forbids every load."""
    tone, word, sentence = answer(deployment)
    table = rows(deployment)
    shown = {r.what: r for r in table}
    better = deployment.first.value(deployment.request.objective) > deployment.best.value(deployment.request.objective)
    moved = "Better" if better else "Unchanged" if unchanged(deployment) else "Equal"
    return render_page(
        "deployment.html.j2",
        command="deploy",
        title=f"{deployment.name} deployed",
        name=deployment.name,
        about=subject(deployment),
        answers=[
            Verdict(tone, word, sentence),
            Verdict("good" if better else "plain", moved, gain(deployment)),
            *(Verdict(*said) for said in worth(deployment)),
        ],
        figures=[
            Figure(what, shown[what].after, note=f"before: {shown[what].before}")
            for what in ("Latency per frame", "Frames per second", "Energy per frame", "Layers on the DLA")
        ],
        rows=table,
        trials=[{**t.to_dict(), "tone": TONES[t.outcome]} for t in deployment.trials],
        proofs=proofs(deployment),
        networks=[("Before", _cells(deployment.details["layers_before"])), ("After", _cells(deployment.details["layers_after"]))],
        timeline=_timeline(deployment),
        errors=[
            {
                "tensor": e["tensor"],
                "alone": _db(e["alone_db"]),
                "together": _db(e["accumulated_db"]),
                "share": "-" if e["output_share"] is None else significant(e["output_share"]),
            }
            for e in deployment.details["errors"]
        ],
        fp16_layers=sorted(deployment.details["mixed_precision"]),
        commands=deployment.commands,
        repeats=repeats(deployment),
        facts=[Fact(name, text, badge, name.startswith("SHA")) for name, text, badge in basis(deployment)],
    )


def _db(value: Any) -> str:
    return "-" if value is None else number(value, ".1f")


def _cells(layers: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    def style(device: str) -> str:
        return "cell gone" if not device else "cell no" if device == "GPU" else "cell"

    def title(layer: Mapping[str, Any]) -> str:
        where = layer["device"] or "folded"
        where += f", loadable {layer['loadable']}" if layer["loadable"] is not None else ""
        return ": ".join(p for p in (f"{layer['type']} {layer['name']}", where, str(layer["reason"])) if p)

    return [{"style": style(x["device"]), "device": x["device"], "title": clean(title(x))} for x in layers]


def _timeline(deployment: Deployment) -> str:
    """SVG of the placement; "" if TensorRT places, because there is no timeline for that."""
    if deployment.best.placement is None:
        return ""
    from edgedla.placement.result.document import read_placement
    from edgedla.reports.placement.timeline import timeline_svg

    return timeline_svg(read_placement(deployment.best.placement))
