"""A placement as one HTML page: answer, bars against the baselines, timeline, loadables, every layer."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from edgedla.placement.result.placement import Figures, Placement
from edgedla.reports.page.figures import Bar, Fact, Part
from edgedla.reports.page.numbers import significant
from edgedla.reports.page.render import render_page
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.placement.text import goal_text, has_rates, proof_text, value_text, why_unproven
from edgedla.reports.placement.timeline import KINDS, labels, stage_names, timeline_svg
from edgedla.reports.text import clean
from edgedla.reports.words import count


def to_html(placement: Placement, files: Sequence[str] = (), terminal: bool = False, everything: bool = False) -> str:
    """The page. Names from the model are escaped; a policy in the page forbids every load."""
    names = ", ".join(clean(m.name) for m in placement.models)
    platform = placement.platform
    jetpack = f"JetPack {platform['jetpack']}, " if platform.get("jetpack") else ""
    mode = f", {placement.power_mode}" if placement.power_mode else ""
    return render_page(
        "placement.html.j2",
        command="place",
        title=f"{names} placed on {platform['title']}",
        placement=placement,
        names=names,
        about=f"{platform['title']}, {jetpack}TensorRT {platform['trt']}, {placement.precision.upper()}{mode}",
        verdicts=_verdicts(placement),
        per_second="Periods/s" if has_rates(placement) else "Frames/s",
        charted=_CHARTED.get(placement.objective, "Time of one frame. Shorter is better"),
        bars=[
            _bar("This placement", "", placement.figures, placement),
            *(
                _bar(b.title, f"not legal: {clean(b.broken[0])}" if b.broken else "", b.figures, placement)
                for b in placement.baselines
            ),
        ],
        rows=_rows(placement),
        kind=KINDS[placement.timeline.kind],
        legend=labels([m.name for m in placement.models]),
        stages=stage_names(placement),
        svg=timeline_svg(placement),
        facts=_facts(placement),
    )


def _verdicts(placement: Placement) -> List[Verdict]:
    proof = placement.proof
    goal = goal_text(placement)
    first = Verdict(
        "good" if proof.optimal else "equal", proof_text(placement), f"{goal[0].upper()}{goal[1:]}: {value_text(placement)}."
    )
    on_dla = sum(len(m.regions) for m in placement.models)
    if not on_dla:
        costs = "no placement with a loadable costs less"
        known = costs if proof.optimal else "that a loadable costs more is not proven"
        return [first, Verdict("plain", "Nothing on the DLA", f"Every layer runs on the GPU: {known}.")]
    alone = next((_charted(b.figures, placement) for b in placement.baselines if b.name in ("own", "gpu")), None)
    text = placement.against_gpu or (f"everything on the GPU: {significant(alone[0])} {alone[2]}" if alone else "")
    said = f"{text[0].upper()}{text[1:]}." if text else ""
    return [first, Verdict("good", f"{count(on_dla, 'loadable')} on the DLA", said)]


#: Objective -> what the bars show.
_CHARTED = {
    "throughput": "Frames per second, many in flight. Longer is better",
    "energy": "Energy of one frame, above idle. Shorter is better",
    "gpu-time": "Time of the GPU for one frame. Shorter is better",
    "makespan": "Time until all models are done. Shorter is better",
}


def _rows(placement: Placement) -> List[Tuple[str, Figures, Sequence[str], str, str]]:
    """(name, figures, what is not legal, latency, makespan), all times in one unit."""
    rows = [("this placement", placement.figures, ()), *((b.title, b.figures, b.broken) for b in placement.baselines)]
    small = all(figures.latency.latency_us < 100 for _, figures, _ in rows)

    def time(us: Optional[float]) -> str:
        return "-" if us is None else f"{significant(us)} µs" if small else f"{significant(us / 1e3)} ms"

    return [(*row, time(row[1].latency.latency_us), time(row[1].makespan_us)) for row in rows]


def _charted(figures: Figures, placement: Placement) -> Tuple[float, float, str]:
    """What the placement was made for: value, relative spread, unit."""
    if placement.objective == "throughput":
        unit = "periods/s" if has_rates(placement) else "frames/s"
        return figures.throughput_fps, figures.period.spread, unit
    if placement.objective == "energy":
        return figures.energy.energy_mj, figures.energy.energy_spread, "mJ"
    if placement.objective == "gpu-time":
        return (figures.busy_gpu_us or 0.0) / 1e3, figures.latency.spread, "ms"
    us = figures.makespan_us if placement.objective == "makespan" else None
    return (figures.latency.latency_us if us is None else us) / 1e3, figures.latency.spread, "ms"


def _bar(name: str, note: str, figures: Figures, placement: Placement) -> Bar:
    """The objective's value, split in the shares of the devices' loads."""
    by_kind = {"gpu": 0.0, "dla": 0.0}
    for device, cost in figures.loads.items():
        if device != "GPU" and placement.objective == "gpu-time":
            continue
        by_kind["gpu" if device == "GPU" else "dla"] += cost.latency_us / 1e3
    (total, spread, unit), loads = _charted(figures, placement), sum(by_kind.values())
    # Loads are per period, with slowdown: they give the shares, the value gives the length.
    scale = total / loads if loads else 0.0
    parts = tuple(Part(kind, value * scale) for kind, value in by_kind.items())
    return Bar(name[0].upper() + name[1:], note, total, total * spread, figures.energy.energy_mj, parts, unit)


def _facts(placement: Placement) -> List[Fact]:
    basis, proof = placement.figures.latency.basis, placement.proof
    facts = [
        Fact("Times", "± is one standard deviation; the errors of all rows go together", basis),
        Fact("Energy", "above the board's idle power", basis),
        Fact("Placement", f"rules {placement.rules_version}; no board took part", "predicted"),
        Fact("Solver", ", ".join(filter(None, (proof.solver, f"gap {proof.gap:.2%}", why_unproven(placement))))),
    ]
    return facts + [Fact("Note", note) for note in dict.fromkeys(placement.notes)]
