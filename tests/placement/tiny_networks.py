"""Random networks of a few layers, some recurrent, as placement problems with random costs: for brute force.

The graphs come from the importer, the items and loadables from the product; every time and energy is drawn.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from typing import List, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgedla.costs.cost import Cost
from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.placement.problem.inputs import problem_of
from edgedla.placement.problem.problem import Limits, Problem
from edgedla.placement.problem.read_models import read_models
from edgedla.targets import platform_for
from tests.models import onnx_model

#: Channels of every activation, and its height and width.
CHANNELS, SIZE = 4, 2
#: Recurrent operators, and how many gates each has.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class _Network:
    """Nodes and weights of a network that grows by one operator at a time."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: List[onnx.NodeProto] = []
        self.weights: List[onnx.TensorProto] = []

    def add(self, op: str, inputs: List[str], **attributes: object) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def weight(self, *dims: int) -> str:
        self.weights.append(numpy_helper.from_array(np.zeros(dims, np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def shape(self, *dims: int) -> str:
        self.weights.append(numpy_helper.from_array(np.array(dims, np.int64), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def conv(self, x: str) -> str:
        y = self.add("Conv", [x, self.weight(CHANNELS, CHANNELS, 1, 1)], kernel_shape=[1, 1])
        return self.add("Relu", [y]) if self.rng.random() < 0.5 else y

    def recurrent(self, x: str) -> str:
        op = self.rng.choice(sorted(GATES))
        gates = GATES[op]
        steps = self.add("Reshape", [x, self.shape(SIZE * SIZE, 1, CHANNELS)])
        hidden = [self.weight(1, gates * CHANNELS, CHANNELS) for _ in range(2)]
        y = self.add(op, [steps, *hidden], hidden_size=CHANNELS)
        return self.add("Reshape", [y, self.shape(1, CHANNELS, SIZE, SIZE)])


def tiny_network(seed: int, operators: int = 4, loops: bool = True) -> onnx.ModelProto:
    """A network of `operators` operators: convolutions, sums, what no DLA runs, and recurrent ones if `loops`."""
    rng = random.Random(seed)
    network = _Network(rng)
    tensors = ["x"]
    kinds = ["conv", "conv", "conv", "add", "gpu"] + (["recurrent"] if loops else [])
    wanted = ["recurrent"] if loops and rng.random() < 0.7 else []
    wanted += [rng.choice(kinds) for _ in range(operators - len(wanted))]
    # More of them would leave nothing to choose.
    wanted = [kind if kind != "recurrent" or "recurrent" not in wanted[:k] else "conv" for k, kind in enumerate(wanted)]
    rng.shuffle(wanted)
    for kind in wanted:
        x = tensors[-1] if rng.random() < 0.7 else rng.choice(tensors)
        if kind == "conv":
            tensors.append(network.conv(x))
        elif kind == "add":
            tensors.append(network.add("Add", [x, rng.choice(tensors)]))
        elif kind == "gpu":
            tensors.append(network.add("Erf", [x]))
        else:
            tensors.append(network.recurrent(x))
    read = {name for node in network.nodes for name in node.input}
    ends = [t for t in tensors[1:] if t not in read]
    dims = [1, CHANNELS, SIZE, SIZE]
    return onnx_model(network.nodes, {"x": dims}, {t: dims for t in ends}, network.weights, name=f"tiny{seed}")


@lru_cache(maxsize=None)
def _costs(precision: str) -> CostModel:
    return CostModel.load(platform_for("agx-orin-64gb"), precision)


def tiny_problem(seed: int, devices: Tuple[str, ...], loops: bool = True) -> Tuple[Problem, LayerGraph]:
    """(the problem of a tiny network with random costs, its graph)."""
    rng = random.Random(seed)
    costs = _costs(rng.choice(["fp16", "int8"]))
    graph = load_onnx(tiny_network(seed, 5 + seed % 3, loops), trt=costs.platform.release.trt)
    models = read_models([graph], costs.platform, costs.precision, (), devices, False, None, None, None)
    limits = Limits(loadables_per_core=rng.choice([1, 2, 16]), max_regions=rng.choice([None, None, None, 2]))
    return _priced(problem_of(models, costs, devices, limits), rng), graph


def tiny_pair(seed: int, devices: Tuple[str, ...]) -> Problem:
    """The problem of two tiny networks without recurrent operators, with random costs."""
    return _tiny_several(seed, devices, [(seed * 2 + k, 2 + (seed + k) % 2) for k in (0, 1)])


def tiny_triple(seed: int, devices: Tuple[str, ...]) -> Problem:
    """The same of three networks of one or two operators."""
    return _tiny_several(seed, devices, [(seed * 3 + k, 1 + (seed + k) % 2) for k in (0, 1, 2)])


def _tiny_several(seed: int, devices: Tuple[str, ...], networks: List[Tuple[int, int]]) -> Problem:
    """Of networks given by their seed and how many operators they have."""
    rng = random.Random(seed)
    costs = _costs(rng.choice(["fp16", "int8"]))
    trt = costs.platform.release.trt
    graphs = [load_onnx(tiny_network(k, operators, loops=False), trt=trt) for k, operators in networks]
    models = read_models(graphs, costs.platform, costs.precision, (), devices, False, None, None, None)
    return _priced(problem_of(models, costs, devices, Limits(loadables_per_core=rng.choice([1, 2, 16]))), rng)


def _priced(problem: Problem, rng: random.Random) -> Problem:
    def cost(most: int) -> Cost:
        return Cost(float(rng.randint(0, most)), rng.randint(0, most) / 7, "guessed", 0.3, 0.3)

    return replace(
        problem,
        items=tuple(replace(i, costs={d: cost(40) if i.layers else Cost() for d in i.costs}) for i in problem.items),
        flows=tuple(replace(f, costs={pair: cost(12) for pair in sorted(f.costs)}) for f in problem.flows),
        links=tuple(replace(k, costs={kind: cost(20) for kind in ("GPU", "DLA")}) for k in problem.links),
        loadable=cost(20),
        engine=cost(9),
        slowdown={s: {d: rng.choice([1.0, 1.25, 1.5]) for d in sorted(s)} for s in problem.slowdown},
    )


def loops_in(graph: LayerGraph) -> int:
    """How many recurrent operators the importer made loops of: layers that read what a later layer writes."""
    return sum(
        any(graph.producer(name) is not None and graph.producer(name) > layer.index for name in layer.inputs)  # type: ignore[operator]
        for layer in graph.layers
    )
