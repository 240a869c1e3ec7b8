"""Loadables of the open NVDLA family: their content, odd versions, and files made to break the reader."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import time
import tracemalloc

import pytest

from edgedla.errors import DocumentError
from edgedla.records.flatbuffer import MAX_ENTRIES
from edgedla.records.loadable import read_loadable
from tests.records.loadable_maker import make_loadable


def test_tasks_submit_order_and_interfaces():
    loadable = read_loadable(make_loadable())
    assert loadable.version == (0, 7, 0)
    assert [(t.id, t.interface, t.instance, t.addresses) for t in loadable.tasks] == [
        (0, "DLA1", -1, (0, 1, 2)),
        (1, "EMU1", -1, (2,)),
    ]
    assert [s.tasks for s in loadable.submits] == [(0,), (1,)]
    assert [(e.op, e.target) for e in loadable.events] == [("signal", 1)]
    assert loadable.notes == ()


def test_inputs_outputs_memory_and_blobs():
    loadable = read_loadable(make_loadable())
    ((memory, tensor),) = loadable.bound("input")
    assert (memory.size_bytes, tensor.name, tensor.nchw, tensor.strides) == (25088, "data", (1, 3, 28, 28), (1, 896, 25088))
    assert (tensor.data_type, tensor.data_format, tensor.data_category, tensor.pixel_format) == (
        "int8",
        "NCHW",
        "feature",
        "feature",
    )
    assert [t.name for _, t in loadable.bound("output")] == ["prob"]
    (blob,) = loadable.blobs
    assert (blob.name, blob.size_bytes, blob.data_bytes, blob.version) == ("weights", 64, 64, (0, 12, 0))
    assert loadable.allocated_bytes("SRAM") == 1048576
    json.dumps(loadable.to_dict())


def test_inconsistencies_are_noted():
    assert any("may be wrong" in n for n in read_loadable(make_loadable(schema=(1, 3, 0))).notes)
    assert any("elsewhere" in n for n in read_loadable(make_loadable(missing_blob=True)).notes)
    assert any("fewer bytes" in n for n in read_loadable(make_loadable(short_blob=True)).notes)


@pytest.mark.parametrize(
    "data", [b"", b"1234567", bytes(64), b"\xff" * 64, b"PK\x03\x04" + bytes(60), make_loadable(with_version=False)]
)
def test_other_files_are_document_errors(data):
    with pytest.raises(DocumentError):
        read_loadable(data)


def test_a_missing_file_is_a_document_error(tmp_path):
    with pytest.raises(DocumentError, match="cannot read"):
        read_loadable(tmp_path / "none")


def attack(data, rounds, seed):
    """Bit flips, overwritten words and truncations; each is an answer or a DocumentError."""
    rng = random.Random(seed)
    for _ in range(rounds):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(broken))
            if rng.random() < 0.5:
                broken[at] ^= 1 << rng.randrange(8)
            else:
                word = struct.pack("<I", rng.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, rng.randrange(len(data)))))
                broken[at : at + 4] = word[: len(broken) - at]
        if rng.random() < 0.3:
            del broken[rng.randrange(1, len(broken)) :]
        with contextlib.suppress(DocumentError):
            json.dumps(read_loadable(bytes(broken)).to_dict())


def test_mutated_loadables_are_read_or_refused_in_bounded_time():
    data = make_loadable()
    start = time.process_time()
    attack(data, 3000, seed=1)
    for length in range(len(data)):
        with contextlib.suppress(DocumentError):
            read_loadable(data[:length])
    assert time.process_time() - start < 15


def test_a_false_length_in_a_loadable_is_not_allocated():
    data = bytearray(make_loadable())
    tracemalloc.start()
    rng = random.Random(3)
    for _ in range(300):
        broken = bytearray(data)
        at = rng.randrange(0, len(broken) - 4)
        broken[at : at + 4] = struct.pack("<I", 0x7FFFFFF0)
        with contextlib.suppress(DocumentError):
            read_loadable(bytes(broken))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1024 * 1024


def test_many_references_to_one_table_are_refused():
    # A list of a million entries that all name the same table would be read a million times.
    count = MAX_ENTRIES + 1
    vtable = struct.pack("<HHHH", 8, 12, 4, 8)
    table = struct.pack("<iBBBxI", 8, 0, 7, 0, 4)
    head = struct.pack("<I", 4 + len(vtable)) + vtable + table
    entry = 12  # every entry points back to the root table
    entries = b"".join(struct.pack("<I", (entry - (len(head) + 4 + 4 * i)) & 0xFFFFFFFF) for i in range(count))
    start = time.process_time()
    with pytest.raises(DocumentError, match="entries"):
        read_loadable(head + struct.pack("<I", count) + entries)
    assert time.process_time() - start < 5


def test_sample_files_of_the_open_project(shared):
    folder = shared / "evidence" / "loadables"
    found = {path.name: read_loadable(path) for path in sorted(folder.iterdir())}
    assert {each.version for each in found.values()} == {(0, 7, 0)}
    assert all(not each.notes for each in found.values())
    net = found["NN_L0_0_fbuf"]
    assert [t.name for _, t in net.bound("input") + net.bound("output")] == ["data", "prob"]
    assert [t.interface for t in net.tasks] == ["EMU1", "DLA1", "EMU1"]
    assert [s.tasks for s in net.submits] == [(0,), (1,), (2,)]


def test_sample_files_survive_attacks(shared):
    for path in sorted((shared / "evidence" / "loadables").iterdir()):
        attack(path.read_bytes(), 60, seed=len(path.name))
