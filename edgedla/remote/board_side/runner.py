"""Runs one job in a process of its own, so that it survives the connection, and records how it ended."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from typing import Any, Dict, List, Sequence

from edgedla.remote.board_side.store import digest_of

#: Longer logs are cut: a job may run for weeks.
MAX_LOG_BYTES = 64 << 20
MAX_OUTPUTS = 10_000
#: Space reserved for a job's last messages and its end: the job itself may fill the disk.
RESERVE_BYTES = 256 << 10


def write_json(path: str, value: Any) -> None:
    """Writes the file completely or not at all."""
    with open(path + ".new", "w") as f:
        json.dump(value, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)


class Log:
    """A log as lines of JSON: the stream, and its text."""

    def __init__(self, path: str, reserve: str = "") -> None:
        self._reserve = reserve
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lock, self._bytes, self._cut = threading.Lock(), 0, False

    def write(self, stream: str, text: str) -> None:
        data = json.dumps({"stream": stream, "text": text}).encode("ascii") + b"\n"
        with self._lock:
            if self._bytes + len(data) > MAX_LOG_BYTES:
                if self._cut:
                    return
                self._cut = True
                data = json.dumps({"stream": "err", "text": "[the log is cut here]\n"}).encode("ascii") + b"\n"
            for _ in range(2):
                try:
                    self._bytes += os.write(self._fd, data)
                    return
                except OSError:
                    release(self._reserve)

    def copy(self, stream: str, source: Any) -> None:
        """Copies everything from a pipe as it arrives."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            data = os.read(source.fileno(), 65536)
            text = decoder.decode(data, final=not data)
            if text:
                self.write(stream, text)
            if not data:
                return


def reserve(path: str) -> None:
    """Reserves the space. Raises OSError if not even that fits."""
    with open(path, "wb") as f:
        f.write(os.urandom(RESERVE_BYTES))  # random, so that no file system stores it as a hole


def release(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def detach(folder: str, job: Dict[str, Any], held: List[int], alive: int) -> None:
    """Starts the job's process and returns immediately.

    Args:
        held: descriptors of the board's lock, which stay open in the process and in its children.
        alive: stays open only in the process: its lock shows others that the process lives.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        # Close the connection's pipes too: sshd would wait for them.
        for fd in range(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 65536 else 65536):
            if fd not in held and fd != alive:
                with contextlib.suppress(OSError):
                    os.close(fd)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        run_job(folder, job, held)
    finally:
        os._exit(0)


def run_job(folder: str, job: Dict[str, Any], held: List[int]) -> None:
    """Runs the job until it ends."""
    state = os.path.join(folder, "state.json")
    log = Log(os.path.join(folder, "log"), os.path.join(folder, "reserve"))
    write_json(state, {"state": "running", "pid": 0})
    if job["kind"] == "hold":
        _hold(folder, job)
        return
    try:
        child = subprocess.Popen(
            job["argv"],
            cwd=folder,
            env=_environment(job),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=held,
            preexec_fn=_default_signals,
        )
    except OSError as e:
        log.write("err", "{} cannot be started: {}\n".format(job["argv"][0], e.strerror))
        _end(folder, 4)
        return
    write_json(state, {"state": "running", "pid": child.pid})
    copiers = [
        threading.Thread(target=log.copy, args=(name, pipe), daemon=True)
        for name, pipe in (("out", child.stdout), ("err", child.stderr))
    ]
    for copier in copiers:
        copier.start()
    rc = child.wait()
    for copier in copiers:
        copier.join(5)  # a grandchild may keep the pipe open for ever
    # The inputs stay as blobs; a second copy of each model would waste the board's disk.
    shutil.rmtree(os.path.join(folder, "in"), ignore_errors=True)
    outputs = outputs_of(os.path.join(folder, "out"))
    if len(outputs) == MAX_OUTPUTS:
        log.write("err", "no more than %d files come back; the others stay in %s/out\n" % (MAX_OUTPUTS, folder))
    _end(folder, rc if rc >= 0 else 128 - rc, outputs)


def _end(folder: str, rc: int, outputs: Sequence[Dict[str, Any]] = ()) -> None:
    release(os.path.join(folder, "reserve"))
    state = {"state": "ended", "rc": rc, "outputs": list(outputs), "ended": time.time()}
    write_json(os.path.join(folder, "state.json"), state)


def _hold(folder: str, job: Dict[str, Any]) -> None:
    until = time.monotonic() + float(job["hold_s"])
    while time.monotonic() < until and not os.path.exists(os.path.join(folder, "release")):
        time.sleep(0.1)
    _end(folder, 0)


def outputs_of(base: str) -> List[Dict[str, Any]]:
    """(path below `base`, size, SHA-256) of each plain file; links and sockets are no results."""
    outputs: List[Dict[str, Any]] = []
    for parent, folders, files in os.walk(base):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(parent, name)
            # edgedla's own files: a build's lock, and what a killed process left beside a result.
            if name == ".lock" or (name[0] == "." and name.endswith(".part")) or not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            if len(outputs) == MAX_OUTPUTS:
                return outputs
            sha256, size = digest_of(path)
            outputs.append({"path": os.path.relpath(path, base), "sha256": sha256, "size": size})
    return outputs


def _environment(job: Dict[str, Any]) -> Dict[str, str]:
    """The environment of a login: nvcc and trtexec are in folders that a connection without a terminal does not search."""
    # A job's output is UTF-8 whatever the board's locale.
    env = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONUTF8="1")
    env["PATH"] = ":".join([env.get("PATH", os.defpath), "/usr/local/cuda/bin", "/usr/src/tensorrt/bin", "/usr/sbin"])
    env.update(job.get("env", {}))
    return env


def _default_signals() -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
