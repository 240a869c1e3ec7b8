"""Every variant in rules/numerics.yaml: its effect, against NumPy, and that the default is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper

from edgedla.builder.building import build, plan_build
from edgedla.builder.host.session import HostSession
from edgedla.builder.host.simulated_model import simulate
from edgedla.builder.host.stored_weights import quantize_weights
from edgedla.builder.plan.plan import BuildPlan, plan_from_dict
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.cli.main import main
from edgedla.errors import UsageError
from edgedla.quantization.numerics import departures, features, parse_numerics, single_departures
from edgedla.rules.docs import sources
from tests.models import onnx_model, save

RNG = np.random.default_rng(3)


def network(path: Path, channels: int = 40) -> Path:
    """Conv and average pooling, from there a gate as one output and a concatenation as the other."""
    weight = (RNG.standard_normal((8, channels, 3, 3)) / 10).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("AveragePool", ["c"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Sigmoid", ["p"], ["s"], name="gate"),
        helper.make_node("Relu", ["p"], ["r"], name="relu"),
        helper.make_node("Concat", ["p", "r"], ["y"], name="join", axis=1),
    ]
    save(
        onnx_model(
            nodes,
            {"x": (1, channels, 8, 8)},
            {"y": (1, 16, 4, 4), "s": (1, 8, 4, 4)},
            {"w": weight, "b": RNG.standard_normal(8).astype(np.float32)},
        ),
        path,
    )
    return path


def request(precision: str = "int8", **numerics: str) -> BuildRequest:
    chosen = {name.replace("_", "-"): variant for name, variant in numerics.items()}
    return BuildRequest("agx-orin-64gb", precision=precision, backend="host", options=PlanOptions(numerics=chosen))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return network(tmp_path_factory.mktemp("numerics") / "m.onnx")


@pytest.fixture(scope="module")
def outputs(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., np.ndarray]:
    """`outputs("int8", int8_gates="int8")`: what the simulated artifact answers."""

    def run(precision: str, **numerics: str) -> np.ndarray:
        artifact = build(model, tmp_path_factory.mktemp("built"), request(precision, **numerics))
        x = np.random.default_rng(9).standard_normal((1, 40, 8, 8)).astype(np.float32)
        return np.concatenate(list(HostSession(artifact).run_arrays({"x": x}).values()), axis=1)

    return run


def test_every_feature_has_sources_and_a_status() -> None:
    known = set(sources())
    for feature in features().values():
        assert feature.sources, feature.name
        assert set(feature.sources) <= known, feature.name
        assert all(text.endswith(".") for text in feature.variants.values())
    assert len(list(single_departures())) == sum(len(f.variants) - 1 for f in features().values())


@pytest.mark.parametrize(("name", "variant"), [(f.name, v) for f, v in single_departures()])
def test_each_numerics_variant_changes_outputs_slightly(outputs: Callable[..., np.ndarray], name: str, variant: str) -> None:
    precision = "fp16" if name.startswith("fp16") else "int8"
    default = outputs(precision)
    np.testing.assert_array_equal(outputs(precision, **{name: features()[name].default}), default)
    other = outputs(precision, **{name: variant})
    error = np.linalg.norm(other - default) / np.linalg.norm(default)
    # Integers against FP32 differ in the 25th bit, which rarely moves a value to another step.
    assert 0 < error < 0.05 or (name == "int8-accumulation" and error == 0)


def conv_of(plan_for: Callable[..., BuildPlan], precision: str, absmax: Dict[str, float], **numerics: str) -> BuildPlan:
    from edgedla.builder.plan.plan import Calibration, IoPlan, LayerPlan

    layers = (LayerPlan("conv", "CONVOLUTION", "DLA0", None, "dla", (), "conv"),)
    io = (IoPlan("x", True, (1, 40, 4, 4), "FLOAT", "LINEAR"), IoPlan("y", False, (1, 4, 4, 4), "FLOAT", "LINEAR"))
    chosen = {name.replace("_", "-"): variant for name, variant in numerics.items()}
    return plan_for(
        "10.3.0",
        "hybrid",
        precision,
        layers=layers,
        io=io,
        calibration=Calibration("data", absmax) if absmax else Calibration(),
        numerics=chosen,
    )


def convolution(weight: np.ndarray, bias: np.ndarray) -> Any:
    return onnx_model(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="conv")],
        {"x": (1, 40, 4, 4)},
        {"y": (1, 4, 4, 4)},
        {"w": weight, "b": bias},
    )


def dense(weight: np.ndarray, bias: np.ndarray, transposed: bool) -> Any:
    return onnx_model(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="conv", transB=int(transposed))],
        {"x": (1, 40)},
        {"y": (1, 4)},
        {"w": weight if transposed else np.ascontiguousarray(weight.T), "b": bias},
    )


def run(model: Any, x: np.ndarray) -> np.ndarray:
    from edgedla.quantization.session import open_session

    return open_session(model.SerializeToString()).run(["y"], {"x": x})[0]  # type: ignore[no-any-return]


def half(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(np.float32)


def test_sums_in_fp16_are_those_of_numpy(plan_for: Callable[..., BuildPlan]) -> None:
    weight = RNG.standard_normal((4, 40, 1, 1)).astype(np.float32)
    bias, x = RNG.standard_normal(4).astype(np.float32), RNG.standard_normal((1, 40, 4, 4)).astype(np.float32)
    made = simulate(convolution(weight, bias), conv_of(plan_for, "fp16", {}, fp16_accumulation="fp16"))
    total = np.zeros((4, 16), np.float32)
    for first in (0, 16, 32):
        part = slice(first, first + 16)
        total = half(total + half(weight[:, part, 0, 0]) @ half(x[0, part].reshape(-1, 16)))
    want = half(total + half(bias)[:, None]).reshape(1, 4, 4, 4)
    np.testing.assert_allclose(run(made.model, x), want, atol=2e-3)
    wide = simulate(convolution(weight, bias), conv_of(plan_for, "fp16", {}))
    assert np.abs(run(wide.model, x) - run(made.model, x)).max() > 0


def test_sums_in_integers_are_exact(plan_for: Callable[..., BuildPlan]) -> None:
    weight = RNG.standard_normal((4, 40, 1, 1)).astype(np.float32)
    bias, x = np.zeros(4, np.float32), RNG.uniform(-3, 3, (1, 40, 4, 4)).astype(np.float32)
    absmax = {"x": 3.0, "y": 60.0}
    made = simulate(convolution(weight, bias), conv_of(plan_for, "int8", absmax, int8_accumulation="int32"))
    assert "ConvInteger" in {node.op_type for node in made.model.graph.node}
    assert made.notes == ()
    scales = np.abs(weight).reshape(4, -1).max(axis=1) / 127
    kernel = np.rint(quantize_weights(weight, 0)[:, :, 0, 0] / scales[:, None]).astype(np.int64)
    integers = np.trunc(x / (3 / 127) + np.copysign(0.5, x)).astype(np.int64)[0].reshape(40, 16)
    exact = (kernel @ integers) * (scales * 3 / 127)[:, None]
    step = 60 / 127
    want = np.trunc(exact / step + np.copysign(0.5, exact)) * step
    np.testing.assert_allclose(run(made.model, x).reshape(4, 16), want, rtol=1e-6)


@pytest.mark.parametrize("transposed", [True, False])
def test_sums_of_a_fully_connected_layer_are_exact(plan_for: Callable[..., BuildPlan], transposed: bool) -> None:
    weight = RNG.standard_normal((4, 40)).astype(np.float32)
    bias, x = RNG.standard_normal(4).astype(np.float32), RNG.uniform(-3, 3, (1, 40)).astype(np.float32)
    made = simulate(dense(weight, bias, transposed), conv_of(plan_for, "int8", {"x": 3.0, "y": 60.0}, int8_accumulation="int32"))
    assert "MatMulInteger" in {node.op_type for node in made.model.graph.node}
    scales = np.abs(weight).max(axis=1) / 127
    kernel = np.rint(quantize_weights(weight, 0) / scales[:, None]).astype(np.int64)
    integers = np.trunc(x / (3 / 127) + np.copysign(0.5, x)).astype(np.int64)[0]
    exact = (kernel @ integers) * (scales * 3 / 127) + bias
    step = 60 / 127
    want = np.trunc(exact / step + np.copysign(0.5, exact)) * step
    np.testing.assert_allclose(run(made.model, x).reshape(4), want, rtol=1e-6)


def test_int8_ties_round_as_the_variant_says(plan_for: Callable[..., BuildPlan]) -> None:
    weight = np.zeros((4, 40, 1, 1), np.float32)
    weight[:, 0] = 127.0
    x = np.full((1, 40, 4, 4), 2.0, np.float32)
    # Scales of 1 for x and w: 2 * 127 is half a step of the output.
    absmax = {"x": 127.0, "y": 127.0 * 508}
    bias = np.zeros(4, np.float32)
    away = run(simulate(convolution(weight, bias), conv_of(plan_for, "int8", absmax)).model, x)
    even = run(simulate(convolution(weight, bias), conv_of(plan_for, "int8", absmax, int8_rounding="half-even")).model, x)
    assert set(away.ravel()) == {508.0}
    assert set(even.ravel()) == {0.0}


def test_a_plan_stores_only_non_default_numerics(model: Path) -> None:
    plan = plan_build(model, request(int8_rounding="half-even", int8_gates="fp16"))
    assert plan.numerics == {"int8-rounding": "half-even"}
    assert plan_from_dict(plan.to_dict()) == plan
    assert "numerics" not in plan_build(model, request()).to_dict(), "plans of other builds stay what they were"
    assert "simulated with other numerics than the default: int8-rounding half-even" in plan.notes
    apart = plan_build(model, request(int8_equal_scales="own")).calibration.absmax
    assert apart["c"] != apart["p"]


@pytest.mark.parametrize(
    ("text", "says"), [("x=y", "not a feature"), ("int8-rounding=up", "is not a variant"), ("int8-rounding", "not a choice")]
)
def test_an_unknown_numerics_variant_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_numerics(text)


def test_numerics_with_the_tensorrt_backend_are_refused(model: Path, tmp_path: Path) -> None:
    assert departures({"int8-rounding": "half-away"}) == {}
    done = CliRunner().invoke(
        main, ["build", str(model), "-o", str(tmp_path / "o"), "--backend", "tensorrt", "--numerics", "int8-gates=int8"]
    )
    assert isinstance(done.exception, UsageError)
    assert "simulation alone" in str(done.exception)


def test_the_page_names_every_feature_with_its_default_and_status() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/explanation/simulation.md").read_text(encoding="utf-8")
    for feature in features().values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{feature.name}`"))
        assert f"`{feature.default}`" in row
        assert row.endswith(f"| {feature.status} |")
        assert all(f"`{variant}`" in row for variant in feature.variants)
