"""Frames in memory that two processes share: when a slot is free again, what happens when none is, who may look how long."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Iterator, List, Tuple

import numpy as np
import pytest

from edgedla.runtime.sources.gst_child import SLOTS
from edgedla.runtime.sources.ring import AHEAD, Ring, as_frame

SIZE = 64


class Giver:
    """The other process's side."""

    def __init__(self, ring: Ring) -> None:
        os.ftruncate(ring.memory_fd, SIZE * SLOTS)
        self.grants_fd, self.memory = ring.grants_fd, mmap.mmap(ring.memory_fd, 0)
        os.set_blocking(self.grants_fd, False)
        self.waiting: List[int] = []

    def granted(self) -> List[int]:
        """Slots that it may write to."""
        with contextlib.suppress(BlockingIOError):
            self.waiting += os.read(self.grants_fd, SLOTS)
        return self.waiting

    def give(self, value: int) -> int:
        slot = self.granted().pop(0)
        self.memory[slot * SIZE : (slot + 1) * SIZE] = bytes([value]) * SIZE
        return slot


@pytest.fixture
def sides() -> Iterator[Tuple[Ring, Giver]]:
    ring = Ring()
    ring.grant()
    yield ring, Giver(ring)
    ring.close()


def test_a_frame_lies_where_the_other_process_wrote_it(sides: Tuple[Ring, Giver]) -> None:
    ring, giver = sides
    assert len(giver.granted()) == AHEAD
    slot = giver.give(7)
    frame = ring.take(slot)
    assert frame.tolist() == [7] * SIZE
    giver.memory[slot * SIZE] = 9
    assert frame[0] == 9, "no copy"


def test_a_slot_is_free_again_once_no_view_sees_it(sides: Tuple[Ring, Giver]) -> None:
    ring, giver = sides
    slot = giver.give(1)
    view = ring.take(slot).reshape(8, 8)[:, 2:4]
    for value in range(2, 9):
        ring.take(giver.give(value))
    assert (view == 1).all(), "not written over while somebody holds a view of it"
    assert slot not in giver.granted()
    del view
    ring.take(giver.give(9))
    assert slot in giver.granted(), "the slot freed last is the next"


def test_somebody_who_keeps_all_frames_gets_copies_and_stops_nobody(sides: Tuple[Ring, Giver]) -> None:
    ring, giver = sides
    kept = [ring.take(giver.give(value)) for value in range(3 * SLOTS)]
    assert [int(frame[0]) for frame in kept] == list(range(3 * SLOTS))
    assert len(giver.granted()) >= 1
    kept.clear()
    for value in range(3 * SLOTS):
        assert ring.take(giver.give(value))[5] == value


def test_a_frame_outlives_the_ring(sides: Tuple[Ring, Giver]) -> None:
    ring, giver = sides
    other = Ring()
    other.grant()
    frame = other.take(Giver(other).give(3))
    other.close()
    assert frame.tolist() == [3] * SIZE
    assert ring.take(giver.give(4))[0] == 4


def test_nobody_on_the_other_side_is_no_error() -> None:
    ring = Ring()
    os.close(ring.grants_fd)
    ring.grants_fd = os.open(os.devnull, os.O_RDONLY)
    ring.grant()
    ring.close()


@pytest.mark.parametrize("hw", [(4, 8), (4, 6), (5, 7), (6, 10), (7, 12), (2, 2)])
@pytest.mark.parametrize("kind", ["NV12", "I420"])
def test_planes_become_one_nv12_frame_whatever_their_padding(hw: Tuple[int, int], kind: str) -> None:
    """GStreamer's layout (video-info.c): rows padded to 4 bytes, an even number of rows of Y; I420's planes each padded."""
    h, w = hw
    even_h, even_w, rows, columns = h // 2 * 2, w // 2 * 2, -(-h // 2), -(-w // 2)
    rng = np.random.default_rng(h * w)
    y = rng.integers(0, 256, (2 * rows, -(-w // 4) * 4), np.uint8)
    u, v = rng.integers(0, 256, (2, rows, columns), np.uint8)
    if kind == "NV12":
        chroma = np.full((rows, y.shape[1]), 99, np.uint8)
        chroma[:, 0 : 2 * columns : 2], chroma[:, 1 : 2 * columns : 2] = u, v
        data = np.concatenate([y.ravel(), chroma.ravel()])
    else:
        padded = np.full((2, rows, -(-columns // 4) * 4), 99, np.uint8)
        padded[:, :, :columns] = u, v
        data = np.concatenate([y.ravel(), padded.ravel()])
    frame = as_frame(data, kind, hw)
    assert frame.shape == (even_h * 3 // 2, even_w)
    assert np.array_equal(frame[:even_h], y[:even_h, :even_w])
    assert np.array_equal(frame[even_h:, 0::2], u[: even_h // 2, : even_w // 2])
    assert np.array_equal(frame[even_h:, 1::2], v[: even_h // 2, : even_w // 2])


def test_i420_becomes_nv12_without_opencv_too(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(96, dtype=np.uint8)
    with_opencv = as_frame(data.copy(), "I420", (8, 8)).copy()
    monkeypatch.setattr("edgedla.runtime.sources.ring.opencv", lambda: False)
    assert np.array_equal(as_frame(data.copy(), "I420", (8, 8)), with_opencv)
