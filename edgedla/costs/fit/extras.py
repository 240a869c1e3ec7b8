"""What is fitted beside the latencies: shared memory and structured sparsity."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Iterable, List, Mapping, Optional, Sequence, Tuple

from edgedla.costs.contention import achieved_gb_s
from edgedla.costs.fit.evidence import Row
from edgedla.costs.fit.samples import Sample, sample_of, samples_of
from edgedla.costs.fit.solve import CARRIED, Fitted, stretch, tied_features
from edgedla.targets.modules import module_for


@dataclass(frozen=True)
class Contention:
    """achieved = min(demand, max(total - external, floor)), as shares of the DRAM's peak."""

    total_share: float
    floor_share: float
    mean_error: float
    mean_error_without: float
    rms_error: float
    ids: Tuple[str, ...]


@dataclass(frozen=True)
class Sparsity:
    """Structured sparsity: mac.dense times `mac_factor`. `speedups` are (row id, published, predicted)."""

    mac_factor: float
    speedups: Tuple[Tuple[str, float, float], ...]


def fit_contention(rows: Sequence[Row]) -> Contention:
    """The two parameters that meet the published matrix best, in steps of 1 GB/s."""
    matrix = [(r, *_demands(r)) for r in rows if r.use == "fit" and r.metric == "bandwidth"]

    def errors(total: float, floor: float) -> List[float]:
        return [achieved_gb_s(d, e, total, floor) / r.value - 1.0 for r, d, e in matrix]

    tried = itertools.product(range(40, 120), range(20, 80))
    total, floor = min(tried, key=lambda shares: sum(x * x for x in errors(*shares)))
    best_errors = errors(total, floor)
    peak = module_for(matrix[0][0].module).dram_gb_s
    return Contention(
        total / peak,
        floor / peak,
        mean(best_errors) or 0.0,
        mean(d / r.value - 1.0 for r, d, _ in matrix) or 0.0,
        math.sqrt(sum(x * x for x in best_errors) / len(best_errors)),
        tuple(r.id for r, _, _ in matrix),
    )


def fit_sparsity(rows: Sequence[Row], dense: Fitted) -> Sparsity:
    """The factor on mac.dense that meets the published sparse-to-dense ratios, which cancel the networks' own errors."""
    sparse = [r for r in rows if r.use == "fit" and "sparse" in r.includes]
    dense_samples = {(s.row.work, s.row.power_mode): s for s in dense.samples if s.row.metric == "throughput"}
    points: List[Tuple[Row, float, float]] = []
    for row in sparse:
        pair = dense_samples[row.work, row.power_mode]
        part = dense.coefficients["mac.dense"] * pair.features["mac.dense"]
        points.append((row, sample_of(row).time_us / pair.time_us, part / predicted_us(pair, dense)))
    # time ratio = 1 - (1 - factor) * share, least squares in (1 - factor).
    saved = sum((1 - ratio) * share for _, ratio, share in points) / sum(share * share for _, _, share in points)
    factor = min(max(1.0 - saved, 0.5), 1.0)
    return Sparsity(factor, tuple((r.id, 1 / ratio, 1 / (1 - (1 - factor) * share)) for r, ratio, share in points))


def predicted_us(sample: Sample, fitted: Fitted) -> float:
    features = tied_features(sample.features, fitted.group)
    return sum(fitted.coefficients.get(n, 0.0) * v for n, v in features.items())


def checked(rows: Sequence[Row], fitted: Mapping[str, Fitted]) -> List[Tuple[Sample, float]]:
    """Figures that no coefficient was fitted to, with the errors of their predictions."""
    numbers = {**{name: fitted[source] for name, source in CARRIED}, **fitted}
    return [
        (s, predicted_us(s, numbers[s.group]) * stretch(s.row, fitted.values()) / s.time_us - 1.0)
        for s in samples_of(tuple(rows), "check")
    ]


def _demands(row: Row) -> Tuple[float, float]:
    words = dict(w.split("=") for w in row.work.split())
    return float(words["demand"]), float(words["external"])


def mean(errors: Iterable[Optional[float]]) -> Optional[float]:
    """Of the magnitudes of those that are known; None if none is."""
    deviations = [abs(e) for e in errors if e is not None]
    return sum(deviations) / len(deviations) if deviations else None
