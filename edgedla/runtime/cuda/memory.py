"""Buffers common to CPU and CUDA preprocessing, through pycuda: mapped on a Jetson, copied over the bus elsewhere.

The runners' buffers come from runtime.cuda.driver, without pycuda; both are in the device's primary context.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.errors import EnvironmentMissing


def cuda_driver() -> Any:
    """pycuda's driver module, initialised.

    Raises:
        EnvironmentMissing: pycuda or a CUDA device is missing.
    """
    try:
        from pycuda import driver
    except ImportError as e:
        raise EnvironmentMissing(
            f"pycuda cannot be imported: {e}",
            hint="pip install pycuda builds it with JetPack's nvcc: put /usr/local/cuda/bin on PATH first",
        ) from e
    try:
        driver.init()
        count = driver.Device.count()
    except driver.Error as e:
        raise EnvironmentMissing(f"CUDA does not start: {e}", hint="in a container: run it with --runtime nvidia") from e
    if not count:
        raise EnvironmentMissing("CUDA finds no device", hint="in a container: run it with --runtime nvidia")
    return driver


class CudaContext:
    """The device's primary context, which TensorRT and other CUDA libraries of the process also use.

    `push` makes it current on the calling thread; every `push` needs a `pop`.
    """

    def __init__(self, device: int = 0) -> None:
        self.driver = cuda_driver()
        self.device = self.driver.Device(device)
        self._context = self.device.retain_primary_context()

    @property
    def shares_memory(self) -> bool:
        """True on a Jetson, whose CPU and GPU use the same DRAM."""
        attribute = self.driver.device_attribute
        return bool(self.device.get_attribute(attribute.INTEGRATED)) and bool(
            self.device.get_attribute(attribute.CAN_MAP_HOST_MEMORY)
        )

    def push(self) -> None:
        self._context.push()

    def pop(self) -> None:
        self._context.pop()

    def stream(self, non_blocking: bool = False) -> Any:
        """A CUDA stream: `.handle` for libraries, `.synchronize()`. pycuda only has blocking ones."""
        return self.driver.Stream()

    def buffer(self, size_bytes: int, mapped: Optional[bool] = None) -> SharedBuffer:
        """Memory for CPU and device. `mapped`: True for one memory, False for two with copies; default: one if they share DRAM."""
        return SharedBuffer(self, size_bytes, mapped)


class DeviceArray(np.ndarray):
    """Bytes that the CPU sees as an array and CUDA at `pointer`: a runner on the same GPU uses the pointer, without a copy.

    Views and copies have no pointer, because their memory may be elsewhere. `mapped`: the array is the same memory; otherwise
    the device's bytes are the valid ones, and the array may be out of date.
    """

    pointer: Optional[int] = None
    mapped = True


class SharedBuffer:
    """One binding's memory: `host` (uint8 array) and `pointer` (device address).

    Mapped: both are the same memory, and upload and download do nothing. Otherwise each is a copy on the stream.
    """

    def __init__(self, context: CudaContext, size_bytes: int, mapped: Optional[bool] = None) -> None:
        driver = context.driver
        self._driver = driver
        self.mapped = context.shares_memory if mapped is None else mapped
        flags = driver.host_alloc_flags.DEVICEMAP if self.mapped else 0
        self.host: np.ndarray = driver.pagelocked_empty(size_bytes, np.uint8, mem_flags=flags)
        self.host[:] = 0
        self._device: Any = None if self.mapped else driver.mem_alloc(size_bytes)
        allocation: Any = self.host.base if self.mapped else self._device
        self.pointer = int(allocation.get_device_pointer() if self.mapped else allocation)

    def upload(self, stream: object) -> None:
        if not self.mapped:
            self._driver.memcpy_htod_async(self.pointer, self.host, stream)

    def download(self, stream: object) -> None:
        if not self.mapped:
            self._driver.memcpy_dtoh_async(self.host, self.pointer, stream)

    def array(self) -> DeviceArray:
        """`host` as an array with its device address."""
        shown = self.host.view(DeviceArray)
        shown.pointer, shown.mapped = self.pointer, self.mapped
        return shown

    def free(self) -> None:
        """Call it with the context current. Pinned memory lives on while an array of it exists."""
        if self._device is not None:
            self._device.free()
            self._device = None
        # Drop our reference here: without a current context the last one could not free pinned memory.
        self.host = np.empty(0, np.uint8)
