"""Which layers leave INT8 at the least predicted time so that the outputs' noise stays below a bound: a knapsack, exact.

A tensor's rounding falls away where every layer that reads or writes it runs in FP16. With y_t for tensors, x_l for
layers, noise n_t of a tensor at the outputs (measured with it alone rounded) and predicted extra time c_l:

    minimise sum c_l x_l   where   sum n_t y_t >= excess,   y_t <= x_l for every layer l of tensor t,   x, y in {0, 1}

Noise adds up where the roundings are independent; whoever uses the answer checks it with a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Mapping, Optional, Sequence, Tuple

#: Of two answers of equal predicted time the one with fewer layers.
_LAYER_US = 1e-3
_TIME_LIMIT_S = 20.0


@dataclass(frozen=True)
class Candidate:
    """A tensor: its noise share at the outputs, and the layers that read or write it."""

    tensor: str
    share: float
    layers: Tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """Layers that leave INT8.

    Attributes:
        layers: their names. tensors: those whose rounding falls away with them.
        cost_us: predicted extra time. proven: no cheaper choice meets the bound, as far as noise and time add up.
    """

    layers: Tuple[str, ...]
    tensors: Tuple[str, ...]
    cost_us: float
    proven: bool


def choose(candidates: Sequence[Candidate], extra_us: Mapping[str, float], excess: float) -> Optional[Choice]:
    """The choice of least predicted time that takes away at least `excess` of the noise share; None where none does.

    Args:
        extra_us: layer -> predicted time that it takes longer outside INT8, in microseconds; below 0 counts as 0.
    """
    if excess <= 0:
        return Choice((), (), 0.0, True)
    if sum(c.share for c in candidates) < excess:
        return None
    from edgedla.placement.solvers.highs import LinearModel

    scale = 1.0 / excess
    model = LinearModel()
    columns: Dict[str, int] = {}
    for name in sorted({name for c in candidates for name in c.layers}):
        columns[name] = model.column(max(extra_us.get(name, 0.0), 0.0) + _LAYER_US, 0.0, 1.0, True)
    picked = [model.column(0.0, 0.0, 1.0, True) for _ in candidates]
    for column, candidate in zip(picked, candidates):
        for name in candidate.layers:
            model.at_most({column: 1.0, columns[name]: -1.0})
    model.at_least({column: c.share * scale for column, c in zip(picked, candidates)}, 1.0)
    answer = model.solve(_TIME_LIMIT_S, 0.0)
    if not answer.values:
        return None
    layers = tuple(name for name, column in columns.items() if answer.values[column] > 0.5)
    chosen = set(layers)
    tensors = tuple(c.tensor for c in candidates if chosen.issuperset(c.layers))
    cost = sum(max(extra_us.get(name, 0.0), 0.0) for name in layers)
    return Choice(layers, tensors, cost, answer.status == "optimal")
