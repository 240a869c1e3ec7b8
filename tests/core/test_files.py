"""Atomic writing: old content or new content, nothing in between, nothing left behind."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from edgedla import files


def test_text_and_bytes_are_written_and_folders_made(tmp_path: Path) -> None:
    assert files.write_atomic(tmp_path / "a" / "b.txt", "grün").read_bytes() == "grün".encode()
    assert files.write_atomic(str(tmp_path / "c.bin"), b"\0\1").read_bytes() == b"\0\1"
    assert files.sha256_of(tmp_path / "c.bin") == hashlib.sha256(b"\0\1").hexdigest()


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = files.write_atomic(tmp_path / "a.txt", "old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_atomic(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
