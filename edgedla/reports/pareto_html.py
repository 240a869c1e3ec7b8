"""A Pareto front as one HTML page: a plot with error bars, and its table."""

from __future__ import annotations

import html
from typing import List, Tuple

from edgedla.placement.pareto import ParetoFront, ParetoPoint
from edgedla.reports.page.figures import Fact
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.page.render import render_page
from edgedla.reports.page.verdict import Verdict

WIDTH, HEIGHT, MARGIN = 720, 420, 64

UNITS = {"energy": "energy per frame, mJ", "throughput": "frames per second"}
TITLES = {"energy": "Energy per frame", "throughput": "Frames per second"}


def to_html(front: ParetoFront) -> str:
    """The page; every number on it is predicted."""
    from markupsafe import Markup

    second = front.objectives[1]
    points = [
        {
            "latency": f"{milliseconds(p.latency_us)} (±{p.spread * 100:.0f} %)",
            "value": _value(p, second)[1],
            "loadables": ", ".join(f"{core} {n}" for core, n in sorted(p.placement.figures.regions.items())) or "none",
            "proven": p.proven,
            "standing": front.optimality(p),
        }
        for p in front.points
    ]
    return render_page(
        "pareto.html.j2",
        command="place",
        title=f"{', '.join(front.models)}: latency against {second}",
        name=", ".join(front.models),
        about=f"{front.platform['title']}, {front.precision.upper()}, TensorRT {front.platform['trt']}",
        answers=_answers(front, second),
        second=second,
        second_title=TITLES[second],
        picture=Markup(to_svg(front)),
        points=points,
        facts=[
            Fact("Numbers", "edgedla's cost model, ± one standard deviation; not measured on a board", "predicted"),
            Fact("Points", front.completeness, "predicted"),
            *(Fact("Note", note) for note in front.notes),
        ],
    )


def _answers(front: ParetoFront, second: str) -> List[Verdict]:
    count = len(front.points)
    if not count:
        return [Verdict("bad", "No placement", "No placement keeps the limits.")]
    fastest = min(front.points, key=lambda p: p.latency_us)
    best = (min if second == "energy" else max)(front.points, key=lambda p: _value(p, second)[0])
    quick = f"{milliseconds(fastest.latency_us)} per frame, {_value(fastest, second)[1]}."
    if count == 1:
        proven = Verdict("good", "Proven", f"{front.completeness[0].upper()}{front.completeness[1:]}.")
        open_end = Verdict("unknown", "Not proven", "The time limit ended the search.")
        return [Verdict("plain", "One placement is best for both", quick), proven if front.complete else open_end]
    other = f"{_value(best, second)[1]}, {milliseconds(best.latency_us)} per frame."
    return [Verdict("plain", "Lowest latency", quick), Verdict("plain", f"Best {second}", other)]


def to_svg(front: ParetoFront) -> str:
    """Latency to the right, the second objective upwards; error bars of one standard deviation."""
    second = front.objectives[1]
    points = [(p.latency_us / 1e3, _value(p, second)[0], p) for p in front.points]
    right = max((x * (1 + p.spread) for x, _, p in points), default=1.0) or 1.0
    top = max((y for _, y, _ in points), default=1.0) * 1.15 or 1.0

    def at(x: float, y: float) -> Tuple[float, float]:
        return MARGIN + x / right * (WIDTH - 2 * MARGIN), HEIGHT - MARGIN - y / top * (HEIGHT - 2 * MARGIN)

    parts: List[str] = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" style="max-width: 45rem" '
        f'font-size="13" role="img" aria-label="latency against {html.escape(second)}">',
        f'<path d="M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" fill="none" stroke="currentColor"/>',
        f'<text fill="currentColor" x="{WIDTH - MARGIN}" y="{HEIGHT - 20}" text-anchor="end">latency, ms: 0 to {significant(right)}</text>',
        f'<text fill="currentColor" x="8" y="{MARGIN - 16}">{UNITS[second]}: 0 to {significant(top)}</text>',
    ]
    for x, y, p in points:
        (left, level), (end, _), (centre, _) = at(x * (1 - p.spread), y), at(x * (1 + p.spread), y), at(x, y)
        parts.append(f'<path d="M{left:.1f} {level:.1f}H{end:.1f}" stroke="currentColor" opacity="0.4"/>')
        fill = "#2f7d32" if p.proven else "none"
        parts.append(f'<circle cx="{centre:.1f}" cy="{level:.1f}" r="6" fill="{fill}" stroke="#2f7d32"/>')
    return "\n".join([*parts, "</svg>"])


def _value(p: ParetoPoint, second: str) -> Tuple[float, str]:
    if second == "energy":
        return p.energy_mj, f"{significant(p.energy_mj)} mJ (±{p.energy_spread:.0%})"
    return p.throughput_fps, f"{significant(p.throughput_fps)} frames/s"
