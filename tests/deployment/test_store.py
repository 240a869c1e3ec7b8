"""Finished steps stay valid until one of their inputs or files changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from edgedla.deployment.store import RECORD, Store
from edgedla.errors import EnvironmentMissing


class Work:
    """A step that counts how often it was worked out."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, folder: Path) -> Dict[str, Any]:
        self.runs += 1
        (folder / "sub").mkdir()
        (folder / "sub" / "result.txt").write_text(f"run {self.runs}")
        return {"value": 1.5, "pair": (1, 2)}


def test_a_finished_step_is_reused(tmp_path: Path) -> None:
    work = Work()
    first = Store(tmp_path).step("fix", {"model": "a"}, work)
    second = Store(tmp_path).step("fix", {"model": "a"}, work)
    assert (work.runs, first.reused, second.reused) == (1, False, True)
    assert dict(first.value) == dict(second.value) == {"value": 1.5, "pair": [1, 2]}


def test_a_step_finished_by_another_process_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Work()

    def mine(folder: Path) -> Dict[str, Any]:
        monkeypatch.setattr(os, "getpid", lambda: 1)
        Store(tmp_path).step("fix", {}, theirs)
        (folder / "mine.txt").write_text("mine")
        return {"value": 2.5}

    step = Store(tmp_path).step("fix", {}, mine)
    assert (theirs.runs, dict(step.value)) == (1, {"value": 1.5, "pair": [1, 2]})
    assert step.file("sub/result.txt").read_text() == "run 1"
    assert {path.name for path in tmp_path.iterdir()} == {step.folder.name, "journal.jsonl"}


def test_steps_with_different_input_have_different_keys(tmp_path: Path) -> None:
    work = Work()
    store = Store(tmp_path)
    assert store.step("fix", {"model": "a"}, work).key != store.step("fix", {"model": "b"}, work).key
    assert work.runs == 2


@pytest.mark.parametrize(
    "damage",
    [
        "changed",
        "removed",
        "no record",
        "half a record",
        "a list",
        "deep",
        "another value",
        "another file list",
        "a folder",
        "a link",
        "a pipe",
        "the record is a pipe",
    ],
)
def test_a_damaged_step_is_run_again(tmp_path: Path, damage: str) -> None:
    work = Work()
    folder = Store(tmp_path).step("fix", {}, work).folder
    if damage == "changed":
        (folder / "sub" / "result.txt").write_text("other")
    elif damage == "removed":
        (folder / "sub" / "result.txt").unlink()
    elif damage == "no record":
        (folder / RECORD).unlink()
    elif damage in ("another value", "another file list"):
        text = (folder / RECORD).read_text()
        (folder / RECORD).write_text(text.replace(*(("1.5", "1.7") if "value" in damage else ("result.txt", "result.tx_"))))
    elif damage in ("a folder", "a link", "a pipe", "the record is a pipe"):
        there = folder / RECORD if damage == "the record is a pipe" else folder / "sub" / "result.txt"
        there.rename(tmp_path / "moved")
        if damage == "a folder":
            there.mkdir()
        elif damage == "a link":
            there.symlink_to(tmp_path / "moved")
        else:
            os.mkfifo(there)
    else:
        wrong = {"half a record": '{"key": "', "a list": "[]", "deep": "[" * 100_000}
        (folder / RECORD).write_text(wrong[damage])
    again = Store(tmp_path).step("fix", {}, work)
    assert (work.runs, again.reused) == (2, False)
    assert again.file("sub/result.txt").read_text() == "run 2"


def test_an_interrupted_step_leaves_only_the_journal(tmp_path: Path) -> None:
    def fails(folder: Path) -> Dict[str, Any]:
        (folder / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path).step("build", {}, fails)
    assert [p.name for p in tmp_path.iterdir()] == ["journal.jsonl"]


def test_the_journal_has_one_line_per_step(tmp_path: Path) -> None:
    lines: List[str] = []
    store = Store(tmp_path, lines.append)
    store.step("fix", {}, Work(), "rewriting")
    store.step("fix", {}, Work(), "rewriting")
    journal = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [(j["step"], j["state"]) for j in journal] == [("fix", "done"), ("fix", "reused")]
    assert lines == ["rewriting", "rewriting: finished before"]
    assert journal[1]["seconds"] == 0 <= journal[0]["seconds"] < 60


def test_a_store_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentMissing, match="cannot be written"):
        Store(tmp_path / "file" / "store").step("fix", {}, Work())


def test_folders_of_killed_processes_are_removed_but_not_those_in_use(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    name = Store(tmp_path).step("fix", {"model": "a"}, Work()).folder.name
    (tmp_path / name / RECORD).unlink()
    left, used = tmp_path / f".{name}.{done.pid}", tmp_path / f".{name}.{os.getppid()}"
    for folder in (left, used):
        (folder / "sub").mkdir(parents=True)
    Store(tmp_path).step("fix", {"model": "a"}, Work())
    assert not left.exists()
    assert used.is_dir()


def test_leftovers_of_steps_no_longer_requested_are_removed(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    left = tmp_path / f".quantize-0123456789abcdef.{done.pid}"
    others = [tmp_path / f".notes.{done.pid}", tmp_path / ".quantize-0123456789abcdef.new", tmp_path / f".artifact.{done.pid}"]
    for folder in (left, *others):
        (folder / "sub").mkdir(parents=True)
    # Also where every step is finished already.
    Store(tmp_path).step("fix", {"model": "a"}, Work())
    left.mkdir(exist_ok=True)
    assert Store(tmp_path).step("fix", {"model": "a"}, Work()).reused
    assert not left.exists()
    assert all(folder.is_dir() for folder in others)
