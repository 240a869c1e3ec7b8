"""Properties of the candidate groups on random networks: convex, disjoint, complete, of one batch, without cycles."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.regions.candidates import form_groups, split_groups
from edgedla.regions.cap import apply_cap
from edgedla.regions.fusions import Unit, UnitGraph
from edgedla.regions.values import Region
from tests.amounts import amount, examples


class Case(NamedTuple):
    parents: List[List[int]]
    on_dla: List[bool]
    batches: List[int]


@st.composite
def cases(draw: st.DrawFn, one_batch: bool = False, max_units: int = 14) -> Case:
    """A random DAG whose units each read some earlier ones, with a device and a batch for each."""
    n = draw(st.integers(1, max_units))
    parents = [sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(n)]
    on_dla = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    batches = [1] * n if one_batch else draw(st.lists(st.sampled_from([1, 8, 100]), min_size=n, max_size=n))
    return Case(parents, on_dla, batches)


def unit_graph(parents: Sequence[Sequence[int]], batches: Sequence[int]) -> UnitGraph:
    units = tuple(
        Unit((i,), (), batches[i], tuple((p, f"t{p}") for p in ps), () if ps else ("x",), (f"t{i}",), False)
        for i, ps in enumerate(parents)
    )
    successors: List[List[int]] = [[] for _ in parents]
    for i, ps in enumerate(parents):
        for p in ps:
            successors[p].append(i)
    return UnitGraph(units, {i: i for i in range(len(units))}, (), tuple(map(tuple, parents)), tuple(map(tuple, successors)))


def reachable(graph: UnitGraph, start: int) -> Set[int]:
    found: Set[int] = set()
    stack = list(graph.successors[start])
    while stack:
        i = stack.pop()
        if i not in found:
            found.add(i)
            stack.extend(graph.successors[i])
    return found


def has_cycle(edges: Set[Tuple[str, str]]) -> bool:
    nodes = {n for edge in edges for n in edge}
    while nodes:
        free = [n for n in nodes if not any(b == n and a in nodes for a, b in edges)]
        if not free:
            return True
        nodes -= set(free)
    return False


def check_groups(graph: UnitGraph, groups: Sequence[Sequence[int]], members: Set[int]) -> None:
    assert sorted(u for group in groups for u in group) == sorted(members), "every DLA unit stands in exactly one group"
    of: Dict[int, int] = {u: g for g, group in enumerate(groups) for u in group}
    name = {i: f"group {of[i]}" if i in of else f"unit {i}" for i in range(len(graph.units))}
    edges = {(name[p], name[i]) for i, ps in enumerate(graph.predecessors) for p in ps if name[p] != name[i]}
    assert not has_cycle(edges), "no group waits for something that waits for the group"
    for group in groups:
        assert len({graph.units[u].batch for u in group}) == 1
        inside = set(group)
        for u in group:
            for outside in reachable(graph, u) - inside:
                assert not reachable(graph, outside) & inside, "a path leaves the group and comes back"
    for g, group in enumerate(groups):
        for u in group:
            assert all(of[v] >= g for v in reachable(graph, u) if v in of), "groups stand in topological order"


@settings(max_examples=examples(amount(80, 300)), deadline=None)
@given(case=cases(), waits=st.booleans())
def test_groups_are_convex_disjoint_complete_and_acyclic(case: Case, waits: bool) -> None:
    graph = unit_graph(case.parents, case.batches)
    groups = form_groups(graph, case.on_dla, "fp16" if waits else "int8")
    check_groups(graph, groups, {i for i, dla in enumerate(case.on_dla) if dla})


@settings(max_examples=examples(amount(80, 200)), deadline=None)
@given(case=cases(one_batch=True), data=st.data())
def test_groups_split_by_the_second_look_stay_convex_and_complete(case: Case, data: st.DataObject) -> None:
    graph = unit_graph(case.parents, case.batches)
    members = [i for i, dla in enumerate(case.on_dla) if dla]
    failing = data.draw(st.sets(st.sampled_from(members))) if members else set()
    groups = split_groups(form_groups(graph, case.on_dla), {i: "does not fit" for i in failing})
    check_groups(graph, groups, set(members) - set(failing))


@settings(max_examples=examples(amount(80, 200)), deadline=None)
@given(case=cases(one_batch=True))
def test_a_network_of_dla_layers_of_one_batch_is_one_group(case: Case) -> None:
    graph = unit_graph(case.parents, case.batches)
    assert form_groups(graph, [True] * len(case.on_dla)) == [list(range(len(case.on_dla)))]


@settings(max_examples=examples(amount(80, 200)), deadline=None)
@given(case=cases(one_batch=True), data=st.data())
def test_moving_one_layer_changes_the_number_of_groups_by_one_at_most(case: Case, data: st.DataObject) -> None:
    graph = unit_graph(case.parents, case.batches)
    moved = data.draw(st.integers(0, len(case.on_dla) - 1))
    other = [dla if i != moved else not dla for i, dla in enumerate(case.on_dla)]
    assert abs(len(form_groups(graph, case.on_dla)) - len(form_groups(graph, other))) <= 1


@settings(max_examples=examples(amount(80, 200)), deadline=None)
@given(case=cases(one_batch=True), data=st.data(), waits=st.booleans())
def test_groups_do_not_depend_on_the_order_of_the_layers(case: Case, data: st.DataObject, waits: bool) -> None:
    n = len(case.on_dla)
    order: List[int] = []
    while len(order) < n:
        ready = [i for i in range(n) if i not in order and all(p in order for p in case.parents[i])]
        order.append(data.draw(st.sampled_from(ready)))
    position = {old: new for new, old in enumerate(order)}
    parents = [sorted(position[p] for p in case.parents[old]) for old in order]
    before = form_groups(unit_graph(case.parents, case.batches), case.on_dla, "fp16" if waits else "int8")
    after = form_groups(unit_graph(parents, [1] * n), [case.on_dla[old] for old in order], "fp16" if waits else "int8")
    assert [sorted(position[u] for u in group) for group in before] == after


@given(sizes=st.lists(st.integers(1, 9), max_size=40), limit=st.integers(1, 16))
def test_the_cap_keeps_the_largest_and_of_equals_the_first(sizes: List[int], limit: int) -> None:
    regions = [Region(i, tuple(range(size)), 1, size) for i, size in enumerate(sizes)]
    capped = apply_cap(regions, limit)
    kept = [(-r.size, r.id) for r in capped if r.kept]
    dropped = [(-r.size, r.id) for r in capped if not r.kept]
    assert len(kept) == min(limit, len(sizes))
    assert not dropped or max(kept) < min(dropped)


@pytest.mark.parametrize("length", [1_000, 20_000])
def test_long_chains_of_units_need_no_recursion(length: int) -> None:
    graph = unit_graph([[i - 1] if i else [] for i in range(length)], [1] * length)
    assert len(form_groups(graph, [i % 3 != 0 for i in range(length)])) == (length + 1) // 3
