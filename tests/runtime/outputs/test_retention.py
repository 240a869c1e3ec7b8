"""Old files are removed by age, by their size together and until the disk is free enough: the oldest first, no open one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, List

import pytest

from edgedla.runtime.outputs import retention
from edgedla.runtime.outputs.retention import Retention
from edgedla.runtime.pipeline.config import config_from
from edgedla.runtime.pipeline.open_outputs import OUTPUTS

DAY = 86400.0


def write(path: Path, days_old: float, size: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    at = time.time() - days_old * DAY
    os.utime(path, (at, at))
    return path


def looked(folder: Path, **limits: float) -> List[str]:
    """Names that are left after a look with these limits."""
    outputs = {"jsonl": "r.jsonl", "video": "v.avi", "segment_s": 60, "images": "frames", "clips": {"folder": "clips"}, **limits}
    document = {"artifact": "a", "source": "synthetic://", "decode": {"kind": "yolov8"}, "events": {"e": {}}, "outputs": outputs}
    config = config_from(1, document, str(folder / "pipeline.yaml"))
    made = OUTPUTS["retention"].make(config, lambda _: 25.0)
    assert isinstance(made, Retention)
    # Its own thread looks too: only once that is done, one look follows another.
    made.close()
    made.look()
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of 1 to 9 days, and three that are not ours to remove."""
    write(tmp_path / "r.jsonl", 9)
    write(tmp_path / "r.jsonl.1", 5)
    write(tmp_path / "frames" / "frame_000001.jpg", 6)
    write(tmp_path / "frames" / "holiday.jpg", 9)
    for day in (8, 2, 1):
        write(tmp_path / f"v-2026010{day}-000000.avi", day)
    write(tmp_path / "v-2-20260101-000000.avi", 9)
    clip = tmp_path / "clips" / "gate-e-20260101-000000Z-abc123-1"
    write(clip.with_suffix(".avi"), 7)
    write(clip.with_suffix(".jpg"), 7)
    write(clip.with_name(clip.name + "-best.jpg"), 7)
    return tmp_path


KEPT = ["holiday.jpg", "r.jsonl", "v-2-20260101-000000.avi"]
NEWEST = "v-20260101-000000.avi"


def test_files_older_than_so_many_days_are_removed_with_their_pictures(folder: Path) -> None:
    left = looked(folder, keep_days=5.5)
    assert left == sorted([*KEPT, "r.jsonl.1", NEWEST, "v-20260102-000000.avi"])


def test_the_oldest_go_first_until_the_size_is_kept(folder: Path) -> None:
    # 2,000 bytes: what is newest, without the segment that is being written, which counts for nothing.
    assert looked(folder, keep_gb=2000 / 1e9) == sorted([*KEPT, "r.jsonl.1", NEWEST, "v-20260102-000000.avi"])


def test_the_oldest_go_until_the_disk_is_free_enough_and_then_it_is_said(folder: Path, monkeypatch: Any, caplog: Any) -> None:
    usage = retention.shutil.disk_usage(folder)

    def free(path: Any) -> Any:
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        return usage._replace(free=20_000 - size)

    monkeypatch.setattr(retention.shutil, "disk_usage", free)
    assert "v-20260102-000000.avi" in looked(folder, free_gb=13_000 / 1e9)
    assert "less than outputs.free_gb" not in caplog.text
    assert looked(folder, free_gb=19_000 / 1e9) == sorted([*KEPT, NEWEST])
    assert caplog.text.count("less than outputs.free_gb is free") == 1


def test_nothing_is_removed_within_the_limits(folder: Path) -> None:
    before = sorted(p.name for p in folder.rglob("*") if p.is_file())
    assert looked(folder, keep_days=30, keep_gb=1, free_gb=1e-9) == before
