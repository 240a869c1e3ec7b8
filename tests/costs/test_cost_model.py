"""The cost model as users see it: units, monotony, additivity, and which costs are fitted or guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Optional, Set

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.costs.cost import total
from edgedla.costs.model import CostModel
from edgedla.costs.networks import network
from edgedla.costs.operators import operators_of
from edgedla.costs.transition import FORMATS
from edgedla.errors import UsageError
from edgedla.graph import Tensor
from edgedla.targets import modules, platform_for
from tests.amounts import examples
from tests.costs.cost_graphs import Builder, residual_block

ORIN = platform_for("agx-orin-64gb")
XAVIER = platform_for("agx-xavier-32gb")


def whole_us(model: CostModel, graph, device: str) -> float:
    costs = model.layer_costs(graph)
    return total(costs[i, device] for i in range(len(graph.layers))).latency_us


def every_mode():
    for name, module in sorted(modules().items()):
        for mode in module.power_modes or (None,):
            yield name, mode


@pytest.mark.parametrize(("target", "mode"), list(every_mode()))
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_every_module_mode_and_precision_has_costs(target: str, mode: str, precision: str) -> None:
    platform = platform_for(target)
    model = CostModel.load(platform, precision, mode)
    graph = residual_block()
    costs = model.layer_costs(graph)
    devices = {d for _, d in costs}
    assert devices >= {"GPU"}
    assert ("DLA" in devices) == platform.has_dla
    for cost in costs.values():
        assert cost.basis in ("fitted", "guessed") or cost.latency_us == 0
        assert cost.latency_us == 0 or cost.spread > 0
    assert model.energy.idle_w > 0


def test_a_placements_cost_is_the_sum_over_operators() -> None:
    graph = residual_block()
    model = CostModel.load(ORIN, "int8")
    costs = model.layer_costs(graph)
    # ReLU and BatchNorm behind a convolution cost nothing of their own; the Add costs its second operand.
    names = {layer.name: layer.index for layer in graph.layers}
    assert costs[names["relu1"], "DLA"].latency_us == 0
    assert 0 < costs[names["add"], "DLA"].latency_us < costs[names["conv2"], "DLA"].latency_us / 10
    assert set(costs.separations) == {link for o in operators_of(graph) for link in o.links}


def test_a_layer_separated_from_its_operator_costs_what_it_costs_alone() -> None:
    graph = residual_block()
    model = CostModel.load(ORIN, "int8")
    costs = model.layer_costs(graph)
    names = {layer.name: layer.index for layer in graph.layers}
    b = Builder()
    b.relu("in")
    alone = model.layer_costs(b.graph())
    link = names["conv1"], names["bn1"]
    for device in ("GPU", "DLA"):
        torn = costs[names["bn1"], device].latency_us + costs.separations[link][device].latency_us
        assert torn == pytest.approx(alone[0, device].latency_us, rel=0.01)


@pytest.mark.parametrize("device", ["GPU", "DLA"])
@pytest.mark.parametrize(("platform", "precision"), [(ORIN, "int8"), (ORIN, "fp16"), (XAVIER, "fp16"), (XAVIER, "int8")])
def test_a_slower_clock_is_never_faster(platform, precision: str, device: str) -> None:
    graph = network("resnet18")
    times = []
    for clocks in (
        {"dla": 1395, "gpu": 1300, "emc": 2133},
        {"dla": 700, "gpu": 1300, "emc": 2133},
        {"dla": 700, "gpu": 600, "emc": 2133},
        {"dla": 700, "gpu": 600, "emc": 1066},
    ):
        times.append(whole_us(CostModel.load(platform, precision, clocks=clocks), graph, device))
    assert times == sorted(times)
    assert times[-1] > times[0] * 1.5


@pytest.mark.parametrize("device", ["GPU", "DLA"])
def test_lower_power_modes_are_slower_and_draw_less_power(device: str) -> None:
    graph = network("resnet50_b1")
    costs_of_modes = []
    for mode in ("MAXN", "50W", "30W", "15W"):
        costs = CostModel.load(ORIN, "int8", mode).layer_costs(graph)
        cost = total(costs[i, device] for i in range(len(graph.layers)))
        costs_of_modes.append((cost.latency_us, cost.energy_mj / cost.latency_us))
    assert [t for t, _ in costs_of_modes] == sorted(t for t, _ in costs_of_modes)
    assert [w for _, w in costs_of_modes] == sorted((w for _, w in costs_of_modes), reverse=True)


@pytest.mark.parametrize("device", ["GPU", "DLA"])
def test_twice_the_batch_costs_more_but_less_than_twice(device: str) -> None:
    model = CostModel.load(ORIN, "int8")
    one, two = (whole_us(model, network(f"resnet50_b{n}"), device) for n in (1, 2))
    assert one < two <= 2 * one


def test_sparse_weights_speed_up_convolutions_on_orin_as_published() -> None:
    graph = network("rn34_backbone_1280x768")
    dense, sparse = (whole_us(CostModel.load(ORIN, "int8", sparsity=s), graph, "DLA") for s in (False, True))
    assert 1.24 <= dense / sparse <= 1.47
    with pytest.raises(UsageError, match="sparsity"):
        CostModel.load(XAVIER, "int8", sparsity=True)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 512), st.integers(1, 512), st.integers(1, 100), st.integers(1, 64), st.sampled_from(["int8", "fp16"]))
def test_more_channels_or_pixels_never_cost_less(c: int, k: int, size: int, extra: int, precision: str) -> None:
    model = CostModel.load(ORIN, precision)

    def cost(c: int, k: int, size: int):
        b = Builder((1, c + 4, size, size))
        b.conv("in", k)
        costs = model.layer_costs(b.graph())
        return costs[0, "GPU"].latency_us, costs[0, "DLA"].latency_us

    base = cost(c, k, size)
    for grown in (cost(c + extra, k, size), cost(c, k + extra, size), cost(c, k, size + extra)):
        assert all(g >= b - 1e-9 for g, b in zip(grown, base))


def test_a_transition_costs_its_bytes_and_nothing_between_equal_formats() -> None:
    model = CostModel.load(ORIN, "int8")
    small, large = Tensor("s", (1, 32, 8, 8)), Tensor("l", (1, 32, 256, 256))
    assert model.transition(small, "GPU", "DLA0").latency_us < model.transition(large, "GPU", "DLA0").latency_us
    assert model.transition(large, "DLA0", "DLA1").latency_us == 0
    assert model.transition(large, "DLA0", "DLA0").latency_us == 0
    assert model.transition(large, "GPU", "DLA0", source_format="CHW32").latency_us == 0
    assert model.transition(large, "GPU", "DLA0", target_format="LINEAR").latency_us == 0
    with pytest.raises(UsageError, match="NHWC"):
        model.transition(large, "GPU", "DLA0", source_format="NHWC")
    with pytest.raises(ValueError, match="CPU"):
        model.transition(large, "CPU", "DLA0")


@pytest.mark.parametrize(
    ("precision", "native"), [("fp16", {"DLA_LINEAR", "DLA_HWC4", "CHW16"}), ("int8", {"DLA_LINEAR", "DLA_HWC4", "CHW32"})]
)
def test_a_dla_reads_and_writes_its_native_formats_without_a_reformat(precision: str, native: Set[str]) -> None:
    model, tensor = CostModel.load(ORIN, precision), Tensor("x", (1, 4, 64, 64))
    into = {f for f in FORMATS if model.transition(tensor, "GPU", "DLA0", source_format=f).latency_us == 0}
    out_of = {f for f in FORMATS if model.transition(tensor, "DLA1", "GPU", target_format=f).latency_us == 0}
    assert into == out_of == native


def test_few_channels_are_reformatted_as_a_whole_vector() -> None:
    model = CostModel.load(ORIN, "int8")
    assert (
        model.transition(Tensor("a", (1, 3, 224, 224)), "GPU", "DLA0").latency_us
        > model.transition(Tensor("b", (1, 32, 224, 224 // 32)), "GPU", "DLA0").latency_us
    )


def test_each_loadable_and_engine_call_costs_and_more_so_at_low_clocks() -> None:
    models = [CostModel.load(ORIN, "int8", mode) for mode in ("MAXN", "15W")]
    fast, slow = (m.loadable() + m.engine() for m in models)
    assert 100 < fast.latency_us < slow.latency_us
    assert CostModel.load(ORIN, "int8").engine().latency_us > 0


def test_cores_at_different_clocks_have_different_costs_and_a_note_says_so() -> None:
    model = CostModel.load(platform_for("orin-nx-16gb"), "int8", "15W_SUPER")
    graph = residual_block()
    costs = model.layer_costs(graph)
    assert costs[0, "DLA1"].latency_us > costs[0, "DLA0"].latency_us == costs[0, "DLA"].latency_us
    assert any("different clocks" in note for note in model.notes)


@pytest.mark.parametrize(
    ("clocks", "said"),
    [
        ({}, None),
        ({"gpu": 500.0, "dla": 600.0}, "clocks as given: GPU 500 MHz; DLA 600 MHz"),
        ({"dla": 6140.0}, "clocks as given: DLA 6140 MHz, above the 1230 MHz of every mode"),
    ],
)
def test_given_clocks_are_named_in_a_note(clocks: Dict[str, float], said: Optional[str]) -> None:
    notes = CostModel.load(platform_for("orin-nx-16gb"), "int8", clocks=clocks).notes
    assert [note for note in notes if "as given" in note] == ([said] if said else [])


def test_the_note_on_a_faster_lower_mode_is_absent_with_given_clocks() -> None:
    platform, words = platform_for("orin-nx-16gb"), "states a higher GPU clock"
    assert any(words in note for note in CostModel.load(platform, "int8", "25W").notes)
    slowed = CostModel.load(platform, "int8", "25W", clocks={"gpu": 400.0})
    assert not any(words in note for note in slowed.notes)


def test_a_clock_that_no_source_states_makes_a_guess_and_is_named() -> None:
    platform = platform_for("orin-nx-16gb")
    modes = platform.module.power_modes
    unstated = replace(modes["10W"], gpu_mhz=None, emc_mhz=None)
    module = replace(platform.module, power_modes={**modes, "10W": unstated})
    model = CostModel.load(replace(platform, module=module), "int8", "10W")
    assert any("no source states" in note for note in model.notes)
    assert {c.basis for (_, d), c in model.layer_costs(residual_block()).items() if d == "GPU" and c.latency_us} == {"guessed"}


def test_costs_without_published_figures_are_guessed() -> None:
    b = Builder()
    b.add("SOFTMAX", ["in"], (1, 64, 56, 56), axes=[1])
    for precision in ("fp16", "int8"):
        softmax = CostModel.load(ORIN, precision).layer_costs(b.graph())[0, "DLA"]
        assert softmax.basis == "guessed"
        # One shape alone shows what it costs: wider than a term that one source shows in several.
        assert softmax.spread > 0.6
    assert CostModel.load(XAVIER, "int8").layer_costs(residual_block())[0, "DLA"].basis == "guessed"
    thor = CostModel.load(platform_for("agx-thor-t5000"), "int8").layer_costs(residual_block())
    assert thor[0, "GPU"].basis == "guessed"


@pytest.mark.parametrize(("groups", "basis"), [(1, "fitted"), (16, "fitted"), (32, "guessed"), (64, "fitted")])
def test_groups_narrower_than_any_published_on_a_gpu_are_a_guess(groups: int, basis: str) -> None:
    """Of 64 channels: groups of four, as ResNeXt-50 has, of two, and depthwise."""
    b = Builder()
    b.conv("in", 64, groups=groups)
    costs = CostModel.load(ORIN, "fp16").layer_costs(b.graph())
    assert costs[0, "GPU"].basis == basis
    assert (costs[0, "GPU"].spread >= 0.4) == (basis == "guessed")
    assert costs[0, "DLA"].basis == "fitted"


def test_a_module_without_dla_has_gpu_costs_only() -> None:
    model = CostModel.load(platform_for("orin-nano-8gb"), "int8")
    assert {d for _, d in model.layer_costs(residual_block())} == {"GPU"}
    with pytest.raises(UsageError, match="no DLA"):
        model.loadable()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fp32",), "precision"),
        (("int8", "5W"), "power mode"),
        (("int8", None, {"cpu": 1000}), "clock"),
        (("int8", None, {"dla": 0}), "MHz"),
    ],
)
def test_wrong_arguments_of_a_cost_model_are_named(arguments, message: str) -> None:
    precision, mode, clocks = (*arguments, None, None)[:3]
    with pytest.raises(UsageError, match=message):
        CostModel.load(ORIN, precision, mode, clocks=clocks)


def test_traffic_bytes_are_those_of_a_layers_tensors() -> None:
    graph = residual_block()
    traffic = CostModel.load(ORIN, "int8").layer_costs(graph).traffic_bytes
    assert traffic[0, "DLA"] == 64 * 56 * 56 * 2 + 64 * 64 * 9
    names = {layer.name: layer.index for layer in graph.layers}
    assert traffic[names["add"], "GPU"] == 64 * 56 * 56
    assert traffic[names["relu2"], "GPU"] == 0


def test_the_document_names_clocks_basis_and_notes() -> None:
    document = CostModel.load(ORIN, "int8", "15W").to_dict()
    assert document["clocks_mhz"] == {"dla": [614.4, 614.4], "gpu": 408.0, "emc": 2133.0}
    assert document["idle_power_basis"] == "fitted"
    assert any("low duty" in n for n in document["notes"])
    assert CostModel.load(platform_for("xavier-nx-8gb"), "int8").energy.idle_basis == "guessed"


def test_the_gpu_with_tensorrt_before_8_is_less_sure_and_a_note_says_so() -> None:
    graph = network("resnet18")

    def model(trt: str) -> CostModel:
        return CostModel.load(platform_for("agx-xavier-32gb", trt=trt), "fp16")

    def spread(trt: str, device: str) -> float:
        costs = model(trt).layer_costs(graph)
        return total([costs[i, device] for i in range(len(graph.layers))]).spread

    assert spread("7.1", "GPU") > 0.4 > 0.2 > spread("8.0", "GPU")
    assert spread("7.1", "DLA") == spread("8.0", "DLA")
    assert any("before 8" in note for note in model("7.1").notes)
    assert not any("before 8" in note for note in model("8.0").notes)
