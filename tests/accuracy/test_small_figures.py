"""The small parts of the room at their edges: labels, FP16's range, thresholds, ranks of tensors, channels of an output."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import onnx
import pytest

from edgedla.accuracy import repair, triage
from edgedla.accuracy.channels.units import units_of
from edgedla.accuracy.choose_fp16 import Candidate
from edgedla.accuracy.evaluate import Score, _fed, first_fault_of
from edgedla.accuracy.fp16_care import fp16_findings
from edgedla.accuracy.repairs import output_thresholds
from edgedla.accuracy.repairs.equalize import _factors, _groups
from edgedla.accuracy.scores.labels import boxes_fault, class_fault, mask_fault, require_fitting
from edgedla.accuracy.state import Step
from edgedla.accuracy.triage import TensorError
from edgedla.errors import DataError
from tests.models import node, onnx_model

NAN, INF = math.nan, math.inf


# --- Labels


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (0, ""),
        (9, ""),
        (True, ""),
        (np.array([[3]]), ""),
        (3.0, ""),
        (10, "class 10, and the network has 0 to 9"),
        (-1, "class -1, and the network has 0 to 9"),
        (2.5, "2.5 is not a whole number"),
        (NAN, "nan is not a whole number"),
        (INF, "inf is not a whole number"),
        ("cat", "'cat' is text, not a number"),
        ([1, 0], "2 values (one-hot?), and a label is the index of one class"),
        ([], "0 values (one-hot?), and a label is the index of one class"),
    ],
)
def test_a_class_is_one_whole_number_of_the_network(label: Any, said: str) -> None:
    assert class_fault(label, 10) == said


@pytest.mark.parametrize(
    ("label", "classes", "said"),
    [
        ([[0, 1], [2, 255]], 3, ""),
        ([[0.0, 1.0], [2.0, 255.0]], 3, ""),
        ([[255, 255], [255, 255]], 255, "every pixel is ignored"),
        ([[255, 255], [255, 255]], 256, ""),
        ([[0, 3], [4, 1]], 3, "2 pixels of class 3, and the network has 0 to 2 (255 is ignored)"),
        ([[0, -1], [1, 1]], 3, "1 pixels of class -1, and the network has 0 to 2 (255 is ignored)"),
        ([[0, 0.5], [1, 1]], 3, "a mask of fractions or NaN, not of whole numbers"),
        ([[0, NAN], [1, 1]], 3, "a mask of fractions or NaN, not of whole numbers"),
        ([[0, 1]], 3, "a mask of [1, 2] pixels for an output of [2, 2]: scale masks by nearest neighbour"),
        ([["a", "b"], ["c", "d"]], 3, "a mask of <U1, not of numbers"),
    ],
)
def test_a_mask_has_a_class_of_the_network_for_every_pixel(label: Any, classes: int, said: str) -> None:
    assert mask_fault(label, (2, 2), classes) == said


def test_one_class_is_no_mask() -> None:
    assert mask_fault(3, (2, 2), 9).startswith("the label is one class")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[0, 1, 1, 4, 4]], ""),
        ([[-1, 0, 0, 0, 0]], ""),
        ([[2, -3, -3, 2, 2], [-1, 0, 0, 0, 0]], ""),
        ([[0, 9, 7, 12, 12]], ""),
        (np.zeros((0, 5)), ""),
        ([[0, 0, 0, 1.5, 1.6]], ""),
        ([[0, 0, 0, 1.5, 1.5]], "boxes within 0 to 1: shares of the frame, not pixels"),
        ([[0, 10, 1, 12, 4]], "a box without a pixel in the frame of 10 x 8: 10, 1, 12, 4, not x1, y1, x2, y2 in pixels"),
        ([[0, 1, 8, 4, 12]], "a box without a pixel in the frame of 10 x 8: 1, 8, 4, 12, not x1, y1, x2, y2 in pixels"),
        ([[0, -4, 1, 0, 4]], "a box without a pixel in the frame of 10 x 8: -4, 1, 0, 4, not x1, y1, x2, y2 in pixels"),
        ([[0, 4, 1, 4, 4]], "a box without a pixel in the frame of 10 x 8: 4, 1, 4, 4, not x1, y1, x2, y2 in pixels"),
        ([[-2, 1, 1, 4, 4]], "class -2, and classes are whole numbers from 0 to 65535; -1 is padding"),
        ([[0.5, 1, 1, 4, 4]], "class 0.5, and classes are whole numbers from 0 to 65535; -1 is padding"),
        ([[0, 1, 1, INF, 4]], "a box or class is NaN or infinite"),
        ([0, 1, 1, 4, 4], "a label of shape [5], not (objects, 5): class, x1, y1, x2, y2; class -1 is padding"),
        ([[0, 1, 1, 4]], "a label of shape [1, 4], not (objects, 5): class, x1, y1, x2, y2; class -1 is padding"),
        ([["0"] * 5], "a label of shape [1, 5] and type <U1, not (objects, 5): class, x1, y1, x2, y2; class -1 is padding"),
    ],
)
def test_boxes_have_a_pixel_in_the_frame(rows: Any, said: str) -> None:
    assert boxes_fault(np.array(rows), 8, 10) == said


def test_the_refusal_counts_the_labels_and_shows_the_first_that_does_not_fit() -> None:
    with pytest.raises(DataError) as caught:
        require_fitting(
            [1, 7, 2, 9],
            lambda label, outputs: "" if label < len(outputs) else f"{label} is too much",
            {"a": np.zeros(1), "b": np.zeros(1), "c": np.zeros(1)},
            "labels.npy",
        )
    assert caught.value.what == ("2 of 4 labels do not fit the network's outputs; the first, of sample 1: 7 is too much")
    assert caught.value.where == "labels.npy"
    require_fitting([], lambda label, outputs: "no", {}, "labels.npy")


# --- FP16


def measured(**figures: Tuple[float, float]) -> Any:
    """A collection of tensors, each with (largest magnitude, mean square)."""
    return SimpleNamespace(histograms={n: SimpleNamespace(absmax=top, power=lambda p=p: p) for n, (top, p) in figures.items()})


@pytest.mark.parametrize(
    ("top", "power", "problem", "shift"),
    [
        (65504.0, 1.0, None, 0),
        (65505.0, 1.0, "overflow", -2),
        (65536.0, 1.0, "overflow", -2),
        (65537.0, 1.0, "overflow", -3),
        (2.0**20, 1.0, "overflow", -6),
        # 2**-48 / 12 against 1e4 times as much: 40 dB.
        (1.0, 1.0001e4 * 2.0**-48 / 12, None, 0),
        (1.0, 0.9999e4 * 2.0**-48 / 12, "underflow", 4),
        (2.0**-3, 2.0**-48, "underflow", 7),
        (16.0, 2.0**-48, "underflow", 0),
        (17.0, 2.0**-48, "underflow", 0),
        (1.0, 0.0, "underflow", 4),
        (0.0, 0.0, None, 0),
    ],
)
def test_fp16_holds_65504_and_40_db_above_its_least_step(top: float, power: float, problem: Optional[str], shift: int) -> None:
    found = fp16_findings(measured(a=(top, power)), ["a"])
    assert [(f.tensor, f.problem, f.absmax, f.shift) for f in found] == ([("a", problem, top, shift)] if problem else [])


def test_a_tensor_is_judged_as_many_times_larger_as_it_is_now() -> None:
    both = measured(a=(40000.0, 1.0), b=(1.0, 1.0))
    (found,) = fp16_findings(both, ["a", "b"], {"a": 2.0})
    assert (found.tensor, found.problem, found.absmax, found.sqnr_db) == ("a", "overflow", 80000.0, -INF)
    (found,) = fp16_findings(both, ["a", "b"], {"b": 2.0**-20})
    assert (found.tensor, found.absmax) == ("b", 2.0**-20)
    assert found.sqnr_db == pytest.approx(10 * math.log10(12 * 2.0**8))
    assert fp16_findings(both, ["b"], {"a": 2.0}) == ()


# --- Thresholds one by one


def test_numbers_of_thresholds_grow_by_a_half_and_a_third() -> None:
    assert repair._growing(1) == [1]
    assert repair._growing(2) == [1, 2]
    assert repair._growing(7) == [1, 2, 3, 4, 6, 7]
    assert repair._growing(100) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100]
    assert repair._growing(98305)[-3:] == [32768, 49152, 98305]


def test_tensors_of_one_scale_take_the_largest_range() -> None:
    assert repair._ranges([("a", "b"), ("c",)], {"a": 1.0, "b": 3.0, "c": 2.0}) == {"a": 3.0, "b": 3.0, "c": 2.0}


@pytest.mark.parametrize(("total", "shares"), [(2.0, [0.5, 1.5]), (4.0, [1.0, 3.0]), (8.0, [1.0, 3.0]), (0.0, [1.0, 3.0])])
def test_noise_of_single_tensors_adds_up_to_no_more_than_was_measured(total: float, shares: List[float]) -> None:
    candidates = [Candidate("a", 1.0, ("x",)), Candidate("b", 3.0, ("y",))]
    assert [c.share for c in repair._adding_up(candidates, total)] == shares


def test_a_missed_goal_asks_for_six_tenths_of_what_is_left() -> None:
    assert repair._tighter(1.0, 2.0) == pytest.approx(1.6)
    assert repair._tighter(3.0, 2.0) == 2.0


class Ranges:
    """A state whose SQNR is what `score` makes of the ranges."""

    def __init__(self, absmax: Mapping[str, float], score: Any) -> None:
        self.absmax, self.score = dict(absmax), score
        self.graph = SimpleNamespace(layers=())
        self.steps: List[Step] = []

    def simulation(self, absmax: Optional[Mapping[str, float]] = None) -> Any:
        ranges = self.absmax if absmax is None else dict(absmax)
        return SimpleNamespace(noise=lambda feeds: SimpleNamespace(sqnr_db=self.score(ranges)), ranges=ranges)


def lossy(name: str, loss_db: float, share: float, best: float = 1.0) -> TensorError:
    return TensorError(name, 2.0, best, 20.0, 20.0 + loss_db, share)


def better(state: Any, errors: Sequence[TensorError], goal_db: float, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(repair, "copies", lambda graph: {"copy": "c"})
    return repair.better_thresholds(state, errors, (), lambda db, simulation: db >= goal_db)


def test_a_threshold_is_tried_from_one_db_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for loss_db, tried in ((0.99, 0), (1.0, 1)):
        state = Ranges({"a": 2.0}, lambda r: 10.0)
        assert not better(state, [lossy("a", loss_db, 0.1)], 99.0, monkeypatch)
        assert len(state.steps) == tried
    state = Ranges({"b": 2.0}, lambda r: 10.0)
    assert not better(state, [lossy("a", 9.0, 0.1)], 0.0, monkeypatch)
    assert state.steps == []


@pytest.mark.parametrize(
    ("gain_db", "goal_db", "kept", "met"), [(0.05, 0.0, False, False), (0.06, 0.0, True, True), (0.06, 99.0, True, False)]
)
def test_thresholds_stay_where_the_outputs_gain_more_than_chance(
    gain_db: float, goal_db: float, kept: bool, met: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Ranges({"a": 2.0, "b": 2.0}, lambda r: 0.0 if r["a"] == 2.0 else gain_db)
    assert better(state, [lossy("a", 3.0, 0.1)], goal_db, monkeypatch) is met
    assert state.absmax == {"a": 1.0 if kept else 2.0, "b": 2.0}
    assert state.steps == [Step("better thresholds", "1 threshold: a", 0.0, gain_db, kept)]


def test_the_noisiest_thresholds_come_first_and_no_more_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [lossy("a", 2.0, 0.1), lossy("b", 9.0, 0.1), lossy("c", 3.0, 0.3, 0.5), lossy("copy", 2.0, 0.2, 1.5)]
    start = dict.fromkeys(("a", "b", "c", "copy"), 2.0)
    # Each tensor that left its old range gives 2 dB.
    state = Ranges(start, lambda r: 2.0 * sum(v != 2.0 for v in r.values()))
    assert better(state, errors, 5.0, monkeypatch)
    assert state.absmax == {"a": 2.0, "b": 1.0, "c": 1.5, "copy": 1.5}
    assert state.steps == [Step("better thresholds", "2 thresholds of 3 tensors: c, b", 0.0, 6.0, True)]
    # A count that gains no more than chance over a smaller one is not taken.
    state = Ranges(start, lambda r: 4.0 if r["c"] != 2.0 else 0.0)
    assert not better(state, errors, 5.0, monkeypatch)
    assert state.steps == [Step("better thresholds", "1 threshold of 2 tensors: c", 0.0, 4.0, True)]


@pytest.mark.parametrize(("count", "named"), [(4, "a, b, c, d"), (6, "a, b, c, d, ...")])
def test_a_step_names_four_thresholds(count: int, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "abcdef"[:count]
    state = Ranges(dict.fromkeys(names, 2.0), lambda r: float(sum(v != 2.0 for v in r.values())))
    assert not better(state, [lossy(n, 3.0, 0.5 - k / 10) for k, n in enumerate(names)], 99.0, monkeypatch)
    assert state.steps[0].detail == f"{count} thresholds: {named}"


# --- Ranks of tensors


@pytest.mark.parametrize(
    ("alone_db", "best_db", "gain", "loss", "suspect"),
    [
        (20.0, 26.0, False, 6.0, True),
        (20.0, 26.0, True, 6.0, False),
        (20.0, 25.9, False, 5.9, False),
        (20.0, 19.0, False, 0.0, False),
        (INF, INF, False, 0.0, False),
        (20.0, INF, False, INF, True),
    ],
)
def test_a_scale_six_db_off_is_suspect_where_the_outputs_gain_nothing(
    alone_db: float, best_db: float, gain: bool, loss: float, suspect: bool
) -> None:
    error = TensorError("a", 1.0, 1.0, alone_db, best_db, outputs_gain=gain)
    assert error.loss_db == pytest.approx(loss)
    assert error.suspect is suspect


class Shares:
    """A simulation whose noise is a figure of the rounded tensors; keeps what was asked."""

    def __init__(self, shares: Mapping[str, float], best: float = 0.0) -> None:
        self.shares, self.best = shares, best
        self.tensors = tuple(shares)
        self.asked: List[Tuple[int, Tuple[str, ...]]] = []

    def noise(self, feeds: Sequence[Any], absmax: Mapping[str, float] = {}, rounded: Sequence[str] = ()) -> Any:
        self.asked.append((len(feeds), tuple(rounded)))
        share = sum(self.shares[n] for n in rounded)
        return SimpleNamespace(share=self.best if any(absmax.get(n) == 1.0 for n in rounded) else share)


def errors_of(names: Sequence[str], loss_db: float = 0.0) -> List[TensorError]:
    return [TensorError(n, 2.0, 1.0, 20.0, 20.0 + loss_db) for n in names]


@pytest.mark.parametrize(
    ("tensors", "feeds", "coarse", "exact"), [(32, 3, 0, 32), (33, 2, 0, 33), (33, 3, 33, 32), (40, 5, 40, 32)]
)
def test_of_many_tensors_the_noisiest_32_run_on_all_samples(tensors: int, feeds: int, coarse: int, exact: int) -> None:
    simulation: Any = Shares({f"t{i}": 1.0 + i for i in range(tensors)})
    said: List[Tuple[int, int]] = []
    absmax = dict.fromkeys(simulation.tensors, 2.0)
    got = triage.with_output_shares(
        errors_of(simulation.tensors), simulation, [{}] * feeds, absmax, progress=lambda *a: said.append(a)
    )
    assert [e.output_share for e in got] == [1.0 + i for i in range(tensors)]
    assert sum(n == 2 for n, _ in simulation.asked) == (coarse if feeds != 2 else tensors)
    assert sum(n == feeds for n, _ in simulation.asked) == exact
    assert said == [(k, tensors) for k in range(1, tensors + 1)]
    # From the outputs back, so that what lies in front is held.
    assert simulation.asked[0][1] == (f"t{tensors - 1}",)
    if coarse:
        assert "t0" not in {names[0] for n, names in simulation.asked if n == feeds}


def test_known_shares_are_not_measured_again() -> None:
    simulation = Shares({"a": 1.0, "b": 2.0})
    got = triage.with_output_shares(errors_of("ab"), simulation, [{}], {}, known={"a": 7.0})  # type: ignore[arg-type]
    assert [e.output_share for e in got] == [7.0, 2.0]
    assert simulation.asked == [(1, ("b",))]


@pytest.mark.parametrize(("best", "gains"), [(0.9, False), (1.0, True), (1.1, True)])
def test_a_suspect_range_that_serves_the_outputs_is_no_fault(best: float, gains: bool) -> None:
    simulation = Shares({"a": 1.0, "b": 0.0}, best)
    absmax = {"a": 2.0, "b": 2.0}
    errors = [*errors_of("b"), *errors_of("a", 9.0)]
    got = triage.with_output_shares(errors, simulation, [{}], absmax, groups=[("a", "b")])  # type: ignore[arg-type]
    assert {e.tensor: e.outputs_gain for e in got} == {"a": gains, "b": False}
    assert [e.tensor for e in got] == (["b", "a"] if gains else ["a", "b"])
    # The tensors of one scale change together.
    assert simulation.asked[-2:] == [(1, ("a", "b")), (1, ("a", "b"))]


def test_what_a_run_measured_is_added_by_name() -> None:
    got = triage.with_accumulated(errors_of("ab"), {"b": (12.0, 0.5)})
    assert [(e.accumulated_db, e.cosine) for e in got] == [(None, None), (12.0, 0.5)]


# --- Thresholds by the outputs' noise


class Falling:
    """Noise by one tensor's range: `least` is the range of least noise."""

    def __init__(self, noise: Any) -> None:
        self.noise, self.tried = noise, []  # type: ignore[var-annotated]

    def parts(self, ranges: Mapping[str, float], known: Sequence[float] = ()) -> List[float]:
        self.tried.append(round(ranges["a"], 6))
        return [self.noise(ranges["a"])]


