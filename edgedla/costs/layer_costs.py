"""The cost of every layer on every device, additive over fused operators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar

from edgedla.costs.cost import Cost, device_kind
from edgedla.costs.operators import Operator, operators_of
from edgedla.costs.work import Work, in_fp32, works_of
from edgedla.graph import Layer, LayerGraph

#: (layer, its work, device, whether it is fused into the one before it) -> its cost
Predict = Callable[[Layer, Work, str, bool], Cost]
#: (operator, device) -> its measured time, if there is one
Measured = Callable[[Operator, str], Optional[Cost]]
V = TypeVar("V")
_time_us: Callable[[Cost], float] = attrgetter("latency_us")


class ByLayer(Mapping[Tuple[int, str], V]):
    """Values by (layer index, device) of a whole graph: a column for each device, which devices may share."""

    def __init__(self, columns: Mapping[str, Sequence[V]]) -> None:
        self._columns = columns

    def __getitem__(self, key: Tuple[int, str]) -> V:
        index, device = key
        return self._columns[device][index]

    def __iter__(self) -> Iterator[Tuple[int, str]]:
        return ((index, device) for device, column in self._columns.items() for index in range(len(column)))

    def __len__(self) -> int:
        return sum(len(column) for column in self._columns.values())


@dataclass(frozen=True)
class LayerCosts(Mapping[Tuple[int, str], Cost]):
    """Costs by (layer index, device), the extra cost of separating fused layers, and the traffic behind the costs.

    Devices are the kinds "GPU" and "DLA" and, as their clocks may differ, the cores "DLA0" and "DLA1"; "DLA" is core 0.
    The cost of an operator's leader holds the whole operator; a follower's holds only the extra traffic that it adds
    (the second operand of a fused Add). `separations[producer, consumer][device]` is added once if the two are on
    different devices and the consumer is on that one: it then runs as a separate operator. A placement's cost is

        sum of costs + sum of separations of split links + transitions + one `CostModel.loadable()` per DLA region
        + one `CostModel.engine()` per frame of each model

    `traffic_bytes` are DRAM bytes by (layer index, device kind).
    """

    costs: Mapping[Tuple[int, str], Cost]
    separations: Mapping[Tuple[int, int], Mapping[str, Cost]]
    traffic_bytes: Mapping[Tuple[int, str], float]

    def __getitem__(self, key: Tuple[int, str]) -> Cost:
        return self.costs[key]

    def __iter__(self) -> Iterator[Tuple[int, str]]:
        return iter(self.costs)

    def __len__(self) -> int:
        return len(self.costs)


@dataclass(frozen=True)
class Wider:
    """A wider precision of some operators on one kind of device: of those that `must` have it, else where it is faster."""

    kind: str
    element_bytes: float
    predict: Predict
    must: Optional[Callable[[Operator], bool]] = None


def layer_costs_of(
    graph: LayerGraph,
    element_bytes: float,
    same_as: Mapping[str, str],
    predict: Predict,
    measured: Measured,
    wider: Sequence[Wider] = (),
    in_float: Callable[[Layer], bool] = lambda layer: False,
) -> LayerCosts:
    """Costs of all layers.

    Args:
        same_as: every device -> the device with the same costs whose column it shares (possibly itself).
        wider: what the build allows or asks beside its own precision.
        in_float: layers that compute in FP32 on the GPU, by their tensors' types.
    """
    count, nothing = len(graph.layers), Cost()
    columns: Dict[str, List[Cost]] = {d: [nothing] * count for d in sorted(set(same_as.values()))}
    traffic: Dict[str, List[float]] = {kind: [0.0] * count for kind in sorted({device_kind(d) for d in same_as})}
    separations: Dict[Tuple[int, int], Dict[str, Cost]] = {}
    work, wider_work = works_of(graph, element_bytes), [(one, works_of(graph, one.element_bytes)) for one in wider]
    for operator in operators_of(graph):
        link_of = {consumer: (producer, consumer) for producer, consumer in operator.links}
        works = [(graph.layers[i], work[i]) for i in operator.layers]
        on_gpu = [(layer, in_fp32(own) if in_float(layer) else own) for layer, own in works]
        for kind, moved in traffic.items():
            for position, (layer, own) in enumerate(on_gpu if kind == "GPU" else works):
                moved[layer.index] = own.moved_bytes(kind, position > 0)
        for device, column in columns.items():
            predicted, alone = _priced(on_gpu if device == "GPU" else works, device, predict)
            for other, its_work in wider_work:
                if device_kind(device) != other.kind or not (other.must is None or other.must(operator)):
                    continue
                again = [(layer, its_work[layer.index]) for layer, _ in works]
                others, others_alone = _priced(again, device, other.predict)
                alone = others_alone if other.must else [min(pair, key=_time_us) for pair in zip(alone, others_alone)]
                if other.must or sum(map(_time_us, others)) < sum(map(_time_us, predicted)):
                    predicted = others
                    for position, (layer, own) in enumerate(again):
                        traffic[device_kind(device)][layer.index] = own.moved_bytes(device_kind(device), position > 0)
            for layer, apart, fused in zip([layer for layer, _ in works[1:]], alone[1:], predicted[1:]):
                separations.setdefault(link_of[layer.index], {})[device] = _difference(apart, fused)
            time = measured(operator, device)
            for index, cost in zip(operator.layers, _replaced(predicted, time) if time else predicted):
                column[index] = cost
    every = {link: {d: by[like] for d, like in same_as.items()} for link, by in separations.items()}
    return LayerCosts(ByLayer({d: columns[like] for d, like in same_as.items()}), every, ByLayer(traffic))


def _priced(works: Sequence[Tuple[Layer, Work]], device: str, predict: Predict) -> Tuple[List[Cost], List[Cost]]:
    """(each layer's cost within its operator, its cost alone)."""
    alone = [predict(layer, work, device, False) for layer, work in works]
    fused = [predict(layer, work, device, True) for layer, work in works[1:]]
    return [*alone[:1], *fused], alone


def _replaced(predicted: list[Cost], time: Cost) -> list[Cost]:
    """The measured time of an operator in its leader, with the energy in proportion; the followers are part of it."""
    whole = sum(c.latency_us for c in predicted)
    scale = time.latency_us / whole if whole > 0 else 0.0
    leader = Cost(
        time.latency_us,
        sum(c.energy_mj for c in predicted) * scale,
        "measured",
        time.spread,
        predicted[0].energy_spread,
        sum(c.transfer_us for c in predicted) * scale,
    )
    return [leader, *(Cost() for _ in predicted[1:])]


def _difference(alone: Cost, fused: Cost) -> Cost:
    """What running alone costs more than running fused."""
    return replace(
        alone,
        latency_us=max(alone.latency_us - fused.latency_us, 0.0),
        energy_mj=max(alone.energy_mj - fused.energy_mj, 0.0),
        transfer_us=max(alone.transfer_us - fused.transfer_us, 0.0),
    )
