"""A command on a board: sends its files, runs it there as a job, shows its output live, and verifies its results."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from edgedla.errors import BuildError, EdgedlaError, EnvironmentMissing, RunError, UsageError
from edgedla.identity import identity
from edgedla.io.files import remove_folder
from edgedla.remote import client
from edgedla.remote.board_side.wire import Message
from edgedla.remote.connection import BoardRefused, Connection, ConnectionLost, printable
from edgedla.remote.holder import holder_from, in_use
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.results import by_slot, place, staging_of
from edgedla.remote.transfer import Sent, checked_outputs, fetch, send_files

#: Waits between attempts to reconnect; the job on the board does not need us.
RECONNECT_S = (1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True)
class Request:
    """A command to run on a board.

    Attributes:
        argv: words of the command after `edgedla`; files are named by their paths below the job's folder.
        files: files to send, below `in/`.
        slots: result below `out/` -> its destination here.
        names: spelling on the board -> the user's spelling, for the output shown.
        model: the model that an artifact among the results must have been built from.
        exclusive: only one such job at a time on the board.
        wait_s: how long to wait while somebody else has the board.
    """

    what: str
    argv: Tuple[str, ...]
    files: Tuple[Sent, ...] = ()
    slots: Mapping[str, Path] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    model: Optional[Path] = None
    exclusive: bool = True
    wait_s: float = 0.0
    env: Mapping[str, str] = field(default_factory=dict)
    program: Optional[str] = None


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code, and the results that were fetched."""

    job: str
    rc: int
    written: Tuple[Path, ...]


class Terminal:
    """Where a job's output goes. `stop` is polled while it runs; its answer, "interrupt" or "kill", is sent to the job."""

    def __init__(
        self,
        out: Callable[[str], None] = lambda text: None,
        err: Callable[[str], None] = lambda text: None,
        stop: Callable[[], Optional[str]] = lambda: None,
    ) -> None:
        self.out, self.err, self.stop = out, err, stop

    def say(self, line: str) -> None:
        self.err(f"{line}\n")

    def look(self) -> None:
        """Ends the wait for the board on an interrupt before there is a job to interrupt."""
        if self.stop() is not None:
            raise KeyboardInterrupt


def run_on(board: BoardEntry, request: Request, terminal: Terminal) -> Ended:
    """Runs a command on a board as if it ran here; reconnects if the connection breaks.

    Raises:
        EnvironmentMissing: no connection, no edgedla on the board, or another version. BoardRefused: busy, full disk.
        ConnectionLost: the board did not return; the job continues. RunError: a result fails verification.
    """
    job = client.new_job_id()
    slots = {slot: str(Path(path).absolute()) for slot, path in request.slots.items()}
    model = str(request.model.absolute()) if request.model else None
    # Before the job can exist, so that `attach` knows its results' destinations whatever happens to us.
    client.remember(
        job, {"board": board.name, "what": request.what, "slots": slots, "names": dict(request.names), "model": model}
    )
    started = False

    def begin(connection: Connection) -> None:
        nonlocal started
        _start(connection, job, request, terminal)
        started = True

    try:
        _with_reconnect(board, begin, terminal, f"the job {job}", lambda: started)
    except BaseException:
        if not started:
            client.forget(job)
        raise
    return follow(board, job, terminal)


def follow(board: BoardEntry, job: str, terminal: Terminal, into: Optional[Path] = None) -> Ended:
    """A job's output from its start, and its results when it has ended.

    Args:
        into: folder for the results of a job that another laptop has started.

    Raises:
        As `run_on`. BoardRefused: the board has no such job.
    """
    record = client.remembered(job) or {}
    slots = {str(k): Path(v) for k, v in record.get("slots", {}).items()}
    names, model = record.get("names", {}), record.get("model")
    offset, ended = 0, None

    def read(connection: Connection) -> None:
        nonlocal ended
        connection.send("follow", job=job, offset=offset)

        def show(message: Message, _: bytes) -> None:
            nonlocal offset
            if "text" in message and isinstance(message.get("offset"), int):
                _show(message, names, terminal)
                offset = message["offset"]

        def ask() -> None:
            how = terminal.stop()
            if how is not None:
                connection.send("cancel", how=how)

        ended = connection.answer(show, ask)

    def bring(connection: Connection) -> None:
        assert ended is not None
        written.extend(_results(connection, job, ended, slots, model, into))

    written: List[Path] = []
    goes_on = f"the job {job} goes on: edgedla board attach {board.name} {job}"
    try:
        _with_reconnect(board, read, terminal, goes_on, lambda: True)
    except KeyboardInterrupt:
        terminal.say(goes_on)
        raise
    assert ended is not None
    stay = f"the results stay on the board: edgedla board attach {board.name} {job}"
    try:
        _with_reconnect(board, bring, terminal, goes_on, lambda: True)
    except KeyboardInterrupt:
        terminal.say(f"{stay}{f' -o {into}' if into else ''} fetches them")
        raise
    except (UsageError, BuildError, EnvironmentMissing):
        terminal.say(f"{stay} -o FOLDER fetches them")
        raise
    client.forget(job)
    if ended.get("state") == "lost" or "rc" not in ended:
        raise RunError(
            "the job ended without an exit code: it was killed, the disk was full, or the board lost power",
            where=f"board {board.name}",
            hint="run it again",
        )
    rc = ended["rc"]
    return Ended(job, rc if isinstance(rc, int) and 0 <= rc <= 255 else 70, tuple(written))


