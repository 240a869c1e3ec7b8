"""Reads untrusted FlatBuffers: checks every offset and length before following it."""

from __future__ import annotations

from typing import List, Optional, Tuple

from flatbuffers import encode, number_types

from edgedla.errors import DocumentError

#: Entries of all vectors together. Many offsets may lead to one table, so the file's size does not limit the work.
MAX_ENTRIES = 100_000
#: Bytes of one string, and of all strings together.
MAX_TEXT_BYTES = 4096
MAX_TEXTS_BYTES = 32 * 1024 * 1024

_SCALARS = {
    "u8": number_types.Uint8Flags,
    "u16": number_types.Uint16Flags,
    "i16": number_types.Int16Flags,
    "u32": number_types.Uint32Flags,
    "i32": number_types.Int32Flags,
    "u64": number_types.Uint64Flags,
}


class Buffer:
    """The file's bytes, and the limits still left for reading them."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        self.entries_left = MAX_ENTRIES
        self.text_bytes_left = MAX_TEXTS_BYTES

    def error(self, what: str) -> DocumentError:
        return DocumentError(what, where=self.where)

    def get(self, scalar: str, at: int) -> int:
        flags = _SCALARS[scalar]
        # struct counts a negative position from the end, so the lower bound matters too.
        if at < 0 or at + flags.bytewidth > len(self.data):
            raise self.error(f"an offset leads to byte {at} of a file of {len(self.data)} bytes")
        return int(encode.Get(flags.packer_type, self.data, at))

    def root(self) -> Table:
        return self.table(self.get("u32", 0))

    def table(self, at: int) -> Table:
        """The table at a position, with its vtable checked.

        Layout: the table begins with an i32, vtable = at - that; the vtable holds its own size, the table's size, then one
        u16 offset per field, 0 if the field is absent.
        """
        vtable = at - self.get("i32", at)
        vtable_bytes = self.get("u16", vtable)
        if vtable_bytes < 4 or vtable_bytes % 2 or vtable + vtable_bytes > len(self.data):
            raise self.error(f"the table at byte {at} has a field list of {vtable_bytes} bytes")
        return Table(self, at, vtable, vtable_bytes)

    def vector(self, at: int, element_bytes: int) -> Tuple[int, int]:
        """(position of the first element, number of elements) of the vector at a position."""
        count = self.get("u32", at)
        if count * element_bytes > len(self.data) - at - 4:
            raise self.error(f"a list at byte {at} claims {count} entries of {element_bytes} bytes")
        return at + 4, count

    def spend(self, entries: int) -> None:
        self.entries_left -= entries
        if self.entries_left < 0:
            raise self.error(f"the file's lists hold more than {MAX_ENTRIES} entries")


class Table:
    """One table; fields are read by their number in the schema."""

    def __init__(self, buffer: Buffer, at: int, vtable: int, vtable_bytes: int) -> None:
        self.buffer, self.at, self.vtable, self.vtable_bytes = buffer, at, vtable, vtable_bytes

    @property
    def fields(self) -> int:
        """At least how many fields the writer's schema had; a later schema has more."""
        return (self.vtable_bytes - 4) // 2

    def position(self, field: int, size_bytes: int) -> Optional[int]:
        """The position of a field; None if absent."""
        slot = 4 + 2 * field
        if slot >= self.vtable_bytes:
            return None
        offset = self.buffer.get("u16", self.vtable + slot)
        if offset == 0:
            return None
        # The table's own size is no limit: the compiler of the open sample files does not count a struct at its end.
        if offset < 4 or self.at + offset + size_bytes > len(self.buffer.data):
            raise self.buffer.error(f"field {field} of the table at byte {self.at} lies outside the file")
        return self.at + offset

    def scalar(self, field: int, kind: str, default: int = 0) -> int:
        at = self.position(field, _SCALARS[kind].bytewidth)
        return default if at is None else self.buffer.get(kind, at)

    def struct_u8(self, field: int, count: int) -> Optional[Tuple[int, ...]]:
        """A struct of `count` bytes, stored inside the table."""
        at = self.position(field, count)
        return None if at is None else tuple(self.buffer.get("u8", at + i) for i in range(count))

    def _referred(self, field: int) -> Optional[int]:
        at = self.position(field, 4)
        return None if at is None else at + self.buffer.get("u32", at)

    def text(self, field: int) -> str:
        at = self._referred(field)
        return "" if at is None else self._text(at)

    def _text(self, at: int) -> str:
        begin, length = self.buffer.vector(at, 1)
        length = min(length, MAX_TEXT_BYTES)
        self.buffer.text_bytes_left -= length
        if self.buffer.text_bytes_left < 0:
            raise self.buffer.error(f"the file's texts hold more than {MAX_TEXTS_BYTES} bytes")
        return self.buffer.data[begin : begin + length].decode("utf-8", "replace")

    def scalars(self, field: int, kind: str) -> Tuple[int, ...]:
        at = self._referred(field)
        if at is None:
            return ()
        each = _SCALARS[kind].bytewidth
        begin, count = self.buffer.vector(at, each)
        self.buffer.spend(count)
        return tuple(self.buffer.get(kind, begin + i * each) for i in range(count))

    def length(self, field: int, element_bytes: int = 1) -> int:
        """The number of elements of a vector, without reading them."""
        at = self._referred(field)
        return 0 if at is None else self.buffer.vector(at, element_bytes)[1]

    def _references(self, field: int) -> List[int]:
        at = self._referred(field)
        if at is None:
            return []
        begin, count = self.buffer.vector(at, 4)
        self.buffer.spend(count)
        return [begin + 4 * i + self.buffer.get("u32", begin + 4 * i) for i in range(count)]

    def tables(self, field: int) -> Tuple[Table, ...]:
        return tuple(self.buffer.table(at) for at in self._references(field))

    def texts(self, field: int) -> Tuple[str, ...]:
        return tuple(self._text(at) for at in self._references(field))


def open_buffer(data: bytes, where: str) -> Buffer:
    """A buffer over a file's bytes.

    Raises:
        DocumentError: too short for a FlatBuffer.
    """
    if len(data) < 8:
        raise DocumentError(f"{len(data)} bytes are too few for a FlatBuffer", where=where)
    return Buffer(data, where)