@pytest.mark.parametrize(
    ("noise", "best", "tried"),
    [
        # Falls down to 0.5**2, then rises: given up after two steps without a gain.
        (lambda r: abs(r - 0.25) + 1, 0.25, [0.5, 0.25, 0.125, 0.0625]),
        # Nothing below: the other direction.
        (lambda r: abs(r - 4.0) + 1, 4.0, [0.5, 0.25, 2.0, 4.0, 8.0, 16.0]),
        # One step without a gain is passed over.
        (lambda r: {1.0: 10.0, 0.5: 11.0, 0.25: 1.0}.get(r, 20.0), 0.25, [0.5, 0.25, 0.125, 0.0625]),
        # 0.4 % less is chance, 0.6 % is not.
        (lambda r: 99.6 if r == 0.5 else 100.0, 1.0, [0.5, 0.25, 2.0, 4.0]),
        (lambda r: 99.4 if r == 0.5 else 100.0, 0.5, [0.5, 0.25, 0.125]),
    ],
)
def test_a_range_is_divided_or_multiplied_while_the_noise_falls(noise: Any, best: float, tried: List[float]) -> None:
    falling = Falling(noise)
    got, least = output_thresholds._best(falling, ("a", "b"), {"a": 0.5, "b": 1.0}, 0.5, [noise(1.0)])  # type: ignore[arg-type]
    assert (got, least) == (best, [noise(best)])
    assert falling.tried == tried


