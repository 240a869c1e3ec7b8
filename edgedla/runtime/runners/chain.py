"""A chain: one network over several devices, with one engine per stage; all stages work at once, on different frames."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import RunError
from edgedla.runtime.runners.base import Runner, Ticket, close_side_by_side, inference_error, result_of
from edgedla.runtime.runners.cuda_base import CudaRunner
from edgedla.runtime.stats import Latency

log = logging.getLogger("edgedla.runtime.chain")


@dataclass
class _Stage:
    """One stage of a running chain.

    Attributes:
        reads, gives: input tensors, and those outputs that are needed.
        done_with: tensors that no later stage reads and that are not outputs of the network.
        kept: those of `gives` that stay in the device's memory until they are read.
        left_s: when the last frame left the stage.
    """

    device: str
    runner: Runner
    reads: Tuple[str, ...]
    gives: Tuple[str, ...]
    done_with: Tuple[str, ...] = ()
    kept: FrozenSet[str] = frozenset()
    latency: Latency = field(default_factory=Latency)
    left_s: float = 0.0


@dataclass(eq=False)
class _Frame:
    ticket: Ticket
    tensors: Dict[str, np.ndarray]
    stage: int = 0


class ChainRunner:
    """Runs a chain's stages one after the other for each frame, and in parallel for the frames in flight.

    `submit` puts a frame into the first stage; each stage's own thread passes its outputs to the next stage and takes the next
    frame. Frames keep their order. If a stage fails, only that frame's ticket fails.

    A tensor between two stages on CUDA (TensorRT or cuDLA) stays in the memory where the first stage wrote it, and the second
    reads it at its address: nothing is copied, neither on a Jetson nor over a bus. Two kinds are copied through host memory
    nevertheless: a tensor that is also an output of the network, and one to or from a runner that is not on CUDA. `stages()`
    tells which tensors are copied. The host waits for a stage before it queues the next one; devices do not signal each other.

    Stages on the same core share it: each has its own engine and thread, and the core runs them in turn. The same holds for the
    GPU parts of hybrid engines.

    Args:
        artifact: of kind "chain".
        runners: one per stage, in order. The chain closes them.

    Raises:
        RunError: the stages do not fit together.
    """

    #: Seconds that `close` gives the frames in flight and the runners together.
    close_timeout_s = 5.0

    def __init__(self, artifact: Artifact, runners: Sequence[Runner]) -> None:
        self.name = chain_name(artifact)
        self.bindings = artifact.bindings
        self.simulated = artifact.simulated or any(r.simulated for r in runners)
        self.depth = sum(r.depth for r in runners)
        self._stages = _connected(artifact, runners)
        self._lender = {name: s.runner for s in self._stages for name in s.kept}
        # Held while a frame enters, so that frames from several threads pass all stages in one order.
        self._entry = threading.RLock()
        self._changed = threading.Condition()
        self._under_way: Set[_Frame] = set()
        self._closed = False
        for device in sorted({s.device for s in self._stages}):
            n = sum(s.device == device for s in self._stages)
            if n > 1:
                log.info("%s: %d stages share %s: frames in flight wait for each other there", self.name, n, device)

    @property
    def stage_count(self) -> int:
        """Number of frames in flight with one in each stage."""
        return len(self._stages)

    @property
    def runners(self) -> Tuple[Runner, ...]:
        """The stages' runners, in order; the chain still owns them."""
        return tuple(s.runner for s in self._stages)

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Ticket:
        frame = _Frame(Future(), dict(inputs))
        frame.ticket.set_running_or_notify_cancel()
        with self._entry:
            with self._changed:
                if self._closed:
                    raise RunError("the runner is closed", where=self.name)
                self._under_way.add(frame)
            self._enter(frame)
        return frame.ticket

    def wait(self, ticket: Ticket, timeout_s: Optional[float] = None) -> Dict[str, np.ndarray]:
        return result_of(ticket, self.name, timeout_s)

    def _enter(self, frame: _Frame) -> None:
        """Queues the frame in its stage; called on the thread of the previous stage."""
        stage = self._stages[frame.stage]
        entered_s = time.monotonic()
        try:
            missing = [name for name in stage.reads if name not in frame.tensors]
            if missing:
                raise RunError(f"the input {missing[0]} is missing")
            ticket = stage.runner.submit({name: frame.tensors[name] for name in stage.reads})
        except Exception as e:
            self._fail(frame, e)
            return
        ticket.add_done_callback(lambda done: self._leave_stage(frame, done, entered_s))

    def _leave_stage(self, frame: _Frame, done: Ticket, entered_s: float) -> None:
        stage = self._stages[frame.stage]
        # A frame waits for the previous one: its own time in the stage starts when that one has left.
        now, started_s = time.monotonic(), max(entered_s, stage.left_s)
        stage.left_s = now
        try:
            given = stage.runner.wait(done, 0)
            frame.tensors.update((name, given[name]) for name in stage.gives if name in given)
            missing = [name for name in stage.gives if name not in given]
            if missing:
                raise RunError(f"the stage gave no {missing[0]}")
        except Exception as e:
            self._fail(frame, e)
            return
        stage.latency.add((now - started_s) * 1e3)
        for name in stage.done_with:
            self._let_go(name, frame.tensors.pop(name))
        if frame.stage + 1 < len(self._stages):
            frame.stage += 1
            self._enter(frame)
            return
        answer = {b.name: frame.tensors[b.name] for b in self.bindings if not b.is_input}
        frame.tensors = {}
        if self._ended(frame):
            frame.ticket.set_result(answer)

    def _let_go(self, name: str, array: np.ndarray) -> None:
        lender = self._lender.get(name)
        if isinstance(lender, CudaRunner):
            lender.give_back(array)

    def _fail(self, frame: _Frame, error: Exception) -> None:
        for name, array in frame.tensors.items():
            self._let_go(name, array)
        frame.tensors = {}
        if self._ended(frame):
            frame.ticket.set_exception(self._named(error, frame.stage))

    def _named(self, error: Exception, stage: int) -> RunError:
        """The error with the name of its stage."""
        where = f"{self.name}, stage {stage} ({self._stages[stage].device})"
        failure = inference_error(error, where)
        named = RunError(failure.what, where=where, allowed=failure.allowed, hint=failure.hint)
        named.__cause__ = error
        return named

    def _ended(self, frame: _Frame) -> bool:
        """True if the frame ended now; False if `close` has already given it up."""
        with self._changed:
            under_way = frame in self._under_way
            self._under_way.discard(frame)
            self._changed.notify_all()
        return under_way

    def stages(self) -> List[Dict[str, Any]]:
        """Each stage: its device, the time of a frame in it, and how its outputs reach the next reader.

        `hands_over` is "device" if the tensor stays in the device's memory, else "host". `core_proved` as in TensorRtRunner: it
        refers to the core, so two stages on one core prove each other.
        """
        devices = [s.device for s in self._stages]
        outputs = {b.name for b in self.bindings}
        return [
            {
                "stage": k,
                "device": s.device,
                "simulated": s.runner.simulated,
                "shares_device": devices.count(s.device) > 1,
                "core_proved": getattr(s.runner, "core_proved", None),
                "inference": s.latency.to_dict(),
                "hands_over": {
                    name: "device" if name in s.kept else "host"
                    for name in s.gives
                    if name not in outputs or any(name in later.reads for later in self._stages[k + 1 :])
                },
            }
            for k, s in enumerate(self._stages)
        ]

    def forget_times(self) -> None:
        """Restarts the stages' times, for example after a warm-up."""
        for s in self._stages:
            s.latency = Latency()

    def close(self) -> None:
        """Finishes the frames in flight, then closes every stage's runner. A hanging stage is abandoned in time."""
        deadline = time.monotonic() + self.close_timeout_s
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.wait_for(lambda: not self._under_way, self.close_timeout_s)
            unfinished = sorted(self._under_way, key=lambda f: -f.stage)
            self._under_way.clear()
        for frame in unfinished:
            frame.ticket.set_exception(self._named(RunError("the runner was closed while the inference hung"), frame.stage))
        if unfinished:
            log.warning("%s: %s hangs and is abandoned", self.name, self._stages[unfinished[0].stage].device)
        # Runners that do not hang close immediately.
        close_side_by_side([s.runner for s in self._stages], max(1.0, deadline - time.monotonic()))

    def __enter__(self) -> ChainRunner:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def chain_name(artifact: Artifact) -> str:
    """The devices in the order that a frame passes them: "DLA0+DLA1"."""
    return "+".join(stage.device for stage in artifact.stages)


