"""Q/DQ both ways: bit-exact round trips, and refusals, naming the node, of what a calibration cache cannot express."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgedla.errors import ModelError
from edgedla.quantization.calibration_cache import parse_cache, write_cache
from edgedla.quantization.qdq import has_qdq, strip_qdq, with_qdq
from edgedla.quantization.qdq.pairs import _is_record
from edgedla.quantization.qdq.unscaled import fp16_nodes
from edgedla.quantization.session import open_session
from tests.models import node, onnx_model
from tests.quantization.small_nets import SHAPE, net

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
SCALES = np.abs(WEIGHT).reshape(4, -1).max(1) / np.float32(127)
X = RNG.standard_normal(SHAPE).astype(np.float32)


def pair(name: str, out: str, scale: str = "s", zero: str = "z") -> List[Any]:
    return [
        helper.make_node("QuantizeLinear", [name, scale, zero], [f"{out}_q"], name=f"{out}/q"),
        helper.make_node("DequantizeLinear", [f"{out}_q", scale, zero], [out], name=f"{out}/dq"),
    ]


def qdq_net(**changes: Any) -> Any:
    """x -> pair -> Conv -> Relu -> pair -> Add with x's pair's value -> y; weights behind Q and DQ."""
    weights: Dict[str, np.ndarray] = {
        "s": np.float32(0.03),
        "s2": np.float32(0.07),
        "z": np.int8(0),
        "w": WEIGHT,
        "ws": SCALES,
        "wz": np.zeros(4, np.int8),
        "b": np.arange(4, dtype=np.float32),
        **changes.pop("weights", {}),
    }
    nodes = [
        *pair("x", "xd"),
        helper.make_node("QuantizeLinear", ["w", "ws", "wz"], ["wq"], name="w/q", axis=changes.get("axis", 0)),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], name="w/dq", axis=changes.get("axis", 0)),
        helper.make_node("Conv", ["xd", "wd", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        *pair("r", "rd", changes.get("second", "s2")),
        *changes.get("tail", [helper.make_node("MaxPool", ["rd"], ["y"], name="pool", kernel_shape=[2, 2])]),
    ]
    return net(nodes, weights, opset=changes.get("opset", 17))


def run(model: Any, x: np.ndarray = X) -> np.ndarray:
    session = open_session(model.SerializeToString(), optimize=False)
    found: np.ndarray = session.run(None, {"x": x})[0]
    return found


def test_stripping_and_adding_qdq_is_bit_exact() -> None:
    model = qdq_net()
    stripped = strip_qdq(model)
    onnx.checker.check_model(stripped.model)
    assert has_qdq(model)
    assert not has_qdq(stripped.model)
    assert (stripped.pairs, stripped.weights) == (2, 1)
    assert {k: np.float32(v / 127) for k, v in stripped.absmax.items()} == {"x": np.float32(0.03), "r": np.float32(0.07)}
    # The cache in between keeps every bit.
    absmax = parse_cache(write_cache(stripped.absmax, (8, 6, 1))).absmax
    back = with_qdq(stripped.model, absmax)
    onnx.checker.check_model(back)
    np.testing.assert_array_equal(run(back), run(model))
    again = strip_qdq(back)
    assert again.absmax == stripped.absmax
    np.testing.assert_array_equal(run(with_qdq(again.model, again.absmax)), run(model))


def test_stored_int8_weights_and_int32_biases_become_constants() -> None:
    levels = np.clip(np.rint(WEIGHT / SCALES.reshape(4, 1, 1, 1)), -127, 127).astype(np.int8)
    bias_scale = np.float32(0.03) * SCALES
    weights = {
        "s": np.float32(0.03),
        "z": np.int8(0),
        "wq": levels,
        "ws": SCALES,
        "wz": np.zeros(4, np.int8),
        "bq": np.arange(4, dtype=np.int32) * 100,
        "bs": bias_scale,
        "bz": np.zeros(4, np.int32),
    }
    nodes = [
        *pair("x", "xd"),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
        helper.make_node("DequantizeLinear", ["bq", "bs", "bz"], ["bd"], axis=0),
        helper.make_node("Conv", ["xd", "wd", "bd"], ["c"], name="conv"),
        *pair("c", "y"),
    ]
    model = net(nodes, weights)
    stripped = strip_qdq(model)
    constants = {i.name: numpy_helper.to_array(i) for i in stripped.model.graph.initializer}
    np.testing.assert_array_equal(constants["wd"], levels.astype(np.float32) * SCALES.reshape(4, 1, 1, 1))
    assert [o.name for o in stripped.model.graph.output] == ["y"]
    assert set(stripped.absmax) == {"x", "y"}
    assert stripped.fp16_nodes == ()
    np.testing.assert_array_equal(run(with_qdq(stripped.model, stripped.absmax)), run(model))


def test_nodes_around_a_tensor_without_scale_stay_in_fp16() -> None:
    tail = [helper.make_node("MaxPool", ["rd"], ["p"], name="pool", kernel_shape=[2, 2])]
    tail += [helper.make_node("Exp", ["p"], ["y"], name="exp")]
    stripped = strip_qdq(qdq_net(tail=tail))
    # The Conv's output is merged with its Relu and never stored; the pooling's output has no pair.
    assert stripped.fp16_nodes == ("pool", "exp")


def _concat(second: str) -> Any:
    tail = [*pair("x", "x2", second), helper.make_node("Concat", ["rd", "x2"], ["y"], name="cat", axis=1)]
    return qdq_net(tail=tail)


def test_scales_computed_from_weights_are_evaluated() -> None:
    """As PyTorch exports fake quantisation by channel: the scale is ReduceMax(Abs(w)) / 127."""
    model = qdq_net()
    made = [
        helper.make_node("Abs", ["w"], ["wa"]),
        helper.make_node("ReduceMax", ["wa"], ["wm"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Div", ["wm", "n"], ["made"]),
    ]
    for part in model.graph.node:
        for slot, name in enumerate(part.input):
            part.input[slot] = "made" if name == "ws" else name
    nodes = [*made, *(type(n).FromString(n.SerializeToString()) for n in model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(127), "n"))
    stripped = strip_qdq(model)
    assert {n.op_type for n in stripped.model.graph.node} == {"Conv", "Relu", "MaxPool"}
    assert stripped.weights == 1
    np.testing.assert_array_equal(run(with_qdq(stripped.model, stripped.absmax)), run(model))


REFUSED: Dict[str, Callable[[], Any]] = {
    "UINT8.*|w/q|xd/q": lambda: qdq_net(weights={"z": np.uint8(0)}),
    "zero point other than 0": lambda: qdq_net(weights={"z": np.int8(3)}),
    "one scale for all channels": lambda: qdq_net(weights={"ws": np.float32(SCALES.max()), "wz": np.int8(0)}),
    "scales for a constant of shape": lambda: qdq_net(weights={"ws": SCALES[1:], "wz": np.zeros(len(SCALES) - 1, np.int8)}),
    "a scale along axis 1": lambda: qdq_net(axis=1, weights={"ws": SCALES[:3], "wz": np.zeros(3, np.int8)}),
    "quantised with two scales": lambda: _concat("s2"),
    "not a positive number": lambda: qdq_net(weights={"s": np.float32(0)}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_qdq_that_a_cache_cannot_express_is_refused(why: str) -> None:
    with pytest.raises(ModelError, match=why) as error:
        strip_qdq(REFUSED[why]())
    assert error.value.where


@pytest.mark.parametrize("zero", [[], ["zero"]], ids=["no zero point", "a zero point"])
def test_int4_weights_are_named_by_every_release_of_onnx(zero: List[str]) -> None:
    """Older ones read them as NumPy's INT8 with a field, whose name NumPy does not read."""
    constants = [
        helper.make_tensor("w4", onnx.TensorProto.INT4, [4], [1, -2, 3, 4]),
        helper.make_tensor("zero", onnx.TensorProto.INT4, [], [0]),
        numpy_helper.from_array(np.float32(0.1), "s"),
    ]
    nodes = [helper.make_node("DequantizeLinear", ["w4", "s", *zero], ["w"], name="dq"), node("Mul", "x w", "y")]
    with pytest.raises(ModelError, match="dq: quantised to INT4"):
        strip_qdq(onnx_model(nodes, {"x": (1, 4)}, {"y": (1, 4)}, constants, opset=21))


