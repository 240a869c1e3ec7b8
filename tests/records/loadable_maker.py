"""Writes small loadables with the flatbuffers package, field by field after the open schema 0.7.0."""

from __future__ import annotations

import flatbuffers

ADD = {
    "u8": "PrependUint8Slot",
    "u16": "PrependUint16Slot",
    "i16": "PrependInt16Slot",
    "u32": "PrependUint32Slot",
    "i32": "PrependInt32Slot",
    "u64": "PrependUint64Slot",
}
WRITE = {"u8": "PrependUint8", "u16": "PrependUint16", "u64": "PrependUint64"}
BYTES = {"u8": 1, "u16": 2, "u64": 8}


def vector(b, kind, values):
    b.StartVector(BYTES[kind], len(values), BYTES[kind])
    for value in reversed(values):
        getattr(b, WRITE[kind])(value)
    return b.EndVector()


def references(b, offsets):
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def version(b, slot, numbers):
    b.Prep(1, 3)
    for number in reversed(numbers):
        b.PrependUint8(number)
    b.PrependStructSlot(slot, b.Offset(), 0)


def table(b, fields, struct=None):
    """fields: (kind, value) by slot; strings, vectors and lists of tables are ("ref", offset)."""
    b.StartObject(max([slot for slot, _, _ in fields] + ([struct[0]] if struct else [0])) + 1)
    for slot, kind, value in fields:
        if kind == "ref":
            b.PrependUOffsetTRelativeSlot(slot, value, 0)
        else:
            # A default that no value has: FlatBuffers leaves a field out that equals its default.
            getattr(b, ADD[kind])(slot, value, -99 if kind in ("i16", "i32") else 99)
    if struct:
        version(b, *struct)
    return b.EndObject()


def make_loadable(schema=(0, 7, 0), missing_blob=False, short_blob=False, with_version=True):
    """One convolution task on DLA1 and one on EMU1; an input, a weight blob, an output."""
    b = flatbuffers.Builder(1024)
    weights = b.CreateString("weights")
    other = b.CreateString("elsewhere")
    data = vector(b, "u8", [7] * (16 if short_blob else 64))
    blob = table(b, [(0, "ref", weights), (1, "u64", 64), (2, "u32", 1), (3, "u32", 5), (5, "ref", data)], (4, (0, 12, 0)))
    blobs = references(b, [blob])

    def memory(id, flags, size, contents=(), bind=0, tensor=0, domain=0):
        names = references(b, list(contents))
        offsets = vector(b, "u64", [0] * len(contents))
        return table(
            b,
            [
                (0, "u16", id),
                (1, "u8", domain),
                (2, "u16", flags),
                (3, "u64", size),
                (4, "u32", 4096),
                (5, "ref", names),
                (6, "ref", offsets),
                (7, "u16", bind),
                (8, "u16", tensor),
            ],
        )

    memories = references(
        b,
        [
            memory(0, 1 | 2, 64, [other if missing_blob else weights]),
            memory(1, 1 | 4, 25088, tensor=0),
            memory(2, 1 | 8, 6272, tensor=1),
            memory(3, 1, 1048576, domain=1),
        ],
    )
    addresses = references(
        b,
        [
            table(b, [(0, "u16", i), (1, "u16", i), (2, "u64", 0), (3, "u64", s)])
            for i, s in enumerate((64, 25088, 6272, 1048576))
        ],
    )

    def tensor(name, id, mem, size, nchw, strides):
        named = b.CreateString(name)
        fields = [
            (0, "ref", named),
            (1, "u16", id),
            (2, "u16", mem),
            (3, "u64", size),
            (4, "u64", 0),
            (5, "u8", 1),
            (6, "u8", 4),
            (7, "u8", 2),
            (8, "u8", 36),
            (9, "u8", 0),
        ]
        fields += [(10 + i, "i32", n) for i, n in enumerate(nchw)]
        fields += [(14 + i, "u32", s) for i, s in enumerate(strides)]
        return table(b, fields)

    tensors = references(
        b,
        [
            tensor("data", 0, 1, 25088, (1, 3, 28, 28), (1, 896, 25088)),
            tensor("prob", 1, 2, 6272, (1, 32, 14, 14), (1, 448, 6272)),
        ],
    )

    def task(id, interface, used, post=()):
        lists = [vector(b, "u16", list(v)) for v in (used, (), post)]
        return table(
            b,
            [
                (0, "u16", id),
                (1, "u32", interface),
                (2, "i16", -1),
                (3, "ref", lists[0]),
                (4, "ref", lists[1]),
                (5, "ref", lists[2]),
            ],
        )

    tasks = references(b, [task(0, 1, (0, 1, 2), (0,)), task(1, 2, (2,))])
    events = references(b, [table(b, [(0, "u16", 0), (1, "u8", 0), (2, "u16", 1), (3, "u32", 1), (4, "u8", 1)])])
    chosen = []
    for i in range(2):
        ids = vector(b, "u16", [i])
        chosen.append(table(b, [(0, "u16", i), (1, "ref", ids)]))
    submits = references(b, chosen)
    lists = [tasks, memories, addresses, events, blobs, tensors]
    fields = [(slot + 1, "ref", offset) for slot, offset in enumerate(lists)] + [(8, "ref", submits)]
    root = table(b, fields, (0, schema) if with_version else None)
    b.Finish(root)
    return bytes(b.Output())
