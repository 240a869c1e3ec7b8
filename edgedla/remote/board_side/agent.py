"""The board's side of a connection: answers requests one by one until the laptop closes it or vanishes."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import pwd
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgedla.remote.board_side import jobs, lock, store
from edgedla.remote.board_side.store import Refused
from edgedla.remote.board_side.wire import CHUNK_BYTES, Message, Wire, WireBroken, WireClosed

#: The first line of the answer; anything before it was printed by a login script.
MARK = b"edgedla-board 1\n"
#: Where jetson/setup.sh puts edgedla, for a user and for services.
PLACES = ("~/edgedla/bin/edgedla", "/opt/edgedla/bin/edgedla")
HEARTBEAT_S = 5.0
#: After so long without progress the board sends no more heartbeats: its disk hangs.
STUCK_S = 600.0
#: Errors of a full disk, or of a full quota of this user.
FULL = (errno.ENOSPC, errno.EDQUOT)


class Agent:
    """One connection. Every request gets answers; the last one has `done`."""

    def __init__(self, wire: Wire) -> None:
        self.wire, self.busy = wire, False
        self.incoming: Optional[store.Incoming] = None
        names = "hello have put start follow get jobs cancel".split()
        self.requests: Dict[str, Callable[[Message, bytes], None]] = {name: getattr(self, name) for name in names}

    def serve(self) -> None:
        threading.Thread(target=self.beat, daemon=True).start()
        try:
            while True:
                got = self.wire.receive()
                assert got is not None
                self.answer(*got)
        except (WireClosed, WireBroken):
            if self.incoming is not None:
                self.incoming.abandon()

    def beat(self) -> None:
        """Sends heartbeats while the board is idle or makes progress: a slow card may take minutes for one answer."""
        try:
            while True:
                time.sleep(HEARTBEAT_S / 5)
                now = time.monotonic()
                if now - self.wire.spoke > HEARTBEAT_S and not (self.busy and now - store.Progress.at > STUCK_S):
                    self.wire.send({"alive": True})
        except WireClosed:
            return  # the other thread gets the same error

    def answer(self, message: Message, payload: bytes) -> None:
        store.Progress.made()
        self.busy = True
        try:
            self.requests[message["op"]](message, payload)
        except lock.Busy as e:
            self.done(error="busy", holder=e.holder, lock=e.path)
        except Refused as e:
            self.done(error=e.code, what=e.what, hint=e.hint)
        except OSError as e:
            self.done(error="disk" if e.errno in FULL else "system", **_refusal(e))
        except (WireClosed, WireBroken):
            raise
        except Exception as e:
            # Only this request failed; the connection continues.
            self.done(error="system", what=f"{type(e).__name__}: {e}", hint="")
        finally:
            self.busy = False

    def done(self, **answer: Any) -> None:
        self.wire.send({"done": True, **answer})

    def hello(self, message: Message, payload: bytes) -> None:
        store.prune()
        program = _program(message.get("edgedla"))
        version, identity = _made_by(program) if program and message.get("version", True) else (None, {})
        self.done(
            python=platform.python_version(),
            machine=platform.machine(),
            glibc=platform.libc_ver()[1],
            user=pwd.getpwuid(os.getuid()).pw_name,
            host=platform.node(),
            free_bytes=store.free_bytes(),
            edgedla=program,
            version=version,
            identity=identity,
            l4t=_first_line("etc/nv_tegra_release"),
            holder=lock.holder(),
            now=time.time(),
        )

    def have(self, message: Message, payload: bytes) -> None:
        """How many bytes of each blob are on the board."""
        sizes = [store.offset_of(b["sha256"], b["size"], message["client"]) for b in message["blobs"]]
        missing = sum(b["size"] - present for b, present in zip(message["blobs"], sizes))
        if missing > store.free_bytes():
            raise Refused(
                f"{missing / 1e6:.1f} MB are to be sent, {store.free_bytes() / 1e6:.1f} MB are free",
                f"free some space below {store.home()}",
                "disk",
            )
        self.done(offsets=sizes)

    def put(self, message: Message, payload: bytes) -> None:
        """One chunk; the first opens the partial file at its offset, the last one is verified."""
        if self.incoming is None or self.incoming.sha256 != message["sha256"]:
            if self.incoming is not None:
                self.incoming.abandon()
            self.incoming = store.Incoming(message["sha256"], message["size"], message["offset"], message["client"])
        try:
            self.incoming.append(payload)
            if message.get("last"):
                self.incoming.finish()
                self.incoming = None
        except BaseException:
            self.incoming = None
            raise
        self.done()

    def start(self, message: Message, payload: bytes) -> None:
        job = message["job"]
        held = self._locked(job, float(message.get("wait_s", 0))) if message.get("exclusive") else []
        try:
            name = jobs.start(job, held)
        finally:
            for fd in held:
                os.close(fd)
        self.done(job=name)

    def _locked(self, job: Dict[str, Any], wait_s: float) -> List[int]:
        info = {k: str(job.get(k, "")) for k in ("owner", "what", "kind")}
        info["since"] = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        until, shown = time.monotonic() + wait_s, None
        while True:
            try:
                return lock.acquire(info)
            except lock.Busy as e:
                if time.monotonic() >= until:
                    raise
                who = {k: v for k, v in e.holder.items() if k != "for_s"}
                if who != shown:
                    shown = who
                    self.wire.send({"waiting": e.holder})
            store.Progress.made()
            if self.wire.receive(0.2) is not None:
                raise Refused("a request while another waits")

    def follow(self, message: Message, payload: bytes) -> None:
        """Sends the log from an offset on, and how the job ended. Accepts `cancel` meanwhile."""
        folder, offset = jobs.job_folder(message["job"]), int(message.get("offset", 0))
        while True:
            store.Progress.made()
            state = jobs.state_of(folder)
            for next_offset, record in jobs.log_from(folder, offset):
                offset = next_offset
                self.wire.send({"offset": next_offset, "stream": record["stream"], "text": record["text"]})
            if state["state"] in ("ended", "lost"):
                self.done(state=state["state"], rc=state["rc"], outputs=state["outputs"], offset=offset)
                return
            got = self.wire.receive(0.05)
            if got is not None and got[0].get("op") == "cancel":
                # Refused if the job has ended meanwhile; the next message says so.
                with contextlib.suppress(Refused):
                    jobs.cancel(message["job"], got[0]["how"])

    def get(self, message: Message, payload: bytes) -> None:
        """Chunks of one output from an offset on."""
        path = jobs.safe_join(os.path.join(jobs.job_folder(message["job"]), "out"), message["path"])
        with open(path, "rb") as f:
            f.seek(int(message.get("offset", 0)))
            for block in iter(lambda: f.read(CHUNK_BYTES), b""):
                self.wire.send({"chunk": True}, block)
                store.Progress.made()
        self.done()

    def jobs(self, message: Message, payload: bytes) -> None:
        self.done(jobs=jobs.listing(), holder=lock.holder(), now=time.time())

    def cancel(self, message: Message, payload: bytes) -> None:
        jobs.cancel(message["job"], message["how"])
        self.done()


def _refusal(e: OSError) -> Dict[str, str]:
    name, place = os.fsdecode(e.filename) if isinstance(e.filename, (str, bytes)) else "", store.place()
    what = f"{e.strerror or e}{name and ': '}{name}"
    if e.errno in FULL:
        return {"what": f"the board's disk: {what}", "hint": f"free some space below {place}"}
    hint = f"it works below {place}; EDGEDLA_BOARD_HOME there names another folder"
    return {"what": f"the board's system: {what}", "hint": hint if name.startswith(place) else ""}


def _program(named: Optional[str]) -> Optional[str]:
    """The board's edgedla: the one in the inventory, else where setup.sh installs it, else on PATH."""
    for place in (named,) if named else PLACES:
        path = os.path.expanduser(place)
        if os.access(path, os.X_OK):
            return path
    if named:
        return None
    import shutil

    return shutil.which("edgedla")


