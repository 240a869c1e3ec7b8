"""The time limit of an integer program that is solved repeatedly."""

from __future__ import annotations

import random

from edgedla.placement.deadline import WALL, Deadline
from edgedla.placement.solvers.program.highs import LinearModel


def test_each_run_of_an_integer_program_keeps_its_own_time_limit() -> None:
    """Its clock starts with each run: with what earlier runs took on top, the third one took twice its limit and more."""
    draw = random.Random(0)
    model = LinearModel()
    chosen = [model.column(cost=-float(draw.randint(50, 100)), upper=1.0, integer=True) for _ in range(200)]
    for _ in range(30):
        weights = {c: float(draw.randint(20, 100)) for c in chosen}
        model.at_most(weights, sum(weights.values()) / 3)
    for _ in range(3):
        assert model.solve(Deadline.after(0.2), 1e-9).status == "time"
        _, limit = model._solver.getOptionValue("time_limit")
        assert 0.15 < limit <= 0.2 * WALL