def chosen(shares: Mapping[str, float], tied: Sequence[Tuple[str, ...]] = (), fixed: Sequence[str] = ()) -> List[Any]:
    simulation = SimpleNamespace(
        tensors=tuple(shares), noise=lambda feeds, rounded=None: SimpleNamespace(share=0.0 if rounded else 0.1)
    )
    state = SimpleNamespace(absmax=dict.fromkeys(shares, 1.0), tied=lambda names: list(tied))
    errors = [TensorError(n, 1.0, 1.0, 9.0, 9.0, s) for n, s in shares.items()]
    return output_thresholds._groups(state, simulation, (), errors, fixed)  # type: ignore[arg-type]


def test_ranges_are_tried_where_the_outputs_noise_is() -> None:
    # 0.1 of each is of rounded weights.
    assert chosen({"a": 0.2, "b": 1.1, "c": 0.1, "d": 0.6}) == [("b",), ("d",), ("a",)]
    assert chosen({"a": 0.2, "b": 1.1, "d": 0.6}, [("a", "d")]) == [("b",), ("a", "d")]
    assert chosen({"a": 0.2, "b": 1.1, "d": 0.6}, fixed=["b"]) == [("d",), ("a",)]
    # 97 % of the noise is enough.
    assert chosen({"a": 97.1, "b": 3.1}) == [("a",)]
    assert chosen({"a": 96.9, "b": 3.3}) == [("a",), ("b",)]
    assert len(chosen({f"t{i}": 1.1 for i in range(30)})) == 24


