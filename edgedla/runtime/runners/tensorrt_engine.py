"""Hybrid TensorRT engines, 8.4 to 11.4.1. The DLA core is chosen at deserialisation; it is not part of the engine.

The naming rule of builder/tensorrt/api.py applies: a variable with a TensorRT object is named after its class.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from edgedla.builder.artifact.artifact import BARE_ENGINE, Artifact
from edgedla.builder.artifact.load import Running, load_artifact
from edgedla.builder.tensorrt.callbacks import process_logger
from edgedla.errors import EnvironmentMissing, RunError
from edgedla.records.plan_header import engine_bytes
from edgedla.runtime.cuda.driver import DriverContext
from edgedla.runtime.runners.core_proof import CoreProof
from edgedla.runtime.runners.cuda_base import CudaRunner, Memory
from edgedla.runtime.runners.engine_reader import import_tensorrt
from edgedla.runtime.runners.layer_clock import LayerClock, LayerTimes
from edgedla.targets.board import board_target


class TensorRtRunner(CudaRunner):
    """Runs an engine on "GPU", "DLA0" or "DLA1" (for a hybrid engine its DLA parts; its GPU parts always run on the GPU).

    `core_proved`: see CoreProof.
    """

    non_blocking = True

    def __init__(self, artifact: Artifact, name: str, memory: Callable[[], Memory] = DriverContext) -> None:
        self.core = int(name[3:]) if name.startswith("DLA") else None
        self._proof = CoreProof(self.core, name)
        self._runtime: Any = None
        self._engine: Any = None
        self._context_of_engine: Any = None
        self._bound: Dict[str, int] = {}
        self._order: Tuple[str, ...] = ()
        self._profiler: Any = None
        self._clock: Optional[LayerClock] = None
        super().__init__(artifact, name, memory)

    def _start(self) -> None:
        trt = import_tensorrt()
        self._verify(str(trt.__version__))
        logger = process_logger(trt)
        # An engine with plugin layers can only be read after TensorRT's own plugins are registered.
        trt.init_libnvinfer_plugins(logger, "")
        runtime = trt.Runtime(logger)
        if self.core is not None:
            cores = int(runtime.num_DLA_cores)
            if self.core >= cores:
                raise EnvironmentMissing(
                    f"DLA core {self.core} is not here: TensorRT finds {cores}",
                    where=self.name,
                    hint="`edgedla doctor` says why; containers need --runtime nvidia",
                )
            # Before the engine is read: otherwise every engine uses core 0, whatever it was built for.
            runtime.DLA_core = self.core
        engine = runtime.deserialize_cuda_engine(engine_bytes(self.artifact.file("engine")))
        if engine is None:
            raise RunError(
                "TensorRT refuses the engine",
                where=str(self.artifact.folder),
                hint="it was built by another TensorRT or for another module",
            )
        self._runtime, self._engine = runtime, engine
        self._order = _engine_tensors(engine)
        ours = {b.name for b in self.bindings}
        if set(self._order) != ours:
            raise RunError(
                f"the engine has the tensors {', '.join(sorted(self._order))}, the manifest {', '.join(sorted(ours))}",
                where=self.name,
                hint="build the artifact again",
            )
        self._new_context()
        self._proof.start()

    def _new_context(self) -> Any:
        # Release the old one first: each holds the memory of all activations.
        self._context_of_engine = None
        self._bound = {}
        engine = self._engine
        context = engine.create_execution_context()
        if context is None:
            raise RunError("TensorRT cannot make an execution context", where=self.name, hint="too little memory?")
        self._context_of_engine = context
        return context

    def start_profile(self) -> None:
        """From now on TensorRT times every layer of every inference, which slows the inferences.

        Call it while no inference is in flight; `stop_profile` ends it.

        Raises:
            RunError: TensorRT makes no second execution context.
        """
        self._worker.submit(self._profile, LayerClock()).result()

    def restart_profile(self) -> None:
        """Discards the times so far, for example after a warm-up. Call it while no inference is in flight."""
        if self._clock is not None:
            self._clock.forget()

    def stop_profile(self) -> LayerTimes:
        """The times since `start_profile`; none without it. Later inferences run at full speed again."""
        clock, self._clock = self._clock, None
        if clock is None:
            return LayerClock().times()
        self._worker.submit(self._profile, None).result()
        return clock.times()

    def _profile(self, clock: Optional[LayerClock]) -> None:
        # A separate context: TensorRT does not document that a profiler can be removed again.
        context = self._new_context()
        self._clock, self._profiler = clock, None
        if clock is not None:
            # TensorRT keeps a bare pointer to the profiler, so hold a reference. Its default, reporting within the queueing call, stays.
            profiler = self._profiler = _profiler(import_tensorrt(), clock)
            context.profiler = profiler

    def _verify(self, version: str) -> None:
        """Verifies hash and origin before TensorRT reads the engine: an engine runs code of whoever built it."""
        running = Running(target=board_target(), tensorrt=version)
        # A bare engine file has no hash and no origin to verify.
        if self.artifact.folder is not None and self.artifact.kind != BARE_ENGINE:
            load_artifact(self.artifact.folder, on=running)

    def _enqueue(self, pointers: Mapping[str, int]) -> None:
        context = self._context_of_engine
        if self._clock is not None:
            self._clock.begin()
        if hasattr(context, "execute_async_v3"):
            for name in self._order:
                if self._bound.get(name) == pointers[name]:
                    continue
                if not context.set_tensor_address(name, pointers[name]):
                    raise RunError(f"TensorRT refuses the buffer of {name}", where=self.name)
                self._bound[name] = pointers[name]
            ok = context.execute_async_v3(self._stream.handle)
        else:
            ok = context.execute_async_v2([pointers[name] for name in self._order], self._stream.handle)
        if not ok:
            raise RunError("TensorRT cannot queue the inference", where=self.name)

    def _check(self) -> None:
        if self._clock is not None:
            self._clock.end()
        self._proof.ran()

    @property
    def core_proved(self) -> Optional[bool]:
        return self._proof.proved

    def _stop(self) -> None:
        self._proof.stop()
        # TensorRT's objects must be destroyed in this order.
        self._context_of_engine = None
        self._profiler = None
        self._engine = None
        self._runtime = None


def _profiler(trt: Any, clock: LayerClock) -> Any:
    class Forward(trt.IProfiler):
        """Passes TensorRT's layer times to a clock. C++ code that takes no exceptions calls it, so it does as little as possible."""

        def __init__(self) -> None:
            # pybind11 refuses an object whose base class was not initialised explicitly.
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            clock.report(layer_name, ms)

    return Forward()


def _engine_tensors(engine: Any) -> Tuple[str, ...]:
    """Names of the engine's inputs and outputs, in the order of 8.4's unnamed buffers."""
    if hasattr(engine, "num_io_tensors"):
        return tuple(engine.get_tensor_name(i) for i in range(engine.num_io_tensors))
    return tuple(engine.get_binding_name(i) for i in range(engine.num_bindings))
