"""Files published together: all new or all old, whenever the disk fills up, with nothing left beside them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.io.publishing import forget_unpublished, publication, runs

pytestmark = pytest.mark.once
CALLS = ("open", "fsync", "replace", "rename", "link", "mkdir", "fchmod")


def tree(folder: Path) -> Dict[str, Any]:
    return {p.relative_to(folder).as_posix(): "folder" if p.is_dir() else p.read_text() for p in sorted(folder.rglob("*"))}


def old(folder: Path) -> Path:
    folder.mkdir()
    (folder / "artifact").mkdir()
    (folder / "artifact" / "engine").write_text("old engine")
    (folder / "model.onnx").write_text("old model")
    (folder / "scales").mkdir()
    (folder / "scales" / "cache").write_text("old cache")
    (folder / "placement.json").write_text("old placement")
    (folder / "other").write_text("somebody else's")
    return folder


def publish(folder: Path, source: Path) -> None:
    with publication() as out:
        out.copy(folder / "artifact", source, leave_out=("work",))
        out.write(folder / "model.onnx", "new model", follow=False)
        out.remove(folder / "scales")
        out.write(folder / "placement.json", "new placement", follow=False)
        out.write(folder / "new" / "report", "new report")


def source_of(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "stage").mkdir(parents=True)
    (source / "work").mkdir()
    (source / "engine").write_text("new engine")
    (source / "stage" / "engine").write_text("new stage")
    return source


NEW = {
    "artifact": "folder",
    "artifact/engine": "new engine",
    "artifact/stage": "folder",
    "artifact/stage/engine": "new stage",
    "model.onnx": "new model",
    "new": "folder",
    "new/report": "new report",
    "other": "somebody else's",
    "placement.json": "new placement",
}


def failing(below: Path, left: List[int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wraps file operations: of those below a folder, or by a descriptor, the one after `left` others finds the disk full."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if isinstance(args[0], int) or any(str(a).startswith(str(below)) for a in args):
                left[0] -= 1
                if left[0] == -1:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(args[0]))
            return original(*args, **kwargs)

        return call

    return wrap


@pytest.mark.parametrize("before", [True, False])
def test_a_full_disk_at_any_write_leaves_all_old_or_all_new_files(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To wait for the disk tells nothing.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    source, refused, at, left = source_of(tmp_path), 0, -1, [-1]
    while left[0] < 0:
        at += 1
        left = [at]
        folder = old(tmp_path / str(at)) if before else tmp_path / str(at)
        folder.mkdir(exist_ok=True)
        was = tree(folder)
        wrap, failed = failing(folder, left), True
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, wrap(getattr(os, name)))
            patch.setattr(shutil, "copy2", wrap(shutil.copy2))
            with contextlib.suppress(EnvironmentMissing):
                publish(folder, source)
                failed = False
        if not failed and left[0] < 0:
            # Where even the removal of the old failed, the next publication removes it.
            publish(folder, source)
        now = tree(folder)
        if failed:
            refused += 1
        assert now == (was if failed else {n: v for n, v in NEW.items() if before or n != "other"}), at
    assert refused >= 10


def test_an_exception_of_the_caller_publishes_nothing(tmp_path: Path) -> None:
    folder = old(tmp_path / "out")
    was = tree(folder)

    def broken() -> None:
        with publication() as out:
            out.write(folder / "model.onnx", "new")
            (out.folder(folder / "artifact") / "engine").write_text("new")
            (out.scratch(folder / "artifact") / "x").write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert tree(folder) == was


def test_leftovers_of_killed_processes_are_removed_and_old_files_restored(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    end = "0123456789abcdef"
    names = [f".artifact.{done.pid}.{end}.part", f".artifact.{done.pid}.{end}.old", f".artifact.{os.getpid()}.{end}.part"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "engine").write_text("old")
    stays = [f".artifact.{os.getppid()}.{end}.part", f".other.{done.pid}.{end}.part", f".artifact.{done.pid}.part"]
    for name in stays:
        (tmp_path / name).mkdir()
    # Of a name that nobody writes again: after a day, as another machine may be at work in the folder.
    day_old = tmp_path / f".gone.{done.pid}.{end}.part"
    day_old.mkdir()
    os.utime(day_old, (1e9, 1e9))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("stays")
    (tmp_path / f".artifact.{done.pid}.{end[::-1]}.part").symlink_to(outside)
    forget_unpublished(tmp_path / "artifact")
    assert {p.name for p in tmp_path.iterdir()} == {"artifact", "outside", *stays}
    assert (tmp_path / "artifact" / "engine").read_text() == "old"
    assert (outside / "f").read_text() == "stays"


@pytest.mark.parametrize("write", ["write", "folder"])
def test_an_unusable_target_is_a_usage_error_and_nothing_is_published(write: str, tmp_path: Path) -> None:
    folder = old(tmp_path / "out")
    was = tree(folder)

    def wrong() -> None:
        with publication() as out:
            out.write(folder / "model.onnx", "new")
            if write == "write":
                out.write(folder / "artifact", "a file in a folder's place")
            else:
                out.folder(folder / "model.onnx" / "below")

    with pytest.raises(UsageError, match="cannot write"):
        wrong()
    assert tree(folder) == was


def test_publishing_handles_links_devices_and_long_names(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "own").symlink_to("real")
    long = "x" * 251
    with publication() as out:
        out.write(tmp_path / "link", "new")
        out.write(tmp_path / "own", "own", follow=False)
        out.write("/dev/null", "gone")
        out.write(tmp_path / long, "long")
    assert ((tmp_path / "real").read_text(), (tmp_path / "link").is_symlink()) == ("new", True)
    assert ((tmp_path / "own").read_text(), (tmp_path / "own").is_symlink()) == ("own", False)
    assert (tmp_path / long).read_text() == "long"
    assert out.paths[2] == Path("/dev/null")


def test_two_publications_of_one_process_are_independent(tmp_path: Path) -> None:
    with publication() as first:
        partial = first.folder(tmp_path / "a")
        with publication() as second:
            second.write(tmp_path / "a", "file")
        assert partial.is_dir()
    assert (tmp_path / "a").is_dir()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_a_zombie_process_does_not_count_as_running() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as ended:
        assert runs(ended.pid)
        ended.kill()
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        os.kill(ended.pid, 0)
        assert not runs(ended.pid)
    assert not runs(ended.pid)
