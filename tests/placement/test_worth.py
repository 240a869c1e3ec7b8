"""The one account of worth: the headline's boundaries as data, spreads of ratios, and that a split never loses."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgedla
from edgedla.costs.cost import Cost
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.placement.prediction.breakdown import Breakdown, LoadableTime
from edgedla.placement.worth import Axis, Headline, Worth, Worthiness, costs_of, headline
from edgedla.placement.worth.headline import EQUAL, LITTLE_WORK, MORE, MUCH, NOT_SEARCHED, SAVES, WORDS
from edgedla.placement.worth.value import Baseline, Spreads, Way
from edgedla.regions.values import GivenCosts
from edgedla.rules import load_rules
from edgedla.targets import platform_for
from tests.models import node, ones, onnx_model

GPU_US, GPU_MJ = 1000.0, 10.0


def made(
    time: float = 1.0,
    energy: float = 1.0,
    gpu: float = 1.0,
    frames: float = 1.0,
    spread: float = 0.05,
    work: float = 1.0,
    best: Optional[float] = None,
    baseline: Tuple[Baseline, ...] = (),
) -> Worth:
    """A worth with these ratios to the GPU alone. `frames`: frames/s over the GPU's; `best`: the best split's time."""

    def way(name: str, us: float, mj: float, busy: float, period: float, loadables: int) -> Way:
        parts = Breakdown(busy, us - busy, 0.0, {}, (LoadableTime((0,), 1.0, 1.0),) * loadables, 0, busy)
        spreads = Spreads(spread, spread, spread, spread, spread)
        return Way(name, "int8", Cost(us, mj), Cost(period), parts, work, spreads=spreads)

    ways = (
        way("gpu", GPU_US, GPU_MJ, GPU_US, GPU_US, 0),
        way("tensorrt", time * GPU_US, energy * GPU_MJ, gpu * GPU_US, time * GPU_US, 1),
        way("latency", (best or 1.0) * GPU_US, GPU_MJ, GPU_US, GPU_US, 0 if best is None else 1),
        way("throughput", GPU_US, GPU_MJ, GPU_US, GPU_US / frames, 1),
    )
    return Worth("int8", ways, None, (), None, baselines=baseline)


E = 1e-6
#: What a row changes -> the word.
BOUNDARIES: Tuple[Tuple[Dict[str, float], str], ...] = (
    ({}, "Nothing to gain"),
    ({"time": 1 + EQUAL - E}, "Nothing to gain"),
    ({"time": 1 + EQUAL + 0.01}, "Nothing to gain"),
    ({"time": MUCH + E}, "Not worth it"),
    ({"time": MUCH + E, "spread": 0.4}, "Undecided"),
    ({"time": 0.9}, "Worth it"),
    ({"time": 0.9, "spread": 0.2}, "Undecided"),
    ({"time": 0.95}, "Nothing to gain"),
    ({"energy": SAVES}, "Worth it"),
    ({"energy": SAVES + E}, "Nothing to gain"),
    ({"energy": SAVES, "time": MUCH - E}, "Worth it"),
    ({"energy": SAVES, "time": MUCH + E}, "To save energy"),
    ({"energy": SAVES, "time": MUCH + E, "spread": 0.3}, "Undecided"),
    ({"energy": 0.65, "time": 3.0, "spread": 0.6}, "Undecided"),
    ({"gpu": 0.2, "energy": 2.0}, "To free the GPU"),
    ({"gpu": 0.75, "time": MUCH + E}, "To free the GPU"),
    ({"gpu": 0.76, "time": MUCH + E}, "Not worth it"),
    ({"gpu": 0.1, "time": 21.0, "energy": 5.7}, "Not worth it"),
    ({"gpu": 0.1, "time": 21.0, "energy": 5.7, "frames": MORE + E}, "To free the GPU"),
    ({"gpu": 0.1, "time": 21.0, "energy": 5.7, "frames": MORE - 0.01}, "Not worth it"),
    ({"frames": 1 + EQUAL + 0.01}, "Worth it"),
    ({"frames": 1 + EQUAL - 0.01}, "Nothing to gain"),
    ({"work": LITTLE_WORK - E, "energy": 0.1}, "Nothing to gain"),
    ({"work": LITTLE_WORK, "energy": 0.1}, "Worth it"),
    ({"best": 0.8, "time": 3.0, "energy": 2.0}, "Worth it"),
    ({"best": 0.95, "time": 3.0, "energy": 2.0}, "Not worth it"),
)


@pytest.mark.parametrize(("ratios", "word"), BOUNDARIES)
def test_the_word_at_its_boundaries(ratios: Dict[str, float], word: str) -> None:
    assert headline(made(**ratios)).word == word  # type: ignore[arg-type]


def test_each_word_has_a_boundary_example() -> None:
    assert {word for _, word in BOUNDARIES} == set(WORDS) - {"No DLA to weigh"}


@pytest.mark.parametrize(
    ("axis", "text", "short"),
    [
        (Axis("time", 2.48, 0.3, 1, 1), "2.5 times slower per frame", "2.5 times slower"),
        (Axis("time", 0.5, 0.1, 1, 1), "2.0 times faster per frame", "2.0 times faster"),
        (Axis("time", 0.625, 0.8, 1, 1), "probably 1.6 times faster per frame (0.89 to 2.9 times)", "probably 1.6 times faster"),
        (Axis("time", 1.05, 0.3, 1, 1), "as fast per frame", "equal"),
        (Axis("time", 1.56, 0.6, 1, 1), "probably 1.6 times slower per frame (0.97 to 2.5 times)", "probably 1.6 times slower"),
        (Axis("energy", 0.34, 0.1, 1, 1), "66 % less energy", "66 % less"),
        (Axis("energy", 1.31, 0.1, 1, 1), "31 % more energy", "31 % more"),
        (Axis("energy", 5.69, 0.1, 1, 1), "5.7 times the energy", "5.7 times as much"),
        (Axis("gpu", 0.25, 0.1, 1, 1), "the GPU 75 % free", "75 % less"),
        (Axis("gpu", 0.8, 0.5, 1, 1), "probably the GPU 20 % free (-20 to +47 %)", "probably 20 % less"),
        (Axis("gpu", 0.97, 0.1, 1, 1), "as much GPU time", "equal"),
        (Axis("gpu", 0.0, 0.0, 0, 1), "the GPU 100 % free", "100 % less"),
        (Axis("gpu", 0.001, 0.0, 0, 1), "the GPU 99.9 % free", "99.9 % less"),
        (Axis("gpu", 1.26, 0.1, 1, 1), "26 % more GPU time", "26 % more"),
        (Axis("frames", 1 / 1.8, 0.1, 1, 1), "1.8 times the frames/s", "1.8 times as many"),
        (Axis("frames", 1.0, 0.0, 1, 1), "as many frames/s", "equal"),
    ],
)
def test_an_answer_is_said_in_few_words(axis: Axis, text: str, short: str) -> None:
    assert (axis.text, axis.short) == (text, short)


@given(st.floats(0.01, 100.0), st.floats(0.0, 2.0))
def test_equal_is_said_only_within_ten_percent(ratio: float, spread: float) -> None:
    axis = Axis("time", ratio, spread, 1, 1)
    assert (axis.state == "equal") == (1 / 1.1 <= ratio <= 1.1)
    assert axis.low <= axis.ratio <= axis.high
    assert axis.equal or ("may" in axis.state) == (axis.low <= 1 <= axis.high)


@given(*(st.floats(0.05, 20.0) for _ in range(4)), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_no_profile_calls_a_clear_gain_worthless(
    time: float, energy: float, gpu: float, frames: float, spread: float, work: float
) -> None:
    """NOT WORTH IT never stands where energy falls by 30 % for sure, or the GPU's time by half, without what is lost."""
    answer = headline(made(time, energy, gpu, max(frames, 1.0), spread, work))
    sure = all(axis.sure for axis in answer.axes if axis.name in ("energy", "gpu"))
    if answer.word != "Not worth it" or not sure:
        return
    assert energy > 0.7
    if gpu < 0.5:
        assert min(time, energy) > MUCH
        assert "one DLA core" in answer.text


