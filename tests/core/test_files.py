"""Atomic writing: old content or new content, nothing in between, nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.io import files, left_files


def test_text_and_bytes_are_written_and_folders_made(tmp_path: Path) -> None:
    assert files.write_atomic(tmp_path / "a" / "b.txt", "grün").read_bytes() == "grün".encode()
    assert files.write_atomic(str(tmp_path / "c.bin"), b"\0\1").read_bytes() == b"\0\1"
    assert files.sha256_of(tmp_path / "c.bin") == hashlib.sha256(b"\0\1").hexdigest()


@pytest.mark.parametrize("private", [True, False])
def test_a_private_file_is_readable_by_its_owner_alone(tmp_path: Path, private: bool) -> None:
    path = tmp_path / "f"
    path.write_text("older")
    path.chmod(0o644)
    files.write_atomic(path, "secret", private=private)
    assert path.stat().st_mode & 0o777 == (0o600 if private else 0o644)


def test_names_that_are_not_utf8_are_written_as_valid_json(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff.onnx")
    path = files.write_atomic(tmp_path / "f", f'{{"model": "{name}"}}')
    assert json.loads(path.read_text(encoding="utf-8")) == {"model": name}


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = files.write_atomic(tmp_path / "a.txt", "old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentMissing, match="No space"):
        files.write_atomic(target, "new")
    with pytest.raises(EnvironmentMissing, match="No space"):
        files.write_atomic(tmp_path / "made" / "for" / "it", "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_an_existing_file_keeps_its_permissions_and_a_new_one_follows_the_umask(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("x")
    old.chmod(0o640)
    files.write_atomic(old, "y")
    assert old.stat().st_mode & 0o777 == 0o640
    before = os.umask(0o022)
    try:
        assert files.write_atomic(tmp_path / "new", "y").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_a_symbolic_link_stays_a_link_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    files.write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("bad", ["", "file/below"])
def test_writing_to_a_folder_or_below_a_file_is_a_usage_error(tmp_path: Path, bad: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        files.write_atomic(tmp_path / bad, "x")


def test_a_device_file_is_written_in_place() -> None:
    files.write_atomic("/dev/null", "x")
    assert not os.path.isfile("/dev/null")


def test_the_next_write_removes_what_killed_writes_left_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(name: str, age_s: float) -> Path:
        path = tmp_path / f".{name}.{'0123456789abcdef'}.part"
        path.write_text("half")
        os.utime(path, (1e9, path.stat().st_mtime - age_s))
        return path

    old, trial, fresh = left("out.json", 3600), left("trial", 3600), left("new.json", 60)
    other, published = left("other.json", 3600), left("artifact.4711", 3600)
    owned = [tmp_path / name for name in (".out.json.part", ".out.0123456789.part", "out.0123456789abcdef.part", ".part", "x")]
    for path in owned:
        path.write_text("a user's")
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr(left_files, "_SWEPT", set())
    for name in ("out.json", "new.json"):
        files.write_atomic(tmp_path / name, "{}")
    assert not old.exists()
    assert not trial.exists()
    assert fresh.exists(), "somebody may be writing it"
    assert not other.exists(), "nobody may ever write it again"
    assert published.exists(), "of a publication, which may take longer"
    assert all(path.exists() for path in owned)
    own = owned[0]
    # What was planted is not followed.
    link = tmp_path / ".out.json.fedcba9876543210.part"
    link.symlink_to(own)
    monkeypatch.setattr(left_files, "_SWEPT", set())
    files.write_atomic(tmp_path / "out.json", "{}")
    assert own.exists()
    # Another user's, in a folder that several use.
    theirs = left("theirs.json", 3600)
    monkeypatch.setattr(left_files, "_SWEPT", set())
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    files.write_atomic(tmp_path / "out.json", "{}")
    assert theirs.exists()
