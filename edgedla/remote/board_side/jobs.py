"""Jobs on the board: one folder each, with inputs, outputs, log and state."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from edgedla.remote.board_side.lock import uptime_s
from edgedla.remote.board_side.runner import detach, reserve, write_json
from edgedla.remote.board_side.store import KEEP_S, Progress, Refused, blob_path, home, settle

JOB_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}\Z")
#: Seconds to wait for the process of a job that has just been started, before cancelling it.
PID_S = 30.0
SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "kill": signal.SIGKILL}


def job_folder(job: Any) -> str:
    """The job's folder. Raises Refused if there is no such job."""
    if not isinstance(job, str) or not JOB_ID.match(job):
        raise Refused(f"{job!r} is not a job", code="job")
    folder = os.path.join(home(), "jobs", job)
    if not os.path.isdir(folder):
        raise Refused(f"the board has no job {job}", "edgedla board jobs BOARD lists them", "job")
    return folder


def start(job: Dict[str, Any], held: List[int]) -> str:
    """Makes the job's folder from blobs and starts it; returns its id. Does not start an existing job again.

    Args:
        job: {"id", "argv", "inputs": [{"path", "sha256"}], "folders": [path], "kind", "owner", "what", ...}. The laptop
            chooses the id, so that it can repeat the request if the answer was lost.

    Raises:
        Refused: an input was not sent, or a path leaves the folder.
    """
    if not isinstance(job["id"], str) or not JOB_ID.match(job["id"]):
        raise Refused("{!r} is not a job".format(job["id"]), code="job")
    folder = os.path.join(home(), "jobs", job["id"])
    if os.path.isdir(folder):
        return str(job["id"])
    new = folder + ".new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(os.path.join(new, "out"), mode=0o700)
    try:
        for entry in job.get("inputs", ()):
            target = safe_join(os.path.join(new, "in"), entry["path"])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                # Copied, not linked: ONNX refuses external weights in a file with several hard links as an attack.
                _copy(entry, target)
            except FileNotFoundError:
                raise Refused("the file {} was not sent".format(entry["path"]), "try again")
        for path in job.get("folders", ()):
            os.makedirs(safe_join(os.path.join(new, "out"), path), exist_ok=True)
        reserve(os.path.join(new, "reserve"))
        begun = {"started": time.time(), "up_s": uptime_s(), "boot": _boot()}
        write_json(os.path.join(new, "job.json"), dict(job, **begun))
        # Locked before the folder is visible: on a busy board the job's process may take seconds to start.
        alive = os.open(os.path.join(new, "alive"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(alive, fcntl.LOCK_EX)
        os.rename(new, folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    try:
        detach(folder, job, held, alive)
    finally:
        # The job's process has the descriptor too, and with it the lock.
        os.close(alive)
    return str(job["id"])


def _copy(entry: Dict[str, Any], target: str) -> None:
    """Copies a blob. Raises Refused if the card has damaged it since it was verified; the next try sends it again."""
    source, digest = blob_path(entry["sha256"]), hashlib.sha256()
    with open(source, "rb") as read_file, open(target, "wb") as made:
        for block in iter(lambda: read_file.read(1 << 20), b""):
            made.write(block)
            digest.update(block)
            Progress.made()
    if digest.hexdigest() != entry["sha256"]:
        os.unlink(source)
        raise Refused(
            "the board's copy of {} was damaged and is removed".format(entry["path"]), "try again; its card may be failing"
        )


def safe_join(base: str, path: str) -> str:
    """`base`/`path`; refused if it leads out of `base`."""
    parts = path.split("/") if isinstance(path, str) else [""]
    if any(p in ("", ".", "..") or "\0" in p for p in parts):
        raise Refused(f"not a path below a folder: {path!r}")
    return os.path.join(base, *parts)


def state_of(folder: str) -> Dict[str, Any]:
    """The job's state; "lost" if it neither runs nor recorded how it ended."""
    state = _load(os.path.join(folder, "state.json")) or {"state": "starting"}
    if state["state"] != "ended" and not _alive(folder):
        # Read again: it may have ended after the first read.
        state = _load(os.path.join(folder, "state.json")) or {"state": "starting"}
        if state["state"] != "ended":
            return {"state": "lost", "rc": 4, "outputs": []}
    return state


def listing() -> List[Dict[str, Any]]:
    """All jobs, oldest first; removes those that ended long ago."""
    settle()
    base, boot = os.path.join(home(), "jobs"), _boot()
    entries = []
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        folder = os.path.join(base, name)
        job, state = _load(os.path.join(folder, "job.json")), state_of(folder)
        if job is None:
            continue
        if state["state"] in ("ended", "lost") and os.stat(folder).st_mtime < time.time() - KEEP_S:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        if boot and job.get("boot") == boot:
            # The clock may have been set meanwhile, so count back from the uptime.
            job["started"] = time.time() - (uptime_s() - job["up_s"])
        shown = {k: job.get(k) for k in ("id", "kind", "owner", "what", "started")}
        entries.append({**shown, "state": state["state"], "rc": state.get("rc"), "ended": state.get("ended")})
    # Ids count seconds; the board's clock orders two jobs of the same second.
    return sorted(entries, key=lambda entry: (entry["started"] or 0, entry["id"]))


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return ""


def cancel(job: str, how: str) -> None:
    """Sends a signal to the job's processes, or releases a reservation.

    Raises:
        Refused: the job has ended.
    """
    folder = job_folder(job)
    state = state_of(folder)
    if state["state"] in ("ended", "lost"):
        raise Refused(f"the job {job} has ended", code="ended")
    if (_load(os.path.join(folder, "job.json")) or {}).get("kind") == "hold":
        with open(os.path.join(folder, "release"), "w"):
            return
    until = time.monotonic() + PID_S
    while not state.get("pid") and state["state"] in ("starting", "running") and time.monotonic() < until:
        time.sleep(0.05)
        state = state_of(folder)
    if state.get("pid"):
        # The process id cannot have been reused: the runner that waits for the process is alive.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(state["pid"], SIGNALS[how])


def log_from(folder: str, offset: int) -> Iterator[Tuple[int, Dict[str, Any]]]:
    """(offset after it, record) of every complete line from `offset` on."""
    try:
        with open(os.path.join(folder, "log"), "rb") as f:
            f.seek(offset)
            for line in f:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                yield offset, json.loads(line.decode("ascii"))
    except FileNotFoundError:
        return


def _alive(folder: str) -> bool:
    try:
        fd = os.open(os.path.join(folder, "alive"), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def _load(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path) as f:
            value = json.load(f)
        return value if isinstance(value, dict) else None
    except (OSError, ValueError):
        return None