# --- Channels of an output


def model_of(nodes: Sequence[onnx.NodeProto], shape: Sequence[int], output: Sequence[Any], **weights: np.ndarray) -> Any:
    return onnx_model(list(nodes), {"x": list(shape)}, {"y": list(output)}, weights)


def sources(nodes: Sequence[onnx.NodeProto], shape: Sequence[int], output: Sequence[Any], **weights: np.ndarray) -> Any:
    model = model_of(nodes, shape, output, **weights)
    units = units_of(model, ["y"], {"x": np.zeros(shape, np.float32)})["y"]
    return [(s.tensor, s.first, s.channels, s.bounded) for s in units.sources], units


ONES = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("nodes", "shape", "channels"),
    [
        ([node("Relu", "x", "y")], (1, 3, 4, 5), 3),
        ([node("Relu", "x", "y")], (6, 3), 3),
        ([node("Relu", "x", "y")], (6,), 6),
        # Of rank 3 the shorter axis, and the first of two equal ones.
        ([node("Relu", "x", "y")], (1, 3, 4), 3),
        ([node("Relu", "x", "y")], (1, 6, 4), 4),
        # Behind a matrix product the last one, also through what keeps it.
        ([node("MatMul", "x w", "y")], (1, 3, 4), 4),
        ([node("MatMul", "x w", "a"), node("Erf", "a", "b"), node("Add", "b x", "y")], (1, 3, 4), 4),
        ([node("MatMul", "x w", "a"), node("Exp", "a", "y")], (1, 3, 4), 3),
    ],
)
def test_the_axis_of_channels(nodes: Any, shape: Tuple[int, ...], channels: int) -> None:
    weights = {"w": ONES} if nodes[0].op_type == "MatMul" else {}
    assert sources(nodes, shape, shape, **weights)[0] == [("y", 1, channels, False)]


