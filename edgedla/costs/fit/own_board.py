"""The cost model fitted to what one board measured: two numbers an engine and precision, with their error before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.costs.fit.nnls import nnls
from edgedla.costs.model import CostModel
from edgedla.costs.operators import operators_of
from edgedla.costs.profile import Correction, Profile
from edgedla.errors import DocumentError
from edgedla.graph import LayerGraph
from edgedla.targets import platform_for
from edgedla.text.printable import Fields
from edgedla.vocabulary import DEVICE_KINDS

#: Fewer measured operators are not enough to correct the others.
LEAST_OPERATORS = 5
#: Weight of the uncorrected model, in operators: few measurements change it little.
PRIOR_OPERATORS = 0.5
#: How far an operator's own time may be off, in microseconds, before the prior holds it back.
PRIOR_OPERATOR_US = 20.0


@dataclass(frozen=True)
class Point:
    """One measured operator: its network, engine, and predicted and measured time."""

    network: str
    key: Tuple[str, str]
    predicted_us: float
    measured_us: float


@dataclass(frozen=True)
class EngineFit(Fields):
    """One engine at one precision. Errors are the mean of |predicted / measured - 1| over operators.

    Attributes:
        left_out: with the operator's whole network left out of the fit; None where there is one network only.
        correction: None where there are too few operators.
    """

    device: str
    precision: str
    operators: int
    networks: int
    before: float
    after: Optional[float]
    left_out: Optional[float]
    correction: Optional[Correction]


@dataclass(frozen=True)
class BoardFit:
    """The profile that `check`, `place` and `sweep` take, and its error before and after."""

    profile: Profile
    engines: Tuple[EngineFit, ...]


def fit_board(graphs: Mapping[str, LayerGraph], profiles: Sequence[Profile]) -> BoardFit:
    """Corrections from profiles of one module in one power mode.

    time = factor * predicted + operator_us, for operators that were not measured; those that were keep their measured time.
    A DLA node's time was split over its operators in proportion to the model, which contains no information on single
    operators: there operator_us is 0.

    Args:
        graphs: name -> a network that was profiled. Profiles hold signatures; the networks say what was predicted for them.

    Raises:
        DocumentError: profiles of several modules or modes, or no operator of theirs is one of the networks'.
    """
    first = profiles[0]
    other = next((p for p in profiles if (p.target, p.power_mode) != (first.target, first.power_mode)), None)
    if other is not None:
        raise DocumentError(
            f"profiles of {first.target} {first.power_mode} and of {other.target} {other.power_mode}",
            where="--evidence",
            allowed="one module and one power mode: clocks and memory are others",
        )
    merged = Profile(first.target, first.power_mode, "edgedla costs fit", tuple(m for p in profiles for m in p.measurements))
    points = _points(graphs, merged)
    if not points:
        raise DocumentError(
            "no measured operator is one of these networks'",
            where="--evidence",
            hint="give the models whose --export-profile it is, with the same --shapes and --batch",
        )
    engines = []
    for key in sorted({p.key for p in points}):
        engines.append(_engine(key, [p for p in points if p.key == key]))
    corrections = {(e.device, e.precision): e.correction for e in engines if e.correction is not None}
    return BoardFit(replace(merged, corrections=corrections), tuple(engines))


def _points(graphs: Mapping[str, LayerGraph], profile: Profile) -> List[Point]:
    platform = platform_for(profile.target)
    points: List[Point] = []
    for precision in sorted({m.precision for m in profile.measurements}):
        model = CostModel.load(platform, precision, profile.power_mode or None)
        for name, graph in graphs.items():
            costs = model.layer_costs(graph)
            for operator in operators_of(graph):
                for device in DEVICE_KINDS:
                    measured = profile.operator_us(graph, operator, precision, device)
                    if measured is None or (operator.layers[0], device) not in costs:
                        continue
                    predicted = sum(costs[i, device].latency_us for i in operator.layers)
                    if predicted > 0 and measured.latency_us > 0:
                        points.append(Point(name, (device, precision), predicted, measured.latency_us))
    return points


def _engine(key: Tuple[str, str], points: List[Point]) -> EngineFit:
    networks = sorted({p.network for p in points})
    before = _mean_error(points, 1.0, 0.0)
    if len(points) < LEAST_OPERATORS:
        return EngineFit(*key, len(points), len(networks), before, None, None, None)
    factor, operator_us = _solve(points, key[0])
    cross_errors: List[float] = []
    for network in networks if len(networks) > 1 else ():
        rest = [p for p in points if p.network != network]
        if len(rest) >= LEAST_OPERATORS:
            fitted = _solve(rest, key[0])
            cross_errors += [_error(p, *fitted) for p in points if p.network == network]
    errors = cross_errors or [_error(p, factor, operator_us) for p in points]
    spread = math.sqrt(sum(e * e for e in errors) / len(errors))
    return EngineFit(
        *key,
        len(points),
        len(networks),
        before,
        _mean_error(points, factor, operator_us),
        sum(abs(e) for e in cross_errors) / len(cross_errors) if cross_errors else None,
        Correction(factor, operator_us, spread),
    )


def _solve(points: Sequence[Point], device: str) -> Tuple[float, float]:
    """Least squares on relative errors, regularised towards the uncorrected model."""
    weight = math.sqrt(PRIOR_OPERATORS)
    rows = [[p.predicted_us / p.measured_us, 1.0 / p.measured_us] for p in points]
    rows += [[weight, 0.0], [0.0, weight / PRIOR_OPERATOR_US]]
    right = [1.0] * len(points) + [weight, 0.0]
    a = np.array(rows)
    if device == "DLA":
        a = a[:, :1]
    x = nnls(a, np.array(right))
    return float(x[0]), float(x[1]) if len(x) > 1 else 0.0


def _error(point: Point, factor: float, operator_us: float) -> float:
    return (factor * point.predicted_us + operator_us) / point.measured_us - 1.0


def _mean_error(points: Sequence[Point], factor: float, operator_us: float) -> float:
    return sum(abs(_error(p, factor, operator_us)) for p in points) / len(points)
