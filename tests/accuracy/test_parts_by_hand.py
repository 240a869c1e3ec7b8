"""Parts of the room on figures that are worked out by hand: moves, sums of channels, times of layers, layers for FP16, rescaling."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgedla.accuracy import repair
from edgedla.accuracy.channels.measure import ChannelGroup, _by_unit, _groups, _Sums
from edgedla.accuracy.channels.units import Source, units_of
from edgedla.accuracy.choose_fp16 import Border, Choice, Prices
from edgedla.accuracy.layer_times import LayerTimes
from edgedla.accuracy.repairs.bias_correction import _mean_errors, _with_biases
from edgedla.accuracy.repairs.equalize import _factors
from edgedla.accuracy.repairs.equalize import _groups as equalized
from edgedla.accuracy.repairs.rescale import ScaleGroup, Wiring, fp16_loss, rescaled
from edgedla.accuracy.state import Step
from edgedla.accuracy.translate import Translated, exported_by_torch, translate
from edgedla.accuracy.triage import TensorError
from edgedla.errors import ModelError, UsageError
from edgedla.quantization.session import open_session
from edgedla.targets import platform_for
from tests.models import node, onnx_model

INF = math.inf


# --- Moves: channel of each element of the output


@pytest.mark.parametrize(
    ("move", "attributes", "operand", "ids"),
    [
        ("Transpose", {"perm": [0, 2, 3, 1]}, None, [1, 2, 1, 2, 1, 2, 1, 2]),
        ("Reshape", {}, [1, 8], [1, 1, 1, 1, 2, 2, 2, 2]),
        ("Flatten", {}, None, [1, 1, 1, 1, 2, 2, 2, 2]),
        ("Squeeze", {}, [0], [1, 1, 1, 1, 2, 2, 2, 2]),
        ("Unsqueeze", {}, [0], [1, 1, 1, 1, 2, 2, 2, 2]),
        ("Identity", {}, None, [1, 1, 1, 1, 2, 2, 2, 2]),
        ("Gather", {"axis": 1}, [1, 0, 1], [2] * 4 + [1] * 4 + [2] * 4),
        ("Expand", {}, [2, 2, 2, 2], ([1] * 4 + [2] * 4) * 2),
        ("Tile", {}, [1, 1, 1, 2], [1] * 8 + [2] * 8),
        ("Pad", {}, [0, 0, 0, 1, 0, 0, 0, 0], [0, 1, 1, 0, 1, 1, 0, 2, 2, 0, 2, 2]),
        ("SpaceToDepth", {"blocksize": 2}, None, [1, 2, 1, 2, 1, 2, 1, 2]),
        ("MaxPool", {"kernel_shape": [2, 2]}, None, [1, 2]),
        ("GlobalMaxPool", {}, None, [1, 2]),
        ("Relu", {}, None, [1, 1, 1, 1, 2, 2, 2, 2]),
        ("AveragePool", {"kernel_shape": [2, 2]}, None, [1, 2]),
    ],
)
def test_a_move_keeps_the_channel_of_every_element(move: str, attributes: Any, operand: Any, ids: List[int]) -> None:
    constants = {} if operand is None else {"to": np.array(operand, np.int64)}
    nodes = [node("Exp", "x", "a"), node(move, "a to" if constants else "a", "y", **attributes)]
    model = onnx_model(nodes, {"x": (1, 2, 2, 2)}, {"y": None}, constants)
    units = units_of(model, ["y"], {"x": np.ones((1, 2, 2, 2), np.float32)})["y"]
    moves = move not in ("Relu", "AveragePool")
    assert units.ids.tolist() == ids
    assert [(s.tensor, s.first, s.channels) for s in units.sources] == [("a" if moves else "y", 1, 2)]
    assert units.path == (("y",) if moves else ())


@pytest.mark.parametrize(
    ("keeps", "channels"),
    [
        *(
            (op, 4)
            for op in (
                "Add",
                "Mul",
                "Sub",
                "Div",
                "Relu",
                "Sigmoid",
                "Softmax",
                "Tanh",
                "Clip",
                "HardSigmoid",
                "HardSwish",
                "Erf",
            )
        ),
        ("Abs", 3),
        ("Neg", 3),
    ],
)
def test_operators_that_keep_the_axis_of_channels(keeps: str, channels: int) -> None:
    operand = "a x" if keeps in ("Add", "Mul", "Sub", "Div") else "a"
    nodes = [node("MatMul", "x w", "a"), node(keeps, operand, "y")]
    model = onnx_model(nodes, {"x": (1, 3, 4)}, {"y": (1, 3, 4)}, {"w": np.ones((4, 4), np.float32)}, opset=14)
    (source,) = units_of(model, ["y"], {"x": np.ones((1, 3, 4), np.float32)})["y"].sources
    assert (source.channels, source.bounded) == (channels, keeps in ("Sigmoid", "HardSigmoid", "Tanh", "Softmax"))


# --- Sums of channels


def summed(exact: Sequence[Sequence[float]], simulated: Sequence[Sequence[float]]) -> _Sums:
    """One row a channel."""
    ids = np.repeat(np.arange(1, len(exact) + 1), len(exact[0]))
    sums = _Sums(len(exact) + 1)
    sums.add(np.array(exact), np.array(simulated), *_by_unit(ids))
    return sums


def groups_of(exact: Any, simulated: Any, scale: Optional[float] = None, bounded: bool = False) -> List[ChannelGroup]:
    return _groups("y", Source("a", 1, len(exact), bounded), summed(exact, simulated), scale)


def test_channels_four_times_smaller_are_a_group_of_their_own() -> None:
    exact = [[1.0, -8.0], [2.0, 0.5], [0.0, 0.0], [-1.9, 1.0]]
    found = groups_of(exact, exact)
    assert [(g.channels, g.absmax) for g in found] == [((0, 1), 8.0), ((3,), 1.9)]
    assert [(g.channels, g.absmax) for g in groups_of(exact, exact, bounded=True)] == [((0, 1, 3), 8.0)]
    assert all((g.sqnr_db, g.one_code, g.few_codes) == (INF, 0, 0) for g in found)


def test_the_error_of_a_group_is_over_what_varies_in_it() -> None:
    # Sum of squares 4 around the mean, error 0.04.
    (found,) = groups_of([[9.0, 11.0, 9.0, 11.0]], [[9.1, 10.9, 9.1, 10.9]])
    assert found.sqnr_db == pytest.approx(20.0)
    # Constant: the values themselves.
    (found,) = groups_of([[10.0, 10.0]], [[10.1, 10.1]])
    assert found.sqnr_db == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("low", "high", "one_code", "few_codes"),
    [(0.0, 0.4, 1, 1), (0.0, 0.6, 0, 1), (-3.0, 3.0, 0, 1), (-3.0, 4.0, 0, 0), (5.0, 5.0, 0, 0)],
)
def test_levels_of_a_channel_are_counted_where_it_varies(low: float, high: float, one_code: int, few_codes: int) -> None:
    (found,) = groups_of([[low, high]], [[low, high]], 1.0)
    assert (found.one_code, found.few_codes, found.scale) == (one_code, few_codes, 1.0)
    assert found.to_dict()["few_codes"] == few_codes


def test_a_group_is_told_with_all_its_figures() -> None:
    group = ChannelGroup("y", "a", (0, 2), 1.5, None, INF, 1, 2, "Conv a (net.py:3)")
    assert group.to_dict() == {
        "output": "y",
        "tensor": "a",
        "channels": [0, 2],
        "absmax": 1.5,
        "scale": None,
        "sqnr_db": None,
        "one_code": 1,
        "few_codes": 2,
        "made_by": "Conv a (net.py:3)",
    }


# --- Times of layers


TIMES = LayerTimes(
    {"a": 10.0, "b": 20.0, "c": 30.0},
    {"a": 15.0, "b": 18.0, "c": 50.0},
    {"a": 4.0, "b": 5.0, "c": 6.0},
    (
        Border(None, ("a",), False, 0.0, 1.0),
        Border("a", ("b",), False, 2.0, 4.0),
        Border("b", ("c",), False, 8.0, 16.0),
        Border("c", (), True, 32.0, 0.0),
    ),
)


def test_prices_are_what_a_layer_takes_beyond_int8_on_the_dla() -> None:
    prices = TIMES.prices(["c"])
    assert prices.fp16_us == {"a": 5.0, "b": -2.0, "c": 20.0}
    assert prices.gpu_us == {"a": -6.0, "b": -15.0}
    assert (prices.borders, prices.on_gpu, prices.no_fp16) == (TIMES.borders, frozenset("c"), frozenset())
    assert TIMES.without_scale_us(["a", "b", "nothing"]) == 5.0


def test_layers_on_the_gpu_pay_for_what_crosses() -> None:
    # b alone: a's output goes there (2), b's comes back (16).
    assert TIMES.to_gpu_us(["b"], ()) == -15.0 + 2.0 + 16.0
    # Beside c on the GPU nothing comes back, and what c took in (8) stays there.
    assert TIMES.to_gpu_us(["b"], ("c",)) == -15.0 + 2.0 - 8.0


def test_a_builds_time_names_its_parts() -> None:
    steps = [Step("x", "", 0, 0, True, 3.0), Step("y", "", 0, 0, False, 9.0)]
    assert TIMES.of_build(["a", "b", "a"], ["a", "c"], steps) == {"int8": 30.0, "fp16": 33.0, "extra": 3.0, "missing": 5.0}
    assert LayerTimes({}, {}, {}).of_build(["a"], [], steps) == {}


# --- Layers for FP16


class Net:
    """A state of three layers in a row on the DLA; SQNR by how many leave INT8."""

    def __init__(self, db: Mapping[int, float]) -> None:
        names = ("a", "b", "c")
        layers = tuple(SimpleNamespace(name=n) for n in names)
        made = {"ta": 0, "tb": 1, "tc": 2}
        read = {"ta": (1,), "tb": (2,), "tc": ()}
        self.graph = SimpleNamespace(layers=layers, producer=lambda t: made.get(t), consumers=lambda t: read.get(t, (0,)))
        self.precisions: Dict[str, str] = {}
        self.devices: Dict[str, str] = {"old": "GPU"}
        self.steps: List[Step] = []
        self.db = db

    def on_dla(self) -> Tuple[str, ...]:
        return ("a", "b")

    def simulation(self) -> Any:
        db = self.db[len(self.precisions)]
        return SimpleNamespace(noise=lambda feeds: SimpleNamespace(sqnr_db=db, share=10 ** (-db / 10)))


ERRORS = [
    TensorError("ta", 1, 1, 9, 9, 0.05),
    TensorError("tb", 1, 1, 9, 9, 0.03),
    TensorError("tc", 1, 1, 9, 9, 0.02),
    TensorError("in", 1, 1, 9, 9, 0.0),
]


def test_candidates_are_tensors_of_known_noise_at_layers_of_the_dla() -> None:
    found = repair.candidates_of(Net({0: 10.0}), ERRORS)  # type: ignore[arg-type]
    assert [(c.tensor, c.share, c.layers) for c in found] == [("ta", 0.05, ("a", "b")), ("tb", 0.03, ("b",))]


def layers_to_fp16(
    state: Any, answers: Sequence[Optional[Choice]], monkeypatch: pytest.MonkeyPatch, goal_db: Optional[float] = None
) -> Tuple[Optional[Choice], List[Tuple[float, Prices]]]:
    asked: List[Tuple[float, Prices]] = []

    def choose(candidates: Any, prices: Prices, excess: float) -> Optional[Choice]:
        asked.append((excess, prices))
        return answers[min(len(asked), len(answers)) - 1]

    monkeypatch.setattr(repair, "choose", choose)
    made = repair.layers_to_fp16(state, ERRORS, TIMES, (), lambda db, simulation: db >= 20.0, goal_db, ("b",))
    return made, asked


def choice(*layers: str, gpu: Tuple[str, ...] = ()) -> Choice:
    return Choice(layers, (), 7.0, True, gpu)


def test_the_first_choice_that_meets_the_goal_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Net({0: 10.0, 1: 20.0})
    made, asked = layers_to_fp16(state, [choice("a", gpu=("a",))], monkeypatch)
    assert made is not None
    assert state.precisions == {"a": "fp16"}
    assert state.devices == {"old": "GPU", "a": "GPU"}
    assert state.steps == [Step("layers in FP16", "1 layers: a (GPU)", 10.0, 20.0, True, 7.0)]
    # Half of the noise of 0.1, of which the candidates make 0.08; c is on the GPU already.
    ((excess, prices),) = asked
    assert excess == pytest.approx(0.05)
    assert (prices.on_gpu, prices.no_fp16) == (frozenset("c"), frozenset("b"))


@pytest.mark.parametrize(
    ("goal_db", "excess"), [(None, 0.05), (12.0, 0.1 - 10**-1.2), (20.0, 0.999 * 0.08), (9.0, 0.05), (10.0, 0.05)]
)
def test_noise_beyond_the_goal_has_to_go(goal_db: Optional[float], excess: float, monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked = layers_to_fp16(Net({0: 10.0, 1: 20.0}), [choice("a")], monkeypatch, goal_db)
    assert asked[0][0] == pytest.approx(excess, rel=1e-9)


def test_a_choice_that_misses_asks_for_more_and_none_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Net({0: 10.0, 1: 12.0, 2: 14.0})
    made, asked = layers_to_fp16(state, [choice("a"), choice("a"), choice("a", "b"), None], monkeypatch)
    assert made is None
    # A choice is run once.
    assert [(s.detail, s.sqnr_db, s.kept) for s in state.steps] == [("1 layers: a", 12.0, False), ("2 layers: a, b", 14.0, False)]
    assert [round(e, 4) for e, _ in asked] == [0.05, 0.0799, 0.0799, 0.0799]
    assert (state.precisions, state.devices) == ({}, {"old": "GPU"})


def test_six_rounds_are_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked = layers_to_fp16(Net({0: 10.0, 1: 12.0}), [choice("a")], monkeypatch)
    assert len(asked) == 6


def test_a_choice_that_leaves_nothing_on_the_dla_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Net({0: 10.0, 1: 20.0})
    _, asked = layers_to_fp16(state, [choice("a", "b", gpu=("a", "b")), choice("b")], monkeypatch)
    assert [bool(prices.gpu_us) for _, prices in asked] == [True, False]
    assert state.steps[0].detail == "1 layers: b"


@pytest.mark.parametrize(("count", "end"), [(6, "f"), (7, "f, ...")])
def test_a_step_names_six_layers(count: int, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = Net({0: 10.0, count: 20.0})
    layers_to_fp16(state, [choice(*"abcdefg"[:count])], monkeypatch)
    assert state.steps[0].detail == f"{count} layers: a, b, c, d, e, {end}"


def test_a_choice_no_better_than_before_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Net({0: 20.0, 1: 20.0})
    made, _ = layers_to_fp16(state, [choice("a"), None], monkeypatch)
    assert made is None
    assert [s.kept for s in state.steps] == [False]


# --- Weights


def run(model: Any, x: np.ndarray, *names: str) -> List[np.ndarray]:
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.helper.make_tensor_value_info(n, 1, None) for n in names)
    return list(open_session(shown.SerializeToString()).run(list(names), {"x": x}))


def uneven(*dims: int) -> np.ndarray:
    return np.random.default_rng(sum(dims)).uniform(0.5, 2.0, dims).astype(np.float32)


CONV = ({"w": (4, 2, 1, 1), "b": (4,)}, node("Conv", "x w b", "a"))
DECONV = ({"w": (2, 4, 1, 1), "b": (4,)}, node("ConvTranspose", "x w b", "a"))
NORM = ({"w": (2,), "b": (2,), "m": (2,), "v": (2,)}, node("BatchNormalization", "x w b m v", "a"))


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (CONV, ({"u": (6, 4, 1, 1)}, node("Conv", "a u", "y"))),
        (CONV, ({"u": (6, 2, 1, 1)}, node("Conv", "a u", "y", group=2))),
        (CONV, ({"u": (4, 1, 1, 1)}, node("Conv", "a u", "y", group=4))),
        (CONV, ({"u": (4,), "c": (4,), "m2": (4,), "v2": (4,)}, node("BatchNormalization", "a u c m2 v2", "y"))),
        (NORM, ({"u": (6, 2, 1, 1)}, node("Conv", "a u", "y"))),
        (NORM, ({"u": (2, 6, 1, 1)}, node("ConvTranspose", "a u", "y"))),
        (DECONV, ({"u": (6, 4, 1, 1)}, node("Conv", "a u", "y"))),
    ],
)
@pytest.mark.parametrize("one", [True, False])
def test_tensors_grow_by_the_factor_and_outputs_stay(first: Any, last: Any, one: bool) -> None:
    dims = {**first[0], **last[0]}
    model = onnx_model([first[1], last[1]], {"x": (1, 2, 2, 2)}, {"y": None}, {n: uneven(*d) for n, d in dims.items()})
    channels = 2 if first is NORM else 4
    by_channel = not one and "ConvTranspose" not in (first[1].op_type, last[1].op_type)
    factor: Any = 2.0 ** np.arange(channels) if by_channel else 4.0
    changed = rescaled(model, ScaleGroup(("a",), (0,), (1,), by_channel), factor)
    x = uneven(1, 2, 2, 2)
    (a, y), (a2, y2) = run(model, x, "a", "y"), run(changed, x, "a", "y")
    grown = factor.reshape(1, -1, 1, 1) if by_channel else factor
    np.testing.assert_allclose(a2, a * grown, rtol=1e-6)
    np.testing.assert_allclose(y2, y, rtol=1e-5)
    assert Wiring(model).group("a") == ScaleGroup(("a",), (0,), (1,), "ConvTranspose" not in (first[1].op_type, last[1].op_type))


@pytest.mark.parametrize(
    ("tensor", "what"), [("x", "input or output"), ("y", "input or output"), ("e", "Exp does not pass"), ("s", "adds a constant")]
)
def test_a_factor_that_cannot_move_is_refused(tensor: str, what: str) -> None:
    nodes = [
        node("Conv", "x w", "a"),
        node("Exp", "a", "e"),
        node("Conv", "e w", "f"),
        node("Add", "f k", "s"),
        node("Conv", "s w", "y"),
    ]
    constants = {"w": uneven(2, 2, 1, 1), "k": uneven(1, 2, 1, 1)}
    with pytest.raises(ModelError, match=what):
        Wiring(onnx_model(nodes, {"x": (1, 2, 2, 2)}, {"y": None}, constants)).group(tensor)


@pytest.mark.parametrize(
    ("values", "loss"),
    [([1.0, 0.5], 0.0), ([1.0, 65504.0], 0.0), ([65520.0, 1.0], INF), ([0.0, 0.0], 0.0), ([1.0 + 2.0**-12, 0.0], 2.0**-12)],
)
def test_the_loss_of_weights_in_fp16_is_relative(values: List[float], loss: float) -> None:
    weights = np.array(values, np.float32).reshape(1, 2, 1, 1)
    model = onnx_model([node("Conv", "x w", "y")], {"x": (1, 2, 2, 2)}, {"y": None}, {"w": weights})
    assert fp16_loss(model, (0,)) == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize("group", [1, 2])
def test_equalisation_reads_weights_by_input_channel_of_their_group(group: int) -> None:
    """Ranges 1 of all channels; the factor is the square root of the largest weight over the median."""
    second = np.ones((2, 4 // group, 1, 1), np.float32)
    second[0, 0] = 16.0
    second[1, -1] = 4.0
    nodes = [node("Conv", "x w", "a"), node("Conv", "a v", "y", group=group)]
    model = onnx_model(nodes, {"x": (1, 1, 2, 2)}, {"y": None}, {"w": np.ones((4, 1, 1, 1), np.float32), "v": second})
    got = _factors(model, equalized(model), [{"x": np.ones((1, 1, 2, 2), np.float32)}])[0]
    assert got == pytest.approx(np.array([4.0, 1.0, 1.0, 2.0]) / 1.5)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(
    ("op", "dims", "corrected"), [("Conv", (2, 1, 1, 1), True), ("ConvTranspose", (1, 2, 1, 1), True), ("Gemm", (1, 2), True)]
)
def test_a_bias_gives_back_what_rounding_takes_on_average(op: str, dims: Any, corrected: bool, opset: int) -> None:
    """Input 0.3 of a range of 127 is stored as 0: the outputs lack 0.3 times the weights."""
    weights = np.array([2.0, -4.0], np.float32).reshape(dims)
    model = onnx_model(
        [node(op, "x w", "y")], {"x": (1, 1) if op == "Gemm" else (1, 1, 2, 2)}, {"y": None}, {"w": weights}, opset
    )
    feeds = [{"x": np.full((1, 1) if op == "Gemm" else (1, 1, 2, 2), v, np.float32)} for v in (0.3, 0.1)]
    errors = _mean_errors(model, ["int8"], {"x": 127.0}, feeds)
    assert list(errors) == [0]
    np.testing.assert_allclose(errors[0], [-0.4, 0.8], rtol=1e-5)
    changed = _with_biases(model, errors)
    (bias,) = (i for i in changed.graph.initializer if i.name != "w")
    np.testing.assert_allclose(numpy_helper.to_array(bias), [0.4, -0.8], rtol=1e-5)
    assert list(changed.graph.node[0].input) == ["x", "w", "y/corrected_bias"]
    assert _mean_errors(model, ["fp16"], {"x": 127.0}, feeds) == {}
    assert _mean_errors(model, ["int8"], {}, feeds) == {}


@pytest.mark.parametrize(("beta", "bias"), [(1.0, 2.5), (0.5, 3.0)])
def test_a_constant_bias_is_lowered_and_a_scaled_one_stays(beta: float, bias: float) -> None:
    constants = {"w": np.ones((1, 1), np.float32), "b": np.array([3.0], np.float32)}
    model = onnx_model([node("Gemm", "x w b", "y", beta=beta)], {"x": (1, 1)}, {"y": None}, constants)
    changed = _with_biases(model, {0: np.array([0.5])})
    values = {i.name: numpy_helper.to_array(i) for i in changed.graph.initializer}
    assert values[changed.graph.node[0].input[2]].tolist() == [bias]


# --- Translation


def plain() -> Any:
    return onnx_model([node("Relu", "x", "y")])


def test_ranges_become_a_cache_or_pairs_by_the_release() -> None:
    old, typed = (platform_for("orin", trt=trt) for trt in ("8.6", "11.0"))
    made = translate(plain(), old, {"x": 127.0, "y": 1.0})
    assert (made.form, made.absmax, made.precisions, made.notes) == ("cache", {"x": 127.0, "y": 1.0}, "", ())
    assert made.cache.splitlines()[1:] == ["x: 3f800000", "y: 3c010204"]
    typed_made = translate(plain(), typed, {"x": 127.0, "y": 1.0})
    assert (typed_made.form, typed_made.cache, typed_made.absmax) == ("qdq", "", {"x": 127.0, "y": 1.0})
    assert b"QuantizeLinear" in typed_made.model
    for platform in (old, typed):
        with pytest.raises(UsageError, match="no samples") as caught:
            translate(plain(), platform)
        assert caught.value.where == "--data"


def test_a_model_of_pairs_takes_no_ranges_and_stays_where_types_decide() -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), node("Relu", "d", "y")]
    model = onnx_model(nodes, constants={"s": np.float32(0.5), "z": np.int8(0)})
    with pytest.raises(UsageError, match="gives scales too"):
        translate(model, platform_for("orin", trt="8.6"), {"x": 1.0})
    kept = translate(model, platform_for("orin", trt="11.0"))
    assert (kept.form, kept.model, kept.absmax) == ("qdq", model.SerializeToString(), {})
    without = translate(model, platform_for("orin", trt="8.6"))
    assert without.form == "cache"
    assert without.absmax["x"] == pytest.approx(63.5)
    assert without.notes[0] == "1 Q/DQ pairs and 0 quantised weights removed"


@pytest.mark.parametrize(
    ("cache", "precisions", "files"),
    [("", "", []), ("c", "", ["calib.cache"]), ("c", "a:fp16", ["calib.cache", "layer-precisions.txt"])],
)
def test_a_translation_is_saved_with_what_it_has(cache: str, precisions: str, files: List[str], tmp_path: Any) -> None:
    written = Translated("cache", plain().SerializeToString(), {}, cache, precisions).save(tmp_path)
    assert sorted(p.name for p in written) == sorted(p.name for p in tmp_path.iterdir()) == [*files, "model.onnx"]
    if precisions:
        assert (tmp_path / "layer-precisions.txt").read_text() == "a:fp16\n"


def test_only_a_model_that_torch_exported_is_replaced(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    assert not exported_by_torch(path)
    for producer, ours in (("edgedla.torch", True), ("edgedla", False), ("pytorch", False)):
        model = plain()
        model.producer_name = producer
        path.write_bytes(model.SerializeToString())
        assert exported_by_torch(path) is ours