def test_frames_of_another_placement_are_an_alternative_to_the_answers_of_tensorrt_s() -> None:
    """ "The GPU 75 % free, 1.8 times the frames/s" was read as had at once."""
    more = made(gpu=0.25, frames=1.8)
    assert headline(more).text.endswith("the GPU 75 % free, or 1.8 times the frames/s with all engines.")
    assert headline(made(gpu=0.25)).text.endswith("the GPU 75 % free, as many frames/s with all engines.")
    # The best split is TensorRT's placement: all is had at once.
    *ways, most = more.ways
    same = replace(more, ways=(*ways, replace(most, parts=ways[1].parts)))
    assert headline(same).text.endswith("the GPU 75 % free, 1.8 times the frames/s.")


def test_a_model_made_from_another_is_weighed_against_that() -> None:
    worth = made(time=0.7, baseline=(Baseline("int8", 0.5 * GPU_US, GPU_MJ),))
    axis = headline(worth).axis("time")
    assert axis is not None
    assert axis.ratio == pytest.approx(1.4)
    assert headline(replace(worth, baselines=())).word == "Worth it"
    assert headline(worth).word == "Not worth it"


def test_a_precision_without_best_splits_has_answers_but_no_word_of_its_own() -> None:
    """Without frames/s of all engines, "not worth it" would be said where asking for that precision says otherwise."""
    worth = made(time=3.0)
    beside = tuple(replace(way, precision="fp16") for way in worth.ways[:2])
    said = headline(replace(worth, ways=(*worth.ways, *beside)), "fp16")
    assert (said.word, said.text) == ("Undecided", NOT_SEARCHED)
    assert [axis.name for axis in said.axes] == ["time", "energy", "gpu"]


