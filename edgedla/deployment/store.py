"""Finished steps on disk, each under the hash of all its inputs, so that a killed deployment can continue."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional

from edgedla.errors import EnvironmentMissing
from edgedla.identity import identity, libraries
from edgedla.io.files import remove_folder, sha256_of, without_links
from edgedla.io.publishing import runs
from edgedla.io.sealed import is_plain_file, read_sealed, write_sealed

RECORD = "step.json"
Make = Callable[[Path], Dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """A finished step. `value`: its result. `folder`: its files. `reused`: it was finished before this run."""

    name: str
    key: str
    folder: Path
    value: Mapping[str, Any]
    reused: bool = False

    def file(self, name: str) -> Path:
        return self.folder / name


class Store:
    """Steps by name and key below one folder, and a journal with one JSON line per step.

    A step's folder is renamed into place when it is complete. A step whose files have changed since is made again.
    """

    def __init__(self, folder: Path, say: Optional[Callable[[str], None]] = None) -> None:
        self.folder, self._say, self._tidy = folder, say, False
        #: Title of the step that raised last.
        self.failed_in = ""

    def step(self, name: str, rests_on: Mapping[str, Any], make: Make, title: str = "") -> Step:
        """The step: from disk if it is finished, otherwise by `make(folder)`, which writes its files and returns its value.

        Args:
            rests_on: everything that the result depends on, such as hashes and settings, but for edgedla's own code, rules
                and costs, which are always part of the key. JSON values.

        Raises:
            EnvironmentMissing: the folder cannot be written. Also whatever `make` raises; then nothing is kept.
        """
        key = key_of(name, rests_on)
        folder = self.folder / f"{name}-{key[:16]}"
        self._forget_killed()
        value = _finished(folder, key)
        if value is not None:
            self._journal(name, key, "reused", 0.0)
            self._tell(f"{title or name}: finished before")
            return Step(name, key, folder, value, reused=True)
        self._tell(title or name)
        started = time.monotonic()
        partial = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        except OSError as e:
            raise EnvironmentMissing(f"cannot be written: {e.strerror}", where=str(self.folder)) from e
        try:
            value = make(partial)
            _record(partial, key, value)
            value = _into_place(partial, folder, key, value)
        except BaseException as e:
            shutil.rmtree(partial, ignore_errors=True)
            self.failed_in = title or name
            self._journal(name, key, f"failed: {type(e).__name__}", time.monotonic() - started)
            raise
        self._journal(name, key, "done", time.monotonic() - started)
        # Read back, so that a new step and a reused one give the same types.
        return Step(name, key, folder, json.loads(json.dumps(value)))

    def _forget_killed(self) -> None:
        """Once per store: removes what killed processes left of any step, also of steps with other settings."""
        if not self._tidy:
            self._tidy = True
            _forget_killed(self.folder)

    def _tell(self, line: str) -> None:
        if self._say is not None:
            self._say(line)

    def _journal(self, name: str, key: str, state: str, seconds: float) -> None:
        line = json.dumps({"step": name, "key": key[:16], "state": state, "seconds": round(seconds, 2)})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / "journal.jsonl", "a", encoding="utf-8", opener=without_links) as f:
                f.write(line + "\n")
        except OSError as e:
            raise EnvironmentMissing(f"cannot be written: {e.strerror}", where=str(self.folder)) from e


def key_of(name: str, rests_on: Mapping[str, Any]) -> str:
    """The step's key: what it rests on, with the code, rules, costs and libraries that compute it."""
    made_by = {**identity().digests, **libraries()}
    text = json.dumps({"step": name, "made_by": made_by, **rests_on}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _forget_killed(folder: Path) -> None:
    """Removes `.STEP.PID` folders of processes that no longer exist."""
    with suppress(OSError):
        for partial in sorted(folder.iterdir()):
            match = re.fullmatch(r"\.[a-z0-9-]+-[0-9a-f]{16}\.([0-9]{1,9})", partial.name)
            if match and not runs(int(match[1])):
                shutil.rmtree(partial, ignore_errors=True)


def _into_place(partial: Path, folder: Path, key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Renames the finished step into place. If another process finished it first, its folder stays: that process reads it.

    Returns:
        The value of the step that is in place.
    """
    theirs = _finished(folder, key)
    if theirs is None:
        remove_folder(folder)
        try:
            os.replace(partial, folder)
            return value
        except OSError:
            theirs = _finished(folder, key)
            if theirs is None:
                raise
    shutil.rmtree(partial, ignore_errors=True)
    return theirs


def _record(folder: Path, key: str, value: Mapping[str, Any]) -> None:
    files = {
        path.relative_to(folder).as_posix(): sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    write_sealed(folder / RECORD, {"key": key, "value": value, "files": files})


def _finished(folder: Path, key: str) -> Optional[Mapping[str, Any]]:
    """The value of a step whose record and files are unchanged; None otherwise."""
    record = read_sealed(folder / RECORD)
    if record is None or record.get("key") != key:
        return None
    try:
        if all(is_plain_file(folder / n) and sha256_of(folder / n) == digest for n, digest in record["files"].items()):
            value: Mapping[str, Any] = record["value"]
            return value
    except OSError:
        pass
    return None
