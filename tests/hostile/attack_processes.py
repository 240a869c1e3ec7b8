"""What only whole processes show: changed .pyz files that somebody starts, two writers into one output, a run that gets SIGHUP,
servers that speak nonsense, a sweep's tables of odd names, and Dask clusters."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import random
import signal
import sys
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any, Callable, List, Mapping, Optional, Sequence

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from edgedla.builder.artifact.load import load_artifact
from edgedla.errors import BuildError, EdgedlaError
from tests.hostile.attack_dask import dask
from tests.hostile.attack_dask import missing as no_dask
from tests.hostile.attack_servers import broker, camera, names, pipeline, results_in
from tests.hostile.attack_surfaces import detector
from tests.hostile.attack_torch import converted, factory
from tests.hostile.attack_viewers import missing, viewers
from tests.hostile.commands import small_model
from tests.hostile.started import DOCUMENTED, EDGEDLA, ended, start, written
from tests.hostile.values import bytes_changed

# --- Changed .pyz files


@functools.lru_cache(maxsize=1)
def _pyz() -> bytes:
    from edgedla.cli.main import exit_code_of

    path = Path(detector()).with_name("b.pyz")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        made = exit_code_of(["bundle", detector(), "-o", str(path)])
    assert made == 0
    return path.read_bytes()


def pyz(rng: random.Random, folder: Path) -> Optional[str]:
    """Python itself answers where the archive is no archive any more, so that code 1 with its words is right too."""
    path = folder / "b.pyz"
    path.write_bytes(bytes_changed(_pyz(), rng))
    how = rng.choice((["--verify"], ["--source", "synthetic://?frames=2"]))
    process = start([sys.executable, str(path), *how], folder)
    said = written(process)
    if said is None:
        return f"{how}: hangs"
    err = said[1]
    whole = _members(path.read_bytes()) == _members(_pyz())
    if process.returncode == 0 and not whole and "--verify" in how:
        return f"{how}: a changed bundle is verified"
    first = err.splitlines()[0] if err else ""
    by_python = any(
        word in err for word in ("zipimport", "can't find '__main__'", "SyntaxError", "bad marshal", "zlib", "EOFError")
    )
    if process.returncode not in DOCUMENTED or ("Traceback" in err and not by_python):
        return f"{how}: ended with {process.returncode}: {first} ... {err[-300:]}"
    return None


def _members(archive: bytes) -> Optional[List[Any]]:
    """What an archive's files hold: their dates may change, which no file of a bundle depends on. None: it is no archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            return [(info.filename, file.read(info)) for info in file.infolist()]
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, EOFError, RuntimeError):
        return None


# --- Two writers into one output


def _model_of(path: Path) -> None:
    onnx.load(str(path))


def _document_of(path: Path) -> None:
    json.loads(path.read_text(encoding="utf-8"))


