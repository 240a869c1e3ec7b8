"""Chains: order, frames in parallel in the stages, tensors passed on and released, and stages that raise, hang or never open."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime import runners as runners_module
from edgedla.runtime.measure.timing import BenchOptions, time_runner
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.runners.chain import ChainRunner
from edgedla.runtime.runners.cuda_base import CudaRunner
from tests.amounts import examples
from tests.runtime.fake_runner import FakeRunner, fake_chain
from tests.runtime.runtime_chains import SIZE, artifact, binding, chain, frame, passing, straight

WAIT_S = 20.0


def counting(built, **computes):
    """A fake chain whose stages add one; keywords `s0`, `s1` replace a stage's compute."""
    given = [
        computes.get(f"s{k}") or passing(([b.name for b in s.artifact.inputs], [b.name for b in s.artifact.outputs]))
        for k, s in enumerate(built.stages)
    ]
    return fake_chain(built, [0.0] * len(built.stages), given)


def test_a_chain_is_one_runner_with_the_names_of_its_devices():
    with counting(straight("DLA0", "GPU", "DLA1")) as runner:
        assert runner.name == "DLA0+GPU+DLA1"
        assert runner.simulated
        assert runner.stage_count == 3
        assert [b.name for b in runner.bindings] == ["x", "y"]
        assert (runner.wait(runner.submit(frame(7)), WAIT_S)["y"] == 10).all()


def test_order_is_kept_under_load_from_stages_that_take_different_times():
    rng = np.random.default_rng(0)
    waits = {0: rng.random(200) * 2e-3, 1: rng.random(200) * 2e-3}
    count = {0: 0, 1: 0}
    ended = []

    def jittery(stage):
        add = passing((["x"], ["t1"]) if stage == 0 else (["t1"], ["y"]))

        def compute(inputs):
            time.sleep(waits[stage][count[stage]])
            count[stage] += 1
            return add(inputs)

        return compute

    with counting(straight("DLA0", "DLA1"), s0=jittery(0), s1=jittery(1)) as runner:
        tickets = []
        for i in range(200):
            tickets.append(runner.submit(frame(i)))
            tickets[-1].add_done_callback(lambda _, i=i: ended.append(i))
        for i, ticket in enumerate(tickets):
            assert (runner.wait(ticket, WAIT_S)["y"] == i % 200 + 2).all(), "a result belongs to another frame"
    assert ended == list(range(200))