def test_a_convolution_of_rank_3_has_its_channels_in_front() -> None:
    weights = np.ones((6, 2, 1), np.float32)
    assert sources([node("Conv", "x w", "y")], (1, 2, 4), (1, 6, 4), w=weights)[0] == [("y", 1, 6, False)]


@pytest.mark.parametrize(
    ("nodes", "bounded"),
    [
        ([node("Sigmoid", "x", "y")], True),
        ([node("Tanh", "x", "y")], True),
        ([node("Exp", "x", "y")], False),
        ([node("Sigmoid", "x", "a"), node("Tanh", "x", "b"), node("Mul", "a b", "y")], True),
        ([node("Sigmoid", "x", "a"), node("Exp", "x", "b"), node("Mul", "a b", "y")], False),
        ([node("Sigmoid", "x", "a"), node("Mul", "a w", "y")], False),
        ([node("Sigmoid", "x", "a"), node("Sigmoid", "x", "b"), node("Add", "a b", "y")], False),
    ],
)
def test_a_product_of_bounded_values_is_bounded(nodes: Any, bounded: bool) -> None:
    weights = {"w": np.full((1, 4, 2, 2), 9, np.float32)} if any("w" in n.input for n in nodes) else {}
    ((tensor, first, channels, got),) = sources(nodes, (1, 4, 2, 2), (1, 4, 2, 2), **weights)[0]
    assert (tensor, first, channels, got) == ("y", 1, 4, bounded)


