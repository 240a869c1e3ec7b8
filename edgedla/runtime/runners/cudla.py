"""Standalone DLA loadables through cuDLA in hybrid mode (CUDA memory and streams)."""

from __future__ import annotations

from typing import List

from edgedla.builder.artifact import Artifact
from edgedla.errors import RunError, UsageError
from edgedla.runtime.cudla_api import Cudla
from edgedla.runtime.runners.cuda_base import CudaRunner


class CudlaRunner(CudaRunner):
    """Runs a loadable on DLA0 or DLA1; the GPU only copies, and on a Jetson not even that."""

    def __init__(self, artifact: Artifact, name: str) -> None:
        if not name.startswith("DLA"):
            raise UsageError(f"a standalone loadable cannot run on {name}", allowed="DLA0, DLA1")
        self.core = int(name[3:])
        super().__init__(artifact, name)

    def _start(self) -> None:
        self._cudla = Cudla(self.core)
        self._module = self._cudla.load(self.artifact.file("loadable").read_bytes())
        self._inputs = self._register(outputs=False)
        self._outputs = self._register(outputs=True)

    def _register(self, outputs: bool) -> List[int]:
        """The DLA's addresses of our buffers, in the loadable's own order."""
        ours = {b.name: b for b in self.bindings if b.is_input != outputs}
        found = self._cudla.tensors(self._module, outputs)
        addresses = []
        for tensor in found:
            binding = ours.get(tensor.name)
            if binding is None and len(found) == len(ours) == 1:
                # The compiler renames tensors at times; with only one there is no doubt.
                binding = next(iter(ours.values()))
            if binding is None or binding.size_bytes != tensor.size_bytes:
                size = (
                    "is not in the manifest" if binding is None else f"has {binding.size_bytes} bytes in the manifest"
                )
                raise RunError(
                    f"tensor {tensor.name} of the loadable ({tensor.size_bytes} bytes) {size}", where=self.name
                )
            addresses.append(self._cudla.register(self._buffers[binding.name].pointer, binding.size_bytes))
        return addresses

    def _enqueue(self) -> None:
        self._cudla.submit(self._module, self._inputs, self._outputs, self._stream.handle)

    def _stop(self) -> None:
        if hasattr(self, "_cudla"):
            self._cudla.close()
