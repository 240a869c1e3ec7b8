"""Drawings of a quantisation report as SVG: error by tensor, and histograms with thresholds."""

from __future__ import annotations

import math
from html import escape
from typing import List, Sequence

from edgedla.accuracy.result import HistogramPicture
from edgedla.accuracy.triage import TensorError
from edgedla.reports.quantization.text import db
from edgedla.reports.text import clean

#: dB at the top of the error drawing; higher values are cut there.
_TOP_DB = 60.0
_WIDTH, _HEIGHT = 1000, 220
#: Colours of the stylesheet. The legend also names each mark's shape, so that colour alone carries no meaning.
_ALONE, _SO_FAR, _LINE = "var(--dla)", "var(--gpu)", "var(--ink-2)"


def error_drawing(errors: Sequence[TensorError], network: Sequence[str]) -> str:
    """SQNR by tensor in network order: a bar for the tensor rounded alone, a point for all rounding before it.

    Args:
        network: the tensors in that order.
    """
    place = {name: i for i, name in enumerate(network)}
    order = [e for e in errors if e.accumulated_db is not None] or list(errors)
    if not order:
        return ""
    order.sort(key=lambda e: place.get(e.tensor, len(place)))
    step = (_WIDTH - 50) / len(order)
    parts: List[str] = []
    for mark in range(0, int(_TOP_DB) + 1, 20):
        y = _y(mark)
        parts.append(f'<line x1="40" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_LINE}" stroke-opacity=".3"/>')
        parts.append(f'<text x="34" y="{y + 4:.1f}" text-anchor="end" font-size="12" fill="{_LINE}">{mark}</text>')
    for i, error in enumerate(order):
        x, y = 42 + i * step, _y(error.alone_db)
        colour = "var(--bad)" if error.suspect else _ALONE
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(step - 1, 0.6):.2f}" height="{max(_y(0) - y, 0):.1f}" '
            f'fill="{colour}"><title>{escape(clean(_tooltip(error)))}</title></rect>'
        )
        if error.accumulated_db is not None:
            parts.append(f'<circle cx="{x + step / 2:.1f}" cy="{_y(error.accumulated_db):.1f}" r="2.5" fill="{_SO_FAR}"/>')
    label = "SQNR by tensor: bars for the tensor rounded alone, points with all rounding before it, in dB"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" aria-label="{label}" '
        f'preserveAspectRatio="none" style="max-height:16rem">{"".join(parts)}</svg>'
    )


def _tooltip(error: TensorError) -> str:
    """The tooltip of a bar."""
    so_far = "" if error.accumulated_db is None else f", {db(error.accumulated_db)} with all rounding before it"
    return f"{error.tensor}: {db(error.alone_db)} alone{so_far}"


def _y(value: float) -> float:
    shown = min(max(value if math.isfinite(value) else (_TOP_DB if value > 0 else 0.0), 0.0), _TOP_DB)
    return (_HEIGHT - 20) * (1 - shown / _TOP_DB) + 8


def histogram_drawing(picture: HistogramPicture) -> str:
    """Counts of |x| on a logarithmic axis, with a line at each threshold."""
    width, height, base = 480, 150, 120
    top = math.log10(max(picture.counts, default=0.0) + 1) or 1.0
    step = width / max(len(picture.counts), 1)
    parts = []
    for i, count in enumerate(picture.counts):
        tall = base * math.log10(count + 1) / top
        if tall > 0:
            parts.append(
                f'<rect x="{i * step:.2f}" y="{base - tall:.1f}" width="{step:.2f}" height="{tall:.1f}" fill="{_ALONE}"/>'
            )
    for name, threshold in sorted(picture.thresholds.items(), key=lambda item: item[1]):
        x = min(threshold / picture.top, 1.0) * width if picture.top else 0.0
        dash = "" if name == "in use" else ' stroke-dasharray="4 3"'
        colour = "var(--ink)" if name == "in use" else _LINE
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{base}" stroke="{colour}" stroke-width="1.5"{dash}/>')
    parts.append(f'<text x="0" y="{height - 12}" font-size="12" fill="{_LINE}">0</text>')
    parts.append(f'<text x="{width}" y="{height - 12}" font-size="12" text-anchor="end" fill="{_LINE}">{picture.top:.4g}</text>')
    return (
        f'<svg viewBox="0 0 {width} {height}" width="100%" role="img" aria-label="histogram of magnitudes" '
        f'style="max-width:40rem">{"".join(parts)}</svg>'
    )
