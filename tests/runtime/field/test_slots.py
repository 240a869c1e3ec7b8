"""Which frame is next: by priority, then by weight; the newest of each source; files wait."""

from __future__ import annotations

import collections
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.runtime.pipeline.slots import MOST_CREDIT, Share, Slots
from tests.amounts import examples


def served(slots, names, count):
    """What `count` takes give while every slot is filled again at once."""
    taken = collections.Counter()
    for name in names:
        slots.put(name, 0)
    for _ in range(count):
        name, _ = slots.take(0.0)
        taken[name] += 1
        slots.put(name, 0)
    return taken


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.5]), min_size=1, max_size=8))
def test_saturated_sources_are_served_by_their_weights(weights):
    names = [f"s{i}" for i in range(len(weights))]
    taken = served(Slots({n: Share(w) for n, w in zip(names, weights)}), names, 1000)
    for name, weight in zip(names, weights):
        # Stride scheduling is off by less than one frame of each other source.
        assert abs(taken[name] - 1000 * weight / sum(weights)) <= len(weights)


def test_a_higher_priority_is_served_first_regardless_of_weight():
    slots = Slots({"a": Share(10.0, 0), "b": Share(1.0, 1)})
    slots.put("a", 1)
    slots.put("b", 2)
    assert slots.take(0.0) == ("b", 2)
    assert slots.take(0.0) == ("a", 1)
    assert served(slots, ["a", "b"], 50) == {"b": 50}


def test_a_fast_source_replaces_its_own_frames_only():
    slots = Slots({"calm": Share(), "flood": Share()})
    slots.put("calm", "c")
    for i in range(1000):
        slots.put("flood", i)
    assert [slots.take(0.0), slots.take(0.0)] == [("calm", "c"), ("flood", 999)]
    assert (slots.dropped("calm"), slots.dropped("flood")) == (0, 999)
    assert slots.take(0.0) is None


def test_a_returning_source_gets_no_more_than_its_credit():
    slots = Slots({"a": Share(), "b": Share()})
    served(slots, ["a"], 10_000)
    slots.put("b", 0)
    run = 0
    while slots.take(0.0)[0] == "b":
        slots.put("b", 0)
        run += 1
    assert 1 <= run <= MOST_CREDIT + 1


def test_a_source_that_misses_turns_briefly_still_gets_its_share():
    """A camera's slot is empty just after it was served: with weight 3 it must come to three frames of four nevertheless."""
    slots, taken = Slots({"a": Share(3.0), "b": Share(1.0)}), collections.Counter()
    for tick in range(4000):
        slots.put("b", 0)
        if tick % 8 < 6:
            slots.put("a", 0)
        taken[slots.take(0.0)[0]] += 1
    assert taken["a"] == pytest.approx(3000, rel=0.02)


def test_a_file_source_blocks_until_its_frame_is_taken():
    slots, put = Slots({"f": Share()}), []

    def fill():
        for i in range(5):
            slots.put("f", i, wait=True)
            put.append(i)

    thread = threading.Thread(target=fill)
    thread.start()
    assert [slots.take(5.0)[1] for _ in range(5)] == list(range(5))
    thread.join(5)
    assert put == list(range(5))
    assert slots.dropped("f") == 0


def test_waiting_for_a_slot_ends_when_the_pipeline_does():
    slots = Slots({"f": Share()})
    slots.put("f", 0)
    slots.put("f", 1, wait=True, stopped=lambda: True)
    assert slots.take(0.0) == ("f", 0)
    assert slots.dropped("f") == 0


class Clock:
    """A clock that `wait` moves: what waits for a time gets there at once."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def with_clock(shares):
    clock = Clock()
    slots = Slots(shares, clock)

    def wait(timeout_s):
        clock.now_s += timeout_s
        return False

    slots._condition.wait = wait
    return slots, clock


def cameras_and_a_flood(slots, clock, upto_s, calm=("a", "b")):
    """Calm sources every 30 ms, taken at once; "flood" every ms, taken every 25 ms, so that it gets more than the others."""
    n = 0
    while clock.now_s < upto_s:
        n += 1
        clock.now_s += 0.001
        slots.put("flood", n)
        if n % 30 == 0:
            for name in calm:
                slots.put(name, n)
                while slots.take(0)[0] != name:
                    pass
        if n % 25 == 0:
            slots.put("flood", n)
            assert slots.take(0)[0] == "flood"


@pytest.mark.parametrize(
    ("after_s", "occupied_s", "waits_s"),
    [
        (0.005, 0.010, 0.0),  # the others are due in 25 ms
        (0.022, 0.010, 0.0155),  # they are due in 8 ms, and late by a quarter of 30 ms at most
        (0.022, 0.005, 0.0),
        (0.033, 0.010, 0.0045),  # they are late already
        (0.040, 0.010, 0.0),  # they do not come any more
        (0.022, 0.0, 0.0),
    ],
)
def test_a_frame_beyond_its_share_waits_for_expected_sources(after_s, occupied_s, waits_s):
    slots, clock = with_clock({n: Share() for n in ("a", "b", "flood")})
    cameras_and_a_flood(slots, clock, 100.9)
    clock.now_s += after_s
    slots.put("flood", 1)
    slots.put("flood", 2)
    began_s = clock.now_s
    assert slots.take(1.0, occupied_s)[0] == "flood"
    assert clock.now_s - began_s == pytest.approx(waits_s, abs=2e-3)


def test_a_source_with_no_more_than_its_share_does_not_wait():
    slots, clock = with_clock({"a": Share(), "flood": Share(100.0)})
    cameras_and_a_flood(slots, clock, 100.9, calm=("a",))
    clock.now_s += 0.022
    slots.put("flood", 1)
    slots.put("flood", 2)
    began_s = clock.now_s
    assert slots.take(1.0, 0.02)[0] == "flood"
    assert clock.now_s == began_s


def test_waiting_for_expected_sources_ends_at_the_timeout():
    slots, clock = with_clock({n: Share() for n in ("a", "b", "flood")})
    cameras_and_a_flood(slots, clock, 100.9)
    clock.now_s += 0.022
    slots.put("flood", 1)
    slots.put("flood", 2)
    assert slots.take(0.002, 0.02) is None
    assert slots.waiting("flood"), "it is not lost"


def test_no_one_waits_for_a_source_that_floods():
    """Two floods: one of them is due soon, yet gives more than its share too."""
    slots, clock = with_clock({n: Share() for n in ("other", "flood")})
    n = 0
    while clock.now_s < 100.9:
        n += 1
        clock.now_s += 0.001
        slots.put("flood", n)
        if n % 30 == 0:
            slots.put("other", n)
        if n % 60 == 0:
            while slots.take(0)[0] != "other":
                pass
    clock.now_s += 0.022
    slots.put("flood", 1)
    slots.put("flood", 2)
    began_s = clock.now_s
    for _ in range(4):
        assert slots.take(1.0, 0.02) is not None
        slots.put("flood", 3)
        slots.put("flood", 4)
    assert clock.now_s == began_s


def test_a_source_admitted_later_begins_with_an_equal_share():
    slots = Slots({"a": Share()})
    served(slots, ["a"], 1000)
    slots.admit("b", Share())
    assert served(slots, ["a", "b"], 10) == {"a": 5, "b": 5}
