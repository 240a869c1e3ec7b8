"""The drawing of a graph: every layer stands in one box, boxes do not overlap, lines go downwards."""

from __future__ import annotations

from typing import List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.regions.report import LayerReport
from edgedla.regions.values import Cause, Placed
from edgedla.reports import graph_drawing
from edgedla.reports.graph_drawing import BOX_H, BOX_W, draw
from edgedla.rules.verdict import Support


def layer(index: int, predecessors: Tuple[int, ...], placed: Placed = Placed.DLA) -> LayerReport:
    cause = Cause.ON_DLA if placed is Placed.DLA else Cause.RULE
    support = Support.DLA if placed is Placed.DLA else Support.GPU
    return LayerReport(
        index, f"l{index}", "ACTIVATION", (), support, placed, None, 0, "rules", cause, "", (), (), predecessors
    )


@st.composite
def networks(draw_value: st.DrawFn) -> List[LayerReport]:
    found = []
    for i in range(draw_value(st.integers(1, 30))):
        predecessors = draw_value(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        found.append(layer(i, tuple(sorted(predecessors)), draw_value(st.sampled_from([Placed.DLA, Placed.GPU]))))
    return found


@given(networks())
def test_boxes_do_not_overlap_and_lines_go_down(layers: List[LayerReport]) -> None:
    drawing = draw(layers)
    places = [(box.x, box.y) for box in drawing.boxes]
    assert len(set(places)) == len(layers)
    for i, one in enumerate(places):
        assert all(abs(one[0] - x) >= BOX_W or abs(one[1] - y) >= BOX_H for x, y in places[i + 1 :])
        assert one[0] + BOX_W <= drawing.width
        assert one[1] + BOX_H <= drawing.height
    assert len(drawing.edges) == sum(len(x.predecessors) for x in layers)
    for x in layers:
        assert all(places[p][1] < places[x.index][1] for p in x.predecessors)


@given(networks())
def test_chains_keep_every_layer_once_and_join_only_what_ends_alike(layers: List[LayerReport]) -> None:
    chains = graph_drawing._chains(layers)
    assert sorted(x.index for chain in chains for x in chain) == list(range(len(layers)))
    for chain in chains:
        assert len({x.placed for x in chain}) == 1
        for before, after in zip(chain, chain[1:]):
            assert after.predecessors == (before.index,)


def test_a_long_chain_becomes_one_box_and_a_graph_that_stays_too_large_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph_drawing, "MAX_BOXES", 5)
    chain = [layer(i, (i - 1,) if i else ()) for i in range(50)]
    assert [box.label for box in draw(chain).boxes] == ["50 layers to l49"]
    alternating = [layer(i, (i - 1,) if i else (), Placed.GPU if i % 2 else Placed.DLA) for i in range(50)]
    assert draw(alternating).boxes == ()
