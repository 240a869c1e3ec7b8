"""One connection to a board: starts our side there, and sends requests one by one."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import tempfile
import time
import zlib
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, Optional, Tuple

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.remote.board_side.agent import HEARTBEAT_S, MARK
from edgedla.remote.board_side.wire import LOOK_S, Message, Wire, WireBroken, WireClosed
from edgedla.remote.holder import holder_from, in_use
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.ssh import TOO_OLD, explain, ssh_command

#: Modules of the board's side, each after those that it imports.
MODULES = ("wire", "store", "lock", "runner", "jobs", "agent")
#: The entire command for the board's shell. The program and every request come through stdin.
START = "exec {python} -X utf8 -c 'import sys;b=sys.stdin.buffer;exec(b.read(int(b.read(8))))'"
#: A board that sends no frame for this long is gone: its side sends one every HEARTBEAT_S.
SILENCE_S = 12 * HEARTBEAT_S
#: Longest time until our side on the board first answers.
START_S = 60.0


class ConnectionLost(RunError):
    """The connection broke. The job on the board continues."""


class Connection:
    """Requests to one board, from a single thread.

    Attributes:
        look: called repeatedly while waiting for the board; an exception from it ends the wait. It must not send.

    Raises:
        EnvironmentMissing: no connection, an unknown or changed host key, or no Python on the board.
    """

    def __init__(self, board: BoardEntry, look: Callable[[], None] = lambda: None) -> None:
        self.board, self.look = board, look
        command = ssh_command(board.address, START.format(python=board.python))
        # Not a pipe: ssh's master process for later calls would keep it open.
        self._stderr: IO[bytes] = tempfile.TemporaryFile()
        self._ssh = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True, bufsize=0
        )
        assert self._ssh.stdin is not None
        assert self._ssh.stdout is not None
        self._wire = Wire(self._ssh.stdout.fileno(), self._ssh.stdin.fileno())
        self._since = time.monotonic()
        try:
            self._ssh.stdin.write(bootstrap())
            # A board that does not read must not block us.
            os.set_blocking(self._ssh.stdin.fileno(), False)
            self._wire.skip_to(MARK, lambda: self._waited(START_S))
        except (WireClosed, OSError) as e:
            error = self._why()
            self.close()
            raise error from e
        except WireBroken as e:
            self.close()
            raise EnvironmentMissing(f"no connection: {e}", where=self.where) from e
        except BaseException:
            self.close()
            raise

    @property
    def where(self) -> str:
        return f"board {self.board.name}"

    def ask(self, op: str, payload: bytes = b"", **fields: Any) -> Dict[str, Any]:
        """Sends a request and returns its last answer.

        Raises:
            ConnectionLost: the connection broke. BoardRefused: the board refuses.
        """
        self.send(op, payload, **fields)
        return self.answer()

    def send(self, op: str, payload: bytes = b"", **fields: Any) -> None:
        self._since = time.monotonic()
        try:
            self._wire.send({"op": op, **fields}, payload, self._waited)
        except WireClosed as e:
            raise self._lost(e) from e

    def answer(
        self, other: Optional[Callable[[Message, bytes], None]] = None, ask: Callable[[], None] = lambda: None
    ) -> Dict[str, Any]:
        """Waits for the answer with `done`. Passes earlier answers to `other`; meanwhile calls `ask`, which may send."""
        for message, payload in self.messages(ask):
            if message.get("done"):
                if "error" in message:
                    raise BoardRefused.of(message, self.where)
                return message
            if other is not None:
                other(message, payload)
        raise AssertionError("messages() ends by an exception only")

    def messages(self, ask: Callable[[], None]) -> Iterator[Tuple[Message, bytes]]:
        self._since = time.monotonic()
        while True:
            try:
                got = self._wire.receive(LOOK_S)
                ask()
                self._waited()
            except (WireClosed, WireBroken) as e:
                raise self._lost(e) from e
            if got is not None:
                yield got

    def _waited(self, silence_s: Optional[float] = None) -> None:
        """Raises WireClosed if the board has been silent for too long."""
        self.look()
        silence_s = SILENCE_S if silence_s is None else silence_s
        if time.monotonic() - max(self._since, self._wire.heard) > silence_s:
            raise WireClosed(f"nothing came for {silence_s:.0f} s")

    def close(self) -> None:
        for pipe in (self._ssh.stdin, self._ssh.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._ssh.wait(2)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        self._stderr.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lost(self, cause: Exception) -> ConnectionLost:
        last_words = self._stderr_text()
        return ConnectionLost(f"the connection broke: {' '.join(last_words.split())[-300:] or cause}", where=self.where)

    def _why(self) -> EnvironmentMissing:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._ssh.wait(5)
        # A refused login may print its message where our side would have answered.
        return explain(self._stderr_text() or printable(self._wire.unread.decode("utf-8", "replace")), self.board.address)

    def _stderr_text(self) -> str:
        try:
            self._stderr.seek(0)
            return printable(self._stderr.read(1 << 16).decode("utf-8", "replace").replace("\r\n", "\n"))
        except ValueError:
            return ""


class BoardRefused(RunError):
    """The board refuses a request. `code`: busy, disk, job, ended, refused or system."""

    code = "refused"
    holder: Dict[str, str] = {}

    @classmethod
    def of(cls, message: Message, where: str) -> BoardRefused:
        holder = holder_from(message.get("holder")) or {}
        if message["error"] == "busy":
            lock = printable(str(message.get("lock", "")))[:200]
            more = (
                "`edgedla board jobs` lists your account's jobs there"
                if holder
                else f"`fuser -v {lock}` there shows its processes"
            )
            error = cls(f"the board is {in_use(holder)}", where=where, hint=f"--wait waits for it; {more}")
        else:
            error = cls(
                printable(str(message.get("what", "it refuses")))[:1000],
                where=where,
                hint=printable(str(message.get("hint") or ""))[:1000] or None,
            )
        error.code, error.holder = str(message["error"]), holder
        return error


def printable(text: str) -> str:
    """A text from the board, without characters that a terminal would obey."""
    return "".join(
        c if c in "\n\t" or (c.isprintable() and c != "\x7f") else f"\\x{ord(c):02x}" if ord(c) < 256 else "�" for c in text
    )


def bootstrap() -> bytes:
    """The board's side as one program: its length in eight digits, then Python that creates and runs its modules."""
    folder = Path(__file__).resolve().parent / "board_side"
    sources = {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
    packed = base64.b85encode(zlib.compress(json.dumps(sources).encode("utf-8"))).decode("ascii")
    package = "edgedla.remote.board_side"
    program = f"""\
import base64, json, sys, types, zlib
if sys.version_info < (3, 8):
    sys.exit("{TOO_OLD}: %d.%d" % sys.version_info[:2])
for name in ("edgedla", "edgedla.remote", "{package}"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, source in json.loads(zlib.decompress(base64.b85decode("{packed}")).decode("utf-8")).items():
    module = sys.modules["{package}." + name] = types.ModuleType("{package}." + name)
    setattr(sys.modules["{package}"], name, module)
    exec(compile(source, "<edgedla " + name + ">", "exec"), module.__dict__)
sys.modules["{package}.agent"].main()
"""
    data = program.encode("ascii")
    return b"%08d" % len(data) + data
