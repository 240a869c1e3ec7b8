"""The graph of a page: frames in execution order, one per loadable or stretch on the GPU, with a cell per layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Placed
from edgedla.reports import layer_groups, words
from edgedla.reports.gains import worth_of
from edgedla.reports.page.numbers import milliseconds
from edgedla.reports.text import clean
from edgedla.reports.words import count, macs_text

#: With more layers than this, a frame has a single cell with their number: a page of 10,000 elements is slow.
MOST_CELLS = 400
#: Height of the longest column in pixels.
HEIGHT = 40.0
#: Captions leave out a folder that holds at least this share of all layers.
MOST_OF = 0.7


@dataclass(frozen=True)
class Box:
    """One layer, or with `layers` > 1 all layers of a frame. `style` is the cell's class, `title` its tooltip."""

    index: int
    style: str
    title: str
    layers: int = 1


@dataclass(frozen=True)
class Frame:
    """`number` is the loadable's, with a letter if branches split it; "" on the GPU.

    `time_us` is None without costs; `working` and `moving` are heights in pixels.
    """

    number: str
    text: str
    time_us: Optional[float]
    working: float
    moving: float
    boxes: Tuple[Box, ...]
    caption: str

    @property
    def on_dla(self) -> bool:
        return bool(self.number)


def style_of(layer: LayerReport) -> str:
    """The class of a layer's cell: where it runs and why."""
    if layer.placed is Placed.FOLDED:
        return "gone"
    if layer.placed is Placed.DLA:
        return "dla"
    if layer_groups.is_unknown(layer):
        return "what"
    return "no" if layer.cause.is_root else "cap16"


STYLE_WORDS = {"dla": "on the DLA", "no": "refused", "cap16": "pulled along", "what": "unknown", "gone": "folded"}


def reason_of(layer: LayerReport) -> str:
    """Why the layer runs where it does, in one sentence."""
    style = style_of(layer)
    if style in ("dla", "gone"):
        return "runs on the DLA" if style == "dla" else "folded: costs nothing"
    findings = layer_groups.decisive(layer)
    return f"{STYLE_WORDS[style]}: {findings[0].message if findings else layer.reason}"


def ribbon(report: CheckReport) -> Tuple[Frame, ...]:
    """All layers in execution order; () if there is nothing to run."""
    stretches = _stretches(report.layers)
    numbers = {r.id: n for n, r in enumerate((r for r in report.regions if r.kept), 1)}
    parts: Dict[int, int] = {}
    for region, _ in stretches:
        if region is not None:
            parts[region] = parts.get(region, 0) + 1
    drawn: Dict[int, int] = {}
    timed = [_times(report, region, layers) for region, layers in stretches]
    longest = max((working + moving for working, moving in filter(None, timed)), default=0.0)
    prefix = common_prefix([layer.name for layer in report.layers])
    frames, before = [], ""
    for (region, layers), times in zip(stretches, timed):
        number = ""
        if region is not None:
            letter = "" if parts[region] == 1 else chr(ord("a") + min(drawn.get(region, 0), 25))
            number = f"{numbers[region]}{letter}"
            # A loadable starts once: its first part shows the time of the start.
            if drawn.get(region, 0) and times is not None:
                times = (times[0], 0.0)
            drawn[region] = drawn.get(region, 0) + 1
        working, moving = times or (0.0, 0.0)
        scale = HEIGHT / longest if longest else 0.0
        caption = caption_of(layers[0].name, prefix)
        frames.append(
            Frame(
                number,
                _sentence(number, layers, times),
                None if times is None else working + moving,
                working * scale,
                moving * scale,
                _boxes(report, layers),
                caption if caption != before else "",
            )
        )
        before = caption
    return tuple(frames)


def _stretches(layers: Sequence[LayerReport]) -> List[Tuple[Optional[int], List[LayerReport]]]:
    """Consecutive layers in one loadable (its region), or on the GPU (None)."""
    stretches: List[Tuple[Optional[int], List[LayerReport]]] = []
    for layer in layers:
        region = layer.region if layer.placed is Placed.DLA else None
        if layer.placed is Placed.FOLDED and stretches or stretches and stretches[-1][0] == region:
            stretches[-1][1].append(layer)
        else:
            stretches.append((region, [layer]))
    return stretches


def _times(report: CheckReport, region: Optional[int], layers: Sequence[LayerReport]) -> Optional[Tuple[float, float]]:
    """(working, moving) time of these layers in microseconds; moving is that of the whole loadable."""
    worth = worth_of(report)
    if worth is None or worth.parts is None:
        return None
    working = sum(worth.parts.layer_us.get(layer.index, 0.0) for layer in layers)
    if region is None:
        return working, 0.0
    first = layers[0].index
    return working, next((x.moving_us for x in worth.parts.loadables if first in x.layers), 0.0)


def _boxes(report: CheckReport, layers: Sequence[LayerReport]) -> Tuple[Box, ...]:
    if len(report.layers) > MOST_CELLS:
        styles = [style_of(layer) for layer in layers]
        style = max(dict.fromkeys(styles), key=styles.count)
        return (Box(layers[0].index, style, f"{count(len(layers), 'layer')} from {layers[0].name}", len(layers)),)
    return tuple(Box(layer.index, style_of(layer), title_of(report, layer)) for layer in layers)


def title_of(report: CheckReport, layer: LayerReport) -> str:
    """Name, reason, time and MACs, one line each."""
    worth = worth_of(report)
    time_us = worth.parts.layer_us.get(layer.index) if worth is not None and worth.parts is not None else None
    facts = [milliseconds(time_us)] if time_us else []
    if layer.macs:
        facts.append(f"{macs_text(layer.macs)} MACs")
    lines = [f"{layer.index} {layer.type} {words.place_of(layer)}", reason_of(layer), ", ".join(facts)]
    # A name may contain a line break.
    return "\n".join(clean(line) for line in lines if line)


def _sentence(number: str, layers: Sequence[LayerReport], times: Optional[Tuple[float, float]]) -> str:
    text = f"Loadable {number}" if number else "GPU"
    text += f": {count(len(layers), 'layer')}"
    if times is not None:
        text += f", {milliseconds(sum(times))}"
        if times[1]:
            text += f" of which {milliseconds(times[1])} starting and crossing"
    if not number:
        styles = [style_of(layer) for layer in layers]
        on_gpu = [f"{styles.count(s)} {word}" for s, word in STYLE_WORDS.items() if s in styles and s != "dla"]
        text += f"; {', '.join(on_gpu)}" if on_gpu else ""
    return text


def common_prefix(names: Sequence[str]) -> str:
    """The common folders of most names, with a trailing slash: `/m/features/`; "" if there are none."""
    prefix, inside = "", [name for name in names if name]
    while True:
        parts = [name[len(prefix) :].partition("/") for name in inside]
        heads = [head for head, slash, _ in parts if slash]
        head = max(dict.fromkeys(heads), key=heads.count, default=None)
        if head is None or heads.count(head) < MOST_OF * len(names):
            return prefix
        prefix = f"{prefix}{head}/"
        inside = [name for name in inside if name.startswith(prefix)]


def caption_of(name: str, prefix: str) -> str:
    """The first part of a layer's name after the common prefix; without that prefix, its first two parts."""
    rest = name[len(prefix) :] if name.startswith(prefix) else name.strip("/")
    parts = [part for part in rest.split("/") if part]
    return parts[0] if name.startswith(prefix) or len(parts) < 2 else "/".join(parts[:2])
