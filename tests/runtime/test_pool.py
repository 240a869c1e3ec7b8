"""When a pool has room for another inference: frames taken too early grow old."""

from __future__ import annotations

import time

import pytest

from edgedla.errors import RunError
from edgedla.runtime.pipeline import pool as pool_module
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.runners.base import Ticket


class Held:
    """A runner whose inferences end when the test says."""

    simulated = True

    def __init__(self, name):
        self.name, self.tickets = name, []

    def submit(self, inputs):
        self.tickets.append(Ticket())
        return self.tickets[-1]

    def wait(self, ticket, timeout_s):
        return ticket.result(timeout_s)

    def close(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    """The pool's time, in seconds; the test moves it."""
    now = [1000.0]

    class Time:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(pool_module, "time", Time)
    return now


def ran(pool, runners, clock, seconds):
    """One inference of `seconds` on each runner."""
    for _ in runners:
        assert pool.submit({})
    clock[0] += seconds
    for runner in runners:
        runner.tickets.pop().set_result({})
        assert pool.collect(0) is not None


def test_await_room_returns_the_lead_before_the_mean_inference_ends(clock):
    runner = Held("DLA0")
    pool = Pool([runner])
    assert pool.await_room(0.0, 0.0), "it is free"
    assert pool.submit({})
    assert pool.await_room(0.0, 0.0), "nothing is known of its time"
    clock[0] += 0.02
    runner.tickets.pop().set_result({})
    assert pool.collect(0) is not None
    assert pool.turn_s == pytest.approx(0.02)
    assert pool.submit({})
    assert not pool.await_room(0.001, 0.0)
    clock[0] += 0.0185
    assert not pool.await_room(0.001, 0.0)
    clock[0] += 0.001
    assert pool.await_room(0.001, 0.0)
    clock[0] += 1.0
    assert pool.await_room(0.0, 0.0), "longer than the mean: it may end at any time"


def test_await_room_follows_the_runner_that_ends_first(clock):
    fast, slow = Held("DLA0"), Held("GPU")
    pool = Pool([fast, slow])
    ran(pool, [fast, slow], clock, 0.02)
    assert pool.turn_s == pytest.approx(0.01)
    assert pool.submit({})
    clock[0] += 0.015
    assert pool.submit({})
    assert not pool.await_room(0.001, 0.0)
    assert pool.await_room(0.006, 0.0)


def test_a_collected_inference_frees_its_room_at_once():
    runner = Held("DLA0")
    with Pool([runner]) as pool:
        assert pool.turn_s == 0.0
        assert pool.submit({})
        runner.tickets.pop().set_result({})
        time.sleep(0.01)
        assert pool.collect(1) is not None
        assert pool.await_room(0.0, 0.0)


class Slow(Held):
    """Its first inference takes half a second of the pool's clock; `refuses` fails all."""

    def __init__(self, name, clock, refuses=False):
        super().__init__(name)
        self.clock, self.refuses, self.seen = clock, refuses, []

    def submit(self, inputs):
        self.seen.append(inputs)
        ticket = Ticket()
        if self.refuses:
            ticket.set_exception(RunError("the core does not answer"))
            return ticket
        self.clock[0] += 0.5 if len(self.seen) == 1 else 0.01
        ticket.set_result({})
        return ticket


def test_warm_up_runs_each_member_once_and_counts_no_time_of_it(clock):
    runners = [Slow("DLA0", clock), Slow("DLA1", clock)]
    pool = Pool(runners)
    pool.warm_up({"images": b"zeros"})
    assert [r.seen for r in runners] == [[{"images": b"zeros"}]] * 2
    assert [m["inference"]["count"] for m in pool.to_dict()] == [0, 0]
    assert pool.turn_s == 0.0, "the slow first inference is no member's time"
    assert pool.submit({})
    assert pool.collect(0).inference_ms == pytest.approx(10)


def test_warm_up_takes_out_a_core_that_fails_before_the_first_frame(clock, caplog):
    pool = Pool([Slow("DLA0", clock, refuses=True), Slow("GPU", clock)])
    pool.warm_up({})
    assert pool.members == ("GPU",)
    assert "DLA0 is taken out after 1 failure: the core does not answer" in caplog.text
    with pytest.raises(RunError, match="does not answer"):
        Pool([Slow("DLA0", clock, refuses=True)]).warm_up({})