def _made_by(program: str) -> Tuple[Optional[str], Dict[str, str]]:
    """The program's version, and digests of its code and data by name; None and {} if it does not start."""
    # 0.1 knows no --verbose, and ends before it prints.
    for words in (["--version", "--verbose"], ["--version"]):
        try:
            command = [program, *words]
            null = subprocess.DEVNULL
            done = subprocess.run(command, stdin=null, stdout=subprocess.PIPE, stderr=null, timeout=300)
        except (OSError, subprocess.SubprocessError):
            return None, {}
        lines = [line.split() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
        if lines and not done.returncode:
            return lines[0][-1], {line[0]: line[1] for line in lines[1:] if len(line) == 2}
    return None, {}


def _first_line(path: str) -> Optional[str]:
    try:
        with open(os.path.join(os.environ.get("EDGEDLA_ROOT") or "/", path), errors="replace") as f:
            return f.readline().strip()
    except OSError:
        return None


def main() -> None:
    """Runs over stdin and stdout; other output to stdout is redirected to stderr."""
    for number in (signal.SIGPIPE, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    write_fd = os.dup(1)
    os.set_inheritable(write_fd, False)
    os.dup2(2, 1)
    read_fd = os.dup(0)
    os.set_inheritable(read_fd, False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for the life of the process
    os.write(write_fd, MARK)
    Agent(Wire(read_fd, write_fd)).serve()
