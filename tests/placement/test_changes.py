"""Changes by predicted time: those that make a frame slower are left out, the one that saves most comes first."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Dict, Tuple

import pytest

from edgedla.costs.engines import PRECISION_BYTES
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.placement.changes import by_time
from edgedla.placement.check_cost import with_cost
from edgedla.regions import check_graph
from edgedla.regions.report import CheckReport
from edgedla.reports import words
from edgedla.rules import load_rules
from edgedla.targets import platform_for
from tests.placement.cut_blocks import c2f

NETS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nets"


def checked(name: str, precision: str = "int8", target: str = "orin-nx-16gb") -> Tuple[CheckReport, LayerGraph]:
    path = NETS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    graph = load_onnx(path, trt=(10, 3) if "orin" in target else (8, 5))
    return check_graph(graph, platform_for(target), precision), graph


def timed(times: Dict[str, float]) -> CheckReport:
    """MobileNetV3's three changes with the times of `times`, by the first letters of the remedies that are applied."""
    report, graph = checked("tv_mobilenet_v3_small")
    verdicts = load_rules().check(graph, report.platform, "int8")
    ranking, slower = by_time(report, graph, verdicts, lambda fixes: times["".join(sorted(f[0] for f in fixes))])
    return replace(report, ranking=ranking, slower=slower)


def names(report: CheckReport) -> str:
    return "".join(change.fixes[0][0] for change in report.ranking)


#: c(lip-for-hard-sigmoid), a(verage-pool), e(xpand-operand).
TOGETHER = {"": 100.0, "c": 110.0, "a": 110.0, "e": 110.0, "ac": 100.0, "ce": 90.0, "ae": 80.0, "ace": 10.0}


def test_changes_that_help_only_together_are_kept_in_order_of_saving() -> None:
    report = timed(TOGETHER)
    # Without e a frame takes 100, without a 90, without c 80.
    assert (names(report), report.slower) == ("eac", None)
    assert report.ranking[-1].latency_us == 10.0
    assert [c.latency_us for c in report.ranking[:-1]] == [None, None]


def test_a_change_that_slows_the_frame_is_left_out_and_named() -> None:
    report = timed({**TOGETHER, "c": 120.0, "ce": 8.0})
    assert names(report) == "ec"
    assert report.slower is not None
    assert report.slower.to_dict() == {"fixes": ["average-pool"], "latency_us": 10.0, "without_us": 8.0}
    # Figures are of this order: more of the layers come with the first one than when it stood third.
    assert report.ranking[0].layers_dla_after < report.ranking[1].layers_dla_after


@pytest.mark.parametrize("alone", [5000.0, 99.95])
def test_without_a_faster_change_the_ranking_is_empty(alone: float) -> None:
    times = {"".join(sorted(p)): alone for n in (1, 2, 3) for p in permutations("cae", n)}
    report = timed({**times, "": 100.0})
    assert report.ranking == ()
    assert report.slower is not None
    assert set(report.slower.fixes) == {"clip-for-hard-sigmoid", "average-pool", "expand-operand"}
    assert report.slower.without_us == 100.0


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_the_joint_result_on_ssd300_is_no_slower_than_the_network_as_it_is(precision: str) -> None:
    report, graph = checked("det_ssd300_vgg16", precision)
    assert len(report.ranking) == 4
    priced = with_cost(report, graph)
    assert priced.worth is not None
    now = priced.worth.to_dict()["ways"][0]["latency_us"]
    assert all(change.latency_us is None or change.latency_us < now for change in priced.ranking)
    assert priced.slower is not None
    assert "keep-4d" in priced.slower.fixes
    assert priced.slower.latency_us > priced.slower.without_us


def test_without_gpu_fallback_changes_are_ranked_regardless_of_cost() -> None:
    _, graph = checked("tv_mobilenet_v3_small")
    report = check_graph(graph, platform_for("orin-nx-16gb"), "fp16", "standalone")
    priced = with_cost(report, graph)
    assert [c.fixes for c in priced.ranking] == [c.fixes for c in report.ranking]
    assert priced.slower is None


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_slices_that_hold_a_core_up_are_a_change_with_a_predicted_gain(precision: str) -> None:
    graph = load_onnx(c2f(160), trt=(10, 3))
    report = check_graph(graph, platform_for("agx-orin-64gb"), precision)
    assert report.ranking == ()
    priced = with_cost(report, graph)
    (change,) = priced.ranking
    assert words.gains(priced, change).startswith("4 layers fewer, ")
    assert (change.fixes, len(change.layers), change.layers_after) == (("conv-per-part",), 4, len(graph.layers) - 4)
    assert priced.worth is not None
    now = priced.worth.to_dict()["ways"][0]["latency_us"]
    assert change.latency_us is not None
    width = PRECISION_BYTES[precision]
    assert now - change.latency_us > 0.6 * width * 4 * 16 * 160 * 160 / 1600


@pytest.mark.parametrize(("target", "size"), [("agx-orin-64gb", 16), ("xavier-nx-8gb", 160)])
def test_small_slices_and_those_of_modules_without_a_figure_are_no_change(target: str, size: int) -> None:
    graph = load_onnx(c2f(size), trt=platform_for(target).release.trt)
    report = check_graph(graph, platform_for(target), "fp16")
    assert with_cost(report, graph).ranking == ()