def _rows_of(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        json.loads(line)


#: Words of a command, what it writes, and what reads that whole.
WRITERS: Sequence[Any] = (
    (["fix", "m.onnx", "--target", "orin", "-o", "out.onnx"], "out.onnx", _model_of),
    (["check", "m.onnx", "--target", "orin", "--fail-on", "never", "-o", "out.onnx"], "out.onnx", _model_of),
    (["check", "m.onnx", "--target", "orin", "--fail-on", "never", "-o", "out.json"], "out.json", _document_of),
    (["place", "m.onnx", "--target", "orin", "-o", "out.json"], "out.json", _document_of),
    (["check", "m.onnx", "--target", "orin", "--baseline", "out.json", "--update-baseline"], "out.json", _document_of),
    (["build", "m.onnx", "--target", "orin", "--backend", "host", "-o", "out"], "out", load_artifact),
    (["quantize", "m.onnx", "--target", "orin", "--data", "s.npz", "-o", "out"], "out/quantization.json", _document_of),
    (
        ["deploy", "m.onnx", "--target", "orin", "--level", "0", "--backend", "host", "-o", "out"],
        "out/deployment.json",
        _document_of,
    ),
    (["sweep", "m.onnx", "--target", "orin", "-o", "out.jsonl"], "out.jsonl", _rows_of),
)


def two_writers(rng: random.Random, folder: Path) -> Optional[str]:
    """Two commands begin within 0.3 s; sometimes one is killed. What stands there afterwards is whole."""
    onnx.save(small_model(), str(folder / "m.onnx"))
    np.savez(str(folder / "s.npz"), x=np.ones((4, 3, 16, 16), np.float32))
    words, output, read = rng.choice(WRITERS)
    first = start([*EDGEDLA, *words], folder)
    time.sleep(rng.choice((0, 0.05, 0.3)))
    second = start([*EDGEDLA, *words], folder)
    killed = rng.random() < 0.3
    if killed:
        time.sleep(rng.uniform(0.2, 1.2))
        second.kill()
    wrong = [ended(first, " ".join(words)), None if killed else ended(second, " ".join(words))]
    second.communicate()
    if any(wrong):
        return next(filter(None, wrong))
    if first.returncode not in (0, 1) and not killed and second.returncode not in (0, 1):
        return f"{' '.join(words)}: neither of two writers wrote: {first.returncode}, {second.returncode}"
    try:
        if (folder / output).exists():
            read(folder / output)
        elif first.returncode == 0:
            return f"{' '.join(words)}: exit code 0 and no {output}"
    except (EdgedlaError, ValueError, DecodeError) as e:
        if killed and first.returncode == BuildError.exit_code and read is load_artifact:
            # The killed one held the folder, so that the first was refused; what is left there is no artifact, and says so.
            return None
        return f"{' '.join(words)}: half written: {e}"
    return None


# --- SIGHUP while a pipeline runs


def hang_up(rng: random.Random, folder: Path) -> Optional[str]:
    """The file is changed and SIGHUP sent, again and again: what is wrong in it is told, and the pipeline goes on to its end."""
    import yaml

    text = yaml.safe_dump(pipeline("synthetic://?rate=30")).encode()
    path = folder / "p.yaml"
    path.write_bytes(text)
    process = start([*EDGEDLA, "run", "p.yaml", "--seconds", "2.5"], folder)
    time.sleep(rng.uniform(0.0, 1.0))
    for _ in range(rng.choice((1, 3, 8))):
        elsewhere = rng.choice((b"other.jsonl", b"/nowhere/x.jsonl", b"p.yaml"))
        path.write_bytes(
            rng.choice(
                (
                    text,
                    bytes_changed(text, rng),
                    b"",
                    text.replace(b"gate", b"door"),
                    text.replace(b"r.jsonl", elsewhere),
                    text.replace(b"score: 0", b"score: 2"),
                )
            )
        )
        # Before the handler is set, the signal's own action ends a process, as of every program.
        if (folder / "r.jsonl").exists():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGHUP)
        time.sleep(rng.uniform(0.0, 0.3))
    wrong = ended(process, "run with SIGHUP")
    if wrong or process.returncode in (2, 3):
        # The file may have been changed before the run read it for the first time.
        return wrong
    _, wrong = results_in(folder, "run with SIGHUP")
    if wrong is not None:
        return wrong
    return None if process.returncode == 0 else f"run with SIGHUP: ended with {process.returncode}"


def _no_torch() -> Optional[str]:
    return None if importlib.util.find_spec("torch") else "PyTorch"


#: What is attacked -> (random numbers, an empty folder) -> what went wrong.
PROCESSES: Mapping[str, Callable[[random.Random, Path], Optional[str]]] = {
    "pyz": pyz,
    "two_writers": two_writers,
    "hang_up": hang_up,
    "broker": broker,
    "camera": camera,
    "names": names,
    "factory": factory,
    "converted": converted,
    "viewers": viewers,
    "dask": dask,
}
#: Kind -> what it needs that this machine lacks, or None.
NEEDS: Mapping[str, Callable[[], Optional[str]]] = {
    "factory": _no_torch,
    "converted": _no_torch,
    "viewers": missing,
    "dask": no_dask,
}


def lacking(kind: str) -> Optional[str]:
    return NEEDS[kind]() if kind in NEEDS else None
