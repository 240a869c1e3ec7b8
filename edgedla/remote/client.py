"""This laptop as boards know it: its identity, and its records of jobs that run without it."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any, Dict, Optional

from edgedla.errors import DocumentError, UsageError
from edgedla.io.files import write_atomic

_CLIENT = re.compile(r"[0-9a-z]{1,32}\Z")


def state_folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "edgedla"


def client_id() -> str:
    """A name of this installation, made once: boards find partial files by it."""
    path = state_folder() / "client"
    if not (path.is_file() and _CLIENT.match(path.read_text(encoding="ascii", errors="replace"))):
        write_atomic(path, os.urandom(8).hex())
    return path.read_text(encoding="ascii")


def owner() -> str:
    """user@laptop, shown to people who wait for a board."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def new_job_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


def remember(job: str, document: Dict[str, Any]) -> None:
    """Records where a job's results belong. It is kept here because a board must not choose which files are written."""
    write_atomic(_job_file(job), json.dumps(document, indent=1) + "\n")


def remembered(job: str) -> Optional[Dict[str, Any]]:
    """The record of a job; None if another laptop started it, or if its results were fetched."""
    try:
        document = json.loads(_job_file(job).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:
        raise DocumentError(f"cannot be read: {e}", where=str(_job_file(job))) from e
    return document if isinstance(document, dict) else None


def forget(job: str) -> None:
    _job_file(job).unlink(missing_ok=True)


def _job_file(job: str) -> Path:
    if not re.match(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}\Z", job):
        raise UsageError(f"{job!r} is not a job", allowed="an id as 20261122-101500-a1b2c3", hint="edgedla board jobs NAME")
    return state_folder() / "jobs" / f"{job}.json"
