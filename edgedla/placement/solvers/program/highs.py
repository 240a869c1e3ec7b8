"""A linear model in plain lists, its numbers rounded for HiGHS, which solves it: columns, rows, and cuts added between solves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import EnvironmentMissing
from edgedla.placement.deadline import INFINITY, Deadline

#: HiGHS drops matrix values up to this size (its option `small_matrix_value`). Costs up to this share of the largest one are left out
#: too: the bound pays for them, and it is far below every proven gap.
SMALL = 1e-9

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
    smallest = SMALL * max(map(abs, cost), default=0.0)
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
    if factor == 1.0 and all(abs(v) > SMALL for v in terms.values()):
        return row
    large_terms: Dict[int, float] = {}
    least, most = least * factor, most * factor
    for column, unscaled in terms.items():
        value = unscaled * factor
        if abs(value) > SMALL:
            large_terms[column] = value
        elif value:
            ends = value * lower[column], value * upper[column]
            least, most = least - max(ends), most - min(ends)
    return least, most, large_terms


#: A linear expression: coefficient by column, and a constant under None.
Linear = Dict[Optional[int], float]


def add(into: Linear, expression: Mapping[Optional[int], float], factor: float = 1.0) -> Linear:
    """into += factor * expression; returns `into`."""
    for column, value in expression.items():
        into[column] = into.get(column, 0.0) + factor * value
    return into


@dataclass(frozen=True)
class Answer:
    """The result of HiGHS: "optimal", "time" (stopped, perhaps with a solution) or "infeasible"."""

    status: str
    values: Tuple[float, ...]
    bound: float


@dataclass
class LinearModel:
    """minimise cost . x subject to lower <= A x <= upper, some columns integer. Mutable: rows are added between solves."""

    cost: List[float] = field(default_factory=list)
    lower: List[float] = field(default_factory=list)
    upper: List[float] = field(default_factory=list)
    integer: List[bool] = field(default_factory=list)
    rows: List[Tuple[float, float, Dict[int, float]]] = field(default_factory=list)
    _solver: Any = None
    _passed_rows: int = 0
    _scale: float = 1.0
    _constant: float = 0.0

    def column(self, cost: float = 0.0, lower: float = 0.0, upper: float = INFINITY, integer: bool = False) -> int:
        self.cost.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def at_least(self, expression: Mapping[Optional[int], float], bound: float = 0.0) -> None:
        """expression >= bound."""
        self._row(expression, bound, INFINITY)

    def at_most(self, expression: Mapping[Optional[int], float], bound: float = 0.0) -> None:
        """expression <= bound."""
        self._row(expression, -INFINITY, bound)

    def equal(self, expression: Mapping[Optional[int], float], bound: float) -> None:
        self._row(expression, bound, bound)

    def _row(self, expression: Mapping[Optional[int], float], lower: float, upper: float) -> None:
        constant = expression.get(None, 0.0)
        terms = {c: v for c, v in expression.items() if c is not None and v != 0.0}
        if terms or lower - constant > 1e-12 or upper - constant < -1e-12:
            self.rows.append((lower - constant, upper - constant, terms))

    def minimise(self, expression: Mapping[Optional[int], float]) -> None:
        for column, value in expression.items():
            if column is not None:
                self.cost[column] += value

    def continuous_bound(self, deadline: Deadline) -> float:
        """The optimum without integrality, a lower bound of all solutions; 0 if time ran out."""
        loose = LinearModel(self.cost, self.lower, self.upper, [False] * len(self.integer), self.rows)
        answer = loose.solve(deadline, 0.0)
        return 0.0 if answer.status == "time" else answer.bound

    def solve(self, deadline: Deadline, relative_gap: float) -> Answer:
        """Solves with one thread and a fixed seed, so that the same model gives the same answer. Rows may follow."""
        try:
            import highspy as library
        except ImportError as e:
            raise EnvironmentMissing("placing needs HiGHS, which cannot be imported", hint="pip install highspy") from e
        # Its stubs differ between the releases that fit Python 3.8 to 3.13.
        highspy: Any = library
        h = self._passed(highspy)
        h.setOptionValue("mip_rel_gap", relative_gap)
        h.setOptionValue("mip_abs_gap", 1e-9 * self._scale)
        # In HiGHS 1.5 to 1.16 the time limit of an integer program counts from its own run, but that of a linear one
        # from the solver's first run.
        before = 0.0 if any(self.integer) else h.getRunTime()
        h.setOptionValue("time_limit", before + max(deadline.left_wall_s, 0.01))
        h.run()
        status = h.getModelStatus()
        info = h.getInfo()
        reached = float(info.mip_dual_bound) if any(self.integer) else float(info.objective_function_value)
        bound = (reached + self._constant) / self._scale
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return Answer("infeasible", (), INFINITY)
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        values_found = tuple(h.getSolution().col_value) if feasible else ()
        if status == highspy.HighsModelStatus.kOptimal:
            return Answer("optimal", values_found, bound)
        # A stopped linear program has no valid bound; only the search tree of an integer program has one.
        return Answer("time", values_found, bound if any(self.integer) else -INFINITY)

    def _passed(self, highspy: Any) -> Any:
        """The solver with every row: made at the first call; later calls add the new rows."""
        import numpy as np

        if self._solver is None:
            self._solver = self._made(highspy)
        else:
            for row in self.rows[self._passed_rows :]:
                lower, upper, terms = rounded_row(row, self.lower, self.upper)
                columns = np.array(list(terms), dtype=np.int32)
                values = np.array(list(terms.values()))
                self._solver.addRow(
                    _finite(lower, highspy.kHighsInf), _finite(upper, highspy.kHighsInf), len(columns), columns, values
                )
        self._passed_rows = len(self.rows)
        return self._solver

    def _made(self, highspy: Any) -> Any:
        import numpy as np

        inf = highspy.kHighsInf
        h = _silent(highspy)
        h.setOptionValue("output_flag", False)
        h.setOptionValue("threads", 1)
        h.setOptionValue("random_seed", 0)
        # HiGHS 1.14, the last one for Python 3.8, answers small models wrongly after its presolve (two rows that
        # make an equation of two columns). These models are also solved faster without it.
        h.setOptionValue("presolve", "off")
        lp = highspy.HighsLp()
        lp.num_col_ = len(self.cost)
        self._scale = scale_of(max(map(abs, self.cost), default=0.0), LARGE_COST)
        costs, self._constant = rounded_costs([c * self._scale for c in self.cost], self.lower, self.upper)
        lp.col_cost_ = np.array(costs, dtype=np.double)
        lp.col_lower_ = np.array(self.lower, dtype=np.double)
        lp.col_upper_ = np.array([_finite(u, inf) for u in self.upper], dtype=np.double)
        lp.integrality_ = [highspy.HighsVarType.kInteger if i else highspy.HighsVarType.kContinuous for i in self.integer]
        starts, indices, values = [0], [], []
        rows = [rounded_row(row, self.lower, self.upper) for row in self.rows]
        for _, _, terms in rows:
            indices += list(terms)
            values += list(terms.values())
            starts.append(len(indices))
        lp.num_row_ = len(rows)
        lp.row_lower_ = np.array([_finite(r[0], inf) for r in rows], dtype=np.double)
        lp.row_upper_ = np.array([_finite(r[1], inf) for r in rows], dtype=np.double)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(starts, dtype=np.int32)
        lp.a_matrix_.index_ = np.array(indices, dtype=np.int32)
        lp.a_matrix_.value_ = np.array(values, dtype=np.double)
        h.passModel(lp)
        return h


def _silent(highspy: Any) -> Any:
    """A solver that prints nothing: since HiGHS 1.16 its constructor enables callbacks, which print to stdout."""

    class Silent(highspy.Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return Silent()


def _finite(value: float, infinity: float) -> float:
    """The value with Python's infinity replaced by HiGHS's own."""
    return max(-infinity, min(infinity, value))
