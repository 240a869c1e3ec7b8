"""Which tensors lose most in INT8: alone, against the best scale they could have, and at the network's outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.accuracy.simulation import Simulation
from edgedla.quantization.collect import Collection
from edgedla.quantization.methods import auto, holds_scale, mse, sqnr_db
from edgedla.quantization.samples import Feed

#: A scale this much worse than the best one for its tensor is suspect.
SUSPECT_DB = 6.0


@dataclass(frozen=True)
class TensorError:
    """What INT8 does to one tensor. All simulated.

    Attributes:
        absmax: the range in use. best: the range of least error on the samples.
        alone_db: SQNR of the tensor itself, rounded alone. best_db: with the range `best`.
        output_share: noise over signal at the outputs with this tensor alone rounded; None where it was not run.
        outputs_gain: the outputs are closer to FP32 with this range than with `best`; run where a scale looks suspect.
        accumulated_db, cosine: of the tensor with all rounding before it; None where it was not run.
    """

    tensor: str
    absmax: float
    best: float
    alone_db: float
    best_db: float
    output_share: Optional[float] = None
    accumulated_db: Optional[float] = None
    cosine: Optional[float] = None
    outputs_gain: bool = False

    @property
    def loss_db(self) -> float:
        """What the range in use loses against the best one; 0 where both are without error."""
        if math.isinf(self.alone_db) and math.isinf(self.best_db):
            return 0.0
        return max(self.best_db - self.alone_db, 0.0)

    @property
    def suspect(self) -> bool:
        """Its scale is far from what the samples ask for, and the outputs do not gain by it: another threshold repairs it."""
        return self.loss_db >= SUSPECT_DB and not self.outputs_gain


def best_ranges(collection: Collection, tensors: Sequence[str]) -> Dict[str, float]:
    """The range of least error of each tensor alone; tensors that were not measured, or are zero, are left out."""
    ranges = {}
    for name in tensors:
        histogram = collection.histograms.get(name)
        if histogram is not None and holds_scale(histogram.absmax):
            ranges[name] = max((mse(histogram), auto(histogram)), key=lambda t: sqnr_db(histogram, t))
    return ranges


def tensor_errors(
    collection: Collection,
    absmax: Mapping[str, float],
    tensors: Optional[Sequence[str]] = None,
    best: Optional[Mapping[str, float]] = None,
) -> Tuple[TensorError, ...]:
    """Every measured tensor that has a range, the worst scale first; from the histograms, without a run.

    Worst is what loses most against the best range for the same values: a tensor with a long tail has a low SQNR
    whatever its scale, and is no fault of the scale.

    Args:
        tensors: only these, in place of all that were measured.
        best: the best range that each may have, where rules tie it to others; default best_ranges.
    """
    names = list(tensors if tensors is not None else collection.histograms)
    best = best_ranges(collection, names) if best is None else best
    errors = []
    for name in names:
        if name in absmax and name in best and name in collection.histograms:
            histogram = collection.histograms[name]
            alone = sqnr_db(histogram, absmax[name])
            with_best = max(sqnr_db(histogram, best[name]), alone)
            errors.append(TensorError(name, absmax[name], best[name], alone, with_best))
    return tuple(sorted(errors, key=lambda e: (-e.loss_db, e.alone_db, e.tensor)))


def with_output_shares(
    errors: Sequence[TensorError],
    simulation: Simulation,
    feeds: Sequence[Feed],
    absmax: Mapping[str, float],
    groups: Sequence[Sequence[str]] = (),
    progress: Optional[Callable[[int, int], None]] = None,
) -> Tuple[TensorError, ...]:
    """The same with `output_share` measured, suspects first: the network runs once per tensor over `feeds`.

    Args:
        groups: tensors that share one scale, as the rules tie them. progress: called with (tensors done, of).
    """
    rounded = set(simulation.tensors)
    tied = {name: group for group in groups for name in group}
    measured: List[TensorError] = []
    for done, error in enumerate(errors, start=1):
        if error.tensor in rounded:
            share = simulation.noise(feeds, absmax, (error.tensor,)).share
            error = replace(error, output_share=share)
            if error.suspect:
                alike = tied.get(error.tensor, (error.tensor,))
                error = replace(error, outputs_gain=_outputs_gain(error, simulation, feeds, absmax, alike))
        measured.append(error)
        if progress is not None:
            progress(done, len(errors))
    return tuple(sorted(measured, key=lambda e: not e.suspect))


def _outputs_gain(
    error: TensorError,
    simulation: Simulation,
    feeds: Sequence[Feed],
    absmax: Mapping[str, float],
    alike: Sequence[str],
) -> bool:
    """A range that clips what the outputs do not hear is no fault: it may have been chosen by their error.

    Args:
        alike: the tensors that move together: it and those of its scale.
    """
    best = simulation.noise(feeds, {**absmax, **dict.fromkeys(alike, error.best)}, alike).share
    return simulation.noise(feeds, absmax, alike).share <= best


def with_accumulated(
    errors: Sequence[TensorError], measured: Mapping[str, Tuple[float, float]]
) -> Tuple[TensorError, ...]:
    """The same with `accumulated_db` and `cosine`, from simulation.tensor_noise."""
    return tuple(
        replace(e, accumulated_db=measured[e.tensor][0], cosine=measured[e.tensor][1]) if e.tensor in measured else e
        for e in errors
    )


def repaired(errors: Sequence[TensorError], least_db: float) -> Dict[str, float]:
    """Better ranges by tensor, where one gains at least `least_db` for the tensor alone."""
    return {e.tensor: e.best for e in errors if e.loss_db >= least_db}
