"""Coefficients of each group of engines from the samples: nonnegative least squares on relative errors."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.costs.features import Features
from edgedla.costs.fit.evidence import Row
from edgedla.costs.fit.nnls import nnls
from edgedla.costs.fit.samples import Sample
from edgedla.errors import RuleError

#: Operator times that overlap count half: they are upper bounds of nine operators of one network.
WEIGHTS: Mapping[str, float] = {"operator time": 0.5, "operator gap": 0.5}
#: Weight of a prior: that of a figure whose prediction is off by so many percent when the coefficient is one deviation off.
PRIOR_WEIGHT = 0.15


@dataclass(frozen=True)
class Group:
    """How one group of coefficients is fitted.

    Attributes:
        name: dla1-fp16, dla2-int8, ...
        tied: feature -> the feature whose coefficient it shares, where the figures cannot tell them apart.
        borrowed: feature -> group whose coefficient is taken over, where the group has no figure for it. The group may
            come later, if no figure of this one has the feature.
        priors: feature -> (value, standard deviation), one more equation each: what another source than the group's
            figures says, for terms that its figures cannot tell apart.
    """

    name: str
    tied: Mapping[str, str]
    borrowed: Mapping[str, str]
    priors: Mapping[str, Tuple[float, float]] = field(default_factory=dict)


#: Terms of a GPU on which few figures bear: kernels reach about five sixths of the arithmetic's peak and nine tenths of
#: the DRAM's, a depthwise kernel a third of the peak at best. Copies of YOLO11n's input and output take 220 to 490 us.
GPU_PRIORS: Mapping[str, Tuple[float, float]] = {
    "mac.dense": (1.2, 0.1),
    "mac.depthwise": (3.0, 3.0),
    "memory": (1.1, 0.1),
    "kernel.int8": (2.0, 3.0),
    "runner": (350.0, 100.0),
    "kernel.tuned": (6.0, 6.0),
    "engine.tuned": (50.0, 40.0),
}

#: DLA v1: the fully connected layers of AlexNet show 60 GB/s. Groups of many small layers alone would put what they move into
#: the time of an operator.
DLA1_PRIORS: Mapping[str, Tuple[float, float]] = {"read": (0.034, 0.015)}

#: In the order of fitting. A figure of a DLA holds the call of one engine, which a figure of a GPU holds too; the rest of the
#: constant time is the loadable's.
GROUPS: Tuple[Group, ...] = (
    Group("gpu-orin", {}, {}, {**GPU_PRIORS, "kernel": (8.0, 2.0), "engine": (60.0, 20.0)}),
    Group("gpu-xavier", {}, {}, {**GPU_PRIORS, "kernel": (16.0, 6.0), "kernel.tuned": (14.0, 6.0), "engine": (80.0, 40.0)}),
    # Figures of Orin's DLA cannot separate reading from writing.
    Group("dla2-int8", {"write": "read"}, {"engine": "gpu-orin", "slice": "dla2-fp16"}, {"lut": (0.0, 0.05)}),
    # Convolutions hide the memory at FP16; the same paths move the bytes, and the same host submits. There is one mode of
    # work: with the vectors of engines.yaml the figures of all kinds of convolution agree on one rate.
    Group(
        "dla2-fp16",
        {"mac.first": "mac.dense", "mac.depthwise": "mac.dense", "write": "read"},
        {
            "engine": "gpu-orin",
            "loadable_clock": "dla2-int8",
            "operator": "dla2-int8",
            "read": "dla2-int8",
            "reformat": "dla2-int8",
            "sample": "dla2-int8",
            "stream": "dla2-int8",
        },
    ),
    # Groups of many small layers cannot separate reading from writing.
    Group(
        "dla1-fp16",
        {"stream": "read", "write": "read"},
        {
            "engine": "gpu-xavier",
            "loadable": "dla2-int8",
            "loadable_clock": "dla2-int8",
            "lut": "dla2-int8",
            "slice": "dla2-fp16",
            "sample": "dla2-int8",
            "softmax": "dla2-int8",
            "mac.depthwise": "dla2-int8",
        },
        DLA1_PRIORS,
    ),
)

#: Groups without fitted figures of their own: (name, taken from). Coefficients are relative to the published peak and clocks.
#: FP16's predict the three figures of INT8 on DLA v1 (rows p610, p704, p706) 11 % too slow to 2 % too fast.
CARRIED: Tuple[Tuple[str, str], ...] = (("dla1-int8", "dla1-fp16"), ("gpu-thor", "gpu-orin"))

#: Features that belong to a figure, not to the model.
NUISANCE = ("fc", "runner", "kernel.tuned", "engine.tuned")
#: Words of `includes` whose figures exceed the model by a factor of their source that nobody states, so that the fit finds it.
STRETCHED = ("overlapped", "unlocked")
STRETCHES = tuple(1.0 + step / 50 for step in range(51))


#: See `Fitted.stretches`.
Stretches = Mapping[Tuple[str, str], float]


@dataclass(frozen=True)
class Fitted:
    """Coefficients of one group, and how well they meet the figures.

    Attributes:
        coefficients: by feature.
        borrowed: features whose coefficient comes from another group.
        stretches: (source, word of STRETCHED) -> factor by which such figures exceed the model.
        errors: relative error (predicted / figure - 1) of every sample, in order.
        left_out: the same with the sample's whole source left out of the fit; None where nothing else is left.
        left_one: the same with only this figure left out; None where no other figure has one of its features.
    """

    group: Group
    coefficients: Dict[str, float]
    borrowed: Tuple[str, ...]
    stretches: Stretches
    samples: Tuple[Sample, ...]
    errors: Tuple[float, ...]
    left_out: Tuple[Optional[float], ...]
    left_one: Tuple[Optional[float], ...]


def fit_all(samples: Sequence[Sample]) -> Dict[str, Fitted]:
    """All groups, by name."""
    fitted: Dict[str, Fitted] = {}
    for group in GROUPS:
        samples_of_group = [s for s in samples if s.group == group.name]
        fitted[group.name] = fit_group(group, samples_of_group, {name: f.coefficients for name, f in fitted.items()})
    for name, f in fitted.items():
        late = {n: fitted[source].coefficients[n] for n, source in f.group.borrowed.items() if n not in f.coefficients}
        fitted[name] = replace(f, coefficients={**f.coefficients, **late}, borrowed=tuple(sorted({*f.borrowed, *late})))
    return fitted


def stretch(row: Row, fitted: Iterable[Fitted]) -> float:
    """By how much a figure exceeds the model for a reason that its source does not state; 1 where there is none.

    Raises:
        RuleError: no figure that is fitted tells.
    """
    factor = 1.0
    for key in _stretched(row):
        known = [f.stretches[key] for f in fitted if key in f.stretches]
        if not known:
            raise RuleError(
                f"row {row.id}: no fitted figure of {key[0]} tells what {key[1]!r} means there",
                where="rules/evidence/performance.csv",
                hint="Fit to one of its rows, or set the row's use to context.",
            )
        factor *= known[0]
    return factor


def fit_group(group: Group, samples: List[Sample], done: Mapping[str, Mapping[str, float]]) -> Fitted:
    """One group, with each of its sources left out in turn, and each figure."""

    def solve(part: List[Sample]) -> Tuple[Dict[str, float], Stretches]:
        return _stretch_and_solve(part, lambda stretches: _solve(group, part, done, stretches))

    coefficients, stretches = solve(samples)
    left_out: List[Optional[float]] = []
    left_one: List[Optional[float]] = []
    by_origin: Dict[str, Tuple[Dict[str, float], Stretches]] = {}
    for sample in samples:
        origin = sample.row.origin
        rest = [s for s in samples if s.row.origin != origin]
        predictable = _is_predictable(rest, sample, group)
        if predictable and origin not in by_origin:
            by_origin[origin] = solve(rest)
        left_out.append(_error(sample, *by_origin[origin], group) if predictable else None)
        others = [o for o in samples if o is not sample]
        left_one.append(_error(sample, *solve(others), group) if _is_predictable(others, sample, group) else None)
    borrowed = tuple(sorted(n for n, source in group.borrowed.items() if n in coefficients))
    return Fitted(
        group,
        coefficients,
        borrowed,
        stretches,
        tuple(samples),
        tuple(_error(s, coefficients, stretches, group) for s in samples),
        tuple(left_out),
        tuple(left_one),
    )


def tied_features(features: Features, group: Group) -> Features:
    """Features under the names of the coefficients that they share."""
    tied: Features = {}
    for name, value in features.items():
        name = group.tied.get(name, name)
        tied[name] = tied.get(name, 0.0) + value
    return tied


def _stretched(row: Row) -> List[Tuple[str, str]]:
    """The keys of `Fitted.stretches` that apply to a figure."""
    return [(row.origin, word) for word in STRETCHED if word in row.includes]


def _time_of(sample: Sample, stretches: Stretches) -> float:
    """Microseconds of a figure as the model sees it."""
    return sample.time_us / math.prod(stretches[key] for key in _stretched(sample.row))


def _stretch_and_solve(
    samples: List[Sample], solve: Callable[[Stretches], Tuple[Dict[str, float], float]]
) -> Tuple[Dict[str, float], Stretches]:
    """Coefficients and the factors that meet the figures best."""
    keys = sorted({key for s in samples for key in _stretched(s.row)})
    candidates = [dict(zip(keys, factors)) for factors in itertools.product(STRETCHES, repeat=len(keys))]
    tried = [(*solve(stretches), stretches) for stretches in candidates]
    coefficients, _, best = min(tried, key=lambda t: t[1])
    return coefficients, best


def _solve(
    group: Group, samples: List[Sample], done: Mapping[str, Mapping[str, float]], stretches: Stretches
) -> Tuple[Dict[str, float], float]:
    """(coefficients, sum of squared weighted relative errors) at these factors."""
    fixed = {name: done[source][name] for name, source in group.borrowed.items() if source in done}
    features = [tied_features(s.features, group) for s in samples]
    free = sorted({n for f in [*features, group.priors] for n in f if n not in fixed})
    # Nothing is faster than its published peak: arithmetic, and bytes from the DRAM.
    low = np.array([1.0 if n.startswith("mac.") or n == "memory" else 0.0 for n in free])
    target = np.array([_time_of(s, stretches) for s in samples])
    weight = np.array([WEIGHTS.get(s.row.metric, 1.0) for s in samples]) / target
    a = np.array([[f.get(n, 0.0) for n in free] for f in features])
    fixed_us = np.array([sum(fixed.get(n, 0.0) * v for n, v in f.items()) for f in features])
    rows, right = a * weight[:, None], (target - fixed_us - a @ low) * weight
    x = low + nnls(*_with_priors(rows, right, free, low, group.priors))
    residual = (a @ x + fixed_us - target) * weight
    coefficients = dict(zip(free, (float(v) for v in x)))
    coefficients.update(fixed)
    return coefficients, float(residual @ residual)


def _with_priors(
    rows: np.ndarray, right: np.ndarray, free: List[str], low: np.ndarray, priors: Mapping[str, Tuple[float, float]]
) -> Tuple[np.ndarray, np.ndarray]:
    """One more equation a prior: (coefficient - value) / deviation * PRIOR_WEIGHT = 0."""
    for name, (value, deviation) in priors.items():
        if name in free:
            k = free.index(name)
            row = np.zeros(len(free))
            row[k] = PRIOR_WEIGHT / deviation
            rows, right = np.vstack([rows, row]), np.append(right, (value - low[k]) * row[k])
    return rows, right


def _is_predictable(rest: List[Sample], sample: Sample, group: Group) -> bool:
    """Whether the other figures can predict this one: they have all its features, and are at least as many as the unknowns.

    Stretched figures tell of a feature only beside others that have it; a stretched figure needs others of its source.
    """
    if not set(_stretched(sample.row)) <= {key for s in rest for key in _stretched(s.row)}:
        return False
    plain = [s for s in rest if not _stretched(s.row)]
    known = {n for s in plain for n, v in tied_features(s.features, group).items() if v} | set(group.borrowed)
    known |= set(group.priors)
    required = {n for n, v in tied_features(sample.features, group).items() if v} - set(NUISANCE)
    unknowns = {n for s in rest for n, v in tied_features(s.features, group).items() if v} - set(group.borrowed)
    return required <= known and len(rest) >= len(unknowns - set(group.priors))


def _error(sample: Sample, coefficients: Mapping[str, float], stretches: Stretches, group: Group) -> float:
    """Relative error of one figure."""
    features = tied_features(sample.features, group)
    predicted = sum(coefficients.get(n, 0.0) * v for n, v in features.items())
    return predicted / _time_of(sample, stretches) - 1.0