def test_frames_from_several_threads_pass_the_stages_in_one_order():
    seen = {"t1": [], "y": []}

    def noting(name, source):
        def compute(inputs):
            seen[name].append(int(inputs[source][0]))
            return {name: inputs[source]}

        return compute

    with counting(straight("DLA0", "DLA1"), s0=noting("t1", "x"), s1=noting("y", "t1")) as runner:
        threads = [threading.Thread(target=lambda k=k: [runner.submit(frame(k * 40 + i)) for i in range(40)]) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert seen["t1"] == seen["y"]
    assert sorted(seen["y"]) == list(range(160))


def test_stages_of_a_chain_work_on_different_frames_concurrently():
    # Both stages wait for each other: frame n in the second one while frame n + 1 is in the first. Without a pipeline
    # nobody would ever come.
    meeting = threading.Barrier(2)
    add = passing((["x"], ["t1"])), passing((["t1"], ["y"]))
    frames = 5

    def first(inputs):
        if inputs["x"][0] > 0:
            meeting.wait(WAIT_S)
        return add[0](inputs)

    def second(inputs):
        if inputs["t1"][0] < frames:
            meeting.wait(WAIT_S)
        return add[1](inputs)

    with counting(straight("DLA0", "DLA1"), s0=first, s1=second) as runner:
        tickets = [runner.submit(frame(i)) for i in range(frames)]
        assert [int(runner.wait(t, WAIT_S)["y"][0]) for t in tickets] == [i + 2 for i in range(frames)]


def test_chain_throughput_is_the_slowest_stages_and_latency_the_sum():
    times_ms = (20.0, 30.0, 10.0)
    with fake_chain(straight("DLA0", "DLA1", "GPU"), times_ms) as runner:
        result = time_runner(runner, frame(0), BenchOptions(warm_up_ms=0, iterations=20, duration_s=0))
    # Sleeping overshoots, and a loaded machine holds threads back: generous upwards, exact downwards.
    assert 57.0 <= result.mean_ms < 90.0
    assert result.in_flight == 1
    period_ms = 1e3 / result.pipelined.throughput_qps
    assert 28.0 <= period_ms < 45.0, "frames do not overlap"
    assert result.pipelined.in_flight == 3
    for stage, ms in zip(result.stages, times_ms):
        assert ms * 0.9 <= stage["inference"]["mean_ms"] < ms + 15
        assert stage["inference"]["count"] == result.count, "stage times hold the warm-up or the pipelined run"
    document = result.to_dict()
    assert document["pipelined"]["in_flight"] == 3
    assert [s["device"] for s in document["stages"]] == ["DLA0", "DLA1", "GPU"]


def test_a_fake_runner_takes_its_time_after_idling():
    with FakeRunner((), 30.0, lambda i: i) as runner:
        for _ in range(2):
            started = time.monotonic()
            runner.wait(runner.submit({}), WAIT_S)
            assert time.monotonic() - started >= 0.02
            time.sleep(0.05)


def skips():
    """x and t1 are read again by the third stage; u is an output of the network that a later stage reads; z nobody reads."""
    return chain(
        ["DLA0", "DLA1", "DLA0"],
        [(["x"], ["t1", "z"]), (["t1"], ["t2", "u"]), (["t2", "t1", "u", "x"], ["y"])],
        outputs=("y", "u"),
    )


def test_tensors_skip_stages_and_outputs_come_from_any_stage():
    with counting(skips()) as runner:
        found = runner.wait(runner.submit(frame(1)), WAIT_S)
    # t1 = z = 2, t2 = u = 3, y = t2 + t1 + u + x + 1
    assert {n: int(a[0]) for n, a in found.items()} == {"u": 3, "y": 10}


def test_tensors_that_no_later_stage_reads_are_released():
    alive, at, go = {}, threading.Event(), threading.Event()
    built = chain(
        ["DLA0", "DLA1", "DLA0", "DLA1"], [(["x"], ["t1", "z"]), (["t1"], ["t2"]), (["t2"], ["t3"]), (["t3", "t1"], ["y"])]
    )

    def remembering(wires):
        inner = passing(wires)

        def compute(inputs):
            out = {name: a.copy() for name, a in inner(inputs).items()}
            alive.update({name: weakref.ref(a) for name, a in out.items()})
            return out

        return compute

    def last(inputs):
        at.set()
        go.wait(WAIT_S)
        return passing((["t3", "t1"], ["y"]))(inputs)

    with counting(
        built, s0=remembering((["x"], ["t1", "z"])), s1=remembering((["t1"], ["t2"])), s2=remembering((["t2"], ["t3"])), s3=last
    ) as runner:
        given = frame(0)
        alive["x"] = weakref.ref(given["x"])
        ticket = runner.submit(given)
        del given
        assert at.wait(WAIT_S)
        # The stages' threads drop their last call's references a moment after the hand-over.
        end = time.monotonic() + WAIT_S
        while any(alive[n]() is not None for n in ("x", "z", "t2")) and time.monotonic() < end:
            time.sleep(0.005)
        assert {n for n, ref in alive.items() if ref() is not None} == {"t1", "t3"}
        go.set()
        runner.wait(ticket, WAIT_S)


def test_a_stage_that_raises_fails_its_frame_alone_and_is_named():
    def fails(inputs):
        if inputs["t1"][0] == 3:
            raise OSError("bad tensor")
        return {"y": inputs["t1"]}

    with counting(straight("DLA0", "DLA1"), s1=fails) as runner:
        tickets = [runner.submit(frame(i)) for i in range(6)]
        for i, ticket in enumerate(tickets):
            if i == 2:
                with pytest.raises(RunError, match=r"DLA0\+DLA1, stage 1 \(DLA1\).*bad tensor"):
                    runner.wait(ticket, WAIT_S)
            else:
                assert runner.wait(ticket, WAIT_S)["y"][0] == i + 1


@pytest.mark.parametrize(("stage", "says"), [(0, "stage 0 .DLA0.*gave no t1"), (1, "stage 1 .DLA1.*gave no y")])
def test_a_stage_that_forgets_an_output_fails_the_frame(stage, says):
    empty = {f"s{stage}": lambda inputs: {}}
    with counting(straight("DLA0", "DLA1"), **empty) as runner, pytest.raises(RunError, match=says):
        runner.wait(runner.submit(frame(0)), WAIT_S)


def test_a_stage_that_ends_the_thread_fails_the_frame():
    def leaves(inputs):
        raise SystemExit(3)

    with counting(straight("DLA0", "DLA1"), s0=leaves) as runner, pytest.raises(RunError, match="SystemExit"):
        runner.wait(runner.submit(frame(0)), WAIT_S)


def test_a_missing_input_is_named():
    with counting(straight("DLA0", "DLA1")) as runner, pytest.raises(RunError, match="the input x is missing"):
        runner.wait(runner.submit({"w": np.zeros(SIZE, np.uint8)}), WAIT_S)


def test_waiting_for_a_chain_ends_at_the_timeout():
    go = threading.Event()
    with counting(straight("DLA0", "DLA1"), s1=lambda i: go.wait(WAIT_S) and {"y": i["t1"]}) as runner:
        ticket = runner.submit(frame(0))
        with pytest.raises(RunError, match=r"DLA0\+DLA1: no result within 0.05 s"):
            runner.wait(ticket, 0.05)
        go.set()
        assert runner.wait(ticket, WAIT_S)["y"][0] == 1


def test_close_finishes_the_frames_in_flight():
    runner = fake_chain(straight("DLA0", "DLA1"), [10.0, 20.0])
    tickets = [runner.submit(frame(i)) for i in range(4)]
    runner.close()
    assert all(t.done() and t.exception() is None for t in tickets)
    assert all(s.runner._closed for s in runner._stages)
    with pytest.raises(RunError, match="the runner is closed"):
        runner.submit(frame(0))
    runner.close()


@pytest.mark.parametrize("stage", [0, 1])
def test_a_stage_that_hangs_does_not_hold_up_close(stage, caplog):
    go, entered = threading.Event(), threading.Event()

    def hangs(inputs):
        entered.set()
        go.wait(120)
        return {"t1" if stage == 0 else "y": np.zeros(SIZE, np.uint8)}

    runner = counting(straight("DLA0", "DLA1"), **{f"s{stage}": hangs})
    runner.close_timeout_s = 0.3
    tickets = [runner.submit(frame(i)) for i in range(2)]
    assert entered.wait(WAIT_S)
    started = time.monotonic()
    runner.close()
    assert time.monotonic() - started < 60
    assert f"DLA{stage} hangs" in caplog.text
    for t in tickets:
        with pytest.raises(RunError, match=f"stage {stage}.*closed while the inference hung"):
            runner.wait(t, 0)
    # What comes back late ends nowhere, and breaks nothing.
    go.set()
    for s in runner._stages:
        s.runner._worker._thread.join(WAIT_S)
        assert not s.runner._worker._thread.is_alive()


def test_stages_opened_before_a_failing_one_are_closed(monkeypatch):
    made = []

    def open_one(artifact, name):
        if name == "DLA1":
            raise EnvironmentMissing("DLA core 1 is not here")
        made.append(FakeRunner(artifact.bindings, name=name))
        return made[-1]

    monkeypatch.setattr(runners_module, "_open_one", open_one)
    with pytest.raises(EnvironmentMissing, match="core 1"):
        runners_module.open_runners(straight("DLA0", "DLA1"))
    assert [r._closed for r in made] == [True]


def test_stages_that_do_not_fit_are_refused_and_their_runners_closed(monkeypatch):
    made = []

    def open_one(artifact, name):
        made.append(FakeRunner(artifact.bindings, name=name))
        return made[-1]

    monkeypatch.setattr(runners_module, "_open_one", open_one)
    cases = [
        (chain(["DLA0", "DLA1"], [(["x"], ["t"]), (["u"], ["y"])]), "stage 1 .DLA1. reads u"),
        (chain(["DLA0", "DLA1"], [(["t"], ["u"]), (["x"], ["t", "y"])]), "stage 0 .DLA0. reads t"),
        (chain(["DLA0"], [(["x"], ["t"])]), "no stage gives the output y"),
        (artifact(["x"], ["x"], kind="chain"), "0 runners for 0 stages"),
    ]
    for built, says in cases:
        with pytest.raises(RunError, match=says):
            runners_module.open_runners(built)
    assert made
    assert all(r._closed for r in made)


def test_stages_that_share_a_core_are_logged(caplog):
    caplog.set_level("INFO", "edgedla.runtime.chain")
    with counting(straight("DLA0", "DLA1", "DLA0")) as runner:
        assert [s["shares_device"] for s in runner.stages()] == [True, False, True]
    assert "2 stages share DLA0" in caplog.text


class Proved(FakeRunner):
    core_proved = True


def test_each_stage_reports_whether_its_core_was_proved():
    built = straight("DLA0", "DLA1")
    stages = [
        Proved(s.artifact.bindings, name=s.device) if k else FakeRunner(s.artifact.bindings, name=s.device)
        for k, s in enumerate(built.stages)
    ]
    with contextlib.closing(Pool([ChainRunner(built, stages)])) as pool:
        assert [s["core_proved"] for s in pool.to_dict()[0]["stages"]] == [None, True]


@st.composite
def random_chains(draw):
    """Stages that read any network input and any output before them; the network's outputs are any of what they give."""
    inputs = [f"x{i}" for i in range(draw(st.integers(1, 3)))]
    known, wires = list(inputs), []
    for k in range(draw(st.integers(1, 5))):
        reads = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
        gives = [f"t{k}_{i}" for i in range(draw(st.integers(1, 3)))]
        wires.append((reads, gives))
        known += gives
    made = [n for n in known if n not in inputs]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique=True))
    devices = draw(st.lists(st.sampled_from(["GPU", "DLA0", "DLA1"]), min_size=len(wires), max_size=len(wires)))
    return chain(devices, wires, inputs, outputs), wires


