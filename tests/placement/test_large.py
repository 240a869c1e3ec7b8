"""Networks too large for a search, and engines of thousands of parts: they still get an answer, with a bound."""

from __future__ import annotations

import pytest

import edgedla
from edgedla.errors import NoPlacement
from edgedla.io.documents import schema
from edgedla.placement.problem.problem import Limits
from edgedla.placement.problem.schedule_search import ScheduleSearch
from edgedla.placement.solvers import solve
from edgedla.reports.placement.text import why_unproven
from tests.hostile.nasty_models import alternating, diamonds

ORIN = {"target": "agx-orin-64gb"}


@pytest.fixture(autouse=True)
def _few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "MOST_ITEMS", 5)


@pytest.mark.parametrize("objective", ["latency", "energy", "throughput", "makespan"])
def test_a_model_too_large_for_a_search_gets_the_best_start_with_a_note(objective: str) -> None:
    models = [diamonds(4).SerializeToString()] * (2 if objective == "makespan" else 1)
    jsonschema = pytest.importorskip("jsonschema")
    placement = edgedla.place(models, objective=objective, **ORIN)
    assert placement.proof.solver == "none"
    assert 0 < placement.proof.bound <= placement.proof.value
    assert any("too many for a search" in note for note in placement.notes)
    assert why_unproven(placement) == "too many layers for a search"
    jsonschema.validate(placement.to_dict(), schema("edgedla.placement"))
    reached = {
        "latency": lambda f: f.latency.latency_us,
        "energy": lambda f: f.energy.energy_mj,
        "throughput": lambda f: f.period.latency_us,
        "makespan": lambda f: f.makespan_us,
    }[objective]
    for baseline in placement.baselines:
        assert baseline.broken or placement.proof.value <= reached(baseline.figures) * (1 + 1e-9)


def test_a_bound_missed_by_all_starts_is_reported_as_not_found() -> None:
    model = alternating(20).SerializeToString()
    with pytest.raises(NoPlacement, match=r"no placement was found that keeps every frame within 0\.5 us"):
        edgedla.place(model, latency_bound_us=0.5, **ORIN)
    with pytest.raises(NoPlacement, match="too many for a search"):
        edgedla.place(diamonds(4).SerializeToString(), devices="DLA0", limits=Limits(min_region_layers=40), **ORIN)


def test_a_schedule_of_thousands_of_segments_needs_no_recursion() -> None:
    search = ScheduleSearch([["GPU", "DLA0"] * 2500, ["DLA0", "GPU"] * 2500], [[1.0] * 5000, [1.0] * 5000])
    search.run()
    assert search.bound_us <= search.length_us
    assert search.length_us == 5000.0
