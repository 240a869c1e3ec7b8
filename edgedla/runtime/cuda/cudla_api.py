"""One DLA core through cuDLA in hybrid mode, by this machine's backend (runtime.cuda.cudla_backends)."""

from __future__ import annotations

import ctypes
import logging
from typing import Callable, Dict, List, Optional, Sequence

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.cuda.cudla_abi import HYBRID, ModuleTensor, Task
from edgedla.runtime.cuda.cudla_backends import Backend, open_backend

log = logging.getLogger("edgedla.runtime.cudla")


class Cudla:
    """Register CUDA memory, load a loadable, submit tasks on a CUDA stream.

    Args:
        core: DLA core number. backend: by default this machine's.

    Raises:
        EnvironmentMissing: no libcudla, or no such core.
    """

    def __init__(self, core: int, backend: Optional[Backend] = None) -> None:
        self._api = backend or open_backend()
        count = self._api.device_count()
        if not 0 <= core < count:
            raise EnvironmentMissing(f"DLA core {core} is not here: cuDLA finds {count}", hint="`edgedla doctor` says why")
        self._registered: Dict[int, int] = {}
        self._modules: List[int] = []
        self._device: Optional[int] = self._api.create_device(core, HYBRID)

    @property
    def backend(self) -> str:
        return self._api.name

    def version(self) -> int:
        return self._api.version()

    def register(self, pointer: int, size_bytes: int) -> int:
        """Registers CUDA memory with the DLA, once; returns the DLA's address for it."""
        if pointer not in self._registered:
            self._registered[pointer] = self._api.register(self._open(), pointer, size_bytes)
        return self._registered[pointer]

    def unregister(self, pointer: int) -> None:
        """To be called before memory is freed: a later buffer may get the same address with another size."""
        address = self._registered.pop(pointer, None)
        if address is not None:
            self._api.unregister(self._open(), address)

    def load(self, loadable: bytes) -> int:
        """Loads a loadable; returns the module's handle."""
        self._modules.append(self._api.load(self._open(), loadable))
        return self._modules[-1]

    def tensors(self, module: int, outputs: bool) -> List[ModuleTensor]:
        """The module's inputs or outputs, in the order that `submit` expects their memory."""
        self._open()
        return self._api.tensors(module, outputs)

    def submit(self, module: int, inputs: Sequence[int], outputs: Sequence[int], stream: int) -> None:
        """Queues one task on the CUDA stream; it is done when the stream is.

        Args:
            inputs, outputs: the DLA's addresses (from `register`) in the order of `tensors`.
        """
        ins, outs = (ctypes.c_void_p * len(inputs))(*inputs), (ctypes.c_void_p * len(outputs))(*outputs)
        # No events: in hybrid mode the stream orders the work.
        self._api.submit(self._open(), Task(module, outs, len(outputs), len(inputs), ins, None, None), stream)

    def check(self) -> None:
        """Raises RunError if a queued task failed on the DLA. Call it when the stream is done."""
        self._api.last_error(self._open())

    def close(self) -> None:
        """Releases everything; a second call does nothing. Errors of the driver are logged, not raised."""
        device, self._device = self._device, None
        if device is None:
            return
        for address in self._registered.values():
            _quietly(self._api.unregister, device, address)
        for module in self._modules:
            _quietly(self._api.unload, module)
        _quietly(self._api.destroy_device, device)
        self._registered, self._modules = {}, []

    def _open(self) -> int:
        if self._device is None:
            raise RunError("the DLA core is closed")
        return self._device


def _quietly(call: Callable[..., object], *arguments: int) -> None:
    try:
        call(*arguments)
    except RunError as e:
        log.warning("closing a DLA core: %s", e.what)
