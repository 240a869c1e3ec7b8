"""The calibration methods side by side, and `auto` held to the best of them at every output."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np

from edgedla.accuracy.simulation import Noise, Simulation
from edgedla.accuracy.state import State, Step
from edgedla.quantization.collect import Collection
from edgedla.quantization.methods import METHODS, thresholds
from edgedla.quantization.samples import Feed

#: `auto` may lose this much to the best single method at an output; less is chance.
MOST_LOSS_DB = 0.2
#: Most held-out samples to compare on. On 32 a few samples with clipped values decide: two methods changed places by 2 dB.
MOST_SAMPLES = 1024
#: Beyond this SQNR outputs count as equal.
_EXACT_DB = 100.0


@dataclass(frozen=True)
class Tried:
    """The error of the outputs with one set of ranges. `errors`: squared, (samples, outputs)."""

    noise: Noise
    errors: np.ndarray

    def loss_db(self, better: Tried) -> float:
        """Most dB by which other ranges are closer to FP32 at an output, where the lead exceeds its standard error."""
        gaps = [b - a for a, b in zip(_db(self.noise), _db(better.noise))]
        leads = (self.errors - better.errors).T
        return max([0.0, *(gap for gap, d in zip(gaps, leads) if d.mean() * math.sqrt(len(d) - 1) > d.std())])


def tried(simulation: Simulation, feeds: Sequence[Feed], absmax: Mapping[str, float]) -> Tried:
    """Runs the outputs with the ranges `absmax` of a plan."""
    noise, sums = Noise(simulation.outputs), [np.zeros(len(simulation.outputs))]
    for want, simulated in zip(simulation.reference(feeds), simulation.runs(feeds, absmax)):
        noise.add(want, simulated)
        sums.append(noise.error.copy())
    return Tried(noise, np.diff(sums, axis=0))


def by_method(
    state: State, collection: Collection, feeds: Sequence[Feed], progress: Optional[Callable[[int, int], None]]
) -> Dict[str, Tried]:
    """Calibration method -> error with its ranges."""
    simulation = state.simulation()
    found: Dict[str, Tried] = {}
    for name in METHODS:
        found[name] = tried(simulation, feeds, state.plan(thresholds(collection, name)).calibration.absmax)
        if progress is not None:
            progress(len(found), len(METHODS))
    return found


def no_worse_than_single(
    state: State, collection: Collection, methods: Mapping[str, Tried], feeds: Sequence[Feed], stated: str
) -> None:
    """Takes the ranges of the single method that loses least, if the state's lose more than MOST_LOSS_DB to one.

    Args:
        methods: see by_method, on `feeds`. stated: the input whose range the model states, which no method changes; "" for none.
    """
    own = tried(state.simulation(), feeds, state.plan().calibration.absmax)
    lost = max(own.loss_db(other) for other in methods.values())

    def loss(name: str) -> float:
        return max(methods[name].loss_db(other) for other in (own, *methods.values()))

    name = min(methods, key=lambda n: (loss(n), -methods[n].noise.sqnr_db))
    if lost <= MOST_LOSS_DB or loss(name) >= lost:
        return
    fixed = {stated: state.absmax[stated]} if stated in state.absmax else {}
    state.absmax = {**thresholds(collection, name), **fixed}
    detail = f"{name} alone: up to {lost:.2f} dB closer to FP32 at an output than the ranges chosen one by one"
    state.steps.append(Step("a single method", detail, own.noise.sqnr_db, methods[name].noise.sqnr_db, True))


def _db(noise: Noise) -> List[float]:
    return [max(min(noise.of(i)[0], _EXACT_DB), -_EXACT_DB) for i in range(len(noise.names))]
