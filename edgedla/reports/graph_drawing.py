"""Where the boxes and lines of a layer graph go: longest-path layering, rows ordered by their predecessors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from edgedla.regions.report import LayerReport
from edgedla.regions.values import Placed
from edgedla.reports.summary import is_unknown

#: Above this many boxes a browser gets slow; chains of layers that end alike become one box first.
MAX_BOXES = 2000
BOX_W, BOX_H, GAP_X, GAP_Y = 216, 24, 30, 18


@dataclass(frozen=True)
class Box:
    """One layer, or a chain of layers that end alike. Positions in pixels from the top left."""

    x: int
    y: int
    kind: str
    label: str
    hover: str


@dataclass(frozen=True)
class Drawing:
    width: int
    height: int
    boxes: Tuple[Box, ...]
    #: SVG paths, one an edge.
    edges: Tuple[str, ...]


def draw(layers: Sequence[LayerReport]) -> Drawing:
    """The drawing of all layers; empty where even the chains are more than MAX_BOXES."""
    chains = _chains(layers) if len(layers) > MAX_BOXES else [[layer] for layer in layers]
    if not chains or len(chains) > MAX_BOXES:
        return Drawing(0, 0, (), ())
    chain_of = {layer.index: i for i, chain in enumerate(chains) for layer in chain}
    before: List[List[int]] = [
        sorted({chain_of[p] for p in chain[0].predecessors if p in chain_of and chain_of[p] != i})
        for i, chain in enumerate(chains)
    ]
    depth: List[int] = []
    for i in range(len(chains)):
        depth.append(max((depth[p] + 1 for p in before[i]), default=0))
    column = _columns(before, depth)
    x = [10 + c * (BOX_W + GAP_X) for c in column]
    y = [10 + d * (BOX_H + GAP_Y) for d in depth]
    boxes = tuple(_box(chain, x[i], y[i]) for i, chain in enumerate(chains))
    edges = []
    for i, sources in enumerate(before):
        for p in sources:
            x1, y1, x2, y2 = x[p] + BOX_W // 2, y[p] + BOX_H, x[i] + BOX_W // 2, y[i]
            bend = max((y2 - y1) // 2, GAP_Y // 2)
            if x1 == x2 and depth[i] > depth[p] + 1:
                # A skip along one column would run behind the boxes between: it goes around them.
                side = x1 + BOX_W // 2 + GAP_X // 2
                edges.append(f"M{x1},{y1} Q{side},{y1} {side},{y1 + GAP_Y} V{y2 - GAP_Y} Q{side},{y2} {x2},{y2}")
                continue
            edges.append(f"M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}")
    return Drawing(max(x) + BOX_W + GAP_X, max(y) + BOX_H + 10, boxes, tuple(edges))


def kind_of_end(layer: LayerReport) -> str:
    """The colour class of a layer: dla, refused, knock-on, unknown or folded."""
    if layer.placed is Placed.FOLDED:
        return "folded"
    if is_unknown(layer):
        return "unknown"
    if layer.placed is Placed.DLA:
        return "dla"
    return "refused" if layer.cause.is_root else "knock-on"


def _chains(layers: Sequence[LayerReport]) -> List[List[LayerReport]]:
    """Layers in topological order, each behind its only predecessor where that ends alike and feeds nothing else."""
    users: Dict[int, int] = {}
    for layer in layers:
        for p in layer.predecessors:
            users[p] = users.get(p, 0) + 1
    chains: List[List[LayerReport]] = []
    ending: Dict[int, List[LayerReport]] = {}
    for layer in layers:
        chain = ending.pop(layer.predecessors[0], None) if len(layer.predecessors) == 1 else None
        if chain and users[chain[-1].index] == 1 and _alike(chain[-1], layer):
            chain.append(layer)
        else:
            if chain:
                ending[chain[-1].index] = chain
            chain = [layer]
            chains.append(chain)
        ending[layer.index] = chain
    return chains


def _alike(one: LayerReport, other: LayerReport) -> bool:
    return kind_of_end(one) == kind_of_end(other) and one.region == other.region


def _columns(before: Sequence[Sequence[int]], depth: Sequence[int]) -> List[int]:
    rows: Dict[int, List[int]] = {}
    for i, d in enumerate(depth):
        rows.setdefault(d, []).append(i)
    column = [0] * len(depth)
    for d in sorted(rows):

        def wish(i: int) -> float:
            return sum(column[p] for p in before[i]) / len(before[i]) if before[i] else 0.0

        for place, i in enumerate(sorted(rows[d], key=lambda i: (wish(i), i))):
            column[i] = place
    return column


def _box(chain: Sequence[LayerReport], x: int, y: int) -> Box:
    first, last = chain[0], chain[-1]
    if len(chain) == 1:
        label = f"{first.type} {first.name}"
        findings = "\n".join(f"{f.rule} {f.message}" for f in first.findings)
        hover = f"{label}\n{_end(first)}\n{first.reason}\n{findings}".strip()
    else:
        label = f"{len(chain)} layers to {last.name}"
        hover = f"{first.name} ... {last.name}\n{_end(first)}\n{first.reason}"
    return Box(x, y, kind_of_end(first), label if len(label) <= 30 else label[:10] + "…" + label[-19:], hover)


def _end(layer: LayerReport) -> str:
    region = f", loadable {layer.region}" if layer.region is not None else ""
    return f"own verdict: {layer.support}; ends on: {layer.placed}{region}"
