"""Conditions that the data decide: the two branches of each, of which a frame runs one."""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, List, NamedTuple, Sequence, Set, Tuple

from edgedla.graph.layer_graph import CONDITION_BORDERS, LayerGraph


class Branches(NamedTuple):
    """What an `If` chooses from: the name of its node, and the layers of each branch, those of inner conditions too."""

    node: str
    then: FrozenSet[int]
    otherwise: FrozenSet[int]


class Choice(NamedTuple):
    """What the branches of an `If` weigh, and the layers of the lighter one."""

    node: str
    then: float
    otherwise: float
    lighter: FrozenSet[int]


def branches_of(graph: LayerGraph) -> Tuple[Branches, ...]:
    """The branches of each condition, inner conditions first.

    The parser makes the layers of the then-branch before those of the else-branch.
    """
    return graph.once("branches", _branches_of)


def choices_of(graph: LayerGraph, weight: Callable[[int], float]) -> Tuple[Choice, ...]:
    """Which branch of each condition weighs less, inner conditions first: what their lighter branch weighs does not count.

    Args:
        weight: of a layer, by its index.
    """
    skipped: Set[int] = set()
    choices: List[Choice] = []
    for node, then, otherwise in branches_of(graph):
        weights = [sum(weight(i) for i in layers if i not in skipped) for layers in (then, otherwise)]
        lighter = otherwise if weights[0] >= weights[1] else then
        skipped |= lighter
        choices.append(Choice(node, weights[0], weights[1], lighter))
    return tuple(choices)


def lighter_branches(graph: LayerGraph, weight: Callable[[int], float]) -> FrozenSet[int]:
    """The layers that the heaviest frame does not run."""
    return frozenset(i for choice in choices_of(graph, weight) for i in choice.lighter)


def _branches_of(graph: LayerGraph) -> Tuple[Branches, ...]:
    opened: Dict[object, int] = {}
    closed: Dict[object, int] = {}
    read: Dict[object, Tuple[List[str], List[str]]] = {}
    for layer in graph.layers:
        number = layer.params.get("conditional")
        if layer.type == "CONDITION":
            opened[number] = layer.index
        elif layer.type == "CONDITIONAL_OUTPUT" and number in opened:
            closed[number] = layer.index
            then_tensors, other_tensors = read.setdefault(number, ([], []))
            then_tensors.append(layer.inputs[0])
            other_tensors.append(layer.inputs[1])
    found: List[Branches] = []
    for number, last in closed.items():
        first = opened[number]
        inside = [i for i in range(first + 1, last) if not _is_border(graph, i, number)]
        then, otherwise = (_before(graph, tensors, first, last) for tensors in read[number])
        end = max(then - otherwise, default=first)
        found.append(
            Branches(
                graph.layers[first].onnx_node, frozenset(i for i in inside if i <= end), frozenset(i for i in inside if i > end)
            )
        )
    return tuple(sorted(found, key=lambda b: len(b.then) + len(b.otherwise)))


def _is_border(graph: LayerGraph, index: int, number: object) -> bool:
    layer = graph.layers[index]
    return layer.type in CONDITION_BORDERS and layer.params.get("conditional") == number


def _before(graph: LayerGraph, tensors: Sequence[str], first: int, last: int) -> FrozenSet[int]:
    """The layers between `first` and `last` that these tensors depend on."""
    pending = [i for i in map(graph.producer, tensors) if i is not None]
    found: Set[int] = set()
    while pending:
        i = pending.pop()
        if first < i < last and i not in found:
            found.add(i)
            pending += graph.predecessors(i)
    return frozenset(found)