@settings(max_examples=examples(60), deadline=None)
@given(random_chains(), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_a_random_chain_equals_its_stages_run_in_turn(made, frames, seed):
    built, wires = made
    rng = np.random.default_rng(seed)
    # Another function in each stage: outputs that were mixed up would show.
    computes = [passing(w, lambda a, k=k: a * np.uint8(2 * k + 1) + np.uint8(k)) for k, w in enumerate(wires)]
    inputs = [{b.name: rng.integers(0, 256, SIZE, np.uint8) for b in built.inputs} for _ in range(frames)]
    with fake_chain(built, [0.0] * len(wires), computes) as runner:
        tickets = [runner.submit(i) for i in inputs]
        found = [runner.wait(t, WAIT_S) for t in tickets]
    for given_inputs, outputs in zip(inputs, found):
        tensors = dict(given_inputs)
        for compute in computes:
            tensors.update(compute(tensors))
        assert set(outputs) == {b.name for b in built.outputs}
        for name, array in outputs.items():
            assert np.array_equal(array, tensors[name])


class OnCuda(CudaRunner):
    """A runner on CUDA whose engine adds one to the sum of its inputs, byte by byte, at the addresses that it is given."""

    fail = False

    def _start(self):
        self.read, self.wrote = [], []

    def _enqueue(self, pointers):
        if self.fail:
            raise RunError("the device is gone")
        import ctypes

        at = {n: np.ctypeslib.as_array((ctypes.c_uint8 * SIZE).from_address(p)) for n, p in pointers.items()}
        total = sum(at[b.name] for b in self.bindings if b.is_input)
        for b in self.bindings:
            if not b.is_input:
                at[b.name][:] = total + 1
        self.read.append({b.name: pointers[b.name] for b in self.bindings if b.is_input})
        self.wrote.append({b.name: pointers[b.name] for b in self.bindings if not b.is_input})


def on_cuda(built, host_memory):
    memories = [host_memory() for _ in built.stages]
    stages = [OnCuda(s.artifact, s.device, lambda m=m: m) for s, m in zip(built.stages, memories)]
    return ChainRunner(built, stages), stages, memories


def test_between_cuda_stages_buffers_are_reused_without_copies(host_memory):
    runner, stages, memories = on_cuda(skips(), host_memory)
    with runner:
        for i in range(30):
            tickets = [runner.submit(frame(i + k)) for k in range(3)]
            for k, t in enumerate(tickets):
                assert {n: int(a[0]) for n, a in runner.wait(t, WAIT_S).items()} == {"u": i + k + 2, "y": (i + k) * 4 + 6}
        assert [s["hands_over"] for s in runner.stages()] == [{"t1": "device"}, {"t2": "device", "u": "host"}, {}]
        for n in range(90):
            assert stages[1].read[n]["t1"] == stages[0].wrote[n]["t1"] == stages[2].read[n]["t1"]
            assert stages[2].read[n]["t2"] == stages[1].wrote[n]["t2"]
            # u is an output of the network too: the caller keeps a copy.
            assert stages[2].read[n]["u"] != stages[1].wrote[n]["u"]
        # x, t1 and z of the first stage, and t1 again for the other frames in flight.
        assert memories[0].made <= 3 + 3
        assert len({w["t1"] for w in stages[0].wrote}) <= 4
    assert [m.made - m.freed for m in memories] == [0, 0, 0]
    assert [m.depth for m in memories] == [0, 0, 0]


def test_a_kept_buffer_is_not_written_again_while_a_later_stage_reads_it(host_memory):
    runner, stages, _ = on_cuda(straight("DLA0", "DLA1"), host_memory)
    inside, go = threading.Event(), threading.Event()
    enqueue = stages[1]._enqueue

    def slow(pointers):
        inside.set()
        go.wait(WAIT_S)
        enqueue(pointers)

    stages[1]._enqueue = slow
    with runner:
        tickets = [runner.submit(frame(i)) for i in range(3)]
        assert inside.wait(WAIT_S)
        end = time.monotonic() + WAIT_S
        while len(stages[0].wrote) < 3 and time.monotonic() < end:
            time.sleep(0.005)
        assert len({w["t1"] for w in stages[0].wrote}) == 3
        go.set()
        assert [int(runner.wait(t, WAIT_S)["y"][0]) for t in tickets] == [2, 3, 4]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_frame_that_fails_gives_its_buffers_back(host_memory, failing):
    runner, stages, memories = on_cuda(straight("DLA0", "DLA1"), host_memory)
    with runner:
        for i in range(40):
            stages[failing].fail = i % 2 == 0
            ticket = runner.submit(frame(i))
            if i % 2 == 0:
                with pytest.raises(RunError, match="the device is gone"):
                    runner.wait(ticket, WAIT_S)
            else:
                assert runner.wait(ticket, WAIT_S)["y"][0] == i + 2
        assert not stages[0]._lent
        assert memories[0].made <= 3
    assert [m.made - m.freed for m in memories] == [0, 0]


def test_a_buffer_that_a_hung_stage_reads_is_not_freed(host_memory):
    runner, stages, memories = on_cuda(straight("DLA0", "DLA1"), host_memory)
    inside, go = threading.Event(), threading.Event()

    def hangs(pointers):
        inside.set()
        go.wait(120)

    stages[1]._enqueue = hangs
    runner.close_timeout_s = 0.2
    runner.submit(frame(0))
    assert inside.wait(WAIT_S)
    runner.close()
    assert memories[0].made - memories[0].freed == 1
    go.set()
    stages[1]._worker._thread.join(WAIT_S)


def test_tensors_between_cuda_and_another_runner_are_copied(host_memory):
    built = straight("GPU", "DLA0", "DLA1")
    other = FakeRunner(built.stages[1].artifact.bindings, 0.0, passing((["t1"], ["t2"])), "DLA0")
    first, last = (OnCuda(built.stages[k].artifact, built.stages[k].device, host_memory) for k in (0, 2))
    with ChainRunner(built, [first, other, last]) as runner:
        assert runner.wait(runner.submit(frame(1)), WAIT_S)["y"][0] == 4
        assert [s["hands_over"] for s in runner.stages()] == [{"t1": "host"}, {"t2": "host"}, {}]


class Slowly:
    """A runner of the bare protocol: tickets end when the test says so."""

    name, simulated, depth = "GPU", True, 1
    bindings = (binding("x", True), binding("y", False))

    def __init__(self):
        self.tickets = []

    def submit(self, inputs):
        self.tickets.append(Future())
        return self.tickets[-1]

    def wait(self, ticket, timeout_s=None):
        return ticket.result(timeout_s)

    def close(self):
        """Nothing to close."""


def test_the_pool_submits_one_inference_per_stage_to_a_chain():
    go = threading.Event()
    held = counting(straight("DLA0", "DLA1"), s0=lambda i: go.wait(WAIT_S) and {"t1": i["x"]})
    other = Slowly()
    with contextlib.closing(Pool([held, other])) as pool:
        assert pool.capacity == 3
        assert [pool.submit(frame(i), i, 0) for i in range(4)] == [True, True, True, False]
        assert len(other.tickets) == 1
        go.set()
        other.tickets[0].set_result({"y": np.zeros(SIZE, np.uint8)})
        assert [pool.collect(WAIT_S).tag for _ in range(3)] == [0, 1, 2]
    with contextlib.closing(Pool([fake_chain(straight("DLA0", "DLA1", "GPU"), [0, 0, 0])], depth=2)) as pool:
        assert pool.capacity == 6


def test_inference_time_lasts_from_entering_a_runner_to_leaving_it():
    single = Slowly()
    stages = Slowly(), Slowly()
    runner = ChainRunner(straight("DLA0", "DLA1"), stages)
    with contextlib.closing(Pool([runner])) as pool:
        for i in range(2):
            pool.submit(frame(i), i)
        time.sleep(0.1)
        stages[0].tickets[0].set_result({"t1": frame(0)["x"]})
        stages[1].tickets[0].set_result({"y": frame(0)["x"]})
        stages[0].tickets[1].set_result({"t1": frame(0)["x"]})
        time.sleep(0.1)
        stages[1].tickets[1].set_result({"y": frame(0)["x"]})
        # Collected late: the wait for the collector is no part of it.
        time.sleep(0.5)
        times = [pool.collect(WAIT_S).inference_ms for _ in range(2)]
    assert 100 <= times[0] < 500
    assert 200 <= times[1] < 600, "a chain's second frame entered before the first one left"
    with contextlib.closing(Pool([single], depth=2)) as pool:
        for i in range(2):
            pool.submit(frame(i), i)
        time.sleep(0.1)
        single.tickets[0].set_result({})
        time.sleep(0.1)
        single.tickets[1].set_result({})
        time.sleep(0.5)
        times = [pool.collect(WAIT_S).inference_ms for _ in range(2)]
    assert 100 <= times[0] < 500
    assert 100 <= times[1] < 500


def test_a_failing_chain_is_removed_and_another_runner_continues(caplog):
    def fails(inputs):
        if inputs["t1"][0] > 5:
            raise OSError("core 1 is gone")
        return {"y": inputs["t1"]}

    broken = counting(straight("DLA0", "DLA1"), s1=fails)
    gpu = FakeRunner((), 1.0, lambda i: {"y": i["x"] + 1}, "GPU")
    found = []
    with contextlib.closing(Pool([broken, gpu])) as pool:
        feeder = threading.Thread(target=lambda: [pool.submit(frame(i), i) for i in range(30)])
        feeder.start()
        while len(found) < 30:
            done = pool.collect(WAIT_S)
            assert done.outputs["y"][0] == done.tag + 1
            found.append(done.tag)
        feeder.join()
        assert tuple(r["runner"] for r in pool.to_dict() if r["in_use"]) == ("GPU",)
    assert found == list(range(30))
    assert "DLA0+DLA1 is taken out" in caplog.text
