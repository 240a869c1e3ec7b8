"""Random placement problems and the brute force over all assignments that solvers are measured with."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Tuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from edgedla.costs.cost import Cost
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import Goal, legal
from edgedla.placement.problem.grouping import tensorrt_grouping
from edgedla.placement.problem.problem import Flow, Item, Limits, Link, Problem
from edgedla.regions.fusions import Unit, UnitGraph
from tests.amounts import amount, examples

TIMES = st.integers(1, 40)


def checked(share: int, whole: int) -> settings:
    """For properties of random problems: so many examples in every run and in all tests; what fails is not made smaller."""
    return settings(
        max_examples=examples(amount(share, whole)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )


def cost(us: float, mj: Optional[float] = None) -> Cost:
    return Cost(float(us), float(us) / 7 if mj is None else float(mj), "guessed", 0.3, 0.3)


@st.composite
def problems(
    draw: Any,
    max_items: int = 10,
    devices: Tuple[str, ...] = ("GPU", "DLA0"),
    models: int = 1,
    limits: bool = True,
    pools: bool = True,
) -> Problem:
    items: List[Item] = []
    flows: List[Flow] = []
    links: List[Link] = []
    for m in range(models):
        first = len(items)
        n = draw(st.integers(1, max(max_items // models, 1)))
        for k in range(n):
            legal_here = draw(st.integers(0, 4)) > 0
            allowed = devices if legal_here else ("GPU",)
            costs = {"GPU": cost(draw(TIMES), draw(TIMES))}
            if legal_here:
                costs["DLA"] = cost(draw(TIMES), draw(TIMES))
            items.append(
                Item(
                    f"m{m}l{k}",
                    m,
                    (k,),
                    allowed,
                    costs,
                    draw(st.sampled_from([1, 1, 1, 2])),
                    legal_here,
                    "" if legal_here else "forced",
                    weight_bytes=draw(st.integers(0, 3)),
                )
            )
        consumers: Dict[Optional[int], List[int]] = {None: []}
        for k in range(n):
            count = draw(st.integers(1, 2))
            for _ in range(count):
                p = draw(st.integers(-1, k - 1))
                source = None if p < 0 else first + p
                consumers.setdefault(source, [])
                if first + k not in consumers[source]:
                    consumers[source].append(first + k)
        for source in [None, *range(first, first + n)]:
            readers = tuple(sorted(consumers.get(source, [])))
            is_output = source is not None and (not readers or draw(st.integers(0, 5)) == 0)
            if not readers and not is_output:
                continue
            t_in, t_out, between = draw(st.integers(0, 15)), draw(st.integers(0, 15)), draw(st.integers(0, 5))
            by_kind = {("GPU", "DLA"): cost(t_in), ("DLA", "GPU"): cost(t_out), ("DLA", "DLA"): cost(between)}
            flows.append(Flow(f"t{m}_{source}", m, source, readers, is_output, by_kind))
            if source is not None and readers and draw(st.integers(0, 3)) == 0:
                links.append(Link(source, readers[0], {"GPU": cost(draw(TIMES)), "DLA": cost(draw(TIMES))}))
    chosen = Limits()
    if limits:
        chosen = Limits(
            draw(st.sampled_from([1, 2, 16])),
            draw(st.sampled_from([None, None, 2])),
            draw(st.sampled_from([1, 1, 2])) if pools else 1,
            global_dram_bytes=draw(st.sampled_from([8, 1 << 20])) if pools else 1 << 20,
        )
    slow: Dict[FrozenSet[str], Dict[str, float]] = {}
    if len(devices) > 1:
        factor = draw(st.sampled_from([1.0, 1.25, 1.5]))
        for size in range(2, len(devices) + 1):
            for s in itertools.combinations(devices, size):
                slow[frozenset(s)] = {d: factor for d in s}
    bare = Problem(
        tuple(items),
        tuple(flows),
        tuple(links),
        lambda problem, core, members: (members,),
        tuple(f"m{m}" for m in range(models)),
        cost(draw(st.integers(0, 20))),
        devices,
        chosen,
        tuple([1.0] * models),
        slow,
    )
    return replace(bare, engine=cost(draw(st.integers(0, 9))), grouping=regroup(bare, draw(st.sampled_from(["fp16", "int8"]))))


def assignments(problem: Problem) -> Iterator[Tuple[str, ...]]:
    return itertools.product(*(i.allowed for i in problem.items))


def brute_force(problem: Problem, goal: Goal, measure: Any) -> Tuple[float, Optional[Evaluation]]:
    """The least value over all legal assignments, and one that has it."""
    best: Tuple[float, Optional[Evaluation]] = (float("inf"), None)
    for assignment in assignments(problem):
        e = evaluate(problem, assignment)
        if legal(problem, e, goal):
            value = measure(problem, e)
            if value < best[0]:
                best = (value, e)
    return best


def regroup(problem: Problem, precision: str) -> Any:
    """TensorRT's grouping with one unit an item."""
    alone = [(k,) for m in range(len(problem.models)) for k in range(len(problem.items_of(m)))]
    return tensorrt_grouping(unit_graphs(problem), alone, precision)


def unit_graphs(problem: Problem) -> List[UnitGraph]:
    """The units behind a problem, for TensorRT's grouping."""
    graphs = []
    for m in range(len(problem.models)):
        own = problem.items_of(m)
        before = [tuple(p - own[0] for p in problem.predecessors(i)) for i in own]
        after: List[List[int]] = [[] for _ in own]
        for i, sources in enumerate(before):
            for p in sources:
                after[p].append(i)
        units = tuple(
            Unit((k,), (), problem.items[i].batch, tuple((p, f"t{p}") for p in before[k]), (), (f"t{k}",), False)
            for k, i in enumerate(own)
        )
        graphs.append(UnitGraph(units, {k: k for k in range(len(own))}, (), tuple(before), tuple(tuple(a) for a in after)))
    return graphs
