"""Stages of a chain: every edge goes forward, one core per stage, regions stay whole, in any order of the nodes."""

from __future__ import annotations

import random
from typing import List, Optional, Sequence, Tuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgedla.builder.chain.split import StageLayers, split_stages
from edgedla.errors import BuildError
from edgedla.graph import Layer, LayerGraph, Tensor
from tests.amounts import examples

Edges = Sequence[Tuple[int, int]]


def network(count: int, edges: Edges, sources: Sequence[int] = (0,), sizes: Optional[Sequence[int]] = None) -> LayerGraph:
    """Layers 0 to count-1, layer i writing t<i>; `sources` read the network's input."""
    layers = []
    for i in range(count):
        reads = [f"t{a}" for a, b in edges if b == i] + (["image"] if i in sources else [])
        layers.append(Layer(i, "ACTIVATION", f"layer{i}", f"node{i}", "Relu", tuple(reads), (f"t{i}",)))
    tensors = {f"t{i}": Tensor(f"t{i}", (1, (sizes or [1] * count)[i], 1, 1)) for i in range(count)}
    tensors["image"] = Tensor("image", (1, 3, 8, 8))
    outputs = tuple(f"t{i}" for i in range(count) if not any(a == i for a, _ in edges))
    return LayerGraph("net", tuple(layers), tensors, ("image",), outputs)


def shape(stages: Sequence[StageLayers]) -> List[Tuple[str, Tuple[int, ...]]]:
    return [(s.device, s.layers) for s in stages]


LINE = [(i, i + 1) for i in range(5)]


@pytest.mark.parametrize(
    ("devices", "want"),
    [
        (["DLA0"] * 6, [("DLA0", (0, 1, 2, 3, 4, 5))]),
        (["GPU"] * 6, [("GPU", (0, 1, 2, 3, 4, 5))]),
        (["DLA0"] * 3 + ["DLA1"] * 3, [("DLA0", (0, 1, 2)), ("DLA1", (3, 4, 5))]),
        (["DLA1"] * 3 + ["DLA0"] * 3, [("DLA1", (0, 1, 2)), ("DLA0", (3, 4, 5))]),
        # The GPU's part ends the stage before it, since that one's engine can use the GPU.
        (["GPU", "DLA0", "GPU", "DLA1", "DLA0", "GPU"], [("DLA0", (0, 1, 2)), ("DLA1", (3,)), ("DLA0", (4, 5))]),
        # Nothing is left of a folded layer, so it goes along.
        (["DLA0", None, "DLA1", None, None, "DLA1"], [("DLA0", (0, 1)), ("DLA1", (2, 3, 4, 5))]),
    ],
)
def test_a_chain_of_layers_is_cut_where_the_core_changes(
    devices: List[Optional[str]], want: List[Tuple[str, Tuple[int, ...]]]
) -> None:
    assert shape(split_stages(network(6, LINE), devices)) == want


def test_parallel_branches_on_two_cores_are_two_stages() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert shape(split_stages(network(4, edges), ["GPU", "DLA0", "DLA1", "DLA1"])) == [("DLA0", (0, 1)), ("DLA1", (2, 3))]


def test_the_first_core_is_the_one_with_fewer_stages() -> None:
    # Beginning with DLA0 would put the first layers on a stage of their own, and layer 2 on a third one.
    edges = [(0, 2), (1, 2), (2, 3)]
    devices = ["DLA1", "DLA1", "DLA0", "DLA0"]
    assert shape(split_stages(network(4, edges, (0, 1)), devices)) == [("DLA1", (0, 1)), ("DLA0", (2, 3))]


def test_with_equal_stages_the_first_core_is_the_one_with_fewer_bytes_passed_on() -> None:
    # Two branches that join on the GPU: the second stage joins, so the first one's result crosses.
    edges = [(0, 2), (1, 2)]
    small_first = network(3, edges, (0, 1), [10, 100, 1])
    assert [s.device for s in split_stages(small_first, ["DLA0", "DLA1", "GPU"])] == ["DLA0", "DLA1"]
    small_second = network(3, edges, (0, 1), [100, 10, 1])
    assert [s.device for s in split_stages(small_second, ["DLA0", "DLA1", "GPU"])] == ["DLA1", "DLA0"]


