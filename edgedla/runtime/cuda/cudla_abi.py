"""cuDLA's binary interface: structures, constants and status codes.

Source: cudla.h of CUDA 11.4 to 13.x, with unchanged names and layouts; `cuda.bindings.cudla` has the same ones.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Dict, Tuple

#: Mode of cudlaCreateDevice: CUDA streams and memory (hybrid); the other, NvSci (standalone), is not used here.
HYBRID = 0
NUM_INPUTS, NUM_OUTPUTS, INPUT_DESCRIPTORS, OUTPUT_DESCRIPTORS = 0, 1, 2, 3

#: CUDLA_RUNTIME_TENSOR_DESC_NAME_MAX_LEN: longer names are cut.
NAME_BYTES = 80

STATUS: Dict[int, str] = {
    1: "invalid parameter",
    2: "out of resources",
    3: "creation failed",
    4: "invalid address",
    5: "operating system error",
    6: "CUDA error",
    7: "error in the DLA user-mode driver (the loadable does not fit this DLA software, or memory ran out)",
    8: "invalid device",
    9: "invalid attribute",
    10: "the loadable was made by an incompatible DLA software version",
    11: "memory is already registered",
    12: "invalid module",
    13: "unsupported operation",
    14: "NvSci error",
    15: "the DLA driver library was not found",
    0x40000001: "the DLA refuses the input",
    0x40000002: "the DLA refuses the pre-action",
    0x40000003: "the DLA is out of memory",
    0x40000004: "the DLA is busy",
    0x40000005: "task status mismatch",
    0x40000006: "the DLA timed out",
    0x40000007: "data mismatch on the DLA",
}


class TensorDescriptor(ctypes.Structure):
    """cudlaModuleTensorDescriptor, 168 bytes."""

    _fields_ = [
        ("name", ctypes.c_char * (NAME_BYTES + 1)),
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
    """cudlaTask, 48 bytes."""

    _fields_ = [
        ("module", ctypes.c_void_p),
        ("outputs", ctypes.POINTER(ctypes.c_void_p)),
        ("num_outputs", ctypes.c_uint32),
        ("num_inputs", ctypes.c_uint32),
        ("inputs", ctypes.POINTER(ctypes.c_void_p)),
        ("wait_events", ctypes.c_void_p),
        ("signal_events", ctypes.c_void_p),
    ]


class Attribute(ctypes.Union):
    """cudlaModuleAttribute."""

    _fields_ = [("number", ctypes.c_uint32), ("descriptors", ctypes.POINTER(TensorDescriptor))]


@dataclass(frozen=True)
class ModuleTensor:
    """One input or output of a loadable. Strides in bytes, innermost first, as the driver reports them."""

    name: str
    size_bytes: int
    nchw: Tuple[int, ...]
    data_format: int
    data_type: int
    strides: Tuple[int, ...]