#: Two convolutions with a layer between them that the DLA refuses.
MODEL = onnx_model(
    [node("Conv", "x w", "a", pads=[1] * 4), node("Erf", "a", "b"), node("Conv", "b w", "y", pads=[1] * 4)],
    {"x": [1, 128, 64, 64]},
    {"y": [1, 128, 64, 64]},
    [ones("w", 128, 128, 3, 3)],
)


@pytest.mark.parametrize("target", ["agx-orin-64gb", "orin-nx-8gb", "xavier-nx-8gb"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_the_best_split_never_loses_to_the_gpu_alone_or_to_tensorrt(target: str, precision: str) -> None:
    report = edgedla.check(MODEL, target=target, precision=precision, cost=True)
    worth = report.worth
    assert isinstance(worth, Worth)
    assert worth.precisions[0] == precision
    for asked in worth.precisions:
        gpu, placed, best, most, least = (
            worth.way(name, asked) for name in ("gpu", "tensorrt", "latency", "throughput", "energy")
        )
        assert gpu is not None
        assert placed is not None
        assert best is not None
        assert most is not None
        assert least is not None
        assert best.cost.latency_us <= min(gpu.cost.latency_us, placed.cost.latency_us) * (1 + 1e-9)
        assert most.fps >= max(gpu.fps, placed.fps) * (1 - 1e-9)
        assert least.cost.energy_mj <= min(gpu.cost.energy_mj, placed.cost.energy_mj) * (1 + 1e-9)
        answer = headline(worth, asked)
        assert isinstance(answer, Headline)
        assert len(answer.axes) == 4


def test_what_both_sides_share_has_no_spread() -> None:
    """The same GPU layers on both sides: the spread of the ratio is below that of either side."""
    heavy_on_gpu = onnx_model(
        [node("Erf", "x", "a"), node("Conv", "a w", "b", pads=[1] * 4), node("Erf", "b", "c"), node("Relu", "c", "y")],
        {"x": [1, 128, 64, 64]},
        {"y": [1, 128, 64, 64]},
        [ones("w", 128, 128, 3, 3)],
    )
    worth = edgedla.check(heavy_on_gpu, target="orin-nx-16gb", precision="int8", cost=True).worth
    assert isinstance(worth, Worth)
    gpu, placed = worth.way("gpu"), worth.way("tensorrt")
    assert gpu
    assert placed
    assert gpu.spreads == Spreads()
    assert placed.parts.gpu_us > 0
    independent = (placed.cost.spread**2 + gpu.cost.spread**2) ** 0.5
    assert 0 < placed.spreads.time < independent


def chain(length: int) -> LayerGraph:
    nodes = [node("Relu" if k % 3 else "Erf", f"v{k}", f"v{k + 1}") for k in range(length)]
    return load_onnx(onnx_model(nodes, {"v0": [1, 32, 32, 32]}, {f"v{length}": [1, 32, 32, 32]}))


@pytest.mark.parametrize("seconds", [0.0, 0.02, 2.0])
def test_a_search_cut_short_is_no_worse_than_one_engine_and_a_bound_is_known(seconds: float) -> None:
    graph, platform = chain(60), platform_for("orin-nx-16gb")
    costs = costs_of(graph, platform, "int8", GivenCosts())
    worthiness = Worthiness(graph, platform, load_rules().check(graph, platform, "int8"), costs)
    most = next(way for way in worthiness.best(seconds) if way.name == "throughput")
    longer = next(way for way in worthiness.best(5.0) if way.name == "throughput")
    assert most.fps >= max(worthiness.way("gpu").fps, worthiness.way("tensorrt").fps) * (1 - 1e-9)
    assert most.fps <= longer.fps / (1 - longer.gap) * (1 + 1e-9)
    assert longer.fps <= most.fps / (1 - most.gap) * (1 + 1e-9), "the gap bounds what a longer search finds"
