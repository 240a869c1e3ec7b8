"""Training with the DLA's rounding: rounding where the host backend rounds, equal levels, and export to a build."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import host_twin  # noqa: E402
import networks  # noqa: E402

from edgedla.builder.host.session import HostSession  # noqa: E402
from edgedla.errors import DataError, ModelError, UsageError  # noqa: E402
from edgedla.formats.pack import dequantize, quantize  # noqa: E402
from edgedla.quantization.calibration_cache import parse_cache  # noqa: E402
from edgedla.quantization.qdq import has_qdq  # noqa: E402
from edgedla.targets import platform_for  # noqa: E402
from edgedla.torch import AsBuilt, QatModule, calibrate, export_qat, prepare_qat  # noqa: E402
from edgedla.torch.qat.rounding import round_int8, round_weight  # noqa: E402

TARGET = "agx-orin-64gb"


def images(count: int = 4, seed: int = 0) -> Any:
    return torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def trained(prepared: QatModule, steps: int = 4) -> QatModule:
    """A few steps of training on random labels."""
    x, y = images(8), torch.arange(8)
    optimizer = torch.optim.Adam(prepared.parameters(), 1e-3)
    prepared.train()
    for _ in range(steps):
        scores = prepared(x).flatten(1)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, y).backward()
        optimizer.step()
    return prepared.eval()


NETWORKS = {
    "plain": networks.Small,
    "gate": lambda: networks.Small(gate=True),
    "branches": networks.Branches,
    "normalized": networks.Normalized,
}


@pytest.mark.parametrize("ranges", ["learned", "observed"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_export_in_the_host_backend_equals_the_forward(name: str, ranges: str, tmp_path: Path) -> None:
    module = networks.settled(NETWORKS[name]())
    prepared = trained(prepare_qat(module, images(1), TARGET, calibration=[images(16)], ranges=ranges))
    found = host_twin.compare(prepared, images(4, seed=1), tmp_path)
    assert found["tensors"] > 20
    assert found["worst"] < 1e-5
    assert found["ties"] < 1e-3


class Middles(torch.nn.Module):  # type: ignore[misc]
    """Two layers many of whose sums lie in the middle of two levels, where the order of a sum decides."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(96, 16, 3, padding=1)
        self.dense = torch.nn.Linear(16, 8)
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for layer in (self.conv, self.dense):
                levels = torch.randint(-127, 128, layer.weight.shape, generator=generator).float()
                levels.flatten(1)[:, 0] = 127.0
                layer.weight.copy_(levels * 0.0123)
                layer.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(torch.relu(self.conv(x)).amax((2, 3)))


