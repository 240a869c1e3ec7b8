"""Queries to a board besides running a command: its state, its jobs, its lock."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from edgedla.errors import EnvironmentMissing, RunError, UsageError
from edgedla.remote import client
from edgedla.remote.connection import Connection, printable
from edgedla.remote.holder import holder_from
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.job import Request, Terminal, other_parts, run_on
from edgedla.targets import module_for
from edgedla.text.printable import Fields


@dataclass(frozen=True)
class BoardState(Fields):
    """What a board reports of itself; texts come from the board and are made printable.

    Attributes:
        edgedla, version: program and version on the board, None if there is none.
        l4t: first line of /etc/nv_tegra_release; None if it is not a Jetson.
        holder: who has the board; None if it is free.
        differs: in what the board's edgedla differs from this one, by digests: code, rules, costs, schemas.
        clock_off_s: how far its clock is ahead of ours; negative if behind.
    """

    python: str
    machine: str
    glibc: str
    user: str
    free_bytes: int
    edgedla: Optional[str]
    version: Optional[str]
    l4t: Optional[str]
    holder: Optional[Dict[str, str]]
    clock_off_s: float = 0.0
    differs: Tuple[str, ...] = ()


@dataclass(frozen=True)
class BoardJob(Fields):
    """One job. `state`: starting, running, ended or lost; `rc`: exit code of an ended job; `started`: on our clock."""

    id: str
    kind: str
    owner: str
    what: str
    state: str
    rc: Optional[int]
    started: float


def state_of(board: BoardEntry) -> BoardState:
    """The board's state. Raises EnvironmentMissing if there is no connection."""
    with contextlib.closing(Connection(board)) as connection:
        facts = connection.ask("hello", edgedla=board.edgedla)
    free = facts.get("free_bytes")
    return BoardState(
        python=_text(facts, "python") or "",
        machine=_text(facts, "machine") or "",
        glibc=_text(facts, "glibc") or "",
        user=_text(facts, "user") or "",
        free_bytes=free if isinstance(free, int) else 0,
        edgedla=_text(facts, "edgedla"),
        version=_text(facts, "version"),
        l4t=_text(facts, "l4t"),
        holder=holder_from(facts.get("holder")),
        clock_off_s=_clock_off_s(facts),
        differs=tuple(other_parts(facts.get("identity"))) if _text(facts, "version") else (),
    )


def module_of(board: BoardEntry) -> str:
    """The module that a board reports, for example "agx-orin-64gb".

    Raises:
        EnvironmentMissing: no connection, or not a module that edgedla knows.
    """
    printed: List[str] = []
    run_on(board, Request("edgedla doctor", ("doctor", "--format=json"), exclusive=False), Terminal(out=printed.append))
    try:
        checks = json.loads("".join(printed))["checks"]
        target = next(c["found"] for c in checks if c["name"] == "module" and c["state"] == "ok")
        return module_for(target).id
    except (ValueError, KeyError, TypeError, StopIteration, UsageError) as e:
        raise EnvironmentMissing(
            "the board does not tell its module", where=f"board {board.name}", hint=f"edgedla board doctor {board.name}"
        ) from e


def jobs_of(board: BoardEntry) -> Tuple[BoardJob, ...]:
    """The jobs that a board remembers, oldest first."""
    with contextlib.closing(Connection(board)) as connection:
        answer = connection.ask("jobs")
    entries = answer.get("jobs")
    if not isinstance(entries, list):
        raise RunError("the board sent no valid list of jobs", where=connection.where)
    return tuple(_jobs(entries, _clock_off_s(answer)))


def cancel(board: BoardEntry, job: str, how: str = "interrupt") -> None:
    """Sends a job the signal of Ctrl-C ("interrupt"), SIGTERM ("terminate") or SIGKILL ("kill").

    Raises:
        BoardRefused: no such job, or it has ended.
    """
    with contextlib.closing(Connection(board)) as connection:
        connection.ask("cancel", job=job, how=how)


def lock(board: BoardEntry, hold_s: float, note: str = "", wait_s: float = 0.0) -> str:
    """Reserves a board for this user for at most `hold_s`; jobs of this user may run. Returns the lock's job.

    Raises:
        BoardRefused: somebody else has it. RunError: the board does not say that it is reserved.
    """
    document = {
        "id": client.new_job_id(),
        "kind": "hold",
        "owner": client.owner(),
        "what": f"reserved{': ' + note if note else ''}",
        "argv": [],
        "hold_s": hold_s,
    }
    with contextlib.closing(Connection(board)) as connection:
        connection.send("start", job=document, exclusive=True, wait_s=wait_s)
        held = connection.answer().get("job")
    if not isinstance(held, str):
        raise RunError(
            "the board's answer names no reservation",
            where=f"board {board.name}",
            hint=f"edgedla board jobs {board.name}: is it yours?",
        )
    return printable(held)


def unlock(board: BoardEntry) -> int:
    """Releases this user's reservations; returns how many there were."""
    held = [j for j in jobs_of(board) if j.kind == "hold" and j.owner == client.owner() and j.state != "ended"]
    for job in held:
        cancel(board, job.id)
    # The lock is released once its holder has seen the request.
    until = time.monotonic() + 10
    while held and time.monotonic() < until and any(j.state != "ended" for j in jobs_of(board) if j.id == held[-1].id):
        time.sleep(0.1)
    return len(held)


def _jobs(entries: List[Any], clock_off_s: float) -> Iterator[BoardJob]:
    for e in entries:
        if not isinstance(e, dict):
            continue
        rc, started = e.get("rc"), e.get("started")
        yield BoardJob(
            id=_text(e, "id") or "",
            kind=_text(e, "kind") or "",
            owner=_text(e, "owner") or "",
            what=_text(e, "what") or "",
            state=_text(e, "state") or "",
            rc=rc if isinstance(rc, int) else None,
            started=float(started) - clock_off_s if isinstance(started, (int, float)) else 0.0,
        )


def _clock_off_s(facts: Dict[str, Any]) -> float:
    now = facts.get("now")
    return round(now - time.time(), 1) if isinstance(now, (int, float)) and abs(now) < 1e11 else 0.0


def _text(entry: Dict[str, Any], key: str) -> Optional[str]:
    value = entry.get(key)
    return printable(value)[:300] if isinstance(value, str) else None
