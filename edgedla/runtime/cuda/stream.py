"""A CUDA stream that does not wait for the legacy default stream, which pycuda cannot make; through the driver's C interface.

NVIDIA's cuDLA sample uses such streams, and CUDA's mode for external engines helps only those (CUDA for Tegra, 9.1).
Source: cuda.h, cuStreamCreate with CU_STREAM_NON_BLOCKING.
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

import numpy as np

from edgedla.errors import EnvironmentMissing, RunError

_NON_BLOCKING = 1


def load_driver(name: str = "libcuda.so.1") -> Any:
    """libcuda.

    Raises:
        EnvironmentMissing: it cannot be loaded.
    """
    try:
        return ctypes.CDLL(name)
    except OSError as e:
        raise EnvironmentMissing(f"CUDA's driver library cannot be loaded: {e}") from e


class NonBlockingStream:
    """To be made, used and closed with the CUDA context current.

    Raises:
        RunError: a call fails; the text has CUDA's number and name of the error.
    """

    def __init__(self, driver: Optional[Any] = None) -> None:
        self._driver = driver or load_driver()
        stream = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING))
        self.handle = int(stream.value or 0)

    def _call(self, function: str, *arguments: Any) -> None:
        code = int(getattr(self._driver, function)(*arguments))
        if code:
            name = ctypes.c_char_p()
            self._driver.cuGetErrorName(code, ctypes.byref(name))
            raise RunError(f"{function} failed with {code}: {(name.value or b'unknown error').decode()}")

    def synchronize(self) -> None:
        self._call("cuStreamSynchronize", ctypes.c_void_p(self.handle))

    def upload(self, pointer: int, host: np.ndarray) -> None:
        """Queues a copy of all of `host` to device memory."""
        source = ctypes.c_void_p(host.ctypes.data)
        size = ctypes.c_size_t(host.nbytes)
        self._call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(pointer), source, size, ctypes.c_void_p(self.handle))

    def download(self, host: np.ndarray, pointer: int) -> None:
        """Queues a copy of device memory to all of `host`."""
        target = ctypes.c_void_p(host.ctypes.data)
        size = ctypes.c_size_t(host.nbytes)
        self._call("cuMemcpyDtoHAsync_v2", target, ctypes.c_uint64(pointer), size, ctypes.c_void_p(self.handle))

    def close(self) -> None:
        """A second call does nothing."""
        handle, self.handle = self.handle, 0
        if handle:
            self._call("cuStreamDestroy_v2", ctypes.c_void_p(handle))
