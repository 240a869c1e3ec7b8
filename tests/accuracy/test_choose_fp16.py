"""The choice of FP16 layers: exact, against every subset."""

from __future__ import annotations

from itertools import combinations, product
from typing import Dict, List

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.accuracy.choose_fp16 import Border, Candidate, Prices, choose
from tests.amounts import examples

LAYERS = "abcde"
CANDIDATES = st.lists(
    st.tuples(st.floats(0.01, 1.0), st.sets(st.sampled_from(LAYERS), min_size=1, max_size=3)), min_size=1, max_size=5
)
COSTS = st.fixed_dictionaries({name: st.floats(0.0, 50.0) for name in LAYERS})


def best_by_hand(candidates: List[Candidate], costs: Dict[str, float], excess: float) -> float:
    found = []
    for size in range(len(LAYERS) + 1):
        for chosen in combinations(LAYERS, size):
            gone = sum(c.share for c in candidates if set(c.layers) <= set(chosen))
            if gone >= excess:
                found.append(sum(costs[n] for n in chosen))
    return min(found)


@settings(max_examples=examples(60), deadline=None)
@given(CANDIDATES, COSTS, st.floats(0.05, 0.95))
def test_the_chosen_fp16_layers_are_the_cheapest_subset(given_candidates: list, costs: Dict[str, float], part: float) -> None:
    candidates = [Candidate(f"t{i}", share, tuple(sorted(layers))) for i, (share, layers) in enumerate(given_candidates)]
    excess = part * sum(c.share for c in candidates)
    choice = choose(candidates, Prices(costs), excess)
    assert choice is not None
    assert choice.proven
    assert sum(c.share for c in candidates if set(c.layers) <= set(choice.layers)) >= excess * (1 - 1e-6)
    # Of equals it takes fewer layers, at a thousandth of a microsecond each.
    assert choice.cost_us <= best_by_hand(candidates, costs, excess * (1 + 1e-6)) + 0.01
    assert set(choice.tensors) == {c.tensor for c in candidates if set(c.layers) <= set(choice.layers)}


def test_an_unreachable_error_bound_gives_no_choice() -> None:
    one = Candidate("t", 0.5, ("a",))
    assert choose([one], Prices({}), 0.6) is None
    nothing = choose([one], Prices({}), 0.0)
    assert nothing is not None
    assert nothing.layers == ()
    faster = choose([one], Prices({"a": -5.0}), 0.4)
    assert faster is not None
    assert faster.cost_us == pytest.approx(0.0)


CHAIN = [Border(None, ("a",), False, 1.0, 9.0), *(Border(p, (r,), False, 3.0, 9.0) for p, r in zip("abcd", "bcde"))]
CHAIN.append(Border("e", (), True, 3.0, 9.0))


def cost_by_hand(fp16: str, gpu: str, costs: Dict[str, float], on_gpu: Dict[str, float]) -> float:
    """Of a chain a-b-c-d-e whose input comes from the GPU and whose output goes there, against all of it in INT8."""
    places = "g" + "".join("g" if n in gpu else "d" for n in LAYERS) + "g"
    crossed = sum({"dg": b.to_gpu_us, "gd": b.to_dla_us}.get(places[i : i + 2], 0.0) for i, b in enumerate(CHAIN))
    return sum(costs[n] for n in fp16) + sum(on_gpu[n] for n in gpu) + crossed - (9.0 + 3.0)


@settings(max_examples=examples(40), deadline=None)
@given(CANDIDATES, COSTS, COSTS, st.floats(0.05, 0.95))
def test_the_chosen_layers_for_fp16_and_gpu_are_the_cheapest_mix(
    given_candidates: list, costs: Dict[str, float], on_gpu: Dict[str, float], part: float
) -> None:
    candidates = [Candidate(f"t{i}", share, tuple(sorted(layers))) for i, (share, layers) in enumerate(given_candidates)]
    excess = part * sum(c.share for c in candidates)
    choice = choose(candidates, Prices(costs, on_gpu, tuple(CHAIN)), excess)
    assert choice is not None
    assert choice.proven
    touched = {n for c in candidates for n in c.layers}
    best = float("inf")
    for marks in product("ixg", repeat=len(LAYERS)):
        fp16, gpu = ("".join(n for n, m in zip(LAYERS, marks) if m == k) for k in "xg")
        if set(fp16 + gpu) <= touched and sum(c.share for c in candidates if set(c.layers) <= set(fp16 + gpu)) >= excess * (
            1 + 1e-6
        ):
            best = min(best, cost_by_hand(fp16, gpu, costs, on_gpu))
    assert choice.cost_us <= best + 0.02
    fp16 = "".join(n for n in choice.layers if n not in choice.gpu)
    assert choice.cost_us == pytest.approx(cost_by_hand(fp16, "".join(choice.gpu), costs, on_gpu), abs=0.02)


def test_neighbouring_layers_move_to_the_gpu_together() -> None:
    middle = Candidate("t", 1.0, ("b", "c"))
    slow = dict.fromkeys(LAYERS, 100.0)
    choice = choose([middle], Prices(slow, dict.fromkeys(LAYERS, 1.0), tuple(CHAIN)), 0.5)
    assert choice is not None
    assert choice.gpu == choice.layers == ("b", "c")
    # Both layers, one tensor there and one back.
    assert choice.cost_us == pytest.approx(2 + 3 + 9)


def test_a_layer_beyond_fp16_range_is_never_chosen_for_fp16_on_the_dla() -> None:
    candidates = [Candidate("t", 1.0, ("a",)), Candidate("u", 1.0, ("b",))]
    prices = Prices({"a": 1.0, "b": 5.0}, no_fp16=frozenset({"a"}))
    choice = choose(candidates, prices, 0.9)
    assert choice is not None
    assert choice.layers == ("b",)
    assert choose(candidates, prices, 1.9) is None
    moved = choose(candidates, Prices({"a": 1.0, "b": 5.0}, {"a": 2.0}, no_fp16=frozenset({"a"})), 0.9)
    assert moved is not None
    assert (moved.layers, moved.gpu) == (("a",), ("a",))
