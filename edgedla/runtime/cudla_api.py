"""cuDLA: NVIDIA's driver interface for DLA loadables, over `cuda.bindings.cudla` (CUDA 13) or ctypes on libcudla.so.

Structure layouts and numbers: cudla.h as published in the cuDLA API reference (CUDA 11.4 to 13.x), unchanged over them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from edgedla.errors import EnvironmentMissing, RunError

#: cudlaCreateDevice: CUDA streams and CUDA memory (hybrid), or NvSci (standalone, not used here).
HYBRID = 0
NUM_INPUTS, NUM_OUTPUTS, INPUT_DESCRIPTORS, OUTPUT_DESCRIPTORS = 0, 1, 2, 3

STATUS: Dict[int, str] = {
    1: "invalid parameter", 2: "out of resources", 3: "creation failed", 4: "invalid address", 5: "operating system error",
    6: "CUDA error", 7: "error in the DLA user-mode driver (the loadable does not fit this DLA software, or memory ran out)",
    8: "invalid device", 9: "invalid attribute", 10: "the loadable was made by an incompatible DLA software version",
    11: "memory is already registered", 12: "invalid module", 13: "unsupported operation", 14: "NvSci error",
    15: "the DLA driver library was not found", 0x40000001: "the DLA refuses the input",
    0x40000002: "the DLA refuses the pre-action", 0x40000003: "the DLA is out of memory", 0x40000004: "the DLA is busy",
    0x40000005: "task status mismatch", 0x40000006: "the DLA timed out", 0x40000007: "data mismatch on the DLA",
}  # fmt: skip


class TensorDescriptor(ctypes.Structure):
    """cudlaModuleTensorDescriptor."""

    _fields_ = [
        ("name", ctypes.c_char * 81),
        ("size", ctypes.c_uint64),
        ("n", ctypes.c_uint64),
        ("c", ctypes.c_uint64),
        ("h", ctypes.c_uint64),
        ("w", ctypes.c_uint64),
        ("data_format", ctypes.c_uint8),
        ("data_type", ctypes.c_uint8),
        ("data_category", ctypes.c_uint8),
        ("pixel_format", ctypes.c_uint8),
        ("pixel_mapping", ctypes.c_uint8),
        ("stride", ctypes.c_uint32 * 8),
    ]


class Task(ctypes.Structure):
    """cudlaTask."""

    _fields_ = [
        ("module", ctypes.c_void_p),
        ("outputs", ctypes.POINTER(ctypes.c_void_p)),
        ("num_outputs", ctypes.c_uint32),
        ("num_inputs", ctypes.c_uint32),
        ("inputs", ctypes.POINTER(ctypes.c_void_p)),
        ("wait_events", ctypes.c_void_p),
        ("signal_events", ctypes.c_void_p),
    ]


class _Attribute(ctypes.Union):
    _fields_ = [("number", ctypes.c_uint32), ("descriptors", ctypes.POINTER(TensorDescriptor))]


@dataclass(frozen=True)
class ModuleTensor:
    """One input or output of a loadable. Strides in bytes, innermost first, as the driver gives them."""

    name: str
    size_bytes: int
    nchw: tuple
    data_format: int
    data_type: int
    strides: tuple


class Cudla:
    """One DLA core in hybrid mode: register CUDA memory, load a loadable, submit tasks on a CUDA stream.

    Args:
        core: DLA core number. library: path of libcudla.so, by default the system's.

    Raises:
        EnvironmentMissing: no libcudla, or no such core.
    """

    def __init__(self, core: int, library: Optional[str] = None) -> None:
        self._lib = _load(library)
        count = ctypes.c_uint64()
        self._call("cudlaDeviceGetCount", ctypes.byref(count))
        if core >= count.value:
            raise EnvironmentMissing(
                f"DLA core {core} is not here: cuDLA finds {count.value}", hint="`edgedla doctor` says why"
            )
        self._device = ctypes.c_void_p()
        self._call("cudlaCreateDevice", ctypes.c_uint64(core), ctypes.byref(self._device), ctypes.c_uint32(HYBRID))
        self._registered: List[int] = []
        self._modules: List[int] = []

    def version(self) -> int:
        number = ctypes.c_uint64()
        self._call("cudlaGetVersion", ctypes.byref(number))
        return number.value

    def register(self, pointer: int, size_bytes: int) -> int:
        """Makes CUDA memory known to the DLA; returns the DLA's address for it."""
        out = ctypes.c_void_p()
        self._call(
            "cudlaMemRegister",
            self._device,
            ctypes.c_void_p(pointer),
            ctypes.c_size_t(size_bytes),
            ctypes.byref(out),
            ctypes.c_uint32(0),
        )
        self._registered.append(int(out.value or 0))
        return self._registered[-1]

    def load(self, loadable: bytes) -> int:
        """Loads a loadable; returns the module's handle."""
        module = ctypes.c_void_p()
        data = (ctypes.c_uint8 * len(loadable)).from_buffer_copy(loadable)
        self._call(
            "cudlaModuleLoadFromMemory",
            self._device,
            data,
            ctypes.c_size_t(len(loadable)),
            ctypes.byref(module),
            ctypes.c_uint32(0),
        )
        self._modules.append(int(module.value or 0))
        return self._modules[-1]

    def tensors(self, module: int, outputs: bool) -> List[ModuleTensor]:
        """The module's inputs or outputs, in the order that `submit` wants their memory."""
        attribute = _Attribute()
        self._attribute(module, NUM_OUTPUTS if outputs else NUM_INPUTS, attribute)
        count = attribute.number
        if not 0 < count <= 1024:
            raise RunError(f"cuDLA names {count} {'outputs' if outputs else 'inputs'}", allowed="1 to 1024")
        table = (TensorDescriptor * count)()
        attribute = _Attribute(descriptors=ctypes.cast(table, ctypes.POINTER(TensorDescriptor)))
        self._attribute(module, OUTPUT_DESCRIPTORS if outputs else INPUT_DESCRIPTORS, attribute)
        return [
            ModuleTensor(
                d.name.decode("utf-8", "replace"),
                d.size,
                (d.n, d.c, d.h, d.w),
                d.data_format,
                d.data_type,
                tuple(d.stride),
            )
            for d in table
        ]

    def _attribute(self, module: int, kind: int, attribute: _Attribute) -> None:
        self._call("cudlaModuleGetAttributes", ctypes.c_void_p(module), ctypes.c_int(kind), ctypes.byref(attribute))

    def submit(self, module: int, inputs: Sequence[int], outputs: Sequence[int], stream: int) -> None:
        """Queues one task on the CUDA stream; it is done when the stream is.

        Args:
            inputs, outputs: the DLA's addresses (from `register`) in the order of `tensors`.
        """
        ins, outs = (ctypes.c_void_p * len(inputs))(*inputs), (ctypes.c_void_p * len(outputs))(*outputs)
        # No events: in hybrid mode the stream orders the work.
        task = Task(module, outs, len(outputs), len(inputs), ins, None, None)
        self._call(
            "cudlaSubmitTask",
            self._device,
            ctypes.byref(task),
            ctypes.c_uint32(1),
            ctypes.c_void_p(stream),
            ctypes.c_uint32(0),
        )

    def close(self) -> None:
        if not self._device:
            return
        for pointer in self._registered:
            self._lib.cudlaMemUnregister(self._device, ctypes.c_void_p(pointer))
        for module in self._modules:
            self._lib.cudlaModuleUnload(ctypes.c_void_p(module), ctypes.c_uint32(0))
        self._lib.cudlaDestroyDevice(self._device)
        self._device = ctypes.c_void_p()

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._lib, name)(*arguments) & 0xFFFFFFFF
        if code:
            raise RunError(
                f"{name} failed with {code:#x}: {STATUS.get(code, 'unknown error')}",
                hint="`edgedla doctor` checks the DLA",
            )


def _load(library: Optional[str]) -> Any:
    names = [library] if library else ["libcudla.so.1", "libcudla.so"]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as e:
            last = e
    raise EnvironmentMissing(
        f"libcudla cannot be loaded: {last}",
        hint="it comes with JetPack (package cuda-libraries or nvidia-l4t-cuda); a container needs --runtime nvidia",
    )
