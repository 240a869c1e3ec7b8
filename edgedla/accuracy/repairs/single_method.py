"""The calibration methods side by side, and `auto` held to the best of them at every output."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Sequence

from edgedla.accuracy.simulation import Noise
from edgedla.accuracy.state import State, Step
from edgedla.quantization.collect import Collection
from edgedla.quantization.methods import METHODS, thresholds
from edgedla.quantization.samples import Feed

#: `auto` may lose this much to the best single method at an output; less is chance.
MOST_LOSS_DB = 0.3
#: Beyond this SQNR outputs count as equal.
_EXACT_DB = 100.0


def noise_by_method(
    state: State, collection: Collection, feeds: Sequence[Feed], progress: Optional[Callable[[int, int], None]]
) -> Dict[str, Noise]:
    """Calibration method -> noise of the outputs with its ranges."""
    simulation = state.simulation()
    tried: Dict[str, Noise] = {}
    for name in METHODS:
        absmax = state.plan(thresholds(collection, name)).calibration.absmax
        tried[name] = simulation.noise(feeds, absmax)
        if progress is not None:
            progress(len(tried), len(METHODS))
    return tried


def no_worse_than_single(
    state: State, collection: Collection, tried: Mapping[str, Noise], feeds: Sequence[Feed], stated: str
) -> None:
    """Takes the ranges of a single method if the state's lose more than 0.3 dB to one at some output, and its own lose less.

    Args:
        tried: see noise_by_method. stated: the input whose range the model states, which no method changes; "" for none.
    """
    by_method = {name: _db(noise) for name, noise in tried.items()}
    best = [max(values) for values in zip(*by_method.values())]

    def loss(values: Sequence[float]) -> float:
        return max((most - value for most, value in zip(best, values)), default=0.0)

    before = state.simulation().noise(feeds)
    lost = loss(_db(before))
    name = min(by_method, key=lambda m: loss(by_method[m]))
    if lost <= MOST_LOSS_DB or loss(by_method[name]) >= lost:
        return
    old = dict(state.absmax)
    state.absmax = {**thresholds(collection, name), **({stated: old[stated]} if stated in old else {})}
    after = state.simulation().noise(feeds)
    kept = loss(_db(after)) < lost
    detail = f"{name} alone: up to {lost:.2f} dB closer to FP32 at an output than the ranges chosen one by one"
    state.steps.append(Step("a single method", detail, before.sqnr_db, after.sqnr_db, kept))
    if not kept:
        state.absmax = old


def _db(noise: Noise) -> List[float]:
    return [max(min(noise.of(i)[0], _EXACT_DB), -_EXACT_DB) for i in range(len(noise.names))]
