"""Hybrid TensorRT engines, 8.4 to 11.4.1. The DLA core is chosen when the engine is deserialised, it is not part of it.

The naming rule of builder/tensorrt_api.py holds: a TensorRT object stands in a variable named after its class.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, List, Optional

from edgedla.builder.artifact import Artifact
from edgedla.builder.artifact_load import Running, load_artifact
from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.device_files import core_active_ms
from edgedla.runtime.runners.cuda_base import CudaRunner

log = logging.getLogger("edgedla.runtime.tensorrt")


class TensorRtRunner(CudaRunner):
    """Runs an engine on "GPU", "DLA0" or "DLA1" (a hybrid engine's DLA parts; its GPU parts run on the GPU in any case).

    `core_proved` is True once the kernel's power counters showed that the core worked, False if they did not move, None
    where there are none (no Jetson, or an unknown kernel).
    """

    def __init__(self, artifact: Artifact, name: str) -> None:
        self.core = int(name[3:]) if name.startswith("DLA") else None
        self.core_proved: Optional[bool] = None
        self._counted: Optional[float] = None
        super().__init__(artifact, name)

    def _start(self) -> None:
        trt = _tensorrt()
        # An engine runs code of whoever built it: hash and origin are verified before TensorRT sees it.
        if self.artifact.folder is not None:
            load_artifact(self.artifact.folder, on=Running(tensorrt=str(trt.__version__)))
        logger = trt.Logger(trt.Logger.WARNING)
        runtime = trt.Runtime(logger)
        if self.core is not None:
            cores = int(runtime.num_DLA_cores)
            if self.core >= cores:
                raise EnvironmentMissing(
                    f"DLA core {self.core} is not here: TensorRT finds {cores}",
                    where=self.name,
                    hint="`edgedla doctor` says why; containers need --runtime nvidia",
                )
            runtime.DLA_core = self.core
        engine = runtime.deserialize_cuda_engine(self.artifact.file("engine").read_bytes())
        if engine is None:
            raise RunError(
                "TensorRT refuses the engine",
                where=str(self.artifact.folder),
                hint="it was built by another TensorRT or for another module",
            )
        self._runtime: Any = runtime
        self._engine: Any = engine
        context = engine.create_execution_context()
        if context is None:
            raise RunError("TensorRT cannot make an execution context", where=self.name, hint="too little memory?")
        self._execution: Any = context
        self._pointers: List[int] = []
        if hasattr(context, "set_tensor_address"):
            for b in self.bindings:
                if not context.set_tensor_address(b.name, self._buffers[b.name].pointer):
                    raise RunError(f"TensorRT refuses the buffer of {b.name}", where=self.name)
        else:
            order = sorted(self.bindings, key=lambda b: int(engine.get_binding_index(b.name)))
            self._pointers = [self._buffers[b.name].pointer for b in order]
        self._counted = core_active_ms(self.core) if self.core is not None else None

    def _enqueue(self) -> None:
        context = self._execution
        if hasattr(context, "execute_async_v3"):
            ok = context.execute_async_v3(self._stream.handle)
        else:
            ok = context.execute_async_v2(self._pointers, self._stream.handle)
        if not ok:
            raise RunError("TensorRT cannot queue the inference", where=self.name)
        if self._counted is not None and self.core_proved is None:
            self._stream.synchronize()
            now = core_active_ms(self.core or 0)
            # The counter has steps of a millisecond: one short inference may not move it.
            if now is not None and now > self._counted:
                self.core_proved = True

    def _stop(self) -> None:
        if self._counted is not None and self.core_proved is None:
            self.core_proved = False
            log.warning("%s: the kernel's counters saw no work on this core", self.name)
        # TensorRT wants its objects destroyed in this order.
        self._execution = self._engine = self._runtime = None


def _tensorrt() -> Any:
    try:
        return importlib.import_module("tensorrt")
    except (ImportError, OSError) as e:
        raise EnvironmentMissing(
            f"TensorRT cannot be imported: {e}",
            hint="it comes with JetPack (apt install python3-libnvinfer); a venv needs --system-site-packages",
        ) from e
