"""When a pool has room for another inference: frames taken too early grow old."""

from __future__ import annotations

import contextlib
import threading
import time
import types

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.pipeline import pool as pool_module
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.runners import member as member_module
from edgedla.runtime.runners.base import Ticket
from edgedla.runtime.runners.member import InferenceLost
from edgedla.runtime.sources import open_source
from tests.runtime.fake_runner import FakeRunner
from tests.runtime.one_model import single
from tests.runtime.waiting import until

GEOMETRY = Geometry.fit((48, 64), (48, 64))


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
    with contextlib.closing(Pool([runner])) as pool:
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
    assert tuple(r["runner"] for r in pool.to_dict() if r["in_use"]) == ("GPU",)
    assert "DLA0 is taken out after 1 failure: the core does not answer" in caplog.text
    with pytest.raises(RunError, match="does not answer"):
        Pool([Slow("DLA0", clock, refuses=True)]).warm_up({})


def failing(*bad):
    """Fails in the calls of these numbers, from 1."""
    calls = [0]

    def compute(inputs):
        calls[0] += 1
        if calls[0] in bad:
            raise RunError("out of memory")
        return {"y": inputs["x"]}

    return compute


def take(pool):
    assert pool.submit({"x": np.zeros(1)}, timeout_s=0.5)
    return pool.collect(1.0).runner


def test_a_runner_that_failed_once_is_tried_again_and_comes_back(monkeypatch, caplog):
    """For ever out of use after one failure: two cores would recover worse than one, which a restart brings back."""
    pool = Pool([FakeRunner((), 0.0, failing(2, 3), name="DLA0"), FakeRunner((), 0.0, failing(), name="DLA1")])
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(member_module, "time", clock)
    monkeypatch.setattr(pool_module, "time", clock)
    seen = [take(pool)]
    in_use = {}
    for second in range(90):
        now[0] = float(second)
        seen.append(take(pool))
        in_use[second] = pool.to_dict()[0]["in_use"]
    # Out at once, tried at 10 s and out again, back at 70 s.
    out = [second for second, used in in_use.items() if not used]
    assert out == list(range(out[0], out[0] + 70))
    assert "DLA0" in seen[-10:]
    assert caplog.text.count("DLA0 is taken out") == 2
    assert caplog.text.count("DLA0 works again") == 1


@pytest.mark.parametrize(("worked", "left", "lost"), [(True, 3, True), (True, 0, False), (False, 3, False)])
def test_the_only_runner_is_tried_again_if_it_worked_and_not_for_ever(worked, left, lost):
    pool = Pool([FakeRunner((), 0.0, failing(1, 2), name="GPU")])
    [member] = pool._members
    member.worked, member.outs = worked, 3 - left
    assert pool.submit({"x": np.zeros(1)})
    with pytest.raises(RunError, match="out of memory") as e:
        pool.collect(1.0)
    assert isinstance(e.value, InferenceLost) == lost
    if not lost:
        with pytest.raises(RunError, match="every runner failed"):
            pool.submit({"x": np.zeros(1)}, timeout_s=0.1)
        return
    assert not pool.submit({"x": np.zeros(1)}, timeout_s=0.1), "not before it is due"
    assert not pool.await_room(0.0, 0.05), "no frame is taken to wait for the trial"
    member.again_s = 0.0
    assert pool.await_room(0.0, 0.05)


def test_a_runner_that_hangs_is_not_tried_again_while_it_hangs():
    held = threading.Event()

    def hang(inputs):
        held.wait(10)
        return {"y": inputs["x"]}

    pool = Pool([FakeRunner((), 0.0, hang, name="DLA0"), FakeRunner((), 0.0, failing(), name="DLA1")], timeout_s=0.1)
    assert {take(pool), take(pool)} == {"DLA1"}
    [hung, _] = pool._members
    hung.again_s = 0.0
    assert take(pool) == "DLA1"
    held.set()
    assert until(lambda: hung.hung.done())
    assert take(pool) == "DLA0"


def test_the_only_runner_that_hangs_ends_the_run():
    """Only a new process frees a driver; to wait for ever would look like a camera without frames."""
    held = threading.Event()
    pool = Pool([FakeRunner((), 0.0, lambda inputs: held.wait(10) and inputs, name="GPU")], timeout_s=0.1)
    pool._members[0].worked = True
    assert pool.submit({"x": np.zeros(1)})
    with pytest.raises(RunError, match="no result within") as e:
        pool.collect(1.0)
    assert not isinstance(e.value, InferenceLost)
    held.set()


def test_a_camera_goes_on_after_a_lost_inference_and_a_film_does_not(monkeypatch):
    monkeypatch.setattr(member_module, "TRY_AGAIN_S", (0.2, 0.2))
    for source, ends in (
        ("synthetic://?width=64&height=48&rate=40&frames=40", False),
        ("synthetic://?width=64&height=48&frames=40", True),
    ):
        capture = Capture(lambda source=source: open_source(source))
        pool = Pool([FakeRunner((), 0.0, failing(5, 6), name="GPU")])
        opened = single(capture, lambda image: ({"x": image}, GEOMETRY), pool, lambda b, g: [])
        if ends:
            with pytest.raises(RunError, match="out of memory"):
                opened.run()
            continue
        summary = opened.run()
        assert summary["frames"]["lost"] == 2
        assert summary["frames"]["results"] > 5
