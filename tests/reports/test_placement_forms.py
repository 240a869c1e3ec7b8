"""The forms of a placement: text and SVG timeline agree, and names from a model are shown but not obeyed."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Callable, List

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.costs.cost import Cost
from edgedla.costs.model import CostModel
from edgedla.errors import UsageError
from edgedla.importers import load_onnx
from edgedla.placement.api import place
from edgedla.placement.check_cost import with_cost
from edgedla.placement.result.document import read_placement
from edgedla.placement.result.placement import (
    Baseline,
    Figures,
    PlacedLayer,
    PlacedModel,
    PlacedRegion,
    Placement,
    Proof,
    Timeline,
    TimelineBar,
)
from edgedla.placement.worth.own_model import to_metadata
from edgedla.regions import check_graph
from edgedla.reports import render_check
from edgedla.reports.page.numbers import percent_up, significant
from edgedla.reports.placement import render_placement
from edgedla.reports.placement.text import headline
from edgedla.reports.placement.timeline import WIDTH, timeline_lines, timeline_svg
from edgedla.targets import platform_for
from tests.models import node, ones, onnx_model, save

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
COST = Cost(100.0, 2.0, "fitted", 0.1, 0.2)
PLATFORM = {"target": "agx-orin-64gb", "title": "Jetson AGX Orin 64GB", "trt": "10.3.0", "jetpack": "6.2", "has_dla": True}


def placement(name: str = "net", bars: int = 2) -> Placement:
    layer = PlacedLayer(0, f"{name}/conv", "CONVOLUTION", "GPU", None, "forced", "no verdict", {"GPU": COST})
    model = PlacedModel(name, "", 1.0, (layer,), (), (), COST)
    figures = Figures(COST, COST, COST, None, {"GPU": COST, "DLA0": Cost()}, {"DLA0": 0})
    drawn = (TimelineBar("GPU", 0, 0, 0.0, 50.0, 0, (0,)), TimelineBar("DLA0", 0, 1, 50.0, 100.0, 0, ()))[:bars]
    return Placement(
        PLATFORM,
        "int8",
        "MAXN",
        "rules",
        {},
        "latency",
        None,
        ("GPU", "DLA0"),
        {},
        False,
        (model,),
        figures,
        (),
        (),
        Timeline("frame", 100.0, drawn),
        Proof("highs", 100.0, 100.0, 0.0, True, False),
        ("a note",),
    )


def test_the_text_timeline_shows_busy_intervals_of_each_device() -> None:
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
def test_control_characters_and_html_in_names_are_escaped_in_placements(name: str) -> None:
    found = placement(name)
    xml.etree.ElementTree.fromstring(timeline_svg(found))
    page = render_placement(found, "html")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x1b" not in render_placement(found, "text")


def test_an_unproven_placement_states_its_gap_and_reason() -> None:
    stopped = replace(placement(), proof=Proof("highs", 100.0, 90.0, 0.1, False, True))
    text = render_placement(stopped, "text", everything=True)
    assert "best found, at most 10 % from the optimum" in text
    assert "gap 10.00%, stopped by the time limit" in text
    unknown = replace(placement(), proof=Proof("highs", 100.0, 0.0, 1.0, False, True))
    assert "best found, no bound proven" in render_placement(unknown, "text", everything=True)
    assert "proven optimum" not in text
    assert "proven optimum under the cost model" in render_placement(placement(), "text")


@pytest.mark.parametrize(
    ("gap", "text"), [(0.1, "10 %"), (0.0401, "4.1 %"), (0.04, "4 %"), (0.000853, "0.086 %"), (0.99, "99 %")]
)
def test_the_distance_from_the_optimum_is_rounded_up(gap: float, text: str) -> None:
    assert percent_up(gap) == text


@pytest.mark.parametrize("form", ["text", "html"])
def test_a_restricted_proof_names_its_restriction(form: str) -> None:
    proven = replace(placement(), proof=Proof("pairs", 100.0, 100.0, 0.0, True, False, one_core_per_model=True))
    assert "proven optimum with one core per model" in " ".join(render_placement(proven, form).split())
    stopped = replace(placement(), proof=Proof("pairs", 100.0, 90.0, 0.1, False, True, one_core_per_model=True))
    assert "at most 10 % from the optimum with one core per model" in " ".join(render_placement(stopped, form).split())


def test_numbers_carry_their_spread_and_basis() -> None:
    text = render_placement(placement(), "text")
    assert "100 ±10%" in text
    assert "2.00 ±20%" in text
    assert "fitted costs" in text
    assert "not measurements" in text


def test_check_and_place_count_transitions_alike_and_say_which() -> None:
    graph, target = load_onnx(EXAMPLE), "agx-orin-64gb"
    report = with_cost(check_graph(graph, platform_for(target), "int8"), graph)
    assert report.totals.transitions == 0
    checked = " ".join(render_check([report], "text").split())
    assert "transitions 0 (0 MB per frame) between layers, 3 with the network's inputs and outputs" in checked
    text = render_placement(place([graph], target=target, precision="int8", pins="*:DLA0"), "text")
    assert "3 transitions with the network's inputs and outputs" in " ".join(text.split())


def test_a_period_of_other_numbers_of_frames_states_the_frames_per_second_of_each_model() -> None:
    alike = of_several(2, 1485.0)
    first, second = alike.models
    found = replace(alike, models=(replace(first, rate=2.0), second))
    text = " ".join(render_placement(found, "text").split())
    assert "period of 2 of timm_mobilenetv3_large_100 and 1 of tv_resnet18: 100 us (20000, 10000 frames/s)" in text
    assert "latency us periods/s makespan" in text
    page = replace(placement(), models=tuple(replace(m, rate=2.0) for m in placement().models))
    assert "Periods/s" in render_placement(page, "html")
    assert "time between frames of each model: 100 us (10000 frames/s)" in " ".join(render_placement(alike, "text").split())
    one = replace(found, in_flight="one")
    assert "and 1 of tv_resnet18, one of each in flight: 100 us" in " ".join(render_placement(one, "text").split())


def test_screen_page_and_list_of_findings_write_a_figure_alike(capsys: pytest.CaptureFixture) -> None:
    """The rule of `significant`: three digits with trailing zeros, everywhere."""
    asked = [str(EXAMPLE), "--target", "orin-nx-16gb", "--precision", "fp16", "--power-mode", "MAXN_SUPER"]
    for command, shown in (
        (["check"], "energy 7.76 mJ 2.99 mJ"),
        (["check", "--all"], "time 1.04 ms against"),
        (["check", "--format", "markdown"], "| Energy | 7.76 mJ against"),
        (["check", "--format", "html"], "7.76 mJ"),
        (["place", "--evaluate", "tensorrt"], "1.04 ±23%   964       7.76 ±50%"),
        (["place", "--layer-device-types", "*:DLA0"], "1040 ±23%   1120 ±19%  7.76 ±50%"),
        (["place", "--pareto", "latency,energy"], "0.286 ±19%  2.99 ±50%  3500"),
    ):
        assert exit_code_of([*command, *asked]) == 0
        assert " ".join(shown.split()) in " ".join(capsys.readouterr().out.split())


def test_a_time_below_a_tenth_of_a_millisecond_is_in_microseconds_on_the_whole_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    small = [node("Conv", "x w", "y", "conv")]
    path = save(onnx_model(small, {"x": (1, 8, 16, 16)}, {"y": (1, 8, 14, 14)}, [ones("w", 8, 8, 3, 3)]), tmp_path / "m.onnx")
    assert exit_code_of(["check", str(path), "--target", "orin-nx-16gb"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    alone = re.search(r"[-?=+] time [\d.]+ ms ([\d.]+) µs", text)
    assert alone is not None
    assert re.search(rf"GPU time ([\d.]+) µs {alone[1]} µs", text)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UsageError, match="no form"):
        render_placement(placement(), "pdf")


NAMES = ("timm_mobilenetv3_large_100", "tv_resnet18", "yolo_yolov5s", "tv_densenet121", "timm_gernet_s", "tv_vgg16", "crnn")


def of_several(count: int, us: float) -> Placement:
    """A placement of so many models on three engines whose frames take about so long."""

    def figures(share: float, *regions: int) -> Figures:
        cost = Cost(share * us, share * us / 75, "fitted", 0.31, 0.09)
        period = replace(cost, latency_us=share * us / 3)
        cores = {f"DLA{k}": n for k, n in enumerate(regions)}
        return Figures(cost, period, cost, share * us / 2 if regions[0] < 16 else None, {"GPU": period, **cores}, cores)

    def model(name: str) -> PlacedModel:
        layers = tuple(
            PlacedLayer(k, f"/backbone/stage{k}/block/conv/Conv", "CONVOLUTION", "DLA0", 0, "chosen", "cheaper", {})
            for k in range(20)
        )
        regions = (PlacedRegion(0, "DLA0", tuple(range(20)), 18, replace(COST, latency_us=us / 7)),)
        return PlacedModel(name, "", 1.0, layers, regions, (), COST)

    baselines = [("gpu", (0, 0)), ("dla-fallback", (17, 0)), ("tensorrt", (16, 0)), ("one-per-device", (5, 12))]
    broken = {"dla-fallback": ("17 loadables on DLA0, cap 16",), "tensorrt": ("a bound is not kept",)}
    return replace(
        placement(),
        models=tuple(model(name) for name in NAMES[:count]),
        objective="throughput",
        devices=("GPU", "DLA0", "DLA1"),
        figures=replace(figures(1.0, 2, 1), loads={d: COST for d in ("GPU", "DLA0", "DLA1")}),
        frame_latency_us=(us,) * count,
        baselines=tuple(Baseline(n, n, figures(2.5, *r), broken.get(n, ())) for n, r in baselines),
    )


@pytest.mark.parametrize(("models", "us"), [(2, 1485.0), (3, 17699.0), (7, 412345.0)])
def test_several_models_fit_80_columns(models: int, us: float, golden: Callable[[str, str], None]) -> None:
    text = render_placement(of_several(models, us), "text")
    assert max(len(line) for line in text.splitlines()) <= 80
    rows: List[str] = text.splitlines()
    head = next(k for k, row in enumerate(rows) if "one frame  " in row)
    # No row of the table goes on in the next line.
    assert [row.split("  ")[1] for row in rows[head : head + 6]] == [
        "one frame",
        "this placement",
        "GPU alone",
        "all legal on DLA0 *",
        "TensorRT's default *",
        "one per device",
    ]
    golden(f"reports/place-{models}.text", text)


def test_a_too_wide_placement_table_lists_loadables_separately() -> None:
    text = render_placement(of_several(7, 41234500.0), "text")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "this placement        41200000 ±31%" in text
    assert "loadables on DLA0 + DLA1: this placement 2 + 1, GPU alone 0 + 0, all legal on" in text


def test_every_form_says_what_one_model_gains_against_the_gpu_alone() -> None:
    found = place(load_onnx(EXAMPLE), target="agx-orin-64gb", precision="int8", objective="throughput")
    assert found.against_gpu.startswith("against the GPU alone: ")
    assert found.against_gpu.endswith("times the frames/s")
    assert found.against_gpu in " ".join(render_placement(found, "text").split())
    assert found.against_gpu[1:] in render_placement(found, "html")
    assert read_placement(json.loads(render_placement(found, "json"))).against_gpu == found.against_gpu
    assert not place([load_onnx(EXAMPLE)] * 2, target="agx-orin-64gb", precision="int8").against_gpu


def test_a_fixed_model_is_placed_beside_the_users_own_on_the_gpu() -> None:
    platform, graph = platform_for("agx-orin-64gb"), load_onnx(EXAMPLE)
    text = to_metadata(graph, platform, CostModel.load(platform, "int8"))
    fixed = replace(graph, gpu_alone=text.replace('"energy_mj": ', '"energy_mj": 1'))
    found = read_placement(json.loads(place(fixed, target="agx-orin-64gb", precision="int8").to_json()))
    own, here = found.baselines[:2]
    assert (own.name, here.name) == ("own", "gpu")
    (row,) = (r for r in json.loads(text)["rows"] if r["precision"] == "int8")
    assert own.figures.latency.latency_us == pytest.approx(row["latency_us"], abs=1e-3)
    assert own.figures.energy.energy_mj > here.figures.energy.energy_mj
    shown = render_placement(found, "text")
    assert "your model, GPU alone" in shown
    assert "this one, GPU alone" in shown
    assert own.title in render_placement(found, "html").replace("&#39;", "'")
    assert not any(b.name == "own" for b in place([fixed, graph], target="agx-orin-64gb", precision="int8").baselines)


def test_a_page_without_the_gpu_to_compare_with_says_nothing_in_its_place() -> None:
    page = render_placement(replace(of_several(2, 100.0), baselines=()), "html")
    assert "2 loadables on the DLA" in page
    assert '<p class="say">.</p>' not in page


def test_an_unproven_stream_is_told_in_frames_per_second_with_its_bound() -> None:
    model = load_onnx(EXAMPLE)
    found = place([model, model], target="agx-orin-64gb", precision="int8", objective="throughput")
    us = found.proof.value
    stopped = replace(found, proof=replace(found.proof, bound=0.96 * us, gap=0.04, optimal=False, timed_out=True))
    assert f"({significant(1e6 / us)} frames/s), best found, at most 4 % from the optimum" in headline(stopped)[1]


@pytest.mark.parametrize(("objective", "unit"), [("latency", "ms"), ("throughput", "frames/s"), ("energy", "mJ")])
def test_the_page_charts_the_objective(objective: str, unit: str, tmp_path: Path) -> None:
    """Milliseconds of one frame beside the best number of frames per second made the best placement look the worst."""
    page = tmp_path / "p.html"
    asked = ["--target", "orin-nx-16gb", "--objective", objective, "--format", "html", "-o", str(page)]
    assert exit_code_of(["place", str(EXAMPLE), *asked]) == 0
    bars = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith('<span class="num"><b>')]
    assert bars
    assert all(line.partition('</span><span class="num mj">')[0].endswith(f" {unit}") for line in bars)
