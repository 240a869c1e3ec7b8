"""CUDA's driver library without a compiled extension: contexts, buffers and streams for the runners.

pycuda has no wheel for Jetson and needs nvcc and curand to be built; only the CUDA preprocessing uses it, whose kernel needs
nvcc anyway. Source: cuda.h of CUDA 11.4 to 13.x, with unchanged names and arguments.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Optional, Union

import numpy as np

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.cuda.memory import DeviceArray

_NON_BLOCKING = 1
_INTEGRATED, _CAN_MAP_HOST_MEMORY = 18, 19
_PORTABLE_AND_MAPPED = 0x1 | 0x2


class CudaDriver:
    """Calls libcuda; a failed call raises RunError with CUDA's number and name of the error."""

    def __init__(self, library: Union[str, ctypes.CDLL] = "libcuda.so.1") -> None:
        try:
            self._library = ctypes.CDLL(library) if isinstance(library, str) else library
        except OSError as e:
            raise EnvironmentMissing(
                f"CUDA's driver library cannot be loaded: {e}",
                hint="in a container: run it with --runtime nvidia; on a PC it comes with NVIDIA's driver",
            ) from e

    def call(self, function: str, *arguments: object) -> None:
        code = int(getattr(self._library, function)(*arguments))
        if code:
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(name))
            raise RunError(f"{function} failed with {code}: {(name.value or b'unknown error').decode()}")


class DriverContext:
    """The first device's primary context, which TensorRT and other CUDA libraries of the process also use.

    `push` makes it current on the calling thread; every `push` needs a `pop`. It lives as long as the process.

    Raises:
        EnvironmentMissing: no driver library, or CUDA does not start.
    """

    def __init__(self, driver: Optional[CudaDriver] = None) -> None:
        self.driver = driver or CudaDriver()
        self._device, count, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        try:
            self.driver.call("cuInit", ctypes.c_uint(0))
            self.driver.call("cuDeviceGetCount", ctypes.byref(count))
        except RunError as e:
            raise EnvironmentMissing(f"CUDA does not start: {e.what}", hint="in a container: run it with --runtime nvidia") from e
        if not count.value:
            raise EnvironmentMissing("CUDA finds no device", hint="in a container: run it with --runtime nvidia")
        self.driver.call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(0))
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._context = context

    @property
    def shares_memory(self) -> bool:
        """True on a Jetson, whose CPU and GPU use the same DRAM."""
        return bool(self._attribute(_INTEGRATED) and self._attribute(_CAN_MAP_HOST_MEMORY))

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), self._device)
        return value.value

    def push(self) -> None:
        self.driver.call("cuCtxPushCurrent_v2", self._context)

    def pop(self) -> None:
        self.driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def stream(self, non_blocking: bool = False) -> DriverStream:
        return DriverStream(self.driver, non_blocking)

    def buffer(self, size_bytes: int, mapped: Optional[bool] = None) -> DriverBuffer:
        """Memory for CPU and device. `mapped`: True for one memory, False for two with copies; default: one if they share DRAM."""
        return DriverBuffer(self, size_bytes, self.shares_memory if mapped is None else mapped)


class DriverStream:
    """A CUDA stream: `handle` for libraries. Create, use and close it with the context current.

    A non-blocking stream does not wait for the legacy default stream. NVIDIA's cuDLA sample uses such streams, and only they
    profit from CUDA's mode for external engines (CUDA for Tegra, 9.1).
    """

    def __init__(self, driver: CudaDriver, non_blocking: bool = False) -> None:
        self._driver = driver
        stream = ctypes.c_void_p()
        driver.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING if non_blocking else 0))
        self.handle = int(stream.value or 0)

    def synchronize(self) -> None:
        self._driver.call("cuStreamSynchronize", ctypes.c_void_p(self.handle))

    def close(self) -> None:
        """A second call does nothing."""
        handle, self.handle = self.handle, 0
        if handle:
            self._driver.call("cuStreamDestroy_v2", ctypes.c_void_p(handle))


class DriverBuffer:
    """One binding's memory: `host` (uint8 array) and `pointer` (device address).

    Mapped: both are the same memory, and upload and download do nothing. Otherwise each is a copy on the stream.
    """

    def __init__(self, context: DriverContext, size_bytes: int, mapped: bool) -> None:
        self._driver, self.mapped = context.driver, mapped
        address = ctypes.c_void_p()
        flags = ctypes.c_uint(_PORTABLE_AND_MAPPED if mapped else 0)
        self._driver.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size_bytes), flags)
        memory: Any = (ctypes.c_uint8 * size_bytes).from_address(int(address.value or 0))
        # Arrays of it keep `memory` alive; the pinned memory is freed with the last one.
        weakref.finalize(memory, _free_host, context, int(address.value or 0)).atexit = False
        self.host: np.ndarray = np.frombuffer(memory, np.uint8)
        self.host[:] = 0
        pointer = ctypes.c_uint64()
        if mapped:
            self._driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(pointer), address, ctypes.c_uint(0))
        else:
            self._driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
        self.pointer = int(pointer.value)
        self._allocated = not mapped

    def upload(self, stream: DriverStream) -> None:
        if not self.mapped:
            source, size = ctypes.c_void_p(self.host.ctypes.data), ctypes.c_size_t(self.host.nbytes)
            handle = ctypes.c_void_p(stream.handle)
            self._driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.pointer), source, size, handle)

    def download(self, stream: DriverStream) -> None:
        if not self.mapped:
            target, size = ctypes.c_void_p(self.host.ctypes.data), ctypes.c_size_t(self.host.nbytes)
            handle = ctypes.c_void_p(stream.handle)
            self._driver.call("cuMemcpyDtoHAsync_v2", target, ctypes.c_uint64(self.pointer), size, handle)

    def array(self) -> DeviceArray:
        """`host` as an array with its device address."""
        shown = self.host.view(DeviceArray)
        shown.pointer, shown.mapped = self.pointer, self.mapped
        return shown

    def free(self) -> None:
        """Call it with the context current. Pinned memory lives on while an array of it exists."""
        if self._allocated:
            self._allocated = False
            self._driver.call("cuMemFree_v2", ctypes.c_uint64(self.pointer))
        self.host = np.empty(0, np.uint8)


def _free_host(context: DriverContext, address: int) -> None:
    # The last array may be freed on any thread, with no context current.
    context.push()
    try:
        context.driver.call("cuMemFreeHost", ctypes.c_void_p(address))
    finally:
        context.pop()
