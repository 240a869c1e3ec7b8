"""A Pareto front as one HTML page: a picture with error bars, and its table."""

from __future__ import annotations

import html
from typing import List, Tuple

from edgedla.placement.pareto import ParetoFront, ParetoPoint

WIDTH, HEIGHT, MARGIN = 720, 420, 64

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 760px; padding: 0 1rem;
  color: light-dark(#1b1f24, #e6e6e6); background: light-dark(#fff, #16181c); color-scheme: light dark; }}
table {{ border-collapse: collapse; }} th, td {{ text-align: right; padding: .25rem .75rem; }}
svg {{ max-width: 100%; height: auto; }} svg text {{ fill: currentColor; font-size: 13px; }}
</style></head><body><h1>{title}</h1><p>{subtitle}</p>
{svg}
<table><thead><tr><th>latency</th><th>{second}</th><th>loadables</th><th>within this latency</th></tr></thead>
<tbody>{rows}</tbody></table></body></html>
"""


def to_html(front: ParetoFront) -> str:
    """The page; every number on it is predicted."""
    second = front.objectives[1]
    rows = []
    for p in front.points:
        loadables = ", ".join(f"{core} {n}" for core, n in sorted(p.placement.figures.regions.items())) or "none"
        value = _value(p, second)[1]
        cells = (
            f"{p.latency_us / 1e3:.3g} ms (±{p.spread:.0%})",
            value,
            loadables,
            "optimum" if p.proven else "best found",
        )
        rows.append("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>")
    return _PAGE.format(
        title=html.escape(f"{', '.join(front.models)}: latency against {second}"),
        subtitle=html.escape(
            f"{front.platform['title']}, {front.precision.upper()}; predicted, one deviation as bars."
        ),
        svg=to_svg(front),
        second=html.escape(second),
        rows="\n".join(rows),
    )


def to_svg(front: ParetoFront) -> str:
    """Latency to the right, the second objective upwards; bars of one standard deviation."""
    second = front.objectives[1]
    points = [(p.latency_us / 1e3, _value(p, second)[0], p) for p in front.points]
    right = max((x * (1 + p.spread) for x, _, p in points), default=1.0) or 1.0
    top = max((y for _, y, _ in points), default=1.0) * 1.15 or 1.0

    def at(x: float, y: float) -> Tuple[float, float]:
        return MARGIN + x / right * (WIDTH - 2 * MARGIN), HEIGHT - MARGIN - y / top * (HEIGHT - 2 * MARGIN)

    parts: List[str] = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="latency against {html.escape(second)}">',
        f'<path d="M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" fill="none" stroke="currentColor"/>',
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 20}" text-anchor="end">latency, ms: 0 to {right:.3g}</text>',
        f'<text x="8" y="{MARGIN - 16}">{html.escape(second)}: 0 to {top:.3g}</text>',
    ]
    for x, y, p in points:
        (left, level), (end, _), (centre, _) = at(x * (1 - p.spread), y), at(x * (1 + p.spread), y), at(x, y)
        parts.append(f'<path d="M{left:.1f} {level:.1f}H{end:.1f}" stroke="currentColor" opacity="0.4"/>')
        fill = "#2f7d32" if p.proven else "none"
        parts.append(f'<circle cx="{centre:.1f}" cy="{level:.1f}" r="6" fill="{fill}" stroke="#2f7d32"/>')
    return "\n".join([*parts, "</svg>"])


def _value(p: ParetoPoint, second: str) -> Tuple[float, str]:
    if second == "energy":
        return p.energy_mj, f"{p.energy_mj:.3g} mJ (±{p.energy_spread:.0%})"
    return p.throughput_fps, f"{p.throughput_fps:.4g} frames/s"
