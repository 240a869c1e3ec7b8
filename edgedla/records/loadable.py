"""A DLA loadable of the open NVDLA family (FlatBuffers): tasks, memory, tensors, submit order.

Source: nvdla/sw, umd/core/src/common/loadable.fbs (BSD licence), schema version 0.7.0. It is the only published
relative of what TensorRT writes in standalone mode for Xavier and Orin. Whether those files still follow it is not
known, so every read is checked, and deviations are reported.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

from edgedla.errors import DocumentError
from edgedla.io.files import read_plain
from edgedla.records.flatbuffer import Table, open_buffer
from edgedla.text.printable import Fields

KNOWN_VERSION = (0, 7, 0)
MAX_FILE_BYTES = 2 * 1024 * 1024 * 1024

INTERFACES = {0: "none", 1: "DLA1", 2: "EMU1"}
DOMAINS = {0: "system DRAM", 1: "SRAM"}
MEMORY_FLAGS = ((1, "alloc"), (2, "set"), (4, "input"), (8, "output"))
EVENT_OPS = {0: "wait", 1: "signal"}
DATA_FORMATS = {1: "NCHW", 2: "NHWC"}
DATA_TYPES = {1: "float", 2: "half", 3: "int16", 4: "int8"}
DATA_CATEGORIES = {0: "image", 1: "weight", 2: "feature", 3: "planar", 4: "bias"}
PIXEL_FORMATS = {0: "R8", 12: "A8B8G8R8", 36: "feature", 37: "feature x8"}


@dataclass(frozen=True)
class Task:
    """Work for one interface (DLA1: the accelerator; EMU1: the CPU emulator, for example for Softmax).

    `instance` is the core, -1 for any. `addresses` are ids in the address list.
    """

    id: int
    interface: str
    instance: int
    addresses: Tuple[int, ...]
    pre_actions: Tuple[int, ...]
    post_actions: Tuple[int, ...]


@dataclass(frozen=True)
class Memory:
    """One memory block.

    `contents` names the blobs that fill it, `offsets` their positions; `bind_id` numbers inputs and outputs separately.
    """

    id: int
    domain: str
    flags: Tuple[str, ...]
    size_bytes: int
    alignment: int
    contents: Tuple[str, ...]
    offsets: Tuple[int, ...]
    bind_id: int
    tensor_desc_id: int


@dataclass(frozen=True)
class Address:
    id: int
    mem_id: int
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class Event:
    id: int
    type: int
    target: int
    value: int
    op: str


@dataclass(frozen=True)
class Blob:
    """A named piece of data; `data_bytes` is the number of bytes really in the file."""

    name: str
    size_bytes: int
    interface: str
    sub_interface: int
    version: Optional[Tuple[int, ...]]
    data_bytes: int


@dataclass(frozen=True)
class TensorDesc:
    """A tensor in a memory block. `strides` are the non-zero ones, innermost first, in bytes."""

    name: str
    id: int
    mem_id: int
    size_bytes: int
    offset: int
    data_format: str
    data_type: str
    data_category: str
    pixel_format: str
    pixel_mapping: int
    nchw: Tuple[int, int, int, int]
    strides: Tuple[int, ...]


@dataclass(frozen=True)
class Reloc:
    address_id: int
    write_id: int
    offset: int
    interface: str
    sub_interface: int
    type: int


@dataclass(frozen=True)
class Submit:
    """Tasks that may run together; submits run one after another."""

    id: int
    tasks: Tuple[int, ...]


@dataclass(frozen=True)
class LoadableFile(Fields):
    """A loadable. `notes`: inconsistencies, and parts newer than the known schema."""

    version: Tuple[int, ...]
    size_bytes: int
    tasks: Tuple[Task, ...]
    memory: Tuple[Memory, ...]
    addresses: Tuple[Address, ...]
    events: Tuple[Event, ...]
    blobs: Tuple[Blob, ...]
    tensors: Tuple[TensorDesc, ...]
    relocs: Tuple[Reloc, ...]
    submits: Tuple[Submit, ...]
    notes: Tuple[str, ...] = ()

    def bound(self, flag: str) -> Tuple[Tuple[Memory, Optional[TensorDesc]], ...]:
        """The memory blocks with a flag ("input", "output") by bind id, each with its tensor if it has one."""
        of = {t.id: t for t in self.tensors}
        chosen = sorted((m for m in self.memory if flag in m.flags), key=lambda m: (m.bind_id, m.id))
        return tuple((m, of.get(m.tensor_desc_id)) for m in chosen)

    def allocated_bytes(self, domain: str) -> int:
        return sum(m.size_bytes for m in self.memory if m.domain == domain)

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": "nvdla-loadable", **super().to_dict()}


def read_loadable(source: Union[str, os.PathLike[str], bytes]) -> LoadableFile:
    """The loadable of a file or its bytes.

    Raises:
        DocumentError: unreadable, broken, or not a loadable of this family.
    """
    where = "loadable"
    if isinstance(source, (str, os.PathLike)):
        where = str(source)
        data = read_plain(source, MAX_FILE_BYTES, "larger than any loadable (2 GiB)")
    else:
        data = source
    root = open_buffer(data, where).root()
    version = root.struct_u8(0, 3)
    if version is None:
        raise DocumentError("not a loadable of the NVDLA family: the required version is missing", where=where)
    loadable = LoadableFile(
        version=version,
        size_bytes=len(data),
        tasks=tuple(_task(t) for t in root.tables(1)),
        memory=tuple(_memory(t) for t in root.tables(2)),
        addresses=tuple(
            Address(t.scalar(0, "u16"), t.scalar(1, "u16"), t.scalar(2, "u64"), t.scalar(3, "u64")) for t in root.tables(3)
        ),
        events=tuple(
            Event(
                t.scalar(0, "u16"), t.scalar(1, "u8"), t.scalar(2, "u16"), t.scalar(3, "u32"), _name(EVENT_OPS, t.scalar(4, "u8"))
            )
            for t in root.tables(4)
        ),
        blobs=tuple(
            Blob(
                t.text(0),
                t.scalar(1, "u64"),
                _name(INTERFACES, t.scalar(2, "u32")),
                t.scalar(3, "u32"),
                t.struct_u8(4, 3),
                t.length(5),
            )
            for t in root.tables(5)
        ),
        tensors=tuple(_tensor(t) for t in root.tables(6)),
        relocs=tuple(
            Reloc(
                t.scalar(0, "u16"),
                t.scalar(1, "u16"),
                t.scalar(2, "u64"),
                _name(INTERFACES, t.scalar(3, "u32")),
                t.scalar(4, "u32"),
                t.scalar(5, "u8"),
            )
            for t in root.tables(7)
        ),
        submits=tuple(Submit(t.scalar(0, "u16"), t.scalars(1, "u16")) for t in root.tables(8)),
    )
    if not (loadable.tasks or loadable.memory or loadable.blobs):
        raise DocumentError("not a loadable of the NVDLA family: no tasks, memory or data where they belong", where=where)
    return LoadableFile(**{**vars(loadable), "notes": _notes(loadable, root)})


def _task(t: Table) -> Task:
    return Task(
        id=t.scalar(0, "u16"),
        interface=_name(INTERFACES, t.scalar(1, "u32")),
        instance=t.scalar(2, "i16", -1),
        addresses=t.scalars(3, "u16"),
        pre_actions=t.scalars(4, "u16"),
        post_actions=t.scalars(5, "u16"),
    )


def _memory(t: Table) -> Memory:
    flags = t.scalar(2, "u16")
    names = [name for bit, name in MEMORY_FLAGS if flags & bit]
    rest = flags & ~sum(bit for bit, _ in MEMORY_FLAGS)
    return Memory(
        id=t.scalar(0, "u16"),
        domain=_name(DOMAINS, t.scalar(1, "u8")),
        flags=tuple(names + ([f"unknown 0x{rest:x}"] if rest else [])),
        size_bytes=t.scalar(3, "u64"),
        alignment=t.scalar(4, "u32"),
        contents=t.texts(5),
        offsets=t.scalars(6, "u64"),
        bind_id=t.scalar(7, "u16"),
        tensor_desc_id=t.scalar(8, "u16"),
    )


def _tensor(t: Table) -> TensorDesc:
    n, c, h, w = (t.scalar(i, "i32") for i in range(10, 14))
    strides = [t.scalar(i, "u32") for i in range(14, 22)]
    while strides and not strides[-1]:
        strides.pop()
    return TensorDesc(
        name=t.text(0),
        id=t.scalar(1, "u16"),
        mem_id=t.scalar(2, "u16"),
        size_bytes=t.scalar(3, "u64"),
        offset=t.scalar(4, "u64"),
        data_format=_name(DATA_FORMATS, t.scalar(5, "u8")),
        data_type=_name(DATA_TYPES, t.scalar(6, "u8")),
        data_category=_name(DATA_CATEGORIES, t.scalar(7, "u8")),
        pixel_format=_name(PIXEL_FORMATS, t.scalar(8, "u8")),
        pixel_mapping=t.scalar(9, "u8"),
        nchw=(n, c, h, w),
        strides=tuple(strides),
    )


def _name(names: Dict[int, str], value: int) -> str:
    return names.get(value, f"unknown {value}")


def _notes(loadable: LoadableFile, root: Table) -> Tuple[str, ...]:
    """Notes for a reader: another version, unknown fields, references to missing entries."""
    notes: List[str] = []
    if loadable.version != KNOWN_VERSION:
        text = ".".join(str(n) for n in loadable.version)
        notes.append(f"version {text}; its fields are read as those of the open schema 0.7.0, which may be wrong")
    if root.fields > 9:
        notes.append(f"{root.fields - 9} fields at the top are newer than the open schema and are not read")
    memory, addresses = {m.id for m in loadable.memory}, {a.id for a in loadable.addresses}
    tasks, blobs = {t.id for t in loadable.tasks}, {b.name for b in loadable.blobs}
    missing = (
        ("addresses that tasks use", {a for t in loadable.tasks for a in t.addresses} - addresses),
        ("memory that addresses use", {a.mem_id for a in loadable.addresses} - memory),
        ("tasks in the submit order", {i for s in loadable.submits for i in s.tasks} - tasks),
        ("blobs that memory is filled from", {name for m in loadable.memory for name in m.contents if name} - blobs),
        ("memory that tensors lie in", {t.mem_id for t in loadable.tensors} - memory),
    )
    for what, ids in missing:
        if ids:
            some = ", ".join(str(i) for i in sorted(ids, key=str)[:5])
            notes.append(f"{what} are not in the file: {some}{' and others' if len(ids) > 5 else ''}")
    short = [b.name for b in loadable.blobs if b.data_bytes < b.size_bytes]
    if short:
        notes.append(f"{len(short)} blobs hold fewer bytes than they state, the first is {short[0]!r}")
    return tuple(notes)
