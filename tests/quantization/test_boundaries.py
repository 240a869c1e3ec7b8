"""Where a limit or a range of the quantisation lies, by the value on each side of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional, Tuple

import numpy as np
import pytest

from edgedla.errors import EnvironmentMissing
from edgedla.quantization import memory_limit as memory
from edgedla.quantization.histogram import Histogram
from edgedla.quantization.methods import divergences
from edgedla.quantization.numerics import features
from edgedla.quantization.samples import InputSpec, synthetic_samples

MIB = 1 << 20


@pytest.mark.parametrize(
    ("most", "used", "machine_kb", "free"),
    [
        ("100", "30", 1, 70),
        ("100", "30", None, 70),
        ("30", "100", None, 0),
        ("max", "30", 1, 1024),
        ("max", "30", None, None),
        ("x", "30", 1, 1024),
        ("9999", "0", 1, 1024),
        ("100", None, 1, 1024),
        (None, "30", 1, 1024),
    ],
)
def test_free_memory_is_the_least_of_the_machines_and_the_containers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most: Optional[str],
    used: Optional[str],
    machine_kb: Optional[int],
    free: Any,
) -> None:
    places = {"/proc/meminfo": tmp_path / "meminfo"}
    if machine_kb is not None:
        places["/proc/meminfo"].write_text(f"MemTotal: 9 kB\nMemAvailable:  {machine_kb} kB\n")
    for name, text in (("most", most), ("used", used)):
        if text is not None:
            (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(memory, "Path", lambda text: places[text])
    monkeypatch.setattr(memory, "_CGROUP", (tmp_path / "most", tmp_path / "used"))
    assert memory.available_bytes() == free


def test_the_files_of_a_containers_limit_are_those_of_cgroup_v2() -> None:
    assert [str(path) for path in memory._CGROUP] == ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"]


@pytest.mark.parametrize(("count", "fits"), [(3 * MIB, True), (3 * MIB + 1, False)])
def test_room_is_refused_from_the_first_byte_beyond_the_limit(monkeypatch: pytest.MonkeyPatch, count: int, fits: bool) -> None:
    monkeypatch.setattr(memory, "guard", SimpleNamespace(held_bytes=lambda: MIB))
    with memory.memory_limit(4 * MIB):
        if fits:
            memory.require_room(count, "a table")
            return
        with pytest.raises(EnvironmentMissing, match="a table would take 3 MiB of memory.*3 MiB"):
            memory.require_room(count, "a table")


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(np.uint8, 0, 255), (np.int64, 0, 1), (np.int32, 0, 1), (np.bool_, 0, 1), (np.int8, 0, 1)]
)
def test_synthetic_numbers_fill_their_range(dtype: Any, low: int, high: int) -> None:
    feed = synthetic_samples((InputSpec("x", (64, 64), dtype),), count=1).feeds[0]["x"]
    assert (feed.dtype, int(feed.min()), int(feed.max())) == (dtype, low, high)


@pytest.mark.parametrize("values", [(0.0, 0.0, 0.0), (0.0, 3.0), (3.0, -4.0), (0.0, 0.0, 5.0), (1e-20, 2.0)])
def test_the_power_of_a_histogram_is_the_mean_square(values: Tuple[float, ...]) -> None:
    seen = Histogram()
    magnitudes = np.abs(np.asarray(values, np.float32))
    seen.add(magnitudes, float(magnitudes.max()))
    assert seen.power() == pytest.approx(float(np.mean(np.square(values))), rel=0.01)


@pytest.mark.parametrize("bins", [128, 129, 500])
def test_a_histogram_of_nothing_keeps_every_bin_at_no_loss(bins: int) -> None:
    kept, lost = divergences(np.zeros(bins))
    assert (list(kept), list(lost)) == ([bins], [0.0])


def test_a_histogram_of_one_value_has_a_cut_at_every_bin() -> None:
    counts = np.zeros(130)
    counts[0] = 1.0
    assert list(divergences(counts)[0]) == [128, 129, 130]


@pytest.mark.parametrize("bins", [128, 129, 500])
def test_a_cut_of_the_whole_histogram_loses_least_where_all_bins_count_alike(bins: int) -> None:
    kept, lost = divergences(np.ones(bins))
    assert list(kept) == list(range(128, bins + 1))
    assert int(kept[np.argmin(lost)]) == bins
    assert lost[-1] == pytest.approx(0.0, abs=1e-9)


def test_features_of_the_numerics_are_known_by_their_names() -> None:
    rounding = features()["int8-rounding"]
    assert (rounding.id, rounding.default) == ("NUM001", "half-away")
    assert rounding.default in rounding.variants
