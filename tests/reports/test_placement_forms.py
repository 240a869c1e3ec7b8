"""The forms of a placement: text and SVG timeline tell the same, names from a model are shown and not obeyed."""

from __future__ import annotations

import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from edgedla.costs.cost import Cost
from edgedla.errors import UsageError
from edgedla.importers import load_onnx
from edgedla.placement.api import place
from edgedla.placement.result.placement import (
    Figures,
    PlacedLayer,
    PlacedModel,
    Placement,
    Proof,
    Timeline,
    TimelineBar,
)
from edgedla.regions import check_graph
from edgedla.reports.placement import render_placement
from edgedla.reports.placement.timeline import WIDTH, timeline_lines, timeline_svg
from edgedla.targets import platform_for

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
COST = Cost(100.0, 2.0, "fitted", 0.1, 0.2)
PLATFORM = {
    "target": "agx-orin-64gb",
    "title": "Jetson AGX Orin 64GB",
    "trt": "10.3.0",
    "jetpack": "6.2",
    "has_dla": True,
}


def placement(name: str = "net", bars: int = 2) -> Placement:
    layer = PlacedLayer(0, f"{name}/conv", "CONVOLUTION", "GPU", None, "forced", "no verdict", {"GPU": COST})
    model = PlacedModel(name, "", 1.0, (layer,), (), (), COST)
    figures = Figures(COST, COST, COST, None, {"GPU": COST, "DLA0": Cost()}, {"DLA0": 0})
    drawn = (TimelineBar("GPU", 0, 0, 0.0, 50.0, 0, (0,)), TimelineBar("DLA0", 0, 1, 50.0, 100.0, 0, ()))[:bars]
    return Placement(
        PLATFORM, "int8", "MAXN", "rules", {}, "latency", None, ("GPU", "DLA0"), {}, False, (model,), figures, (), (),
        Timeline("frame", 100.0, drawn), Proof("highs", 100.0, 100.0, 0.0, True, False), ("a note",),
    )  # fmt: skip


def test_the_text_timeline_shows_who_works_when() -> None:
    lines = timeline_lines(placement())
    assert lines[2] == f"GPU  |{'A' * 30}{'.' * 30}|  50% busy"
    assert lines[3] == f"DLA0 |{'.' * 30}{'a' * 30}|  50% busy"
    assert all(len(line.split("|")[1]) == WIDTH and len(line) <= 78 for line in lines[2:4])


def test_an_empty_timeline_is_drawn_as_idle() -> None:
    empty = replace(placement(), timeline=Timeline("frame", 0.0, ()))
    assert "0% busy" in timeline_lines(empty)[2]
    xml.etree.ElementTree.fromstring(timeline_svg(empty))


def test_the_svg_has_a_bar_a_segment_and_a_title_with_its_times() -> None:
    root = xml.etree.ElementTree.fromstring(timeline_svg(placement()))
    space = "{http://www.w3.org/2000/svg}"
    titles = [t.text for t in root.iter(f"{space}title")]
    assert titles == ["net: net/conv, 0.0 to 50.0 us", "net: reformat, 50.0 to 100.0 us"]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b", "\x1b[31mred", "x" * 300])
def test_names_from_the_model_are_shown_and_not_obeyed(name: str) -> None:
    found = placement(name)
    xml.etree.ElementTree.fromstring(timeline_svg(found))
    page = render_placement(found, "html")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x1b" not in render_placement(found, "text")


def test_what_is_not_proven_says_so() -> None:
    stopped = replace(placement(), proof=Proof("highs", 100.0, 90.0, 0.1, False, True))
    text = render_placement(stopped, "text", everything=True)
    assert "best found, the optimum is at most 10.00% lower (stopped by the time limit)" in text
    unknown = replace(placement(), proof=Proof("highs", 100.0, 0.0, 1.0, False, True))
    assert "best found, no bound proven (stopped by the time limit)" in render_placement(
        unknown, "text", everything=True
    )
    assert "proven optimum" not in text
    assert "proven optimum under the cost model" in render_placement(placement(), "text")


def test_numbers_carry_their_spread_and_basis() -> None:
    text = render_placement(placement(), "text")
    assert "100 ±10%" in text
    assert "2.00 ±20%" in text
    assert "fitted costs" in text
    assert "not measurements" in text


def test_what_a_placement_counts_is_not_called_as_what_a_check_counts() -> None:
    """A check leaves the network's inputs and outputs out of its transitions."""
    graph, target = load_onnx(EXAMPLE), "agx-orin-64gb"
    assert check_graph(graph, platform_for(target), "int8").totals.transitions == 0
    text = render_placement(place([graph], target=target, precision="int8", pins="*:DLA0"), "text")
    assert "3 tensors change device, the network's inputs and outputs counted" in " ".join(text.split())
    assert "transition" not in text


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UsageError, match="no form"):
        render_placement(placement(), "pdf")
