"""Scaling factors moved through a network: what they do not change, where they stop, what they repair."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.repairs.rescale import Wiring, fp16_loss, rescaled
from edgedla.accuracy.request import QuantizeRequest
from edgedla.errors import ModelError
from edgedla.quantization.samples import Samples
from edgedla.quantization.session import open_session
from tests.models import onnx_model

Data = Tuple[Samples, Samples]


def net(body: str, scale: float = 1.0) -> Any:
    """Weights v* read what weights w* make, which are `scale` times as large."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,3,16,16] x) => (float[1,4,n,m] y) {{{body}}}'
    )
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "v": (4, 8, 1, 1), "d": (8, 1, 3, 3), "s": (8,), "o": (8,), "m": (8,), "q": (8,)}
    for name, shape in shapes.items():
        if any(name in node.input for node in model.graph.node):
            values = rng.standard_normal(shape) * (scale if name in "wb" else 1 / scale if name == "v" else 1.0)
            values = np.abs(values) + 0.5 if name == "q" else values
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return model


def outputs(model: Any, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype(np.float32)
    found: np.ndarray = open_session(model.SerializeToString(), optimize=False).run(["y"], {"x": x})[0]
    return found


CHAINS = [
    "a = Conv(x, w, b) r = Relu(a) y = Conv(r, v)",
    "a = Conv(x, w) r = LeakyRelu(a) p = MaxPool<kernel_shape = [2, 2]>(r) y = Conv(p, v)",
    "a = Conv(x, w, b) r = Relu(a) e = Conv<group = 8>(r, d) f = Relu(e) y = Conv(f, v)",
    "a = Conv(x, w) n = BatchNormalization(a, s, o, m, q) r = Relu(n) y = Conv(r, v)",
    "a = Conv(x, w, b) r = Relu(a) n = BatchNormalization(r, s, o, m, q) y = Conv(n, v)",
]


@pytest.mark.parametrize("body", CHAINS)
def test_rescaling_by_a_power_of_two_is_bit_exact(body: str) -> None:
    model = net(body)
    for node in model.graph.node[:-1]:
        group = Wiring(model).group(node.output[0])
        np.testing.assert_array_equal(outputs(rescaled(model, group, 2.0**-9)), outputs(model))


@pytest.mark.parametrize("body", CHAINS)
def test_rescaling_by_channel_keeps_the_outputs(body: str) -> None:
    model = net(body)
    groups = [Wiring(model).group(node.output[0]) for node in model.graph.node[:-1]]
    assert groups[0].by_channel
    factor = np.linspace(0.3, 4.0, 8)
    for group in groups:
        if group.by_channel:
            np.testing.assert_allclose(outputs(rescaled(model, group, factor)), outputs(model), rtol=1e-3, atol=1e-4)


def test_both_operands_of_an_addition_are_rescaled_together() -> None:
    model = net("a = Conv(x, w) c = Conv(x, w, b) t = Add(a, c) r = Relu(t) y = Conv(r, v)")
    group = Wiring(model).group("a")
    assert set(group.tensors) == {"a", "c", "t", "r"}
    assert not group.by_channel
    np.testing.assert_array_equal(outputs(rescaled(model, group, 4.0)), outputs(model))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("a = Conv(x, w) r = Sigmoid(a) y = Conv(r, v)", "Sigmoid does not pass a factor on"),
        ("a = Conv(x, w) r = Mul(a, a) y = Conv(r, v)", "Mul does not pass a factor on"),
        ("a = Conv(x, w) r = Relu(a) y = Identity(r)", "output of the network"),
        (
            "k = Constant<value_float = 1.0>() a = Conv(x, w) r = Add(a, k) y = Conv(r, v)",
            "Constant does not pass a factor on|adds a constant",
        ),
    ],
)
def test_a_layer_that_passes_no_factor_on_is_named(body: str, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        Wiring(net(body)).group("a")


@pytest.mark.parametrize("scale", [4e4, 1e-9])
def test_activations_beyond_fp16_are_rescaled_by_powers_of_two(scale: float, data: Data) -> None:
    model = net("a = Conv(x, w, b) r = Relu(a) y = Conv(r, v)", scale)
    plain = quantize(model, data[0], QuantizeRequest(), holdout=data[1])
    assert {f.tensor for f in plain.fp16} >= {"r"}
    result = quantize(model, data[0], QuantizeRequest(repair_fp16=True), holdout=data[1])
    step = result.steps[0]
    assert (step.name, step.kept) == ("rescaled by powers of two", True)
    assert step.sqnr_db > max(step.before_db, 0) + 20
    assert not {f.tensor for f in result.fp16} & {"a", "r"}
    assert result.model is not None
    np.testing.assert_array_equal(outputs(onnx.load_from_string(result.model)), outputs(model))
    assert result.sqnr_db == pytest.approx(plain.sqnr_db, abs=1.0)


def test_layers_beyond_fp16_that_cannot_be_rescaled_stay_on_the_gpu(data: Data) -> None:
    model = net("a = Conv(x, w, b) r = Mul(a, a) y = Conv(r, v)", 2e3)
    result = quantize(model, data[0], QuantizeRequest(repair_fp16=True), holdout=data[1])
    kept = [s for s in result.steps if s.kept]
    assert [s.name for s in kept] == ["kept on the GPU"]
    assert set(result.devices.values()) == {"GPU"}
    assert any("Mul does not pass a factor on" in note for note in result.notes)


@pytest.mark.parametrize(("gain", "kept"), [(0.05, False), (0.0625, True)])
@pytest.mark.parametrize("repair", ["bias correction", "cross-layer equalisation"])
def test_a_repair_is_kept_above_its_least_gain(repair: str, gain: float, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the held-out samples, in dB: what lies below may be chance."""
    from edgedla.accuracy.repairs import bias_correction, equalize

    noise = {"old": 0.0, "new": gain}
    steps: List[Any] = []
    state: Any = SimpleNamespace(
        steps=steps,
        model="old",
        plan=lambda: SimpleNamespace(calibration=SimpleNamespace(absmax={})),
        absmax={},
        simulation=lambda *_, model="old": SimpleNamespace(noise=lambda feeds: SimpleNamespace(sqnr_db=noise[model])),
    )
    if repair == "bias correction":
        for name in ("node_modes", "_mean_errors"):
            monkeypatch.setattr(bias_correction, name, lambda *_: {"c": 1.0})
        monkeypatch.setattr(bias_correction, "_with_biases", lambda model, errors: "new")
        bias_correction.correct_biases(state, [], [])
        assert [(s.name, s.before_db, s.sqnr_db, s.kept) for s in steps] == [(repair, 0.0, gain, kept)]
        assert state.model == ("new" if kept else "old")
        return
    monkeypatch.setattr(equalize, "_groups", lambda model: [])
    collection: Any = "collection"
    assert equalize.equalize(state, collection, [], "auto", []) == "collection"  # type: ignore[arg-type, comparison-overlap]
    assert [(s.name, s.before_db, s.sqnr_db, s.kept) for s in steps] == [(repair, 0.0, 0.0, False)]
    for name, found in (("_groups", ["a"]), ("_factors", [2.0]), ("rescaled", "new"), ("thresholds", {"a": 3.0})):
        monkeypatch.setattr(equalize, name, lambda *_, found=found: found)
    monkeypatch.setattr(equalize, "collect", lambda *_: "measured anew")
    samples: Any = SimpleNamespace(feeds=[])
    after: Any = equalize.equalize(state, collection, samples, "auto", [])
    assert [(s.before_db, s.sqnr_db, s.kept) for s in steps[1:]] == [(0.0, gain, kept)]
    assert (after, state.model) == (("measured anew", "new") if kept else ("collection", "old"))
    assert state.absmax == ({"a": 3.0} if kept else {})


@pytest.mark.parametrize(
    ("operator", "groups", "measured"),
    [("Conv", 1, True), ("Conv", 2, True), ("ConvTranspose", 1, True), ("ConvTranspose", 2, False)],
)
def test_the_mean_error_is_measured_of_every_convolution_whose_channels_are_one_behind_the_other(
    operator: str, groups: int, measured: bool
) -> None:
    from edgedla.accuracy.repairs.bias_correction import _mean_errors

    shape = (4, 4 // groups, 3, 3)
    weights = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    nodes = [helper.make_node(operator, ["x", "w"], ["y"], group=groups)]
    model = onnx_model(nodes, {"x": (1, 4, 8, 8)}, {"y": list("abcd")}, {"w": weights}, opset=17)
    x = np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype(np.float32)
    found = _mean_errors(model, ["int8"], {"x": 3.0}, [{"x": x}])
    channels = 4 if operator == "Conv" else 4 // groups
    assert {i: errors.shape for i, errors in found.items()} == ({0: (channels,)} if measured else {})


@pytest.mark.parametrize(("bias", "lost"), [(None, 0.0), (0.25, 0.0), (1e-9, 1.0), (7e4, np.inf)])
def test_the_loss_of_weights_in_fp16_leaves_out_operands_that_are_absent(bias: Any, lost: float) -> None:
    nodes = [helper.make_node("Conv", ["x", "w", "b" if bias else ""], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [], []))
    for name, value in (("w", np.full((1, 1, 1, 1), 0.5)), ("b", bias and np.full(1, bias))):
        if value is not None:
            model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    assert fp16_loss(model, (0,)) == lost


def test_equalisation_is_kept_where_channel_ranges_differ(network: Any, data: Data) -> None:
    """One channel of the first activation is 60 times as large as the others, and read by weights as much smaller."""
    skewed = onnx.ModelProto()
    skewed.CopyFrom(network)
    group = Wiring(skewed).group("r0")
    skewed = rescaled(skewed, group, np.asarray([60.0, *[1.0] * 7]))
    request = QuantizeRequest(everywhere=True)
    plain = quantize(skewed, data[0], request, holdout=data[1])
    result = quantize(skewed, data[0], QuantizeRequest(everywhere=True, equalize=True), holdout=data[1])
    assert ("cross-layer equalisation", True) in [(s.name, s.kept) for s in result.steps]
    assert result.sqnr_db > plain.sqnr_db + 3
    assert result.model is not None
    np.testing.assert_allclose(
        open_session(result.model).run(["y"], data[1].feeds[0])[0],
        open_session(network.SerializeToString()).run(["y"], data[1].feeds[0])[0],
        rtol=1e-3,
        atol=1e-4,
    )
