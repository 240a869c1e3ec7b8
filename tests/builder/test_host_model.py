"""Simulated DLA precision: what is rounded, how, and what is left alone, against NumPy on tiny networks."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgedla.builder.host.accuracy import ErrorSum, OutputError
from edgedla.builder.host.backend import build_host
from edgedla.builder.host.node_modes import node_modes
from edgedla.builder.host.simulated_model import simulate
from edgedla.builder.host.stored_weights import quantize_weights
from edgedla.builder.plan.plan import BuildPlan, Calibration, IoPlan, LayerPlan
from edgedla.errors import RunError
from edgedla.formats.pack import dequantize, quantize
from edgedla.quantization.session import open_session
from edgedla.reports.build import _accuracy
from tests.models import node, onnx_model

RNG = np.random.default_rng(0)
WEIGHT = (RNG.standard_normal((8, 3, 3, 3)) * 0.2).astype(np.float32)
IMAGE = RNG.standard_normal((1, 3, 6, 6)).astype(np.float32)


def network(nodes: Sequence[Any], constants: Dict[str, np.ndarray], shape: Sequence[int] = (1, 3, 6, 6)) -> Any:
    return onnx_model(nodes, {"x": shape}, {"y": list("nchw")}, constants)


def conv(output: str = "y") -> Any:
    return helper.make_node("Conv", ["x", "w"], [output], name="conv", pads=[1, 1, 1, 1])


def run(model: Any, x: np.ndarray = IMAGE) -> np.ndarray:
    session = open_session(model.SerializeToString())
    return session.run(["y"], {"x": x})[0]  # type: ignore[no-any-return]


@pytest.fixture
def dla_plan(plan_for: Callable[..., BuildPlan]) -> Callable[..., BuildPlan]:
    """`dla_plan("int8", {"conv": "DLA0"}, absmax)`: a plan with these layers, each named after its ONNX node."""

    def make(precision: str, devices: Dict[str, str], absmax: Dict[str, float] = {}) -> BuildPlan:  # noqa: B006
        layers = tuple(LayerPlan(n, "CONVOLUTION", d, None, "dla", (), n) for n, d in devices.items())
        io = (IoPlan("x", True, (1, 3, 6, 6), "FLOAT", "LINEAR"), IoPlan("y", False, (1, 8, 6, 6), "FLOAT", "LINEAR"))
        calibration = Calibration("data", absmax) if absmax else Calibration()
        return plan_for("10.3.0", "hybrid", precision, layers=layers, io=io, calibration=calibration)

    return make


def test_fp16_rounds_weights_inputs_and_outputs(dla_plan: Callable[..., BuildPlan]) -> None:
    model = network([conv()], {"w": WEIGHT})
    simulated = simulate(model, dla_plan("fp16", {"conv": "DLA0"}))
    rounded = network([conv()], {"w": WEIGHT.astype(np.float16).astype(np.float32)})
    want = run(rounded, IMAGE.astype(np.float16).astype(np.float32)).astype(np.float16).astype(np.float32)
    got = run(simulated.model)
    np.testing.assert_array_equal(got, got.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert np.abs(got - run(model)).max() > 0
    assert (simulated.nodes_int8, simulated.nodes_fp16, simulated.nodes_fp32) == (0, 1, 0)


def test_gpu_nodes_keep_every_bit(dla_plan: Callable[..., BuildPlan]) -> None:
    model = network([conv()], {"w": WEIGHT})
    simulated = simulate(model, dla_plan("int8", {"conv": "GPU"}, {"x": 3.0, "y": 3.0}))
    np.testing.assert_array_equal(run(simulated.model), run(model))
    assert simulated.nodes_fp32 == 1


def test_int8_rounds_halves_away_from_zero_and_clamps(dla_plan: Callable[..., BuildPlan]) -> None:
    model = network([node("Relu", "x", "y", name="relu")], {}, (1, 3, 6, 6))
    plan = dla_plan("int8", {"relu": "DLA0"}, {"x": 127.0, "y": 127.0})
    ties = np.arange(108, dtype=np.float32).reshape(1, 3, 6, 6) + 0.5
    ties.flat[-3:] = [0.4999, 126.5, 4000.0]
    got = run(simulate(model, plan).model, ties)
    np.testing.assert_array_equal(got, dequantize(quantize(np.maximum(ties, 0), 1.0), 1.0))
    assert got.flat[0] == 1.0
    assert got.flat[-3:].tolist() == [0.0, 127.0, 127.0]


def test_int8_convolution_equals_the_same_in_numpy(dla_plan: Callable[..., BuildPlan]) -> None:
    model = network([conv()], {"w": WEIGHT})
    exact = run(model)
    absmax = {"x": float(np.abs(IMAGE).max()), "y": float(np.abs(exact).max())}
    got = run(simulate(model, dla_plan("int8", {"conv": "DLA0"}, absmax)).model)
    scale = absmax["y"] / 127
    inner = run(
        network([conv()], {"w": quantize_weights(WEIGHT, 0)}), dequantize(quantize(IMAGE, absmax["x"] / 127), absmax["x"] / 127)
    )
    want = dequantize(quantize(inner, scale), scale)
    # A sum of another order may fall on the other side of a tie.
    assert np.abs(got - want).max() <= scale * 1.001
    assert np.mean(np.abs(got - want) > 1e-6) < 0.01
    assert 0 < np.abs(got - exact).max() < 4 * scale


def test_values_inside_a_fused_convolution_are_not_rounded(dla_plan: Callable[..., BuildPlan]) -> None:
    ones, zeros = np.ones(8, np.float32), np.zeros(8, np.float32)
    nodes = [conv("a"), node("BatchNormalization", "a s b m v", "c", name="bn"), node("Relu", "c", "y", name="relu")]
    model = network(nodes, {"w": WEIGHT, "s": ones, "b": zeros, "m": zeros, "v": ones})
    plan = dla_plan("fp16", {"conv": "DLA0", "bn": "DLA0", "relu": "DLA0"})
    # Two casts for the input and two for the output; none in between.
    assert [n.op_type for n in simulate(model, plan).model.graph.node].count("Cast") == 4
    split = dla_plan("fp16", {"conv": "DLA0", "bn": "DLA0", "relu": "GPU"})
    assert [n.op_type for n in simulate(model, split).model.graph.node].count("Cast") == 4
    alone = dla_plan("fp16", {"conv": "DLA0", "bn": "GPU", "relu": "DLA0"})
    assert [n.op_type for n in simulate(model, alone).model.graph.node].count("Cast") == 8


@pytest.mark.parametrize(
    ("nodes", "absmax", "modes"),
    [
        (["Relu"], {"x": 1.0, "y": 1.0}, ["int8"]),
        (["Relu"], {"x": 1.0}, ["fp16"]),
        (["Sigmoid"], {"x": 1.0, "y": 1.0}, ["fp16"]),
        (["Relu", "Sigmoid"], {"x": 1.0, "t0": 1.0, "y": 1.0}, ["int8", "fp16"]),
    ],
    ids=["all scales", "a scale is missing", "fp16 only operator", "mixed"],
)
def test_int8_needs_scales_and_an_int8_mode(
    nodes: List[str], absmax: Dict[str, float], modes: List[str], dla_plan: Callable[..., BuildPlan]
) -> None:
    names = ["x", *[f"t{i}" for i in range(len(nodes) - 1)], "y"]
    made = [helper.make_node(op, [names[i]], [names[i + 1]], name=f"n{i}") for i, op in enumerate(nodes)]
    plan = dla_plan("int8", {f"n{i}": "DLA0" for i in range(len(nodes))}, absmax)
    assert node_modes(network(made, {}), plan) == modes


def test_a_branch_node_does_not_share_layers_with_an_outer_node_of_its_name(dla_plan: Callable[..., BuildPlan]) -> None:
    """A constant that took the Relu's for its own had to be rounded, and has no range."""
    weights = helper.make_node("Constant", [], ["w"], name="same", value=numpy_helper.from_array(WEIGHT, "w"))
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"], name="same")],
        "branch",
        [],
        [helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, None)],
    )
    branches = helper.make_node("If", ["yes"], ["z"], name="if", then_branch=inner, else_branch=inner)
    plan = dla_plan("int8", {"same": "DLA0", "conv": "DLA0"}, {"x": 1.0, "y": 1.0, "r": 1.0})
    assert node_modes(network([weights, branches, conv()], {"yes": np.array(True)}), plan) == ["", "", "int8"]


