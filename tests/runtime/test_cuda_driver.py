"""libcuda through ctypes: the calls and their order, on a recording library; on a real device if there is one."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.cuda.driver import CudaDriver, DriverContext, DriverStream


class Library:
    """libcuda on host memory: device memory is other host memory. `fails`: a function that answers with `code`."""

    def __init__(self, fails="", code=911, integrated=1):
        self.calls, self.fails, self.code, self.integrated = [], fails, code, integrated
        self.memory = {}

    def __getattr__(self, function):
        def call(*arguments):
            values = [getattr(a, "value", a) for a in arguments]
            self.calls.append(function)
            if function == "cuGetErrorName":
                ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_char_p))[0] = b"CUDA_ERROR_EXTERNAL_DEVICE"
            elif function == self.fails:
                return self.code
            else:
                act = getattr(type(self), f"on_{function}", None)
                if act is not None:
                    act(self, arguments, values)
            return 0

        return call

    def _out(self, pointer, value, kind=ctypes.c_void_p):
        ctypes.cast(pointer, ctypes.POINTER(kind))[0] = value

    def on_cuDeviceGetCount(self, arguments, values):
        self._out(arguments[0], 1, ctypes.c_int)

    def on_cuDevicePrimaryCtxRetain(self, arguments, values):
        self._out(arguments[0], 0xC0)

    def on_cuDeviceGetAttribute(self, arguments, values):
        self._out(arguments[0], self.integrated, ctypes.c_int)

    def on_cuStreamCreate(self, arguments, values):
        self.flags = values[1]
        self._out(arguments[0], 4711)

    def _allocate(self, arguments, values):
        made = np.full(values[1], 7, np.uint8)
        self.memory[made.ctypes.data] = made
        self._out(arguments[0], made.ctypes.data, ctypes.c_uint64)

    on_cuMemHostAlloc = on_cuMemAlloc_v2 = _allocate

    def on_cuMemHostGetDevicePointer_v2(self, arguments, values):
        self._out(arguments[0], values[1], ctypes.c_uint64)

    def on_cuMemcpyHtoDAsync_v2(self, arguments, values):
        ctypes.memmove(values[0], values[1], values[2])

    on_cuMemcpyDtoHAsync_v2 = on_cuMemcpyHtoDAsync_v2

    def on_cuMemFree_v2(self, arguments, values):
        del self.memory[values[0]]

    on_cuMemFreeHost = on_cuMemFree_v2


def context(**how):
    library = Library(**how)
    return DriverContext(CudaDriver(library)), library


def test_streams_do_not_wait_for_the_default_stream():
    made, library = context()
    stream = made.stream(non_blocking=True)
    assert (stream.handle, library.flags) == (4711, 1)
    stream.synchronize()
    stream.close()
    stream.close()
    assert library.calls[-2:] == ["cuStreamSynchronize", "cuStreamDestroy_v2"]


def test_a_failed_stream_names_the_cuda_error():
    driver = CudaDriver(Library(fails="cuStreamSynchronize"))
    with pytest.raises(RunError, match="cuStreamSynchronize failed with 911: CUDA_ERROR_EXTERNAL_DEVICE"):
        DriverStream(driver).synchronize()


def test_mapped_memory_is_freed_with_its_last_array():
    made, library = context()
    buffer = made.buffer(16)
    assert buffer.mapped
    assert (buffer.host == 0).all()
    array = buffer.array()
    assert (array.pointer, array.mapped) == (buffer.host.ctypes.data, True)
    buffer.upload(made.stream())
    assert not any("Memcpy" in call for call in library.calls)
    buffer.free()
    gc.collect()
    assert library.memory, "an array of it is still held"
    del array
    gc.collect()
    assert not library.memory
    assert library.calls[-3:] == ["cuCtxPushCurrent_v2", "cuMemFreeHost", "cuCtxPopCurrent_v2"]


def test_copied_memory_is_transferred_on_the_stream():
    made, library = context(integrated=0)
    buffer, stream = made.buffer(16), made.stream()
    assert not buffer.mapped
    buffer.host[:] = np.arange(16)
    buffer.upload(stream)
    buffer.host[:] = 0
    buffer.download(stream)
    assert (buffer.host == np.arange(16)).all()
    assert buffer.array().mapped is False
    buffer.free()
    buffer.free()
    gc.collect()
    assert not library.memory


@pytest.mark.parametrize("fails", ["cuInit", "cuDeviceGetCount"])
def test_cuda_that_does_not_start_is_a_missing_environment(fails):
    with pytest.raises(EnvironmentMissing, match="CUDA does not start"):
        context(fails=fails, code=100)


def test_a_missing_driver_library_is_named():
    with pytest.raises(EnvironmentMissing, match="driver library cannot be loaded"):
        CudaDriver("libcuda-of-nobody.so")


@pytest.mark.gpu
@pytest.mark.parametrize("mapped", [True, False])
def test_buffers_work_on_a_real_device(mapped):
    try:
        made = DriverContext()
    except EnvironmentMissing as e:
        pytest.skip(str(e))
    made.push()
    try:
        stream = made.stream(non_blocking=True)
        first, second = made.buffer(1 << 20, mapped), made.buffer(1 << 20, mapped)
        first.host[:] = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8)
        first.upload(stream)
        size, handle = ctypes.c_size_t(1 << 20), ctypes.c_void_p(stream.handle)
        target, source = ctypes.c_uint64(second.pointer), ctypes.c_uint64(first.pointer)
        made.driver.call("cuMemcpyDtoDAsync_v2", target, source, size, handle)
        second.download(stream)
        stream.synchronize()
        assert np.array_equal(first.host, second.host)
        first.free()
        second.free()
        stream.close()
    finally:
        made.pop()
