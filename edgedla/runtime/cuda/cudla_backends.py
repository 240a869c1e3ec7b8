"""Two ways to libcudla: NVIDIA's `cuda.bindings.cudla` (CUDA 13), and ctypes for older CUDA. Failures raise RunError."""

from __future__ import annotations

import ctypes
import importlib
import logging
from typing import Any, Callable, List, Optional, Protocol

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.cuda.cudla_abi import (
    INPUT_DESCRIPTORS,
    NUM_INPUTS,
    NUM_OUTPUTS,
    OUTPUT_DESCRIPTORS,
    STATUS,
    Attribute,
    ModuleTensor,
    Task,
    TensorDescriptor,
)

log = logging.getLogger("edgedla.runtime.cudla")
#: More tensors than any loadable has: a larger number means that the driver has another interface.
MOST_TENSORS = 1024
NO_FLAGS = ctypes.c_uint32(0)


class Backend(Protocol):
    """cuDLA's functions with Python numbers; handles and addresses are integers. All raise RunError with the status."""

    name: str

    def version(self) -> int: ...
    def device_count(self) -> int: ...
    def create_device(self, core: int, mode: int) -> int: ...
    def register(self, device: int, pointer: int, size_bytes: int) -> int: ...
    def load(self, device: int, loadable: bytes) -> int: ...
    def tensors(self, module: int, outputs: bool) -> List[ModuleTensor]: ...
    def submit(self, device: int, task: Task, stream: int) -> None: ...
    def last_error(self, device: int) -> None: ...
    def unregister(self, device: int, address: int) -> None: ...
    def unload(self, module: int) -> None: ...
    def destroy_device(self, device: int) -> None: ...


def open_backend(library: Optional[str] = None) -> Backend:
    """`cuda.bindings.cudla` if it can be imported and finds the driver, else ctypes.

    Args:
        library: path of libcudla.so; implies ctypes.

    Raises:
        EnvironmentMissing: no libcudla.
    """
    if library is None:
        try:
            return BindingsBackend()
        except EnvironmentMissing as e:
            log.debug("%s; using ctypes", e.what)
    return CtypesBackend(library)


def _failed(function: str, code: int) -> RunError:
    code &= 0xFFFFFFFF
    hint = "`edgedla doctor` checks the DLA"
    if code in (7, 10):
        hint = "build the loadable again with the TensorRT of this JetPack"
    return RunError(f"{function} failed with {code:#x}: {STATUS.get(code, 'unknown error')}", hint=hint)


def _counted(count: int, outputs: bool) -> int:
    if not 0 < count <= MOST_TENSORS:
        raise RunError(f"cuDLA names {count} {'outputs' if outputs else 'inputs'}", allowed=f"1 to {MOST_TENSORS}")
    return count


class BindingsBackend:
    """NVIDIA's own bindings."""

    name = "cuda.bindings"

    def __init__(self) -> None:
        try:
            self._api: Any = importlib.import_module("cuda.bindings.cudla")
            self._api.get_version()
        except Exception as e:
            # Its loader raises its own classes, which vary by version.
            raise EnvironmentMissing(f"cuda.bindings.cudla cannot be used: {e}") from e

    def _call(self, function: str, *arguments: object) -> Any:
        try:
            return getattr(self._api, function)(*arguments)
        except self._api.CudlaError as e:
            raise _failed(function, int(e.status)) from e

    def version(self) -> int:
        return int(self._call("get_version"))

    def device_count(self) -> int:
        return int(self._call("device_get_count"))

    def create_device(self, core: int, mode: int) -> int:
        return int(self._call("create_device", core, mode))

    def register(self, device: int, pointer: int, size_bytes: int) -> int:
        return int(self._call("mem_register", device, pointer, size_bytes, 0))

    def load(self, device: int, loadable: bytes) -> int:
        data = bytearray(loadable)
        address = ctypes.addressof(ctypes.c_uint8.from_buffer(data))
        return int(self._call("module_load_from_memory", device, address, len(data), 0))

    def tensors(self, module: int, outputs: bool) -> List[ModuleTensor]:
        _counted(int(self._call("module_get_attributes", module, NUM_OUTPUTS if outputs else NUM_INPUTS)), outputs)
        kind = OUTPUT_DESCRIPTORS if outputs else INPUT_DESCRIPTORS
        return [
            ModuleTensor(
                str(d.name),
                int(d.size_),
                (int(d.n), int(d.c), int(d.h), int(d.w)),
                int(d.data_format),
                int(d.data_type),
                tuple(int(s) for s in d.stride),
            )
            for d in self._call("module_get_attributes", module, kind)
        ]

    def submit(self, device: int, task: Task, stream: int) -> None:
        self._call("submit_task", device, ctypes.addressof(task), 1, stream, 0)

    def last_error(self, device: int) -> None:
        code = int(self._call("get_last_error", device))
        if code:
            raise _failed("the task", code)

    def unregister(self, device: int, address: int) -> None:
        self._call("mem_unregister", device, address)

    def unload(self, module: int) -> None:
        self._call("module_unload", module, 0)

    def destroy_device(self, device: int) -> None:
        self._call("destroy_device", device)


