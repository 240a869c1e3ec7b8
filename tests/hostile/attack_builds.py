"""Builds killed or starved at any file operation, and tampered artifacts: the old one, the new one or a refusal, never a wrong one."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import onnx

from edgedla import load_artifact
from edgedla.builder import Artifact
from edgedla.builder.artifact.artifact import manifest_digest
from edgedla.errors import DocumentError
from tests.builder.chain_placements import placed, runs
from tests.hostile.attack_models import DOCUMENTED
from tests.hostile.nasty_models import chain

TARGET = "agx-orin-64gb"
CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "fchmod")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FAULTS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES, errno.EROFS, errno.EDQUOT)
#: A build makes fewer file operations than this below its folder.
MOST_CALLS = 160


class Plans:
    """Three builds of one folder: a network, another one, and a chain of engines; each with the digest that it gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: Dict[str, List[str]] = {}
        self.references: Dict[str, Artifact] = {}
        for name, count in (("short", 3), ("long", 6)):
            onnx.save(chain(count), str(folder / f"{name}.onnx"))
            self.lines[name] = [str(folder / f"{name}.onnx")]
        document = placed(folder / "long.onnx", folder / "placement.json", runs("DLA0", "DLA1"))
        self.lines["chain"] = [str(folder / "long.onnx"), "--placement", str(document)]
        for name in self.lines:
            # A process of its own: a build starts threads, and a process with threads must not fork.
            command = [sys.executable, "-m", "edgedla", *self.arguments(name, folder / f"ref-{name}")]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, (name, done.stderr)
            self.references[name] = _bare(load_artifact(folder / f"ref-{name}"))

    def arguments(self, name: str, out: Path) -> List[str]:
        return ["build", *self.lines[name], "--target", TARGET, "--backend", "host", "-o", str(out)]

    def in_child(self, name: str, out: Path, prepare: Callable[[], None]) -> Optional[int]:
        """Exit code of a build in a forked process, after `prepare`; None where a signal ended it.

        The caller's process must have no threads.
        """
        pid = os.fork()
        if pid == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(1, "w"))
            from edgedla.cli.main import exit_code_of

            prepare()
            # Line by line the answer of the process itself: no cleaning up beyond what the command does.
            os._exit(exit_code_of(self.arguments(name, out)))
        status = os.waitpid(pid, 0)[1]
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def _bare(artifact: Artifact) -> str:
    """The artifact without its place: what two builds of one thing have in common."""
    return artifact.digest