def _connected(artifact: Artifact, runners: Sequence[Runner]) -> List[_Stage]:
    """The stages, each with the tensors that it reads, gives, and is the last to read."""
    if len(runners) != len(artifact.stages) or not runners:
        raise RunError(f"{len(runners)} runners for {len(artifact.stages)} stages", where=chain_name(artifact))
    available = {b.name for b in artifact.inputs}
    final = {b.name for b in artifact.outputs}
    stages: List[_Stage] = []
    where = str(artifact.folder or chain_name(artifact))
    for k, (built, runner) in enumerate(zip(artifact.stages, runners)):
        reads = tuple(b.name for b in built.artifact.inputs)
        unknown = [name for name in reads if name not in available]
        if unknown:
            raise RunError(
                f"stage {k} ({built.device}) reads {unknown[0]}, which no stage before it gives",
                where=where,
                hint="build the artifact again",
            )
        stages.append(_Stage(built.device, runner, reads, tuple(b.name for b in built.artifact.outputs)))
        available |= set(stages[-1].gives)
    if final - available:
        raise RunError(f"no stage gives the output {min(final - available)}", where=where, hint="build the artifact again")
    last = {name: k for k, stage in enumerate(stages) for name in stage.reads}
    for k, stage in enumerate(stages):
        stage.gives = tuple(name for name in stage.gives if name in final or last.get(name, -1) > k)
        stage.done_with = tuple(name for name in stage.reads if last[name] == k and name not in final)
        if isinstance(stage.runner, CudaRunner):
            stage.kept = frozenset(
                name
                for name in stage.gives
                if name not in final and all(isinstance(s.runner, CudaRunner) for s in stages if name in s.reads)
            )
            stage.runner.keep(stage.kept)
    return stages
