"""Predictions over sweeps of convolutions: never negative, without jumps, and never cheaper for more work."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.costs.coefficients import coefficients
from edgedla.costs.cost import total
from edgedla.costs.model import CostModel
from edgedla.costs.networks import network, networks_dir
from edgedla.targets import modules, platform_for
from tests.amounts import examples
from tests.costs.cost_graphs import Builder

pytestmark = pytest.mark.once

#: One target of every chip and width: Orin and Xavier, AGX and NX, and modules without DLA.
TARGETS = ("agx-orin-64gb", "orin-nx-16gb", "orin-nano-8gb", "agx-xavier-32gb", "xavier-nx-8gb", "agx-thor-t5000")
WITH_DLA = tuple(t for t in TARGETS if platform_for(t).has_dla)
#: Convolutions as (input channels of a group, output channels of a group, groups, kernel, stride, size).
SHAPES = st.tuples(
    st.integers(1, 256),
    st.integers(1, 256),
    st.sampled_from([1, 1, 1, 2, 4, 8, 32]),
    st.sampled_from([1, 3, 5, 7, 11]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 320),
)
Shape = Tuple[int, int, int, int, int, int]


@lru_cache(maxsize=None)
def model(target: str, precision: str) -> CostModel:
    return CostModel.load(platform_for(target), precision)


def conv_us(target: str, precision: str, device: str, shape: Shape, batch: int = 1) -> float:
    c, k, groups, kernel, stride, size = shape
    b = Builder((batch, c * groups, size, size))
    b.conv("in", k * groups, kernel, stride, groups)
    return model(target, precision).layer_costs(b.graph())[0, device].latency_us


def engines():
    return [(t, p, d) for t in TARGETS for p in ("int8", "fp16") for d in ("GPU", "DLA") if d == "GPU" or t in WITH_DLA]


@pytest.mark.parametrize("name", ["mobilenet_v2", "googlenet_caffe", "resnet50_b1"])
def test_a_network_on_the_gpu_is_no_slower_at_int8(name: str) -> None:
    graph = network(name)
    for target in ("orin-nx-16gb", "agx-xavier-32gb"):
        int8, fp16 = (CostModel.load(platform_for(target), p).layer_costs(graph) for p in ("int8", "fp16"))
        times = [sum(costs[i, "GPU"].latency_us for i in range(len(graph.layers))) for costs in (int8, fp16)]
        assert times[0] <= times[1] * (1 + 1e-9)


@pytest.mark.parametrize(("target", "precision", "device"), engines())
@settings(max_examples=examples(25), deadline=None)
@given(SHAPES, st.integers(1, 64))
def test_more_work_never_costs_less(target: str, precision: str, device: str, shape: Shape, extra: int) -> None:
    c, k, groups, kernel, stride, size = shape
    # From 4 to 5 input channels, from one channel a group to two and from three to four, an engine changes its mode of work.
    grown = [(c, k + extra, groups, kernel, stride, size), (c, k, groups, kernel, stride, size + extra)]
    grown += [(c, k, groups, kernel + 2, stride, size)] if size > kernel + 2 else []
    grown += [(c + extra, k, groups, kernel, stride, size)] if groups == 1 or (c > 1 and not c < 4 <= c + extra) else []
    base = conv_us(target, precision, device, shape)
    assert 0 < base < math.inf
    for more in grown:
        assert conv_us(target, precision, device, more) >= base * (1 - 1e-9), more
    two = conv_us(target, precision, device, shape, 2)
    # A further sample of a batch is one more operation of a DLA, which takes longer than a first one.
    version = platform_for(target).module.dla_version
    sample_us = coefficients(f"dla{version}-{precision}").values["sample"] if device == "DLA" else 0.0
    assert base * (1 - 1e-9) <= two <= 2 * base * (1 + 1e-9) + sample_us


@pytest.mark.parametrize(("target", "device"), sorted({(t, d) for t, _, d in engines()}))
@settings(max_examples=examples(40), deadline=None)
@given(SHAPES)
def test_int8_is_never_slower_than_fp16(target: str, device: str, shape: Shape) -> None:
    # DLA v1 at INT8 is carried over, further from its peak, and rounds to wider vectors: narrow layers gain nothing.
    # On the GPU an INT8 build may take FP16 where that is faster.
    factor = 1.3 if device == "DLA" and "xavier" in target else 1.0
    assert conv_us(target, "int8", device, shape) <= conv_us(target, "fp16", device, shape) * factor * (1 + 1e-9)


@pytest.mark.parametrize(("target", "precision", "device"), engines())
@settings(max_examples=examples(25), deadline=None)
@given(SHAPES, st.sampled_from([2, 4, 8, 32]))
def test_a_grouped_convolution_never_costs_more_than_the_dense_one(
    target: str, precision: str, device: str, shape: Shape, groups: int
) -> None:
    c, k, _, kernel, stride, size = shape
    c = c + 4  # neither depthwise nor a first layer
    dense = conv_us(target, precision, device, (c * groups, k * groups, 1, kernel, stride, size))
    assert conv_us(target, precision, device, (c, k, groups, kernel, stride, size)) <= dense * (1 + 1e-9)


@pytest.mark.parametrize(("target", "precision", "device"), engines())
@pytest.mark.parametrize("groups", [1, 4])
def test_one_more_channel_or_pixel_at_most_doubles_the_cost(target: str, precision: str, device: str, groups: int) -> None:
    # 16 to 17 output columns, or 64 to 65 channels, fill one more vector: at most twice the work.
    for c in range(5, 140):
        few, more = (conv_us(target, precision, device, (n, 64, groups, 3, 1, 56)) for n in (c, c + 1))
        assert few * (1 - 1e-9) <= more <= 2.01 * few, c
    for size in range(4, 140):
        few, more = (conv_us(target, precision, device, (64, 64, groups, 3, 1, n)) for n in (size, size + 1))
        assert few * (1 - 1e-9) <= more <= 3.2 * few, size


def net_us(name: str, target: str, precision: str, device: str) -> float:
    graph = network(name)
    costs = model(target, precision).layer_costs(graph)
    return total(costs[i, device] for i in range(len(graph.layers))).latency_us


NETWORKS = sorted(p.stem for p in networks_dir().glob("*.csv"))


@pytest.mark.parametrize("name", NETWORKS)
def test_predicted_networks_keep_the_known_order_of_engines_and_modules(name: str) -> None:
    for device in ("GPU", "DLA"):
        for precision in ("int8", "fp16"):
            of = {t: net_us(name, t, precision, device) for t in WITH_DLA}
            assert of["agx-orin-64gb"] < of["orin-nx-16gb"]
            assert of["agx-xavier-32gb"] < of["xavier-nx-8gb"]
            if device == "GPU" or precision == "int8":
                assert of["agx-orin-64gb"] < of["agx-xavier-32gb"]
    for target in WITH_DLA:
        gpu = net_us(name, target, "fp16", "GPU") / net_us(name, target, "int8", "GPU")
        # Tensor cores do twice as many multiply-accumulates at INT8; networks of small layers gain nothing by it.
        assert 0.85 < gpu <= 2
        # A GPU multiplies the zeros of narrow groups, a DLA fewer of them: Orin ran one of these networks sooner on its DLA (p595, p605).
        if not name.startswith("resnext_stages"):
            assert net_us(name, target, "fp16", "DLA") > net_us(name, target, "fp16", "GPU")
    # Orin's DLA gave up most of its FP16 units; Xavier's has half as many as for INT8.
    assert 5 < net_us(name, "agx-orin-64gb", "fp16", "DLA") / net_us(name, "agx-orin-64gb", "int8", "DLA") < 30
    assert 1 < net_us(name, "agx-xavier-32gb", "fp16", "DLA") / net_us(name, "agx-xavier-32gb", "int8", "DLA") <= 2.05


def test_every_module_is_of_a_chip_that_is_swept() -> None:
    assert {m.chip for m in modules().values()} == {platform_for(t).module.chip for t in TARGETS}


@pytest.mark.parametrize("target", sorted(modules()))
@pytest.mark.parametrize("device", ["GPU", "DLA0"])
def test_no_power_mode_is_predicted_faster_than_a_higher_one(target: str, device: str) -> None:
    platform = platform_for(target)
    graph = network("resnet50_b1")
    before = {}
    for name, mode in platform.module.power_modes.items():
        if device != "GPU" and not platform.has_dla:
            continue
        costs = CostModel.load(platform, "int8", name)
        of = costs.layer_costs(graph)
        time_us = total(of[i, device] for i in range(len(graph.layers))).latency_us
        series = name.endswith("_SUPER")
        # A clock that a source states stands, whatever the order of the modes; nothing that is assumed may break it.
        stated = mode.gpu_mhz if device == "GPU" else mode.dla_mhz[0]
        if series in before and stated is None:
            assert time_us >= before[series] * (1 - 1e-9), name
        before[series] = max(time_us, before.get(series, 0.0))