def test_weight_quantisation_is_per_output_channel() -> None:
    weights = np.stack([WEIGHT[0], WEIGHT[1] * 100, np.zeros_like(WEIGHT[0])])
    back = quantize_weights(weights, 0)
    for k, channel in enumerate(weights):
        step = np.abs(channel).max() / 127
        assert np.abs(back[k] - channel).max() <= step / 2 * 1.001
    moved = quantize_weights(np.moveaxis(weights, 0, 1), 1)
    np.testing.assert_array_equal(np.moveaxis(moved, 1, 0), back)


def test_the_error_is_measured_and_its_tolerance_stated(dla_plan: Callable[..., BuildPlan]) -> None:
    model = network([conv()], {"w": WEIGHT})
    built = build_host(dla_plan("fp16", {"conv": "DLA0"}), model)
    assert built.accuracy["within"] is True
    assert built.accuracy["reference"] == "ONNX Runtime FP32"
    assert 0 < built.accuracy["worst_rel_l2"] < built.accuracy["tolerance_rel_l2"] == 0.005
    assert built.accuracy["nodes"] == {"dla_int8": 0, "dla_fp16": 1, "gpu_fp32": 0}
    onnx.checker.check_model(onnx.load_from_string(built.data))


def test_overflow_to_infinity_is_an_error_not_a_number(dla_plan: Callable[..., BuildPlan]) -> None:
    model = network([conv()], {"w": WEIGHT * 1e7})
    with pytest.raises(RunError, match="not finite"):
        build_host(dla_plan("fp16", {"conv": "DLA0"}), model)