def _start(connection: Connection, job: str, request: Request, terminal: Terminal) -> None:
    facts = connection.ask("hello", edgedla=connection.board.edgedla, version=request.program is None)
    program = request.program or _program(facts, connection)
    sizes = {f.sha256: f.size for f in request.files}
    total = send_files(connection, request.files, client.client_id(), _progress(terminal, sum(sizes.values())))
    if total:
        terminal.say(f"{connection.where}: {_files(len(request.files))}, {_mb(total)} sent")
    document = {
        "id": job,
        "kind": "verb",
        "owner": client.owner(),
        "what": request.what[:200],
        "argv": [program, *request.argv],
        "inputs": [{"path": f.path, "sha256": f.sha256} for f in request.files],
        "folders": sorted({slot.rpartition("/")[0] for slot in request.slots} - {""}),
        "env": dict(request.env),
    }

    def waiting(message: Message, _: bytes) -> None:
        who = holder_from(message.get("waiting"))
        if who is not None:
            terminal.say(f"{connection.where}: waiting, it is {in_use(who)}")

    asked = ""

    def ask() -> None:
        nonlocal asked
        how = terminal.stop()
        if how is not None and asked:
            raise KeyboardInterrupt
        if how is not None:
            # A board that waits for its lock takes any request as the end of the wait.
            asked = how
            connection.send("jobs")

    connection.send("start", job=document, exclusive=request.exclusive, wait_s=request.wait_s)
    try:
        connection.answer(waiting, ask)
    except BoardRefused as e:
        if asked:
            raise KeyboardInterrupt from e
        raise
    if asked:
        connection.answer()
        with contextlib.suppress(BoardRefused):
            connection.ask("cancel", job=job, how=asked)


def _program(facts: Dict[str, Any], connection: Connection) -> str:
    program, version = facts.get("edgedla"), facts.get("version")
    hint = f"edgedla board setup {connection.board.name}"
    if not isinstance(program, str):
        named = connection.board.edgedla
        raise EnvironmentMissing(
            f"edgedla is not installed on the board{f' at {named}' if named else ''}", where=connection.where, hint=hint
        )
    if not isinstance(version, str):
        raise EnvironmentMissing("the board has an edgedla that does not start", where=connection.where, hint=hint)
    differing = other_parts(facts.get("identity"))
    if differing:
        raise EnvironmentMissing(
            f"the board runs edgedla {printable(version)[:40]}, this is {identity().version}; they differ in {', '.join(differing)}",
            where=connection.where,
            allowed="the same code and data on both sides",
            hint=hint,
        )
    return program


def other_parts(theirs: object) -> List[str]:
    """What differs between this edgedla and a board's, by the digests that the board told: "code", "rules" and so on."""
    told = theirs if isinstance(theirs, dict) else {}
    return [name for name, digest in identity().digests.items() if told.get(name) != digest]


def _results(
    connection: Connection, job: str, ended: Message, slots: Dict[str, Path], model: Optional[str], into: Optional[Path]
) -> List[Path]:
    outputs = checked_outputs(ended.get("outputs"), connection.where)
    if into is not None:
        heads = {"/".join(o.path.split("/")[:2]) for o in outputs if "/" in o.path}
        slots = {head: into / head.split("/")[1] for head in sorted(heads)}
    written = []
    for slot, files in by_slot(outputs, slots).items():
        if not files:
            continue
        destination = slots[slot]
        staging = staging_of(destination, job, slot)
        is_file = files[0].path == slot
        try:
            for output in files:
                fetch(connection, job, output, staging if is_file else staging / output.path[len(slot) + 1 :])
            place(staging, is_file, destination, Path(model) if model else None)
        except ConnectionLost:
            raise
        except (EdgedlaError, OSError, KeyboardInterrupt):
            # Nothing incomplete stays here: the board still has the result.
            remove_folder(staging)
            raise
        written.append(destination)
    return written


def _with_reconnect(
    board: BoardEntry, use: Callable[[Connection], None], terminal: Terminal, goes_on: str, started: Callable[[], bool]
) -> None:
    """Runs `use` over a connection, and again over a new one if it breaks; every request of `use` can be repeated."""
    waits = list(RECONNECT_S)
    first: Optional[EdgedlaError] = None
    while True:
        before = time.monotonic()
        try:
            with contextlib.closing(Connection(board, terminal.look)) as connection:
                use(connection)
                return
        except ConnectionLost as e:
            first = e
            if time.monotonic() - before > 60:
                waits = list(RECONNECT_S)
        except EnvironmentMissing as e:
            # If nothing has worked yet, this is the answer; later the board may be rebooting.
            if first is None or "host key" in e.what:
                raise
        if not waits:
            raise ConnectionLost(first.what, where=first.where, hint=goes_on if started() else "try again") from first
        terminal.say(f"board {board.name}: the connection broke, connecting again")
        until = time.monotonic() + waits.pop(0)
        while time.monotonic() < until:
            terminal.look()
            time.sleep(0.1)


def _show(message: Message, names: Mapping[str, str], terminal: Terminal) -> None:
    text = printable(str(message["text"]))
    for board_path in sorted(names, key=len, reverse=True):
        text = text.replace(board_path, names[board_path])
    (terminal.err if message.get("stream") == "err" else terminal.out)(text)


def _progress(terminal: Terminal, total: int) -> Callable[[int, int], None]:
    shown = time.monotonic()

    def show(done: int, todo: int) -> None:
        nonlocal shown
        terminal.look()
        # Small files need no message; large ones get one every two seconds.
        if time.monotonic() - shown > 2.0:
            shown = time.monotonic()
            terminal.say(f"  {_mb(done)} of {_mb(todo)}")

    return show


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