class DividesAsCuda(torch.overrides.TorchFunctionMode):
    """A division by a plain number as CUDA does it: a product with the reciprocal, which is up to a bit off."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("div", "__truediv__", "true_divide") and isinstance(args[1], (int, float)):
            x, divisor = args
            return x * (torch.ones((), dtype=x.dtype) / torch.full((), divisor, dtype=x.dtype))
        return func(*args, **(kwargs or {}))


def test_scales_are_the_same_number_on_a_gpu() -> None:
    x = images(4)
    ranges = torch.arange(1.0, 100)
    with DividesAsCuda():
        differing = float(ranges[ranges / 127.0 != ranges / torch.tensor(127.0)][0])
    prepared = prepare_qat(networks.settled(networks.Small()), x[:1], TARGET, calibration=[x], integer_sums=True).eval()
    prepared.set_ranges(dict.fromkeys(prepared.places.tensors, differing))
    seen: List[Any] = []
    prepared.watch = lambda stored, before, after: seen.append(after) or after
    with torch.no_grad():
        prepared(x)
        expected, seen[:] = list(seen), []
        with DividesAsCuda():
            prepared(x)
    assert len(seen) == len(expected) > 5
    assert all(torch.equal(a, b) for a, b in zip(seen, expected))


def test_integer_sums_make_ties_independent_of_summation_order(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(4)
    x = torch.randint(-127, 128, (3, 96, 8, 8), generator=generator).float() * 0.0371
    prepared = prepare_qat(Middles(), x[:1], TARGET, calibration=[x[:1]], integer_sums=True).eval()
    # Steps of 20 units of the first sum, so that every twentieth lies in the middle of two.
    first = 127 * 0.0371
    prepared.set_ranges({**{name: first * 20 * 0.0123 for name in prepared.places.tensors}, "x": first})
    found = host_twin.compare(prepared, x, tmp_path)
    assert found["ties"] == 0, found


def test_layers_kept_in_fp16_are_rounded_to_fp16(tmp_path: Path) -> None:
    module = networks.settled(networks.Small())
    prepared = prepare_qat(module, images(1), TARGET, calibration=[images(16)], fp16=("block.conv1", "block.relu"))
    states = {place.mode for key, place in prepared.places.by_call.items() if key[0] == "block.conv1"}
    assert states == {"fp16"}
    result = export_qat(trained(prepared))
    assert "/block/conv1/Conv:fp16" in result.precisions
    found = host_twin.compare(prepared, images(2, seed=1), tmp_path)
    assert found["worst"] < 1e-5


def test_tensors_with_equal_scales_on_the_dla_share_one_range() -> None:
    prepared = prepare_qat(networks.settled(networks.Branches()), images(1), TARGET, calibration=[images(8)])
    ranges = prepared.ranges()
    concat = next(n for n in prepared.places.model.graph.node if n.op_type == "Concat")
    pool = next(n for n in prepared.places.model.graph.node if n.op_type == "AveragePool")
    for node in (concat, pool):
        assert len({ranges[t] for t in (*node.input, *node.output)}) == 1, node.name
    assert len(set(ranges.values())) > 5


def test_conv_norm_and_activation_are_fused_without_rounding_between() -> None:
    prepared = prepare_qat(networks.settled(networks.Small()), images(1), TARGET)
    by_call = prepared.places.by_call
    assert by_call["block.conv1", "conv2d", 0].outputs[0].state == "inner"
    assert by_call["block.relu", "relu", 0].outputs[0].state == "int8"
    assert prepared.places.folded["block.conv1", "conv2d", 0] == ("block.bn1", "batch_norm", 0)


def test_exported_weights_equal_the_fake_quantised_ones() -> None:
    prepared = trained(prepare_qat(networks.settled(networks.Small()), images(1), TARGET, calibration=[images(8)]))
    import onnx
    from onnx import numpy_helper

    model = onnx.load_model_from_string(export_qat(prepared).model)
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    convolutions = [n for n in model.graph.node if n.op_type == "Conv"]
    assert len(convolutions) == 3
    for node in convolutions:
        for channel in constants[node.input[1]]:
            scale = np.abs(channel).max() / 127
            again = dequantize(quantize(channel, float(scale)), float(scale))
            np.testing.assert_allclose(again, channel, rtol=1e-6, atol=1e-9)


def test_the_cache_holds_the_trained_ranges() -> None:
    prepared = trained(prepare_qat(networks.settled(networks.Small()), images(1), TARGET, calibration=[images(8)]))
    result = export_qat(prepared)
    assert result.form == "cache"
    absmax = parse_cache(result.cache).absmax
    assert set(absmax) == set(prepared.places.tensors)
    for name, value in prepared.ranges().items():
        assert absmax[name] == pytest.approx(value, rel=1e-6)


def test_tensorrt_11_gets_qdq() -> None:
    platform = platform_for(TARGET, trt="11.4.1")
    prepared = prepare_qat(networks.settled(networks.Small()), images(1), platform, calibration=[images(8)])
    import onnx

    result = export_qat(prepared)
    assert result.form == "qdq"
    assert has_qdq(onnx.load_model_from_string(result.model))


def test_training_moves_weights_and_learned_ranges() -> None:
    prepared = prepare_qat(networks.settled(networks.Small()), images(1), TARGET, calibration=[images(8)])
    before, ranges = prepared.module.block.conv1.weight.clone(), prepared.ranges()
    trained(prepared)
    assert not torch.equal(prepared.module.block.conv1.weight, before)
    moved = [n for n, v in prepared.ranges().items() if v != ranges[n]]
    assert len(moved) > len(ranges) / 2


def test_observed_ranges_follow_the_batches_until_they_are_frozen() -> None:
    module = networks.settled(networks.Small())
    prepared = prepare_qat(module, images(1), TARGET, calibration=[images(8)], ranges="observed")
    assert prepared.shift is None
    first = prepared.ranges()["x"]
    prepared.train()
    prepared(images(4) * 100)
    second = prepared.ranges()["x"]
    assert second > first * 1.5
    prepared.observing = False
    prepared(images(4) * 1000)
    assert prepared.ranges()["x"] == second
    prepared.observing = True
    prepared.eval()(images(4) * 1000)
    assert prepared.ranges()["x"] == second


def test_batchnorm_statistics_are_frozen_unless_requested() -> None:
    module = networks.settled(networks.Small())
    before = module.block.bn1.running_mean.clone()
    frozen = trained(prepare_qat(copy.deepcopy(module), images(1), TARGET, calibration=[images(8)]))
    assert torch.equal(frozen.module.block.bn1.running_mean, before)
    follow = prepare_qat(copy.deepcopy(module), images(1), TARGET, calibration=[images(8)], freeze_statistics=False)
    assert not torch.equal(trained(follow).module.block.bn1.running_mean, before)


def test_with_frozen_statistics_train_and_eval_outputs_are_equal() -> None:
    prepared = prepare_qat(networks.settled(networks.Small()), images(1), TARGET, calibration=[images(8)])
    for part in prepared.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    with torch.no_grad():
        torch.testing.assert_close(prepared.train()(images()), prepared.eval()(images()), rtol=1e-5, atol=1e-5)


def test_a_checkpoint_restores_ranges_and_weights() -> None:
    prepared = trained(prepare_qat(networks.settled(networks.Small()), images(1), TARGET, calibration=[images(8)]))
    other = prepare_qat(networks.Small(), images(1), TARGET)
    other.load_state_dict(prepared.state_dict())
    with torch.no_grad():
        assert torch.equal(other.eval()(images()), prepared(images()))
    assert set(prepared.module.state_dict()) == set(networks.Small().state_dict())


def test_copies_are_independent_and_the_users_tensors_stay_clean() -> None:
    prepared = prepare_qat(networks.settled(networks.Small()), images(1), TARGET, calibration=[images(8)]).eval()
    x = images()
    with torch.no_grad():
        want = prepared(x)
        twin = copy.deepcopy(prepared)
        twin.module.stem[0].weight.zero_()
        assert torch.equal(prepared(x), want)
        assert not torch.equal(twin(x), want)
    assert not hasattr(x, "edgedla_stored")


def test_given_ranges_initialise_a_prepared_module() -> None:
    module = networks.settled(networks.Small())
    first = prepare_qat(module, images(1), TARGET, calibration=[images(8)])
    second = prepare_qat(module, images(1), TARGET, calibration=first.ranges())
    assert second.ranges() == first.ranges()
    with pytest.raises(UsageError, match="have no range"):
        prepare_qat(module, images(1), TARGET, calibration={"x": 1.0})


def test_calibration_accepts_batches_of_data_loaders() -> None:
    prepared = prepare_qat(networks.settled(networks.Small()), images(1), TARGET)
    batches: List[Tuple[Any, Any]] = [(images(3), torch.zeros(3)), (images(2).numpy(), None)]
    calibrate(prepared, batches)
    with pytest.raises(DataError, match="no calibration sample"):
        calibrate(prepared, [])
    with pytest.raises(DataError, match="a batch of"):
        calibrate(prepared, [torch.zeros(1, 3, 8, 8)])


def test_a_call_that_becomes_several_layers_is_refused_with_its_line() -> None:
    class Grouped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            return torch.addcmul(y, y, y)

    with pytest.raises(ModelError, match=r"addcmul in the top module \(test_qat.py:\d+\) is several layers"):
        prepare_qat(Grouped(), images(1), TARGET)


def test_another_forward_than_the_prepared_one_is_refused() -> None:
    prepared = prepare_qat(networks.settled(networks.Small()), images(1), TARGET)
    prepared.module.pool = torch.nn.AvgPool2d(2)
    with pytest.raises(ModelError, match="changed after prepare_qat"):
        export_qat(prepared)


def test_wrong_arguments_of_prepare_qat_are_refused() -> None:
    with pytest.raises(UsageError, match="learned, observed"):
        prepare_qat(networks.Small(), images(1), TARGET, ranges="guessed")
    with pytest.raises(UsageError, match=r"block.conv1"):
        prepare_qat(networks.Small(), images(1), TARGET, fp16=("head*",))
    with pytest.raises(UsageError, match="no DLA"):
        prepare_qat(networks.Small(), images(1), "orin-nano-8gb")


def test_round_int8_equals_quantize_and_has_a_straight_through_gradient() -> None:
    """Halves away from zero, saturation at -128 and 127, and the straight gradient within."""
    scale = torch.tensor(0.5)
    x = torch.tensor([0.25, -0.25, 0.75, 0.24999, 63.4, 64.0, -64.0, -70.0], requires_grad=True)
    y = round_int8(x, scale)
    want = dequantize(quantize(x.detach().numpy(), 0.5), 0.5)
    assert y.tolist() == want.tolist()
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1, 1, 0, 1, 0]


def test_a_too_small_learned_range_has_a_growing_gradient() -> None:
    scale = torch.tensor(0.01, requires_grad=True)
    x = torch.linspace(-4, 4, 1001)
    error = ((round_int8(x, scale) - x) ** 2).sum()
    error.backward()
    assert scale.grad < 0


def test_an_infinite_value_gives_finite_gradients() -> None:
    """FP16 makes infinity of what exceeds 65504; the DLA stores it as the last level, and training goes on."""
    x = torch.tensor([0.3, float("inf"), -float("inf"), 5.0], requires_grad=True)
    scale = torch.tensor(1 / 127.0, requires_grad=True)
    y = round_int8(x, scale)
    assert y[1:3].tolist() == pytest.approx([1.0, -128 / 127])
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert scale.grad is not None
    assert torch.isfinite(scale.grad)
    # (y - x) / s in range, 127 or -128 outside, over sqrt(127 n).
    inside = (float(y[0]) - 0.3) * 127.0
    assert float(scale.grad) == pytest.approx((inside + 127 - 128 + 127) / (127 * 4) ** 0.5, rel=1e-4)


def test_the_faster_rounding_is_within_training_noise_of_the_exact_one() -> None:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(4, 8, 6, 6, generator=generator).to(memory_format=torch.channels_last)
    upstream = torch.randn(x.shape, generator=generator)
    results = []
    for exact in (True, False):
        scale, value = torch.tensor(2.0 / 127, requires_grad=True), x.clone().requires_grad_()
        y = round_int8(value, scale, exact)
        y.backward(upstream)
        results.append((y, value.grad, scale.grad))
    (y, to_x, to_scale), (fast, fast_to_x, fast_to_scale) = results
    assert torch.allclose(y, fast, rtol=1e-6)
    assert torch.equal(to_x, fast_to_x)
    assert torch.allclose(to_scale, fast_to_scale, rtol=1e-5)
    # LSQ's slope, element by element.
    ratio = x / (2.0 / 127)
    slope = torch.where((ratio >= -128.5) & (ratio <= 127.5), ratio.round() - ratio, ratio.clamp(-128, 127))
    assert float(to_scale) == pytest.approx(float((upstream * slope).sum()) / (127 * x.numel()) ** 0.5, rel=1e-3)


def test_autocast_does_not_change_prepared_outputs() -> None:
    prepared = prepare_qat(networks.Small(), images(1), TARGET).eval()
    plain = prepared(images(2))
    with torch.autocast("cpu", torch.bfloat16):
        inside = prepared(images(2))
    assert inside.dtype == torch.float32
    assert torch.equal(inside, plain)


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_are_rounded_as_the_host_backend_does(axis: int) -> None:
    from edgedla.builder.host.stored_weights import quantize_weights

    weight = torch.randn(6, 5, 3, 3, generator=torch.Generator().manual_seed(3))
    weight[2] = 0
    assert np.array_equal(round_weight(weight, axis).numpy(), quantize_weights(weight.numpy(), axis))


@pytest.mark.parametrize("name", NETWORKS)
def test_as_built_equals_the_artifact_bit_for_bit(name: str, tmp_path: Path) -> None:
    prepared = trained(prepare_qat(networks.settled(NETWORKS[name]()), images(1), TARGET, calibration=[images(16)]))
    artifact, _ = host_twin.built(prepared, tmp_path)
    session, pictures = HostSession(artifact), images(6, seed=1)
    wanted = [session.run_arrays({artifact.inputs[0].name: pictures[i : i + 1].numpy()}) for i in range(6)]
    scores = AsBuilt(prepared)(pictures)
    assert np.array_equal(scores.numpy(), np.concatenate([w[artifact.outputs[0].name] for w in wanted]))
    # Of the moment when it was made: further training does not reach it.
    assert not np.array_equal(AsBuilt(trained(prepared))(pictures).numpy(), scores.numpy())


def test_as_built_keeps_layers_in_fp16(tmp_path: Path) -> None:
    module = networks.settled(networks.Small())
    prepared = trained(prepare_qat(module, images(1), TARGET, calibration=[images(16)], fp16=("block.conv1",)))
    artifact, _ = host_twin.built(prepared, tmp_path)
    wanted = HostSession(artifact).run_arrays({artifact.inputs[0].name: images(1).numpy()})
    assert np.array_equal(AsBuilt(prepared)(images(1)).numpy(), wanted[artifact.outputs[0].name])


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (0, 3, 16, 16), (3, 16, 16)])
def test_as_built_names_the_expected_input_shape(shape: Tuple[int, ...]) -> None:
    built = AsBuilt(prepare_qat(networks.settled(networks.Small()), images(1), TARGET))
    with pytest.raises(UsageError, match=r"shape .*a multiple of 1, then \[3, 16, 16\]"):
        built(torch.zeros(shape))
    with pytest.raises(UsageError, match="2 inputs"):
        built(images(1), images(1))


class Trained(torch.nn.Module):
    """In training another addition comes before the one that evaluation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        if self.training:
            y = y + torch.rand_like(y)
        return y + y


def test_a_forward_that_makes_other_calls_in_training_is_refused() -> None:
    prepared = prepare_qat(Trained(), torch.rand(1, 3, 8, 8), TARGET).train()
    with pytest.raises(ModelError, match=r"another call: test_qat.py:\d+"):
        prepared(torch.rand(2, 3, 8, 8))