def test_every_element_of_a_concatenation_knows_its_channel() -> None:
    nodes = [node("Sigmoid", "x", "a"), node("Exp", "x", "b"), node("Concat", "a b", "c", axis=1), node("Reshape", "c to", "y")]
    of, units = sources(nodes, (1, 2, 1, 3), (1, 4, 3), to=np.array([1, 4, 3], np.int64))
    assert sorted(of, key=lambda s: s[1]) in ([("a", 1, 2, True), ("b", 3, 2, False)], [("b", 1, 2, False), ("a", 3, 2, True)])
    first = {tensor: number for tensor, number, _, _ in of}
    expected = [first["a"]] * 3 + [first["a"] + 1] * 3 + [first["b"]] * 3 + [first["b"] + 1] * 3
    assert units.ids.tolist() == expected
    assert (units.dims, units.count, set(units.path)) == ((1, 4, 3), 5, {"c", "y"})


def test_channels_between_convolutions_are_scaled_by_half_of_the_difference() -> None:
    first = np.zeros((2, 1, 1, 1), np.float32)
    first[:, 0, 0, 0] = 1.0, 4.0
    second = np.zeros((1, 2, 1, 1), np.float32)
    second[0, :, 0, 0] = -1.0, 4.0
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "b"), node("Conv", "b v", "y")]
    model = model_of(nodes, (1, 1, 2, 2), (1, 1, 2, 2), w=first, v=second)
    groups = _groups(model)
    assert [sorted(g.tensors) for g in groups] == [["a", "b"]]
    feeds = [{"x": np.full((1, 1, 2, 2), v, np.float32)} for v in (1.0, 9.0, 4.0)]
    # Ranges 9 and 36, weights 1 and 4: both sides are alike already.
    assert _factors(model, groups, feeds)[0] == pytest.approx([1.0, 1.0])
    second[0, :, 0, 0] = 1.0, 1.0
    model = model_of(nodes, (1, 1, 2, 2), (1, 1, 2, 2), w=first, v=second)
    # sqrt(1 / 9) and sqrt(1 / 36), over their median 0.25.
    assert _factors(model, groups, feeds)[0] == pytest.approx([4 / 3, 2 / 3])
    second[0, :, 0, 0] = 1.0, 0.0
    model = model_of(nodes, (1, 1, 2, 2), (1, 1, 2, 2), w=first, v=second)
    assert _factors(model, groups, feeds)[0] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(("gain", "factors"), [(8.0, [8.0 / 4.5, 1 / 4.5]), (4096.0, [2.0, 1 / 16])])
