"""Folders that somebody else filled: the targets of their links stay unchanged."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Callable

import numpy as np
import onnx
import pytest

from edgedla import BuildRequest, build, check, deploy, write_scripts
from edgedla.bundles.bundle import _folder
from edgedla.bundles.contents import Contents
from edgedla.deployment.store import Store
from edgedla.errors import BuildError, EnvironmentMissing, UsageError
from edgedla.export import export
from edgedla.io.files import remove_folder, write_atomic
from edgedla.remote.results import place as place_results
from edgedla.reports.sweeps.page import page_writer
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.films.clip_config import ClipConfig
from edgedla.runtime.outputs.films.clips import Clips
from edgedla.runtime.outputs.sinks import AnnotatedImages
from edgedla.sweep.evaluate import page_of
from edgedla.sweep.journal import Journal
from tests.hostile.commands import small_model
from tests.runtime.waiting import until

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
REQUEST = BuildRequest(target="orin", backend="host")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    onnx.save(small_model(), str(tmp_path / "m.onnx"))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "stages").mkdir()
    (tmp_path / "precious" / "stages" / "notes.txt").write_text("mine")
    (tmp_path / "bashrc").write_text("alias ll='ls -l'\n")
    return tmp_path


def unharmed(place: Path) -> bool:
    kept = place / "precious" / "stages" / "notes.txt"
    return (place / "bashrc").read_text() == "alias ll='ls -l'\n" and kept.read_text() == "mine"


def lock(place: Path, out: Path) -> None:
    (out / ".lock").unlink()
    (out / ".lock").symlink_to(place / "bashrc")


def work_lock(place: Path, out: Path) -> None:
    (out / ".work" / ".lock").unlink()
    (out / ".work" / ".lock").symlink_to(place / "bashrc")


def work(place: Path, out: Path) -> None:
    (out / ".work" / ".lock").unlink()
    for path in (out / ".work").iterdir():
        path.unlink()
    (out / ".work").rmdir()
    (out / ".work").symlink_to(place / "precious")


def manifest(place: Path, out: Path) -> None:
    (out / "manifest.json").unlink()
    (out / "manifest.json").symlink_to(place / "bashrc")


def lock_is_a_pipe(place: Path, out: Path) -> None:
    (out / ".work" / ".lock").unlink()
    os.mkfifo(str(out / ".work" / ".lock"))


PLANTS = [lock, work_lock, work, manifest, lock_is_a_pipe]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("force", [False, True])
def test_a_build_into_a_foreign_artifact_does_not_follow_its_links(plant: Callable, force: bool, place: Path) -> None:
    out = place / "out"
    build(place / "m.onnx", out, REQUEST)
    plant(place, out)
    # The build replaces the link itself, or refuses the folder.
    with contextlib.suppress(BuildError):
        build(place / "m.onnx", out, BuildRequest(target="orin", backend="host", force=force))
    assert unharmed(place)


def test_a_lock_file_keeps_its_content(place: Path) -> None:
    out = place / "out"
    build(place / "m.onnx", out, REQUEST)
    (out / ".lock").write_text("content")
    build(place / "m.onnx", out, BuildRequest(target="orin", backend="host", force=True))
    assert (out / ".lock").read_text() == "content"


def test_images_are_not_written_through_links(place: Path) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    folder = place / "images"
    folder.mkdir()
    for name in ("frame_000000.part", ".frame_000000.jpg.part", "frame_000000.jpg"):
        (folder / name).symlink_to(place / "bashrc")
    frame = Frame(0, np.zeros((8, 8, 3), np.uint8), 0.0)
    AnnotatedImages(str(folder)).write(FrameResult(frame, (), "host", True, 1.0, 1.0))
    assert unharmed(place)
    assert not (folder / "frame_000000.jpg").is_symlink()


def test_files_that_a_command_names_itself_replace_links(place: Path) -> None:
    folder = place / "export"
    folder.mkdir()
    for name in ("README.md", "run.py", "provider_options.json"):
        (folder / name).symlink_to(place / "bashrc")
    build(place / "m.onnx", place / "out", REQUEST)
    export("onnxruntime", place / "out", folder)
    assert unharmed(place)
    assert not any(p.is_symlink() for p in folder.iterdir())
    journal = Journal(place / "sweep.csv.journal")
    journal.path.symlink_to(place / "bashrc")
    with pytest.raises(EnvironmentMissing, match="cannot write"):
        journal.add([])
    journal.remove()
    assert unharmed(place)
    assert not journal.path.is_symlink()


@pytest.mark.parametrize("target", ["precious", "bashrc", "absent"])
def test_removing_a_symlinked_folder_removes_only_the_link(target: str, place: Path) -> None:
    (place / "link").symlink_to(place / target)
    remove_folder(place / "link")
    assert not (place / "link").is_symlink()
    assert unharmed(place)
    remove_folder(place / "link")


def test_the_journal_of_a_deployment_follows_no_link(place: Path) -> None:
    (place / "work").mkdir()
    (place / "work" / "journal.jsonl").symlink_to(place / "bashrc")
    with pytest.raises(EnvironmentMissing, match="cannot be written"):
        Store(place / "work").step("place", {}, lambda folder: 1)
    assert unharmed(place)


def test_an_output_file_named_by_the_user_may_be_a_symlink(place: Path) -> None:
    (place / "link").symlink_to(place / "bashrc")
    write_atomic(place / "link", "new")
    assert (place / "link").is_symlink()
    assert (place / "bashrc").read_text() == "new"
    write_atomic(place / "link", "newer", follow=False)
    assert not (place / "link").is_symlink()
    assert (place / "bashrc").read_text() == "new"


def test_new_files_have_the_permissions_of_the_umask(place: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomic(place / "new", "x")
    finally:
        os.umask(old)
    assert (place / "new").stat().st_mode & 0o777 == 0o640


def test_files_that_a_command_names_in_a_folder_replace_planted_links(place: Path) -> None:
    build(place / "m.onnx", place / "art", REQUEST)
    scripts, pages, triton = place / "scripts", place / "pages", place / "triton"
    for folder in (scripts, pages, triton):
        folder.mkdir()
    (scripts / "build.sh").symlink_to(place / "bashrc")
    write_scripts(place / "m.onnx", scripts, BuildRequest(target="orin"))
    task = SimpleNamespace(key="k", model="m.onnx")
    (pages / page_of(task.key)).symlink_to(place / "bashrc")
    page_writer(pages)(task, check(place / "m.onnx", target="orin"))
    assert not (scripts / "build.sh").is_symlink()
    assert not (pages / page_of(task.key)).is_symlink()
    (triton / "m").symlink_to(place / "precious")
    with pytest.raises(UsageError, match="there is a link where edgedla would make a folder"):
        export("triton", place / "art", triton)
    assert unharmed(place)
    assert [p.name for p in (place / "precious").iterdir()] == ["stages"]


def test_results_of_a_board_do_not_follow_a_planted_folder_link(place: Path) -> None:
    staging, out = place / "staging", place / "out"
    (staging / "stages").mkdir(parents=True)
    (staging / "stages" / "notes.txt").write_text("theirs")
    out.mkdir()
    (out / "stages").symlink_to(place / "precious" / "stages")
    with pytest.raises(UsageError, match="there is a link where edgedla would make a folder"):
        place_results(staging, False, out, None)
    assert unharmed(place)


def test_a_symlinked_work_folder_of_a_deployment_is_refused(place: Path) -> None:
    (place / "deployed").mkdir()
    (place / "deployed" / ".work").symlink_to(place / "precious")
    with pytest.raises(BuildError, match="a link"):
        deploy(place / "m.onnx", place / "deployed", target="orin", level=0, backend="host")
    assert unharmed(place)
    assert [p.name for p in (place / "precious").iterdir()] == ["stages"]


def test_clips_and_bundles_do_not_follow_links_planted_at_their_paths(place: Path) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    films = place / "films"
    films.mkdir()
    (films / f".probe-{os.getpid()}").symlink_to(place / "bashrc")
    for ending in ("jpg", "avi", "mp4"):
        (films / f".gate-1.{ending}").symlink_to(place / "bashrc")
        (films / f"gate-1.{ending}").symlink_to(place / "bashrc")
    clips = Clips(ClipConfig(str(films), before_s=0, after_s=0, rate=20))
    result = FrameResult(Frame(0, np.zeros((48, 64, 3), np.uint8), time.monotonic()), (), "host", True, 1.0, 1.0)
    clips.put(result)
    clips.begin("gate-1", {"event": "e"}, result)
    clips.put(result)
    until(lambda: (films / "gate-1.jpg").stat().st_size > 100)
    clips.close()
    assert clips.done.get(timeout=5)["clip"] == str(films / "gate-1.avi")
    (place / f".b.{os.getpid()}").symlink_to(place / "precious")
    _folder(Contents({}, {"__main__.py": b""}, {}, False), place / "b")
    assert unharmed(place)
    assert (place / "b" / "bundle.json").is_file()
    assert not (place / "precious" / "bundle.json").exists()
