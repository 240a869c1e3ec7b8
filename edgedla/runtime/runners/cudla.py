"""Standalone DLA loadables through cuDLA in hybrid mode (CUDA memory and streams)."""

from __future__ import annotations

import logging
import os
from typing import Callable, Dict, List, Mapping, Optional

import numpy as np

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.errors import DeviceLost, RunError, UsageError
from edgedla.runtime.cuda.cudla_api import Cudla
from edgedla.runtime.cuda.driver import DriverContext
from edgedla.runtime.cuda.trial_mark import ended_a_process, trying
from edgedla.runtime.runners.core_proof import CoreProof
from edgedla.runtime.runners.cuda_base import CudaRunner, Memory
from edgedla.runtime.runners.loadable_tensors import match

log = logging.getLogger("edgedla.runtime.cudla")
#: mapped, copied, or auto: try mapped memory when opening, and copy if it does not work.
MEMORY_VARIABLE = "EDGEDLA_DLA_MEMORY"
_TRIAL = "dla-mapped-memory"


class CudlaRunner(CudaRunner):
    """Runs a loadable on DLA0 or DLA1; the GPU only copies, and with mapped memory not even that.

    All of NVIDIA's sources register memory of cudaMalloc with cuDLA (cudla.h; CUDA for Tegra 9.1.3; cuDLA-samples); none says
    that mapped host memory may be registered. So the runner tries it with a known pattern when it opens, and copies if cuDLA
    refuses it or the outputs differ. `core_proved`: see CoreProof.

    Args:
        open_core: opens the DLA core of a number.
    """

    non_blocking = True

    def __init__(
        self,
        artifact: Artifact,
        name: str,
        memory: Callable[[], Memory] = DriverContext,
        open_core: Callable[[int], Cudla] = Cudla,
    ) -> None:
        if not name.startswith("DLA"):
            raise UsageError(f"a standalone loadable cannot run on {name}", allowed="DLA0, DLA1")
        self.core = int(name[3:])
        self._open_core = open_core
        self._cudla: Optional[Cudla] = None
        self._proof = CoreProof(self.core, name)
        super().__init__(artifact, name, memory)

    @property
    def core_proved(self) -> Optional[bool]:
        return self._proof.proved

    @property
    def memory(self) -> str:
        """How CPU and DLA share buffers: "mapped" or "copied"."""
        return "copied" if self.mapped is False else "mapped"

    def _start(self) -> None:
        self._cudla = self._open_core(self.core)
        self._module = self._cudla.load(self.artifact.file("loadable").read_bytes())
        self._inputs = self._match(outputs=False)
        self._outputs = self._match(outputs=True)
        self._choose_memory()
        for b in self.bindings:
            self._cudla.register(self._buffers[b.name].pointer, b.size_bytes)
        self._proof.start()

    def _match(self, outputs: bool) -> List[Binding]:
        assert self._cudla is not None
        bindings = [b for b in self.bindings if b.is_input != outputs]
        tensors = self._cudla.tensors(self._module, outputs)
        return match(tensors, bindings, "outputs" if outputs else "inputs", self.name)

    def _choose_memory(self) -> None:
        """Decides between mapped and copied memory, and makes new buffers for the latter."""
        choice = os.environ.get(MEMORY_VARIABLE, "auto")
        if choice not in ("auto", "mapped", "copied"):
            raise UsageError(f"{MEMORY_VARIABLE} is {choice!r}", allowed="auto, mapped, copied")
        if not getattr(self._context, "shares_memory", True):
            self.mapped = False
            return
        if choice == "mapped" or (choice == "auto" and self._mapped_works()):
            self.mapped = True
            return
        self.mapped = False
        for b in self.bindings:
            self._buffers[b.name].free()
            self._buffers[b.name] = self._context.buffer(b.size_bytes, False)

    def _mapped_works(self) -> bool:
        if ended_a_process(_TRIAL):
            log.warning("%s: an earlier test of mapped memory crashed its process; buffers are copied instead", self.name)
            return False
        expected = self._trial(mapped=False)
        try:
            with trying(_TRIAL):
                outputs = self._trial(mapped=True)
        except DeviceLost as e:
            raise DeviceLost(
                f"cuDLA fails with mapped memory: {e.what}", where=self.name, hint=f"set {MEMORY_VARIABLE}=copied"
            ) from e
        except RunError as e:
            log.warning("%s: cuDLA does not take mapped memory (%s); buffers are copied instead", self.name, e.what)
            return False
        wrong = [name for name in expected if not np.array_equal(expected[name], outputs[name])]
        if wrong:
            log.warning("%s: with mapped memory %s differs; buffers are copied instead", self.name, ", ".join(wrong))
        return not wrong

    def _trial(self, mapped: bool) -> Dict[str, np.ndarray]:
        """Outputs of one inference on a known pattern, with buffers of one kind."""
        assert self._cudla is not None
        buffers = {b.name: self._context.buffer(b.size_bytes, mapped) for b in self.bindings}
        try:
            for b in self.bindings:
                buffer = buffers[b.name]
                # Small bytes: valid as INT8, and as FP16 finite numbers below 1.3.
                buffer.host[:] = np.arange(b.size_bytes, dtype=np.uint32) % 61 if b.is_input else 0
                buffer.upload(self._stream)
            self._enqueue({name: buffer.pointer for name, buffer in buffers.items()})
            for b in self.bindings:
                if not b.is_input:
                    buffers[b.name].download(self._stream)
            self._finish()
            return {b.name: buffers[b.name].host.copy() for b in self.bindings if not b.is_input}
        finally:
            for buffer in buffers.values():
                self._cudla.unregister(buffer.pointer)
                buffer.free()

    def _enqueue(self, pointers: Mapping[str, int]) -> None:
        assert self._cudla is not None
        # Registered once per buffer: the CUDA preprocessing reuses its buffers.
        at = {b.name: self._cudla.register(pointers[b.name], b.size_bytes) for b in self.bindings}
        self._cudla.submit(
            self._module, [at[b.name] for b in self._inputs], [at[b.name] for b in self._outputs], self._stream.handle
        )

    def _check(self) -> None:
        if self._cudla is not None:
            self._cudla.check()
        self._proof.ran()

    def _stop(self) -> None:
        self._proof.stop()
        if self._cudla is not None:
            self._cudla.close()