def test_a_depthwise_convolution_wants_channels_of_one_range(gain: float, factors: List[float]) -> None:
    """1 / range over the median of both; at most a factor of 16."""
    first = np.zeros((2, 1, 1, 1), np.float32)
    first[:, 0, 0, 0] = 1.0, gain
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "b"), node("Conv", "b v", "y", group=2)]
    model = model_of(nodes, (1, 1, 2, 2), (1, 2, 2, 2), w=first, v=np.ones((2, 1, 1, 1), np.float32))
    got = _factors(model, _groups(model), [{"x": np.ones((1, 1, 2, 2), np.float32)}])[0]
    assert got == pytest.approx(factors, rel=1e-3)


# --- Scores


def test_a_score_says_what_it_computed_in() -> None:
    figures: Dict[str, Any] = {
        "network": "n",
        "basis": "fp32",
        "metric": "top1",
        "value": 0.5,
        "low": NAN,
        "high": 0.75,
        "samples": 8,
    }
    assert Score(**figures).computed_in == "FP32"
    assert Score(**figures, types=("FP16", "BF16")).computed_in == "FP16 and BF16"
    row = {**figures, "low": None}
    assert Score(**figures).to_dict() == row
    assert Score(**figures, types=("FP16",)).to_dict() == {**row, "types": ["FP16"]}


@pytest.mark.parametrize(("backend", "kind"), [("tensorrt", "engine"), ("host", "chain")])
def test_only_a_single_simulated_model_names_its_first_fault(backend: str, kind: str) -> None:
    assert first_fault_of(SimpleNamespace(backend=backend, kind=kind)) is None  # type: ignore[arg-type]


def test_only_inputs_of_a_float_type_are_cast() -> None:
    network: Any = SimpleNamespace(
        inputs=(SimpleNamespace(name="a", dtype=np.float16), SimpleNamespace(name="b", dtype=np.int64))
    )
    feed = {n: np.ones(1, t) for n, t in (("a", np.float32), ("b", np.float32), ("c", np.float32))}
    assert [x.dtype for x in _fed(feed, network).values()] == [np.float16, np.float32, np.float32]
    assert _fed({"a": np.ones(1, np.uint8)}, network)["a"].dtype == np.uint8