class CtypesBackend:
    """libcudla through ctypes: JetPack 5 and 6, whose CUDA is older than the bindings."""

    name = "ctypes"

    def __init__(self, library: Optional[str] = None) -> None:
        last: Optional[OSError] = None
        for name in [library] if library else ["libcudla.so.1", "libcudla.so"]:
            try:
                self._lib = ctypes.CDLL(name)
                return
            except OSError as e:
                last = e
        raise EnvironmentMissing(
            f"libcudla cannot be loaded: {last}",
            hint="it comes with JetPack (package cuda-libraries or nvidia-l4t-cuda); a container needs --runtime nvidia",
        )

    def _call(self, function: str, *arguments: object) -> None:
        try:
            call: Callable[..., int] = getattr(self._lib, function)
        except AttributeError as e:
            raise EnvironmentMissing(f"this libcudla has no {function}", hint="update JetPack") from e
        code = call(*arguments)
        if code:
            raise _failed(function, code)

    def version(self) -> int:
        number = ctypes.c_uint64()
        self._call("cudlaGetVersion", ctypes.byref(number))
        return number.value

    def device_count(self) -> int:
        count = ctypes.c_uint64()
        self._call("cudlaDeviceGetCount", ctypes.byref(count))
        return count.value

    def create_device(self, core: int, mode: int) -> int:
        device = ctypes.c_void_p()
        self._call("cudlaCreateDevice", ctypes.c_uint64(core), ctypes.byref(device), ctypes.c_uint32(mode))
        return int(device.value or 0)

    def register(self, device: int, pointer: int, size_bytes: int) -> int:
        out = ctypes.c_void_p()
        self._call(
            "cudlaMemRegister",
            ctypes.c_void_p(device),
            ctypes.c_void_p(pointer),
            ctypes.c_size_t(size_bytes),
            ctypes.byref(out),
            NO_FLAGS,
        )
        return int(out.value or 0)

    def load(self, device: int, loadable: bytes) -> int:
        module = ctypes.c_void_p()
        self._call(
            "cudlaModuleLoadFromMemory",
            ctypes.c_void_p(device),
            ctypes.c_char_p(loadable),
            ctypes.c_size_t(len(loadable)),
            ctypes.byref(module),
            NO_FLAGS,
        )
        return int(module.value or 0)

    def tensors(self, module: int, outputs: bool) -> List[ModuleTensor]:
        attribute = Attribute()
        self._attribute(module, NUM_OUTPUTS if outputs else NUM_INPUTS, attribute)
        table = (TensorDescriptor * _counted(attribute.number, outputs))()
        attribute = Attribute(descriptors=ctypes.cast(table, ctypes.POINTER(TensorDescriptor)))
        self._attribute(module, OUTPUT_DESCRIPTORS if outputs else INPUT_DESCRIPTORS, attribute)
        return [
            ModuleTensor(
                d.name.decode("utf-8", "replace"), d.size, (d.n, d.c, d.h, d.w), d.data_format, d.data_type, tuple(d.stride)
            )
            for d in table
        ]

    def _attribute(self, module: int, kind: int, attribute: Attribute) -> None:
        self._call("cudlaModuleGetAttributes", ctypes.c_void_p(module), ctypes.c_int(kind), ctypes.byref(attribute))

    def submit(self, device: int, task: Task, stream: int) -> None:
        self._call(
            "cudlaSubmitTask", ctypes.c_void_p(device), ctypes.byref(task), ctypes.c_uint32(1), ctypes.c_void_p(stream), NO_FLAGS
        )

    def last_error(self, device: int) -> None:
        # The first cuDLA releases lack this function.
        if hasattr(self._lib, "cudlaGetLastError"):
            self._call("cudlaGetLastError", ctypes.c_void_p(device))

    def unregister(self, device: int, address: int) -> None:
        self._call("cudlaMemUnregister", ctypes.c_void_p(device), ctypes.c_void_p(address))

    def unload(self, module: int) -> None:
        self._call("cudlaModuleUnload", ctypes.c_void_p(module), NO_FLAGS)

    def destroy_device(self, device: int) -> None:
        self._call("cudlaDestroyDevice", ctypes.c_void_p(device))
