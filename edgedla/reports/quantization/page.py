"""The report of `edgedla quantize` as one page: error by tensor, histograms with thresholds, the steps tried."""

from __future__ import annotations

import math
from typing import List, Tuple

from edgedla.accuracy.result import Quantized
from edgedla.quantization.methods import DEFAULT
from edgedla.reports.page.figures import Fact, Figure
from edgedla.reports.page.render import render_page
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.quantization.drawing import error_drawing, histogram_drawing
from edgedla.reports.quantization.text import db, group_text, judged, repaired


def to_page(r: Quantized, terminal: bool = False) -> str:
    """One HTML file without scripts or external resources."""
    from markupsafe import Markup

    missing = len(r.coverage.missing)
    total = len(r.coverage.tensors)
    return render_page(
        "quantization.html.j2",
        command="quantize",
        title=f"{r.network} in INT8",
        r=r,
        verdicts=(*_channels(r), _error(r), _goal(r)),
        figures=(
            *_sqnr(r),
            Figure("Tensors with a scale", f"{total - missing}", f"of {total}", "", (total - missing) / max(total, 1)),
            *([Figure("INT8 nodes", str(r.nodes["dla_int8"]), f"of {sum(r.nodes.values())}", "on the DLA")] if r.nodes else []),
            Figure("Layers in FP16", str(len(r.precisions)), "", "chosen by repair"),
            *(
                [Figure("Steps add", f"{r.predicted_us['extra'] / 1e3:.2f}", "ms", "per frame, predicted")]
                if r.predicted_us
                else []
            ),
        ),
        errors=Markup(error_drawing(r.errors, [t.tensor for t in r.coverage.tensors])),
        pictures=[(h, Markup(histogram_drawing(h))) for h in r.histograms],
        basis=_basis(r),
        db=db,
    )


def _sqnr(r: Quantized) -> List[Figure]:
    if math.isnan(r.sqnr_db):
        return []
    basis = "held-out samples, simulated" if r.methods else "samples of the check, simulated"
    return [Figure("Output SQNR", db(r.sqnr_db).replace(" dB", ""), "dB", basis)]


def _channels(r: Quantized) -> Tuple[Verdict, ...]:
    """Groups of channels that INT8 rounds away, or did before a repair."""
    found = [Verdict("bad", "dead channels", f"{group_text(g)}.") for g in r.dead]
    if r.revived:
        found.append(Verdict("good", "channels repaired", f"{repaired(r)}. Before: {group_text(r.revived[0])}."))
    return tuple(found)


def _error(r: Quantized) -> Verdict:
    if math.isnan(r.sqnr_db):
        return Verdict("unknown", "accuracy", "Not measured: the build ran no sample. `edgedla evaluate` measures it.")
    if r.synthetic:
        return Verdict("unknown", "random input", "The scales come from random input: the accuracy means nothing.")
    text = f"INT8 outputs are {db(r.sqnr_db)} above their noise."
    if r.methods:
        best = max(r.methods, key=lambda name: r.methods[name])
        chance = ": its lead may be chance" if r.method == DEFAULT else ""
        unused = f", not in use{chance}" if r.methods[best] > r.sqnr_db else ""
        text += f" Best single method: {best}, {db(r.methods[best])}{unused}."
    tone = "good" if r.sqnr_db >= 20 else "mixed" if r.sqnr_db >= 10 else "bad"
    return Verdict(tone, "simulated accuracy", text)


def _goal(r: Quantized) -> Verdict:
    if r.met is None:
        worst = next((e for e in r.errors if e.suspect), None)
        if worst is None:
            return Verdict("good", "scales", "No scale is far from the best one for its tensor.")
        return Verdict("bad", "scales", f"{worst.tensor} loses {worst.loss_db:.0f} dB to its scale alone. --min-sqnr repairs it.")
    goal = f"{r.goal[:1].upper()}{r.goal[1:]}"
    if r.met:
        return Verdict("good", "goal met", f"{goal}.")
    if r.not_shown:
        return Verdict("unknown", "goal not shown", f"{goal}: {r.not_shown}.")
    return Verdict("bad", "goal not met", f"{goal}.")


def _basis(r: Quantized) -> Tuple[Fact, ...]:
    p = r.platform
    return (
        Fact("Platform", f"{p['target']}, TensorRT {p['trt']}"),
        Fact("Calibration", f"{r.samples}, method {r.method}", "measured"),
        *((Fact("Steps judged", judged(r), "simulated"),) if r.judged and r.methods else ()),
        Fact("Errors", f"{r.holdout}; ONNX Runtime with INT8 rounding of every stored tensor, no DLA", "simulated"),
        Fact("Times", "cost model of this module", "predicted"),
        Fact("Scale rules", "rules/int8_scales.yaml", code=True),
        *(Fact("Note", note) for note in r.notes),
    )
