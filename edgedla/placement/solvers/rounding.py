"""Rounds coefficients too small for the solver's tolerances, so that the model only loosens and its bound stays valid.

HiGHS drops matrix values up to `small_matrix_value` (1e-9) from a row but keeps the row's limits, and gives wrong
answers if a cost is near the smallest float. Both would turn a bound into a wrong proof.
"""

from __future__ import annotations

import math
from typing import Dict, List, Sequence, Tuple

#: HiGHS drops matrix values up to this size (its option `small_matrix_value`).
SMALL_VALUE = 1e-9

#: Costs up to this share of the largest one are left out; the share is far below every proven gap.
SMALL_COST = 1e-12

#: The largest cost is scaled up to this size, so that HiGHS's dual tolerance of 1e-7 is small against it.
LARGE_COST = 1024.0

Row = Tuple[float, float, Dict[int, float]]


def scale_of(largest: float, target: float) -> float:
    """The power of two that scales `largest` to at least `target`; 1 if it is there already. Scaling is exact."""
    if not 0 < largest < target:
        return 1.0
    # Beyond this the factor itself would leave the range of a float.
    return 2.0 ** min(math.ceil(math.log2(target) - math.log2(largest)), 1000)


def rounded_costs(cost: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> Tuple[List[float], float]:
    """(costs without the small ones, a constant). cost . x >= rounded . x + constant for every x within its bounds.

    A small cost stays where its column has no bound on the side that would lower the sum.
    """
    smallest = SMALL_COST * max(map(abs, cost), default=0.0)
    rounded, constant = list(cost), 0.0
    for column, value in enumerate(cost):
        if value and abs(value) <= smallest:
            least = value * (lower[column] if value > 0 else upper[column])
            if math.isfinite(least):
                rounded[column] = 0.0
                constant += least
    return rounded, constant


def rounded_row(row: Row, lower: Sequence[float], upper: Sequence[float]) -> Row:
    """The row scaled to values of 1 and above, without small values; its limits widen by what those could add."""
    least, most, terms = row
    factor = scale_of(max(map(abs, terms.values()), default=0.0), 1.0)
    if factor == 1.0 and all(abs(v) > SMALL_VALUE for v in terms.values()):
        return row
    large_terms: Dict[int, float] = {}
    least, most = least * factor, most * factor
    for column, unscaled in terms.items():
        value = unscaled * factor
        if abs(value) > SMALL_VALUE:
            large_terms[column] = value
        elif value:
            ends = value * lower[column], value * upper[column]
            least, most = least - max(ends), most - min(ends)
    return least, most, large_terms