def weight_of(model: Any) -> np.ndarray:
    weight: np.ndarray = next(numpy_helper.to_array(i) for i in model.graph.initializer if i.name == "wd")
    return weight


def test_weights_under_a_larger_scale_keep_their_trained_values() -> None:
    """Weights under a scale 4 % too large: TensorRT's absmax / 127 has no such levels, so they stay as trained."""
    stripped = strip_qdq(qdq_net(weights={"ws": SCALES * np.float32(1.04)}))
    assert stripped.rounded_anew == {"w/dq": pytest.approx(0.041, abs=0.005)}
    np.testing.assert_array_equal(weight_of(stripped.model), WEIGHT)
    assert strip_qdq(qdq_net()).rounded_anew == {}


def test_weights_beyond_their_scale_keep_the_models_levels() -> None:
    """TensorRT has no level -128: with it the channel's scale, and all of its levels, would be others."""
    small = SCALES * np.float32(0.9)
    stripped = strip_qdq(qdq_net(weights={"ws": small}))
    assert stripped.rounded_anew == {}
    levels = weight_of(stripped.model) / small.reshape(4, 1, 1, 1)
    np.testing.assert_allclose(levels, np.clip(np.rint(WEIGHT / small.reshape(4, 1, 1, 1)), -127, 127), rtol=1e-6)
    assert np.abs(levels).max() == pytest.approx(127)


def test_a_tensor_that_is_never_stored_gets_the_range_of_its_reader() -> None:
    """TensorRT runs a Conv in INT8 only where its output has a scale, also where the Relu after it is merged."""
    stripped = strip_qdq(qdq_net())
    assert stripped.inner == {"c": stripped.absmax["r"]}
    assert set(stripped.ranges) == {"x", "c", "r"}


