"""Validation rule by rule, minimum cuts, pins, schedules: each part of the placer by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Optional, Tuple

import pytest
from hypothesis import given

from edgedla.errors import UsageError
from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.baselines import after_cap, baselines
from edgedla.placement.problem.evaluate import Region, evaluate
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.grouping import is_acyclic
from edgedla.placement.problem.pins import parse_pins, pins_by_name, resolve_pins
from edgedla.placement.problem.problem import Flow, Item, Limits, Problem
from edgedla.placement.problem.schedule import in_turn, segments, shortest_schedule, steady_state
from edgedla.placement.problem.validate import RULES, validate
from edgedla.placement.solvers.program.highs import LinearModel
from edgedla.placement.solvers.solve import solve
from tests.placement.placement_problems import checked, cost, problems, regroup

CHECKED = checked(16, 40)
ALL = ("GPU", "DLA0", "DLA1")


def chain(n: int = 4, illegal: Tuple[int, ...] = (), **changes: object) -> Problem:
    """n items in a row, 10 us on the GPU and 12 us on the DLA, transitions of 3 us, a loadable of 5 us."""
    items = tuple(
        Item(
            f"l{k}",
            0,
            (k,),
            ("GPU",) if k in illegal else ALL,
            {"GPU": cost(10), "DLA": cost(12)},
            1,
            k not in illegal,
            "forced" if k in illegal else "",
        )
        for k in range(n)
    )
    by_kind = {("GPU", "DLA"): cost(3), ("DLA", "GPU"): cost(3), ("DLA", "DLA"): cost(1)}
    flows = tuple(Flow(f"t{k}", 0, None if k == 0 else k - 1, (k,) if k < n else (), k == n, by_kind) for k in range(n + 1))
    bare = Problem(items, flows, (), lambda p, c, m: (m,), ("net",), cost(5), ALL)
    bare = replace(bare, **changes)  # type: ignore[arg-type]
    return replace(bare, grouping=regroup(bare, "fp16"))


#: rule, devices, regions by (core, items), changes of the chain.
BROKEN: List[Tuple[str, str, List[Tuple[str, Tuple[int, ...]]], Dict[str, object]]] = [
    ("each-layer-once", "GDDG", [("DLA0", (1,))], {}),
    ("each-layer-once", "GDDG", [("DLA0", (1, 2)), ("DLA0", (2,))], {}),
    ("each-layer-once", "GGGG", [("DLA0", ())], {}),
    ("device", "GXGG", [], {}),
    ("dla-verdict", "GDGG", [("DLA0", (1,))], {"illegal": (1,)}),
    ("pin", "GDGG", [("DLA0", (1,))], {"gpu": 1}),
    ("format", "GDGG", [("DLA0", (1,))], {"formats": False}),
    ("one-model", "GDEG", [("DLA0", (1, 2))], {}),
    ("batch", "GDDG", [("DLA0", (1, 2))], {"batch": 2}),
    ("convex", "DGDG", [("DLA0", (0, 2))], {}),
    ("loadable-cap", "DGDG", [("DLA0", (0,)), ("DLA0", (2,))], {"limits": Limits(loadables_per_core=1)}),
    ("max-regions", "DGEG", [("DLA0", (0,)), ("DLA1", (2,))], {"limits": Limits(max_regions=1)}),
    ("min-region", "GDDG", [("DLA0", (1, 2))], {"limits": Limits(min_region_layers=3)}),
    ("memory-pool", "GDDG", [("DLA0", (1, 2))], {"limits": Limits(global_dram_bytes=7)}),
    ("memory-pool", "GDDG", [("DLA0", (1, 2))], {"limits": Limits(local_dram_bytes=8)}),
    ("regroup", "GDDG", [("DLA0", (1,)), ("DLA0", (2,))], {}),
]


@pytest.mark.parametrize(("rule", "devices", "regions", "changes"), BROKEN, ids=[b[0] for b in BROKEN])
def test_validate_names_the_rule_that_a_placement_breaks(
    rule: str, devices: str, regions: List[Tuple[str, Tuple[int, ...]]], changes: Dict[str, object]
) -> None:
    problem = broken_problem(dict(changes))
    names = {"G": "GPU", "D": "DLA0", "E": "DLA1", "X": "NPU"}
    violations = validate(problem, [names[d] for d in devices], [Region(core, 0, items) for core, items in regions])
    assert rule in [v.rule for v in violations]
    assert all(v.message and v.rule in RULES for v in violations)


def broken_problem(changes: Dict[str, object]) -> Problem:
    problem = chain(illegal=changes.pop("illegal", ()))  # type: ignore[arg-type]
    items = [replace(i, weight_bytes=4, activation_bytes=9) for i in problem.items]
    if "gpu" in changes:
        items[int(str(changes["gpu"]))] = replace(items[int(str(changes["gpu"]))], allowed=("GPU",), why="pinned")
    if "batch" in changes:
        items[2] = replace(items[2], batch=2)
    flows = problem.flows if changes.get("formats", True) else tuple(replace(f, costs={}) for f in problem.flows)
    limits: Limits = changes.get("limits", Limits())  # type: ignore[assignment]
    return replace(problem, items=tuple(items), flows=flows, limits=limits)


def test_every_validation_rule_has_a_case() -> None:
    assert {b[0] for b in BROKEN} == set(RULES)


def test_validate_accepts_a_placement_at_its_limits() -> None:
    limits = Limits(loadables_per_core=1, max_regions=1, min_region_layers=2, global_dram_bytes=8, local_dram_bytes=9)
    problem = broken_problem({"limits": limits})
    assert validate(problem, ["GPU", "DLA0", "DLA0", "GPU"], [Region("DLA0", 0, (1, 2))]) == ()


def test_regions_that_wait_for_each_other_are_found() -> None:
    edges = [(0, 2), (1, 3)]
    assert is_acyclic(edges, {0: 0, 1: 1, 2: 1, 3: 1})
    assert not is_acyclic([(0, 2), (3, 1)], {0: 0, 1: 0, 2: 2, 3: 2})


@CHECKED
@given(problems(max_items=10, devices=ALL, models=2, limits=False))
def test_segments_add_up_and_schedules_do_not_overlap(problem: Problem) -> None:
    for assignment in list(baselines(problem).values()):
        e = evaluate(problem, assignment)
        for m in range(2):
            parts = segments(problem, e, m)
            assert sum(s.time_us for s in parts) == pytest.approx(e.latency(m).latency_us, abs=1e-6)
            assert sorted(i for s in parts for i in s.items) == list(problem.items_of(m))
        schedule = shortest_schedule(problem, e)
        for device in ALL:
            bars = sorted((b for b in schedule.bars if b.device == device), key=lambda b: b.start_us)
            assert all(a.end_us <= b.start_us + 1e-6 for a, b in zip(bars, bars[1:]))
        for m in range(2):
            bars = sorted((b for b in schedule.bars if b.model == m), key=lambda b: b.segment)
            assert all(a.end_us <= b.start_us + 1e-6 for a, b in zip(bars, bars[1:]))
        assert schedule.bound_us <= schedule.length_us + 1e-6
        assert schedule.length_us <= in_turn(problem, e).length_us * max(
            [1.0, *(f for by in problem.slowdown.values() for f in by.values())]
        ) * (1 + 1e-9)


@CHECKED
@given(problems(max_items=10, devices=ALL, limits=False))
def test_the_steady_state_fits_one_period_in_frame_order(problem: Problem) -> None:
    e = evaluate(problem, baselines(problem)["dla-fallback"])
    schedule, (frame_us,) = steady_state(problem, e)
    period = e.period(problem).latency_us
    assert all(b.end_us <= period + 1e-6 for b in schedule.bars)
    times = [(b.start_us + b.frame * period, b.end_us + b.frame * period) for b in by_segment(schedule.bars)]
    assert all(a[1] <= b[0] + 1e-6 for a, b in zip(times, times[1:]))
    assert frame_us == pytest.approx(times[-1][1])


def by_segment(bars: Tuple[object, ...]) -> List[object]:
    return sorted(bars, key=lambda b: b.segment)  # type: ignore[attr-defined]


def test_the_cap_keeps_the_largest_loadables_and_ties_in_order() -> None:
    problem = chain(9, illegal=(2, 4, 6, 8), limits=Limits(loadables_per_core=2))
    everything = baselines(problem)["dla-fallback"]
    assert [r[1] for r in problem.regions(everything)] == [(0, 1), (3,), (5,), (7,)]
    kept = after_cap(problem, everything)
    assert [i for i, d in enumerate(kept) if d == "DLA0"] == [0, 1, 3]


def graph(*names: str, nodes: Optional[Tuple[str, ...]] = None) -> LayerGraph:
    tensors = {f"t{k}": Tensor(f"t{k}", (1, 8, 4, 4)) for k in range(len(names) + 1)}
    layers = tuple(
        Layer(k, "ACTIVATION", n, (nodes or names)[k], "Relu", (f"t{k}",), (f"t{k + 1}",)) for k, n in enumerate(names)
    )
    return LayerGraph("net", layers, tensors, ("t0",), (f"t{len(names)}",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:DLA", (("a", "DLA"),)),
        ("a:dla , *:GPU", (("a", "DLA"), ("*", "GPU"))),
        ("scope:a:DLA1", (("scope:a", "DLA1"),)),
        ('"a,b":GPU', (("a,b", "GPU"),)),
        ("'a':GPU", (("a", "GPU"),)),
    ],
)
def test_pins_are_read_as_trtexec_writes_them(text: str, expected: Tuple[Tuple[str, str], ...]) -> None:
    assert parse_pins([text]) == expected


@pytest.mark.parametrize("text", ["a", "a:", ":DLA", "a:NPU", "a:DLA2", "a:GPU,b"])
def test_a_pin_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a pin"):
        parse_pins([text])


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ("*:GPU", {0: "GPU", 1: "GPU", 2: "GPU"}),
        ("conv*:DLA,*:GPU", {0: "DLA", 1: "DLA", 2: "GPU"}),
        ("*:GPU,conv*:DLA", {0: "DLA", 1: "DLA", 2: "GPU"}),
        ("conv[1]:DLA,conv*:GPU", {0: "GPU", 1: "DLA"}),
        ("conv*:DLA,conv*:GPU", {0: "GPU", 1: "GPU"}),
    ],
)
def test_an_exact_pin_overrides_patterns_and_later_pins_earlier_ones(pins: str, expected: Dict[int, str]) -> None:
    assert resolve_pins(graph("conv", "conv[1]", "relu"), parse_pins([pins])) == expected


def test_a_star_that_tensorrt_writes_into_a_name_makes_no_pattern() -> None:
    layers = graph("(Unnamed Layer* 3) [Shuffle]", "(Unnamed Layer* 3) [Shuffle] and (Unnamed Layer* 3) [Shuffle]", "conv")
    pins = parse_pins(["(Unnamed Layer* 3) [Shuffle]:GPU,*:DLA"])
    assert resolve_pins(layers, pins) == {0: "GPU", 1: "DLA", 2: "DLA"}
    assert pins_by_name(layers, pins) == {0: "GPU"}


def test_a_pin_may_name_the_onnx_node() -> None:
    assert resolve_pins(graph("layer 0", nodes=("/conv",)), (("/conv", "GPU"),)) == {0: "GPU"}


def test_a_pin_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match="'cnov'"):
        resolve_pins(graph("conv"), (("cnov", "GPU"),))


def test_two_coupled_items_stay_on_the_gpu_if_cheaper() -> None:
    """HiGHS 1.14 answers 74 here after its presolve: both on the core, for 20 more."""
    by_kind = [{("GPU", "DLA"): cost(a), ("DLA", "GPU"): cost(b)} for a, b in ((6, 12), (9, 1), (4, 15))]
    items = tuple(
        Item(name, 0, (k,), ("GPU", "DLA0"), {"GPU": cost(gpu), "DLA": cost(18)})
        for k, (name, gpu) in enumerate((("a", 18), ("b", 27)))
    )
    flows = (
        Flow("in", 0, None, (0, 1), False, by_kind[0]),
        Flow("a", 0, 0, (), True, by_kind[1]),
        Flow("b", 0, 1, (), True, by_kind[2]),
    )
    limits = Limits(loadables_per_core=2, max_regions=2, min_region_layers=2)
    bare = Problem(items, flows, (), lambda p, c, m: (m,), ("net",), cost(16), ("GPU", "DLA0"), limits, engine=cost(9))
    solution = solve(replace(bare, grouping=regroup(bare, "fp16")), Goal("latency"))
    assert solution.value == pytest.approx(54)
    assert solution.bound == pytest.approx(54)


def test_a_stopped_linear_program_gives_no_bound() -> None:
    n = 4000
    model = LinearModel()
    columns = [model.column(cost=-1.0 * (i % 7 + 1), upper=50.0) for i in range(n)]
    for i in range(n):
        row = {columns[i]: 1.0, columns[(i * 37 + 11) % n]: 1.5, columns[(i * 91 + 5) % n]: 0.7}
        model.at_most(row, 40.0 + i % 13)
    answer = model.solve(Deadline.after(0.0), 0.0)
    assert answer.status == "time"
    assert answer.bound == float("-inf")
