"""Standalone DLA loadables through cuDLA in hybrid mode (CUDA memory and streams)."""

from __future__ import annotations

from typing import Callable, List, Mapping, Optional

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.errors import RunError, UsageError
from edgedla.runtime.cuda.cudla_api import Cudla
from edgedla.runtime.cuda.memory import CudaContext
from edgedla.runtime.runners.cuda_base import CudaRunner, Memory


class CudlaRunner(CudaRunner):
    """Runs a loadable on DLA0 or DLA1; the GPU only copies, and on a Jetson not even that.

    Args:
        open_core: opens the DLA core by its number.
    """

    def __init__(
        self,
        artifact: Artifact,
        name: str,
        memory: Callable[[], Memory] = CudaContext,
        open_core: Callable[[int], Cudla] = Cudla,
    ) -> None:
        if not name.startswith("DLA"):
            raise UsageError(f"a standalone loadable cannot run on {name}", allowed="DLA0, DLA1")
        self.core = int(name[3:])
        self._open_core = open_core
        self._cudla: Optional[Cudla] = None
        super().__init__(artifact, name, memory)

    def _start(self) -> None:
        self._cudla = self._open_core(self.core)
        self._module = self._cudla.load(self.artifact.file("loadable").read_bytes())
        self._inputs = self._match(outputs=False)
        self._outputs = self._match(outputs=True)
        for b in self.bindings:
            self._cudla.register(self._buffers[b.name].pointer, b.size_bytes)

    def _match(self, outputs: bool) -> List[Binding]:
        """Our bindings in the loadable's own order."""
        assert self._cudla is not None
        ours = {b.name: b for b in self.bindings if b.is_input != outputs}
        found = self._cudla.tensors(self._module, outputs)
        kind = "outputs" if outputs else "inputs"
        if len(found) != len(ours):
            raise RunError(
                f"the loadable has the {kind} {', '.join(t.name for t in found)}, the manifest {', '.join(ours)}",
                where=self.name,
                hint="build the artifact again",
            )
        bindings = []
        for tensor in found:
            binding = ours.get(tensor.name)
            if binding is None and len(ours) == 1:
                # The compiler renames tensors at times; with only one there is no doubt.
                binding = next(iter(ours.values()))
            if binding is None or binding.size_bytes != tensor.size_bytes:
                size = (
                    "is not in the manifest" if binding is None else f"has {binding.size_bytes} bytes in the manifest"
                )
                raise RunError(
                    f"tensor {tensor.name} of the loadable ({tensor.size_bytes} bytes) {size}", where=self.name
                )
            bindings.append(binding)
        return bindings

    def _enqueue(self, pointers: Mapping[str, int]) -> None:
        assert self._cudla is not None
        # Registered once a buffer: those of the CUDA preprocessing come round again and again.
        at = {b.name: self._cudla.register(pointers[b.name], b.size_bytes) for b in self.bindings}
        self._cudla.submit(
            self._module, [at[b.name] for b in self._inputs], [at[b.name] for b in self._outputs], self._stream.handle
        )

    def _check(self) -> None:
        if self._cudla is not None:
            self._cudla.check()

    def _stop(self) -> None:
        if self._cudla is not None:
            self._cudla.close()
