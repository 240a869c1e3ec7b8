"""The pricer: every set of remedies costs what a new network with the set applied costs, in any order of asking."""

from __future__ import annotations

from dataclasses import replace
from typing import FrozenSet, List, Sequence, Tuple

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.costs import layer_costs
from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.placement.pricer import Pricer
from edgedla.placement.problem.baselines import after_cap, greedy
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.inputs import problem_on
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Problem
from edgedla.regions.ranking import changed
from edgedla.rules import load_rules
from edgedla.rules.verdict import Effect, Finding, Support, Verdict
from edgedla.targets import Platform, platform_for
from tests.amounts import examples
from tests.models import node, onnx_model
from tests.placement.cut_blocks import c2f
from tests.placement.tiny_networks import tiny_network

ORIN = platform_for("agx-orin-64gb")


def anew(graph: LayerGraph, verdicts: Sequence[Verdict], platform: Platform, precision: str) -> Problem:
    """The problem of a network that nothing was worked out for, by a cost model of its own."""
    model = Model(replace(graph), tuple(verdicts), {}, 1.0)
    return problem_on((model,), CostModel.load(platform, precision), platform, most_cores=1).by_default()


def refused_with(verdict: Verdict, remedies: Sequence[str], late: bool) -> Verdict:
    """The verdict of a layer that any of the remedies takes to the DLA, or out of the network; `late`: the second look refuses it."""
    found = Finding("T-01", "test", verdict.layer, Effect.REJECT, "refused", fixes=tuple(remedies))
    if late:
        return replace(verdict, support=Support.DLA, findings=(), validation=(found,))
    return replace(verdict, support=Support.GPU, findings=(found,), validation=())


def mixed() -> onnx.ModelProto:
    """Matrix products with biases, a gate, an Identity and transposes: units of several layers, and reshapes without a layer."""
    nodes = [
        node("Identity", "x", "i"),
        node("Conv", "i w", "c"),
        node("Sigmoid", "c", "s"),
        node("Mul", "c s", "m"),
        node("Transpose", "m", "t", perm=[0, 2, 3, 1]),
        node("MatMul", "t v", "p"),
        node("Add", "p b", "q"),
        node("Transpose", "q", "y", perm=[0, 3, 1, 2]),
    ]
    weights = {"w": np.ones((8, 8, 1, 1), np.float32), "v": np.ones((8, 8), np.float32), "b": np.ones((8,), np.float32)}
    return onnx_model(nodes, {"x": (1, 8, 6, 6)}, {"y": (1, 8, 6, 6)}, weights)


#: Two that take layers to the DLA, and two that take them out.
REMEDIES = ("average-pool", "keep-4d", "no-identity", "conv-per-part")


@st.composite
def networks(draw: st.DrawFn) -> Tuple[LayerGraph, Tuple[Verdict, ...], str]:
    precision = draw(st.sampled_from(["fp16", "int8"]))
    seed = draw(st.integers(0, 200))
    model = draw(st.sampled_from([tiny_network(seed, 6), tiny_network(seed, 7, loops=False), c2f(16), mixed()]))
    graph = load_onnx(model, trt=(10, 3))
    verdicts: List[Verdict] = []
    for verdict in load_rules().check(graph, ORIN, precision):
        if draw(st.booleans()):
            remedies = draw(st.lists(st.sampled_from(REMEDIES), min_size=1, max_size=2, unique=True))
            single = len(graph.activations(graph.layers[verdict.index])) == 1 and not graph.runs
            # Only a layer of one input can be left out.
            remedies = remedies if single else [r for r in remedies if r in REMEDIES[:2]]
            verdict = refused_with(verdict, remedies, draw(st.booleans()))
        verdicts.append(verdict)
    return graph, tuple(verdicts), precision


@settings(max_examples=examples(30), deadline=None)
@given(networks(), st.lists(st.frozensets(st.sampled_from(REMEDIES)), min_size=1, max_size=5))
def test_every_set_costs_what_a_new_network_with_it_costs(
    network: Tuple[LayerGraph, Tuple[Verdict, ...], str], sets: List[FrozenSet[str]]
) -> None:
    graph, verdicts, precision = network
    pricer = Pricer(graph, verdicts, ORIN, CostModel.load(ORIN, precision))
    for remedies in sets:
        after, answers = changed(replace(graph), verdicts, remedies)
        expected = anew(after, answers, ORIN, precision)
        assert pricer.problem(remedies) == expected
        whole = evaluate(expected, after_cap(expected, greedy(expected, ("DLA0",))))
        assert pricer.evaluation(remedies) == whole
        assert pricer.latency_us(remedies) == whole.latency(0).latency_us


def test_a_module_without_a_dla_runs_all_on_its_gpu() -> None:
    nano = platform_for("orin-nano-8gb")
    graph = load_onnx(c2f(16), trt=nano.release.trt)
    verdicts = load_rules().check(graph, nano, "fp16")
    pricer = Pricer(graph, verdicts, nano, CostModel.load(nano, "fp16"))
    assert set(pricer.evaluation().assignment) == {"GPU"}
    assert pricer.latency_us() == pricer.evaluation().latency(0).latency_us


def test_only_sets_that_leave_out_other_layers_price_the_network_again(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: List[LayerGraph] = []
    real = layer_costs.operators_of
    monkeypatch.setattr(layer_costs, "operators_of", lambda graph: [priced.append(graph), real(graph)][1])
    graph = load_onnx(c2f(16), trt=(10, 3))
    verdicts = list(load_rules().check(graph, ORIN, "fp16"))
    for verdict in verdicts:
        layer = graph.layers[verdict.index]
        if layer.type == "SLICE":
            verdicts[verdict.index] = refused_with(verdict, ["conv-per-part"], False)
        elif layer.type == "CONCATENATION":
            verdicts[verdict.index] = refused_with(verdict, ["keep-4d"], False)
        elif layer.type == "CONVOLUTION":
            verdicts[verdict.index] = refused_with(verdict, ["average-pool"], False)
    pricer = Pricer(graph, verdicts, ORIN, CostModel.load(ORIN, "fp16"))
    freed = ["keep-4d", "average-pool"]
    sets = [frozenset(s) for s in ([], freed, freed[:1], freed[1:])]
    times = [pricer.latency_us(s) for s in sets]
    assert len(set(times)) == 4
    assert [len(g.layers) for g in priced] == [len(graph.layers)]
    without = [pricer.latency_us(s | {"conv-per-part"}) for s in sets]
    assert len({*times, *without}) == 8
    assert [len(g.layers) for g in priced] == [len(graph.layers), len(graph.layers) - 4]