def test_unequal_scales_at_a_concat_are_refused() -> None:
    tail = [helper.make_node("Concat", ["rd", "xd"], ["y"], name="cat", axis=1)]
    with pytest.raises(ModelError, match="2 scales") as error:
        strip_qdq(qdq_net(tail=tail))
    assert error.value.where == "cat"
    strip_qdq(qdq_net(tail=tail, second="s"))


def test_a_quantize_without_dequantize_is_refused() -> None:
    tail = [helper.make_node("QuantizeLinear", ["rd", "s", "z"], ["y"], name="last/q")]
    with pytest.raises(ModelError, match="its INT8 result is an output of the network"):
        strip_qdq(qdq_net(tail=tail))


def test_a_plain_model_gets_pairs_on_every_scaled_tensor() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), helper.make_node("Relu", ["c"], ["y"], name="relu")]
    plain = net(nodes, {"w": WEIGHT})
    typed = with_qdq(plain, {"x": 3.0, "y": 5.0})
    onnx.checker.check_model(typed)
    stripped = strip_qdq(typed)
    assert set(stripped.absmax) == {"x", "y"}
    assert stripped.weights == 1
    half = with_qdq(plain, {"x": 3.0, "y": 5.0}, fp16_nodes=["conv"])
    assert not any(i.data_type == onnx.TensorProto.INT8 and len(i.dims) == 4 for i in half.graph.initializer)
    with pytest.raises(ModelError, match="holds Q/DQ already"):
        with_qdq(typed, {})
    with pytest.raises(ModelError, match="opset 11"):
        with_qdq(net(nodes, {"w": WEIGHT}, opset=11), {})


def test_models_of_onnx_runtime_come_back_bit_exact(shared: Path, tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")

    class Reader(quantization.CalibrationDataReader):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.left = [{"x": RNG.standard_normal((1, 3, 64, 64)).astype(np.float32)} for _ in range(2)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    path = tmp_path / "qdq.onnx"
    quantization.quantize_static(
        str(shared / "corpus/trained/m3.onnx"),
        str(path),
        Reader(),
        per_channel=True,
        activation_type=quantization.QuantType.QInt8,
        weight_type=quantization.QuantType.QInt8,
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
    )
    model = onnx.load(str(path))
    stripped = strip_qdq(model)
    x = RNG.standard_normal((1, 3, 64, 64)).astype(np.float32)
    absmax = parse_cache(write_cache(stripped.absmax, (10, 3, 0))).absmax
    np.testing.assert_array_equal(run(with_qdq(stripped.model, absmax), x), run(model, x))


@pytest.mark.parametrize("what", ["scale", "int8", "dequantized"])
def test_added_qdq_tensors_avoid_names_of_the_model(what: str) -> None:
    """As TensorFlow names them: bn, and its factor bn/scale."""
    factor = numpy_helper.from_array(np.full((), 5, np.float32), f"bn/{what}")
    nodes = [helper.make_node("Relu", ["x"], ["bn"]), helper.make_node("Mul", ["bn", f"bn/{what}"], ["y"])]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, SHAPE) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [factor])
    plain = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    quantised = with_qdq(plain, {"x": 127.0, "bn": 127.0, "y": 635.0})
    onnx.checker.check_model(quantised)
    x = np.rint(X * 20)
    found = open_session(quantised.SerializeToString()).run(["y"], {"x": x})[0]
    np.testing.assert_allclose(found, 5 * np.maximum(x, 0), rtol=1e-6)


@pytest.mark.parametrize(
    ("record", "taken"),
    [
        ({"edges": {"a": ["b"]}, "outputs": [], "weights": {}}, True),
        ({"edges": {}, "outputs": {}, "weights": []}, True),
        ({"edges": {"a": "b"}, "outputs": [], "weights": {}}, False),
        ({"edges": ["a"], "outputs": [], "weights": {}}, False),
        ({"edges": {}, "outputs": 3, "weights": {}}, False),
        ({"edges": {}, "outputs": [], "weights": "w"}, False),
        ({"edges": {}, "outputs": []}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_record_of_stripped_pairs_that_somebody_changed_is_not_read(record: Any, taken: bool) -> None:
    assert _is_record(record) is taken


@pytest.mark.parametrize("kind", ["Identity", "Flatten", "Relu"])
def test_nodes_that_only_pass_values_on_are_not_listed_as_fp16(kind: str) -> None:
    model = onnx_model([node(kind, "x", "y", name="last")], {"x": (1, 8)})
    found = fp16_nodes(model, {})
    assert found == (("last",) if kind == "Relu" else ())


@pytest.mark.parametrize(("domain", "taken"), [("", True), ("ai.onnx", True), ("com.microsoft", True), ("own", False)])
def test_pairs_of_every_standard_domain_are_read(domain: str, taken: bool) -> None:
    model = qdq_net()
    for part in model.graph.node:
        if part.op_type.endswith("Linear"):
            part.domain = domain
    assert has_qdq(model) is taken
    if taken:
        assert {n.op_type for n in strip_qdq(model).model.graph.node} == {"Conv", "Relu", "MaxPool"}
