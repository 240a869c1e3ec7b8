"""Chooses layers that leave INT8, with the minimum predicted time that keeps the outputs' noise below a bound. Exact.

A knapsack: a tensor is no longer rounded to INT8 once every layer that reads or writes it has left INT8, to FP16 on the
DLA or to the GPU. y_t: tensor t is not rounded; n_t: its noise at the outputs, measured with t alone rounded. d_l, g_l:
layer l is in FP16 on the DLA, or on the GPU; c_l, h_l: predicted extra times. u_t, v_t: t goes to the GPU, or back.

    minimise sum c_l d_l + h_l g_l + to_gpu_t u_t + to_dla_t v_t
    where sum n_t y_t >= excess,   y_t <= d_l + g_l <= 1 for every layer l of tensor t,
          u_t >= g_r - g_p and v_t >= g_p - g_r for producer p and every reader r of tensor t,   y, d, g in {0, 1}

The sum of noise assumes independent rounding errors, so callers must check the answer with a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Container, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from edgedla.placement.deadline import Deadline
from edgedla.placement.solvers.program.highs import Linear, LinearModel

#: Cost per layer, so that of two answers of equal predicted time the one with fewer layers wins.
_LAYER_US = 1e-3
_TIME_LIMIT_S = 20.0


@dataclass(frozen=True)
class Candidate:
    """A tensor: its noise share at the outputs, and the layers that read or write it."""

    tensor: str
    share: float
    layers: Tuple[str, ...]


@dataclass(frozen=True)
class Border:
    """A tensor between layers. `producer`: None for a network input, which comes from the GPU.

    Attributes:
        is_output: True for an output of the network, which goes to the GPU.
        to_gpu_us, to_dla_us: predicted time of the transition; the latter includes the loadable that begins after it.
    """

    producer: Optional[str]
    readers: Tuple[str, ...]
    is_output: bool
    to_gpu_us: float
    to_dla_us: float


@dataclass(frozen=True)
class Prices:
    """The cost of leaving INT8 in predicted microseconds; negative values count as 0.

    Attributes:
        fp16_us: layer -> extra time in FP16 on the DLA. gpu_us: layer -> extra time on the GPU, without its borders;
            other layers cannot move to the GPU. borders: all of the network. on_gpu: layers already on the GPU.
        no_fp16: layers whose tensors FP16 cannot hold: they stay in INT8, or go to the GPU.
    """

    fp16_us: Mapping[str, float]
    gpu_us: Mapping[str, float] = field(default_factory=dict)
    borders: Tuple[Border, ...] = ()
    on_gpu: FrozenSet[str] = frozenset()
    no_fp16: FrozenSet[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """Layers that leave INT8.

    Attributes:
        layers: their names. gpu: the layers among them that go to the GPU; the others run in FP16 on the DLA.
        tensors: tensors that are then no longer rounded to INT8.
        cost_us: predicted extra time. proven: no cheaper choice meets the bound, if noise and time add up.
    """

    layers: Tuple[str, ...]
    tensors: Tuple[str, ...]
    cost_us: float
    proven: bool
    gpu: Tuple[str, ...] = ()


def choose(candidates: Sequence[Candidate], prices: Prices, excess: float) -> Optional[Choice]:
    """The choice of minimum predicted time that removes at least `excess` of the noise share; None if none does."""
    if excess <= 0:
        return Choice((), (), 0.0, True)
    if sum(c.share for c in candidates) < excess:
        return None
    model = LinearModel()
    fp16: Dict[str, int] = {}
    gpu: Dict[str, int] = {}
    for name in sorted({name for c in candidates for name in c.layers}):
        most = 0.0 if name in prices.no_fp16 else 1.0
        fp16[name] = model.column(max(prices.fp16_us.get(name, 0.0), 0.0) + _LAYER_US, 0.0, most, True)
        if name in prices.gpu_us:
            gpu[name] = model.column(max(prices.gpu_us[name], 0.0) + _LAYER_US, 0.0, 1.0, True)
            model.at_most({fp16[name]: 1.0, gpu[name]: 1.0}, 1.0)
    picked = [model.column(0.0, 0.0, 1.0, True) for _ in candidates]
    for column, candidate in zip(picked, candidates):
        for name in candidate.layers:
            model.at_most({column: 1.0, fp16[name]: -1.0, **({gpu[name]: -1.0} if name in gpu else {})})
    handed = _borders(model, gpu, prices)
    scale = 1.0 / excess
    model.at_least({column: c.share * scale for column, c in zip(picked, candidates)}, 1.0)
    answer = model.solve(Deadline.after(_TIME_LIMIT_S), 0.0)
    if not answer.values:
        return None
    moved = tuple(name for name, column in gpu.items() if answer.values[column] > 0.5)
    layers = tuple(name for name, column in fp16.items() if answer.values[column] > 0.5 or name in moved)
    chosen = set(layers)
    tensors = tuple(c.tensor for c in candidates if chosen.issuperset(c.layers))
    cost = sum(model.cost[column] * answer.values[column] for column in (*fp16.values(), *gpu.values(), *handed))
    moving = (b for b in prices.borders if any(name in gpu for name in (b.producer, *b.readers)))
    before_us = len(layers) * _LAYER_US + transitions_us(moving, prices.on_gpu)
    return Choice(layers, tensors, cost - before_us, answer.status == "optimal", moved)


def _borders(model: LinearModel, gpu: Mapping[str, int], prices: Prices) -> List[int]:
    """Columns for transitions of tensors next to layers that may move to the GPU."""

    def on_gpu(name: Optional[str]) -> Linear:
        if name in gpu:
            return {gpu[str(name)]: 1.0}
        return {None: 1.0 if name is None or name in prices.on_gpu else 0.0}

    columns: List[int] = []
    for border in prices.borders:
        if not any(name in gpu for name in (border.producer, *border.readers)):
            continue
        to_gpu, to_dla = (model.column(us, 0.0, 1.0) for us in (border.to_gpu_us, border.to_dla_us))
        columns += [to_gpu, to_dla]
        for reader in (*border.readers, *((None,) if border.is_output else ())):
            for column, source, target in ((to_gpu, border.producer, reader), (to_dla, reader, border.producer)):
                row: Linear = {column: 1.0}
                for expression, sign in ((on_gpu(target), -1.0), (on_gpu(source), 1.0)):
                    for key, value in expression.items():
                        row[key] = row.get(key, 0.0) + sign * value
                model.at_least(row)
    return columns


def transitions_us(borders: Iterable[Border], on_gpu: Container[Optional[str]]) -> float:
    """Predicted time of the transitions at these borders with these layers on the GPU, and all others on the DLA."""
    total = 0.0
    for border in borders:
        from_gpu = border.producer is None or border.producer in on_gpu
        to_gpu = [name in on_gpu for name in border.readers] + ([True] if border.is_output else [])
        total += border.to_gpu_us if not from_gpu and any(to_gpu) else 0.0
        total += border.to_dla_us if from_gpu and not all(to_gpu) else 0.0
    return total