def test_layers_fed_by_constants_join_the_stage_of_their_first_reader() -> None:
    # Layers 2 and 3 read no input, like the dequantised weights of layer 4.
    edges = [(0, 1), (1, 4), (2, 3), (3, 4)]
    stages = split_stages(network(5, edges), ["DLA0", "DLA0", "GPU", "GPU", "DLA1"])
    assert shape(stages) == [("DLA0", (0, 1)), ("DLA1", (2, 3, 4))]


def test_layers_of_one_unit_are_not_split() -> None:
    # Layers 1 and 4 are one region: what lies between them is read and reads, so all of it is one unit.
    devices: List[Optional[str]] = ["DLA0", "DLA1", "DLA1", "GPU", "DLA1", "DLA0"]
    stages = split_stages(network(6, LINE), devices, [(1, 4)])
    assert shape(stages) == [("DLA0", (0,)), ("DLA1", (1, 2, 3, 4)), ("DLA0", (5,))]


@pytest.mark.parametrize(
    ("together", "why"),
    [
        ([(0, 2)], "layer0 on DLA0 and layer1 on DLA1, and they read from each other in a circle"),
        ([(1, 2)], "layer2 on DLA0 and layer1 on DLA1, and one ONNX node or one region holds both"),
    ],
)
def test_a_unit_on_two_cores_is_refused_by_name(together: List[Tuple[int, ...]], why: str) -> None:
    with pytest.raises(BuildError) as caught:
        split_stages(network(3, [(0, 1), (1, 2)]), ["DLA0", "DLA1", "DLA0"], together)
    assert why in str(caught.value)
    assert "--layer-device-types" in str(caught.value)


def test_layers_of_a_cycle_stay_in_one_stage() -> None:
    # The edge that runs against the order of the layers, as a RECURRENCE has one.
    edges = [(0, 1), (1, 2), (2, 1), (2, 3)]
    assert shape(split_stages(network(4, edges), ["DLA0", "GPU", "GPU", "DLA1"])) == [("DLA0", (0, 1, 2)), ("DLA1", (3,))]


@st.composite
def placed_networks(draw: st.DrawFn) -> Tuple[int, List[Tuple[int, int]], List[int], List[Optional[str]], List[List[int]]]:
    """A random DAG with a device a layer, and regions: runs of layers on one device."""
    count = draw(st.integers(1, 12))
    edges = []
    for b in range(1, count):
        edges += [(a, b) for a in draw(st.sets(st.integers(0, b - 1), max_size=3))]
    sources = sorted(draw(st.sets(st.integers(0, count - 1), max_size=2)))
    devices = draw(st.lists(st.sampled_from(["GPU", "DLA0", "DLA1", None]), min_size=count, max_size=count))
    regions = []
    for start in draw(st.sets(st.integers(0, count - 1), max_size=3)):
        run = [i for i in range(start, min(start + 3, count)) if devices[i] == devices[start] and devices[i]]
        regions.append(run)
    return count, sorted(set(edges)), sources, devices, [r for r in regions if len(r) > 1]


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(placed_networks(), st.randoms(use_true_random=False))
def test_stages_of_random_networks_are_ordered_and_complete(
    placed: Tuple[int, List[Tuple[int, int]], List[int], List[Optional[str]], List[List[int]]], rng: random.Random
) -> None:
    count, edges, sources, devices, regions = placed
    graph = network(count, edges, sources)
    if not regions:
        # Every acyclic network can be cut.
        stages = split_stages(graph, devices)
    else:
        try:
            stages = split_stages(graph, devices, regions)
        except BuildError:
            return
    where = {i: k for k, s in enumerate(stages) for i in s.layers}
    assert sorted(i for s in stages for i in s.layers) == list(range(count)), "every layer in exactly one stage"
    assert all(s.layers == tuple(sorted(s.layers)) and s.layers for s in stages)
    for a, b in edges:
        assert where[a] <= where[b], f"layer {b} reads from a later stage"
    for s in stages:
        assert {devices[i] for i in s.layers} <= {s.device, "GPU", None}
    for region in regions:
        assert len({where[i] for i in region}) == 1, "a region was cut"
    # Under another numbering the same layers stand together, in the same order of stages.
    order = list(range(count))
    rng.shuffle(order)
    number = {old: new for new, old in enumerate(order)}
    other = network(count, sorted((number[a], number[b]) for a, b in edges), [number[i] for i in sources])
    shuffled = split_stages(other, [devices[i] for i in order], [[number[i] for i in r] for r in regions])
    assert [(s.device, {order[i] for i in s.layers}) for s in shuffled] == [(s.device, set(s.layers)) for s in stages]
