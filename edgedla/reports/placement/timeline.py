"""A placement's timeline: one line of text per device, and the same as SVG."""

from __future__ import annotations

from html import escape
from typing import Dict, Iterator, List, Sequence, Tuple

from edgedla.placement.result.placement import Placement, TimelineBar
from edgedla.reports.page.numbers import significant
from edgedla.reports.text import clean

#: Letters of the models in the text form, repeated if there are more models.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: Characters of the time axis.
WIDTH = 60

KINDS = {
    "frame": "one frame; several models one after the other",
    "schedule": "one frame of every model, side by side",
    "period": "one period; the same repeats with the next frames",
}

#: Colours by model that colour-blind readers can tell apart (Okabe and Ito, 2008).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")


def rows(placement: Placement) -> Iterator[Tuple[str, Tuple[TimelineBar, ...]]]:
    """Bars by device, for every device that may be used."""
    for device in placement.devices:
        yield device, tuple(b for b in placement.timeline.bars if b.device == device)
    rest = sorted({b.device for b in placement.timeline.bars} - set(placement.devices))
    for device in rest:
        # Reformats run on the GPU even if no layer may.
        yield device, tuple(b for b in placement.timeline.bars if b.device == device)


def timeline_lines(placement: Placement) -> List[str]:
    """The timeline as text: one letter per model, lower case for reformats without layers, dots for idle."""
    length = placement.timeline.length_us
    lines = [f"{KINDS[placement.timeline.kind]}, {significant(length)} us", "(. idle, lower case: reformat only)"]
    for device, bars in rows(placement):
        cells = ["."] * WIDTH
        for b in bars:
            first, last = _cells(b, length)
            letter = LETTERS[b.model % len(LETTERS)]
            for k in range(first, last):
                cells[k] = letter if b.layers else letter.lower()
        busy = sum(b.end_us - b.start_us for b in bars)
        share = busy / length if length > 0 else 0.0
        lines.append(f"{device:5}|{''.join(cells)}| {share:4.0%} busy")
    names = (f"{LETTERS[m % len(LETTERS)]} = {clean(model.name)}" for m, model in enumerate(placement.models))
    lines.append(f"      {', '.join(names)}")
    return lines


def _cells(bar: TimelineBar, length_us: float) -> Tuple[int, int]:
    """(first cell, one past the last cell); every bar gets at least one cell."""
    if length_us <= 0:
        return 0, 0
    first = min(int(bar.start_us / length_us * WIDTH), WIDTH - 1)
    return first, max(first + 1, min(int(round(bar.end_us / length_us * WIDTH)), WIDTH))


def timeline_svg(placement: Placement, width: int = 960, row: int = 34) -> str:
    """The timeline as one SVG element: a row per device, a bar per segment, with layers and times in its tooltip."""
    left, top, length = 60, 8, placement.timeline.length_us
    lanes = list(rows(placement))
    scale = (width - left - 10) / length if length > 0 else 0.0
    height = top + row * len(lanes) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'class="timeline" role="img" aria-label="{escape(KINDS[placement.timeline.kind])}" font-size="12">'
    ]
    for lane, (device, bars) in enumerate(lanes):
        y = top + lane * row
        parts.append(f'<text x="4" y="{y + row / 2 + 4:g}">{escape(device)}</text>')
        parts.append(f'<rect x="{left}" y="{y + 3}" width="{width - left - 10}" height="{row - 6}" class="lane"/>')
        for b in bars:
            parts.append(_bar(placement, b, left + b.start_us * scale, (b.end_us - b.start_us) * scale, y + 3, row - 6))
    base = top + row * len(lanes) + 14
    for tick in range(5):
        at = length * tick / 4
        anchor = "start" if tick == 0 else "end" if tick == 4 else "middle"
        parts.append(f'<text x="{left + at * scale:.1f}" y="{base}" text-anchor="{anchor}">{at:.0f} us</text>')
    return "\n".join([*parts, "</svg>"])


def _bar(placement: Placement, b: TimelineBar, x: float, width: float, y: float, height: float) -> str:
    model = placement.models[b.model]
    colour = COLOURS[b.model % len(COLOURS)] if b.layers else "#8a93a0"
    what = _layers(model.layers[b.layers[0]].name, len(b.layers)) if b.layers else "reformat"
    title = f"{model.name}: {what}, {b.start_us:.1f} to {b.end_us:.1f} us"
    if b.frame:
        title += f", of the frame {b.frame} before"
    bar = (
        f'<rect x="{x:.1f}" y="{y:g}" width="{max(width, 0.5):.1f}" height="{height:g}" fill="{colour}" class="bar">'
        f"<title>{escape(clean(title))}</title></rect>"
    )
    stage = _stage_of(placement).get((b.model, b.device, b.layers[0]), "") if b.layers else ""
    if stage and width > 9 * len(stage):
        bar += (
            f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:g}" text-anchor="middle" class="stage">{escape(stage)}</text>'
        )
    return bar


def _layers(first: str, count: int) -> str:
    return first if count == 1 else f"{count} layers from {first}"


def labels(names: Sequence[str]) -> Tuple[Tuple[str, str], ...]:
    """(colour, name) by model, for the legend."""
    return tuple((COLOURS[m % len(COLOURS)], name) for m, name in enumerate(names))


def _stage_of(placement: Placement) -> Dict[Tuple[int, str, int], str]:
    names: Dict[Tuple[int, str, int], str] = {}
    counts: Dict[str, int] = {}
    for b in sorted(placement.timeline.bars, key=lambda bar: (bar.start_us, bar.device)):
        key = (b.model, b.device, b.layers[0] if b.layers else -1)
        if b.layers and key not in names:
            letter = b.device[0]
            counts[letter] = counts.get(letter, 0) + 1
            names[key] = f"{letter}{counts[letter]}"
    return names


def stage_names(placement: Placement) -> Tuple[Tuple[str, str, str, str, float], ...]:
    """(name, device, model, layers, time_us) of every stage, in order of their starts."""
    names = _stage_of(placement)
    rows_of = []
    seen = set()
    for b in sorted(placement.timeline.bars, key=lambda bar: (bar.start_us, bar.device)):
        stage = names.get((b.model, b.device, b.layers[0])) if b.layers else None
        if stage is None or stage in seen:
            continue
        seen.add(stage)
        model = placement.models[b.model]
        what = _layers(clean(model.layers[b.layers[0]].name), len(b.layers))
        rows_of.append((stage, b.device, clean(model.name), what, b.end_us - b.start_us))
    return tuple(rows_of)