def interrupter(rng: random.Random, below: Path) -> Callable[[], None]:
    """Kills the process, or makes a file operation fail once or from then on, at the n-th operation below a folder."""
    at, fault = rng.randrange(MOST_CALLS), rng.choice([*SIGNALS, *SIGNALS, *FAULTS])
    for_ever, left = rng.random() < 0.5, [at]

    def wrap(original: Callable[..., Any], by_descriptor: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if by_descriptor or str(args[0]).startswith(str(below)):
                left[0] -= 1
                if left[0] == -1 or (left[0] < 0 and for_ever):
                    if fault in SIGNALS:
                        os.kill(os.getpid(), fault)
                    else:
                        raise OSError(fault, os.strerror(fault), str(args[0]))
            return original(*args, **kwargs)

        return call

    def prepare() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for name in CALLS:
            setattr(os, name, wrap(getattr(os, name), name in ("write", "fsync", "fchmod")))

    return prepare


def kill_case(plans: Plans, folder: Path, rng: random.Random) -> Optional[str]:
    """One interrupted build, over nothing or over another build; what is wrong with what it leaves."""
    before = rng.choice([None, *plans.lines])
    name = rng.choice(list(plans.lines))
    shutil.rmtree(folder, ignore_errors=True)
    if before is not None:
        shutil.copytree(str(plans.folder / f"ref-{before}"), str(folder))
    code = plans.in_child(name, folder, interrupter(rng, folder))
    wrong = None if code is None or code in DOCUMENTED or code == 130 else f"exit code {code}"
    allowed = {plans.references[n] for n in (name, before) if n is not None}
    try:
        found: Optional[str] = _bare(load_artifact(folder))
    except DocumentError:
        found = None
    if (found is None and before is not None) or (found is not None and found not in allowed):
        wrong = f"after {before} then {name}: {found}"
    if code == 0 and found != plans.references[name]:
        wrong = "the build said that it succeeded"
    again = plans.in_child(name, folder, lambda: None)
    if again != 0 or _bare(load_artifact(folder)) != plans.references[name]:
        wrong = wrong or f"the next build ends with {again}"
    left = [p.name for p in folder.rglob("*") if p.name.endswith(".part") or (p.name == "stages" and p.is_dir())]
    return wrong or (f"left behind: {left[:3]}" if left else None)


def tamper_case(plans: Plans, folder: Path, rng: random.Random) -> Optional[str]:
    """One changed artifact: it is refused, or it is the same artifact, or its new digest says that it is another."""
    name = rng.choice(list(plans.lines))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(str(plans.folder / f"ref-{name}"), str(folder))
    # What stands below hidden names is no part of the artifact: notes of the last build, which make it build again if changed.
    visible = [p for p in sorted(folder.rglob("*")) if not any(w.startswith(".") for w in p.relative_to(folder).parts)]
    files = [p for p in visible if p.is_file()]
    victim, other = rng.choice(files), rng.choice(files)
    before = victim.read_bytes()
    how = _tamper(victim, other, rng, folder)
    try:
        found = load_artifact(folder)
    except DocumentError:
        return None
    except Exception as e:
        return f"{how} of {victim.name}: {type(e).__name__}: {e}"
    if how == "forge":
        return _printed(found)
    # A manifest may be written in other ways; its digest says that it states the same.
    same = victim.name == "manifest.json" and found.digest == plans.references[name]
    same = same or (victim.is_file() and not victim.is_symlink() and victim.read_bytes() == before)
    return None if same else f"{how} of {victim.name} loads"


def _tamper(victim: Path, other: Path, rng: random.Random, folder: Path) -> str:
    how = rng.choice(["flip", "flip", "cut", "append", "remove", "link", "swap", "pipe", "forge", "forge"])
    data = bytearray(victim.read_bytes())
    if how == "flip" and data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        victim.write_bytes(bytes(data))
    elif how == "cut":
        victim.write_bytes(bytes(data[: rng.randrange(len(data) + 1)]))
    elif how == "append":
        victim.write_bytes(bytes(data) + b" ")
    elif how == "swap":
        victim.write_bytes(other.read_bytes())
    elif how == "forge":
        forge(folder / "manifest.json", rng)
    else:
        victim.unlink()
        if how == "link":
            victim.symlink_to(rng.choice([other, Path("/etc/passwd"), folder]))
        elif how == "pipe":
            os.mkfifo(str(victim))
    return how


VALUES: Tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "x",
    "../x",
    "a" * 100_000,
    "\0",
    [],
    {},
    [None],
    {"a": 1},
    [[]],
    [{}],
    {"": []},
)


def forge(path: Path, rng: random.Random) -> None:
    """Another value somewhere in the manifest, and a digest that fits it."""
    document = json.loads(path.read_text(encoding="utf-8"))
    at: Any = document
    while True:
        key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        inner = at[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            at = inner
            continue
        if rng.random() < 0.2:
            del at[key]
        else:
            at[key] = rng.choice(VALUES)
        break
    document["digest"] = manifest_digest({k: v for k, v in document.items() if k != "digest"})
    path.write_text(json.dumps(document), encoding="utf-8")


def _printed(artifact: Artifact) -> Optional[str]:
    """A forged manifest is another artifact; what reads it must take whatever its types allow."""
    from edgedla.cli.main import exit_code_of

    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = exit_code_of(["inspect", str(artifact.folder)])
    return None if code in DOCUMENTED else f"forged: inspect ends with {code}: {err.getvalue()[:200]}"
