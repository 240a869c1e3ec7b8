"""The error of groups of channels at the outputs. Large channels hide small ones in the error of a whole tensor. Simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.accuracy.channels.units import Source, Units, units_of
from edgedla.accuracy.simulation import Simulation, to_db
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.samples import Feed
from edgedla.text.printable import digits

#: Channels of one tensor whose ranges differ by more than this factor are of different groups: larger ones hide their error.
_SPAN = 4.0
#: Fewer levels than this leave a channel's shape to chance.
_FEW_CODES = 8


@dataclass(frozen=True)
class ChannelGroup:
    """Channels of one source with ranges of one size, at one output.

    Attributes:
        output: name of the output. tensor: the tensor that the channels come from. channels: their indices in it.
        absmax: their largest magnitude. scale: of the output, as it is written; None if it is not stored in INT8.
        sqnr_db: of their variation, not of their mean.
        one_code: number of channels that vary in FP32 and round to one level. few_codes: that have fewer than 8 levels.
        made_by: the node that makes `tensor`, and the user's line.
    """

    output: str
    tensor: str
    channels: Tuple[int, ...]
    absmax: float
    scale: Optional[float]
    sqnr_db: float
    one_code: int
    few_codes: int
    made_by: str = ""

    def to_dict(self) -> Dict[str, Any]:
        numbers = {name: digits(getattr(self, name)) for name in ("absmax", "scale", "sqnr_db")}
        return {**vars(self), "channels": list(self.channels), **numbers}


class ChannelNoise:
    """Measures the groups of a network's outputs for any simulation of it."""

    def __init__(self, model: Any, outputs: Sequence[str], feed: Feed) -> None:
        """Args: model: onnx.ModelProto with static inputs. outputs: see Simulation.outputs. feed: any sample."""
        self.outputs = tuple(outputs)
        self.units: Mapping[str, Units] = units_of(model, outputs, feed)
        self._sorted = {name: _by_unit(units.ids) for name, units in self.units.items()}

    def groups(self, simulation: Simulation, feeds: Sequence[Feed]) -> Tuple[ChannelGroup, ...]:
        """The groups, the worst first."""
        sums = {name: _Sums(units.count) for name, units in self.units.items()}
        for want, got in zip(simulation.reference(feeds), simulation.runs(feeds)):
            for name, exact, simulated in zip(self.outputs, want, got):
                if name in sums and np.size(exact) == len(self.units[name].ids):
                    sums[name].add(np.asarray(exact), np.asarray(simulated), *self._sorted[name])
        ranges = simulation.plan.calibration.absmax
        found: List[ChannelGroup] = []
        for name, total in sums.items():
            scale = ranges[name] / INT8_MAX if name in simulation.tensors else None
            for source in self.units[name].sources:
                found += _groups(name, source, total, scale)
        return tuple(sorted(found, key=lambda g: (g.sqnr_db, g.output, g.tensor)))


def _by_unit(ids: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order of the elements by unit, where each unit begins in it, the units)."""
    order = np.argsort(ids, kind="stable")
    present, starts = np.unique(ids[order], return_index=True)
    return order, starts, present


class _Sums:
    """Sums over samples by unit."""

    def __init__(self, count: int) -> None:
        self.count, self.sum, self.square, self.error = (np.zeros(count) for _ in range(4))
        self.low, self.high = np.full(count, np.inf), np.full(count, -np.inf)

    def add(self, exact: np.ndarray, simulated: np.ndarray, order: np.ndarray, starts: np.ndarray, units: np.ndarray) -> None:
        x = exact.reshape(-1).astype(np.float64)[order]
        difference = simulated.reshape(-1).astype(np.float64)[order] - x
        self.count[units] += np.diff([*starts, len(order)])
        for total, values in ((self.sum, x), (self.square, x * x), (self.error, difference * difference)):
            total[units] += np.add.reduceat(values, starts)
        self.low[units] = np.minimum(self.low[units], np.minimum.reduceat(x, starts))
        self.high[units] = np.maximum(self.high[units], np.maximum.reduceat(x, starts))


def _groups(output: str, source: Source, sums: _Sums, scale: Optional[float]) -> List[ChannelGroup]:
    mine: np.ndarray = np.arange(source.first, source.first + source.channels)
    mine = mine[sums.count[mine] > 0]
    largest = np.maximum(np.abs(sums.low[mine]), np.abs(sums.high[mine]))
    # A channel that is 0 on every sample has nothing to lose.
    mine, largest = mine[largest > 0], largest[largest > 0]
    order = np.argsort(-largest, kind="stable")
    mine, largest = mine[order], largest[order]
    cuts, first = [], 0
    for i in range(1, 0 if source.bounded else len(mine)):
        if largest[first] > _SPAN * largest[i]:
            cuts.append(i)
            first = i
    return [
        _group(output, source, part, float(top.max()), sums, scale)
        for part, top in zip(np.split(mine, cuts), np.split(largest, cuts))
        if len(part)
    ]


def _group(output: str, source: Source, units: np.ndarray, absmax: float, sums: _Sums, scale: Optional[float]) -> ChannelGroup:
    count, error = sums.count[units], float(sums.error[units].sum())
    varying = float(np.maximum(sums.square[units] - sums.sum[units] ** 2 / count, 0.0).sum())
    power = float(sums.square[units].sum())
    # Without variation beyond rounding of the sums, the values themselves are the signal.
    signal = varying if varying > 1e-9 * power else power
    low, high = sums.low[units], sums.high[units]
    codes = np.full(len(units), np.inf) if scale is None else np.rint(high / scale) - np.rint(low / scale) + 1
    varies = high > low
    channels = tuple(int(u) - source.first for u in np.sort(units))
    return ChannelGroup(
        output,
        source.tensor,
        channels,
        absmax,
        scale,
        to_db(error / signal) if signal > 0 else math.inf,
        int(np.sum((codes <= 1) & varies)),
        int(np.sum((codes < _FEW_CODES) & varies)),
    )