def error_of(*pairs: Sequence[np.ndarray]) -> OutputError:
    total = ErrorSum("y")
    for want, got in pairs:
        total.add(want, got)
    return total.error()


def test_error_figures_of_known_values() -> None:
    want, got = np.array([3.0, 4.0, np.nan]), np.array([3.0, 4.5, 1.0])
    error = error_of((want, got))
    assert error.rel_l2 == pytest.approx(0.1)
    assert error.max_abs == 0.5
    integers = error_of((np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])))
    assert (integers.rel_l2, integers.same) == (0.25, 0.75)
    other_shape = error_of((np.zeros((3, 4)), np.zeros((2, 4))), (np.zeros(1), np.zeros(1)))
    assert other_shape.rel_l2 == 1.0
    assert other_shape.to_dict()["max_abs"] is None
    assert error_of((np.zeros(0, np.float32), np.zeros(0, np.float32))).cosine == 1.0


def test_nan_outputs_have_no_error_figure_and_are_not_within_tolerance(dla_plan: Callable[..., BuildPlan]) -> None:
    """NaN against NaN was an error of 0.0, within the tolerance."""
    blind = error_of((np.full(3, np.nan), np.full(3, np.nan)))
    assert blind.to_dict() == {"name": "y", "rel_l2": None, "max_abs": None, "cosine": None, "same": None}
    built = build_host(dla_plan("fp16", {"conv": "DLA0"}), network([conv()], {"w": WEIGHT * np.nan}))
    assert built.accuracy["within"] is None
    assert built.accuracy["worst_rel_l2"] is None
    assert built.notes == ("weights of conv hold NaN or infinity: w",)
    told = "\n".join(_accuracy(built.accuracy))
    assert "relative L2 not known against ONNX Runtime FP32, no verdict: y of the model itself is NaN" in told
    assert "y: nothing to compare" in told


def test_the_error_accumulated_over_pieces_equals_that_over_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    pairs = [(rng.standard_normal((3, 5)).astype(np.float32), rng.standard_normal((3, 5))) for _ in range(3)]
    want, got = (np.concatenate([p[k].reshape(-1) for p in pairs]).astype(np.float64) for k in (0, 1))
    monkeypatch.setattr("edgedla.builder.host.accuracy.PIECE_ELEMENTS", 4)
    error = error_of(*pairs)
    assert error.rel_l2 == pytest.approx(np.linalg.norm(got - want) / np.linalg.norm(want))
    assert error.cosine == pytest.approx(want @ got / np.linalg.norm(want) / np.linalg.norm(got))
    assert error.max_abs == pytest.approx(np.abs(got - want).max())
