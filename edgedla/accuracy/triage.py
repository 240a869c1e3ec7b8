"""Ranks tensors by their loss in INT8: alone, against their best possible scale, and at the network's outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

from edgedla.accuracy.simulation import Simulation
from edgedla.quantization.collect import Collection
from edgedla.quantization.methods import auto, holds_scale, mse, sqnr_db
from edgedla.quantization.samples import Feed

#: A scale this much worse than the best one for its tensor is suspect.
SUSPECT_DB = 6.0
#: Of more tensors than this, only so many run on all samples; all run on two.
_EXACT, _COARSE = 32, 2


@dataclass(frozen=True)
class TensorError:
    """The INT8 error of one tensor. All simulated.

    Attributes:
        absmax: the range in use. best: the range of minimum error on the samples.
        alone_db: SQNR of the tensor itself, rounded alone. best_db: the same with the range `best`.
        output_share: noise over signal at the outputs with only this tensor rounded; None if not measured.
        outputs_gain: True if the outputs are at least as close to FP32 with this range as with `best`; measured only
            for suspect scales.
        accumulated_db, cosine: SQNR and cosine of the tensor with all rounding before it; None if not measured.
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
        """Loss in dB of the range in use against the best one; 0 if both have no error."""
        if math.isinf(self.alone_db) and math.isinf(self.best_db):
            return 0.0
        return max(self.best_db - self.alone_db, 0.0)

    @property
    def suspect(self) -> bool:
        """True if the scale is far from the best one for the samples and the outputs gain nothing by it."""
        return self.loss_db >= SUSPECT_DB and not self.outputs_gain


def best_ranges(collection: Collection, tensors: Sequence[str]) -> Dict[str, float]:
    """The range of minimum error of each tensor alone; leaves out tensors that were not measured or are zero."""
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

    The worst scale loses most against the best range for the same values. A low SQNR alone does not count: a tensor
    with a long tail has a low SQNR with every scale.

    Args:
        tensors: only these; None takes all that were measured.
        best: the best range that rules allow each tensor; default best_ranges.
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
    known: Mapping[str, float] = {},
) -> Tuple[TensorError, ...]:
    """`errors` with `output_share` measured, suspects first. The network runs once per tensor over `feeds`.

    Of many tensors all run on two samples first; those with the most noise, and suspects, then on all.

    Args:
        groups: tensors that share one scale by the rules. progress: called with (tensors done, tensors in all).
        known: shares that were measured with the ranges in use.
    """
    tied = {name: group for group in groups for name in group}
    by_name = {e.tensor: e for e in errors}
    # From the outputs back: what lies in front of a tensor is then held from the run before (builder.host.segments).
    order = [name for name in reversed(simulation.tensors) if name in by_name and name not in known]
    shares: Dict[str, float] = dict(known)
    exact = set(order)
    if len(order) > _EXACT and len(feeds) > _COARSE:
        few = feeds[:_COARSE]
        shares.update({name: simulation.noise(few, absmax, (name,)).share for name in order})
        suspects = {e.tensor for e in errors if e.suspect}
        exact = {*sorted(shares, key=lambda name: -shares[name])[:_EXACT], *suspects}
    for done, name in enumerate(order, start=1):
        if name in exact:
            shares[name] = simulation.noise(feeds, absmax, (name,)).share
        if progress is not None:
            progress(done, len(order))
    measured = [replace(e, output_share=shares[e.tensor]) if e.tensor in shares else e for e in errors]
    for k, error in enumerate(measured):
        if error.suspect and error.tensor in shares:
            alike = tied.get(error.tensor, (error.tensor,))
            measured[k] = replace(error, outputs_gain=_outputs_gain(error, simulation, feeds, absmax, alike))
    return tuple(sorted(measured, key=lambda e: not e.suspect))


def _outputs_gain(
    error: TensorError, simulation: Simulation, feeds: Sequence[Feed], absmax: Mapping[str, float], alike: Sequence[str]
) -> bool:
    """True if the outputs are at least as close to FP32 with the range in use as with the tensor's best range.

    Then the range is no fault: it may have been chosen by the error at the outputs.

    Args:
        alike: the tensor and all tensors that share its scale; their ranges change together.
    """
    best = simulation.noise(feeds, {**absmax, **dict.fromkeys(alike, error.best)}, alike).share
    return simulation.noise(feeds, absmax, alike).share <= best


def with_accumulated(errors: Sequence[TensorError], measured: Mapping[str, Tuple[float, float]]) -> Tuple[TensorError, ...]:
    """`errors` with `accumulated_db` and `cosine` from simulation.tensor_noise."""
    return tuple(
        replace(e, accumulated_db=measured[e.tensor][0], cosine=measured[e.tensor][1]) if e.tensor in measured else e
        for e in errors
    )
