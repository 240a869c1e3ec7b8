"""Names that a simulation or measurement adds: a model may hold any of them itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest

from edgedla import BuildRequest, build
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.builder.host.rounding import scale_input, switch_input
from edgedla.builder.host.simulated_model import Simulated, simulate
from edgedla.builder.plan.plan import BuildPlan, Calibration, IoPlan, LayerPlan
from edgedla.importers.model_file.port_names import tensor_names
from edgedla.quantization.samples import Samples
from edgedla.quantization.session import open_session
from tests.models import node, onnx_model

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
RNG = np.random.default_rng(0)
SHAPE = (1, 20, 6, 6)
WEIGHTS = {f"w{i}": (RNG.standard_normal((20, 20, 3, 3)) * 0.1).astype(np.float32) for i in range(3)}
BIAS = np.ones(20, np.float32)


def network(a: str = "a", b: str = "b", weight: str = "w0") -> Any:
    """x -> conv0 -> a -> conv1 -> b -> conv2 -> y, with these names of a, b and the first weights."""
    nodes = [
        node("Conv", f"x {weight} bias", a, "conv0", pads=[1] * 4),
        node("Conv", f"{a} w1", b, "conv1", pads=[1] * 4),
        node("Conv", f"{b} w2", "y", "conv2", pads=[1] * 4),
    ]
    weights = {(weight if name == "w0" else name): values for name, values in WEIGHTS.items()}
    return onnx_model(nodes, {"x": SHAPE}, {"y": SHAPE}, {**weights, "bias": BIAS}, opset=17)


@pytest.mark.parametrize(
    ("precision", "numerics", "adjustable"),
    [("fp16", {"fp16-accumulation": "fp16"}, False), ("int8", {"int8-accumulation": "int32"}, False), ("int8", {}, True)],
)
def test_a_model_may_hold_any_name_that_the_simulation_adds(
    plan_for: Callable[..., BuildPlan], precision: str, numerics: Dict[str, str], adjustable: bool
) -> None:
    def simulated(a: str = "a", b: str = "b", weight: str = "w0") -> Simulated:
        # conv1 runs on the GPU, so that both its ends are copied between precisions.
        devices = {"conv0": "DLA0", "conv1": "GPU", "conv2": "DLA0"}
        layers = tuple(LayerPlan(n, "CONVOLUTION", d, None, "dla", (), n) for n, d in devices.items())
        io = (IoPlan("x", True, SHAPE, "FLOAT", "LINEAR"), IoPlan("y", False, SHAPE, "FLOAT", "LINEAR"))
        ranges = Calibration("data", {"x": 3.0, a: 9.0, b: 27.0, "y": 81.0}) if precision == "int8" else Calibration()
        plan = plan_for("10.3.0", "hybrid", precision, layers=layers, io=io, calibration=ranges, numerics=numerics)
        return simulate(network(a, b, weight), plan, adjustable=adjustable)

    def outputs(made: Simulated) -> np.ndarray:
        feed: Dict[str, Any] = {"x": np.linspace(-3, 3, 720, dtype=np.float32).reshape(SHAPE)}
        for name in made.tensors:
            feed[scale_input(made.prefix, name)] = np.array(0.1, np.float32)
            feed[switch_input(made.prefix, name)] = np.array(True)
        values: np.ndarray = open_session(made.model.SerializeToString()).run(["y"], feed)[0]
        return values

    plain = simulated()
    want = outputs(plain)
    added = set(tensor_names(plain.model.graph)) - set(tensor_names(network().graph))
    assert len(added) > 10
    for name in sorted(added):
        for renamed in (simulated(a=name), simulated(b=name), simulated(weight=name)):
            assert np.array_equal(outputs(renamed), want), name


NAMES = (
    "edgedla_probe/flat",
    "edgedla_probe/max/x",
    "x/edgedla_probe/max",
    "edgedla/axes",
    "edgedla/zero",
    "edgedla/0/mean",
    "edgedla/0/0",
    "edgedla/zero_point",
    "y/corrected_bias",
    "edgedla/scale/x",
    "y/unrounded",
    "x/dla_int8",
    "w0/dla_int8_0",
)


def test_quantize_measures_and_repairs_a_model_with_any_of_its_own_names() -> None:
    feeds = tuple({"x": RNG.standard_normal(SHAPE).astype(np.float32)} for _ in range(6))
    samples, held_out = Samples(feeds[:4], False, "test"), Samples(feeds[4:], False, "test")

    def ranges(names: Any) -> Any:
        nodes, last = [], "x"
        for i, name in enumerate((*names, "y")):
            nodes.append(node("Conv", f"{last} w{i % 3} bias", name, f"conv{i}", pads=[1] * 4))
            last = name
        model = onnx_model(nodes, {"x": SHAPE}, {"y": SHAPE}, {**WEIGHTS, "bias": BIAS}, opset=17)
        request = QuantizeRequest(method="minmax", bias_correction=True, equalize=True)
        result = quantize(model, samples, request, holdout=held_out)
        return [result.absmax[name] for name in ("x", *names, "y")]

    assert ranges(NAMES) == ranges([f"t{i}" for i in range(len(NAMES))])


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_nodes_of_one_name_are_built_and_give_the_results_of_named_ones(precision: str, tmp_path: Path) -> None:
    """TensorRT numbers them (n, n_0, n_1); ONNX Runtime refuses two nodes of one name."""
    arrays = []
    for names in (("n", "n", "n"), ("a", "b", "c")):
        nodes = [
            node("Conv", "x w", "a", names[0], pads=[1] * 4),
            node("Relu", "a", "b", names[1]),
            node("Conv", "b w", "y", names[2], pads=[1] * 4),
        ]
        weights = {"w": np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32)}
        model = onnx_model(nodes, {"x": (1, 8, 16, 16)}, {"y": (1, 8, 16, 16)}, weights, opset=17)
        request = BuildRequest(target="agx-orin-64gb", backend="host", precision=precision)
        built = build(model, tmp_path / "".join(names), request)
        assert set(built.placement_predicted.values()) == {"DLA0"}
        # As a bundle opens it: without onnx.
        import onnxruntime

        session = onnxruntime.InferenceSession(str(built.file("host_model")), providers=["CPUExecutionProvider"])
        x = np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype(np.float32)
        arrays.append(session.run(["y"], {"x": x})[0])
    assert np.array_equal(*arrays)
