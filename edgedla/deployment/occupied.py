"""One request at a time per output folder: equal requests share their steps, a different one is refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterator

from edgedla.builder.artifact.store import own_folder
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.store import RECORD
from edgedla.errors import BuildError, EdgedlaError
from edgedla.io.files import open_lock_file, remove_empty, remove_folder, writing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "request.lock"
KEY_BYTES = 64


def key_of(model: Any, example_inputs: Any, request: DeployRequest) -> str:
    """A key that is equal for calls with the same request and model file. A model object always gets a new key."""
    if isinstance(model, (str, os.PathLike)) and example_inputs is None:
        with contextlib.suppress(OSError):
            status = os.stat(model)
            request_text = json.dumps(asdict(request), sort_keys=True, default=str)
            text = f"{os.path.realpath(model)} {status.st_size} {status.st_mtime_ns} {request_text}"
            return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return hashlib.sha256(os.urandom(32)).hexdigest()


@contextlib.contextmanager
def occupied(work: Path, key: str, fresh: bool) -> Iterator[None]:
    """Locks the folder of steps for calls with this key. The system releases the lock when the process ends in any way.

    Removes a folder that this call made if it fails before a step is finished.

    Args:
        fresh: True allows no other call in the folder, whatever its key.

    Raises:
        BuildError: another deployment uses the folder, or it holds files of others. Other errors as `writing`.
    """
    made = [str(path) for path in reversed((work, *work.parents)) if not path.exists()]
    try:
        with writing(work):
            work.parent.mkdir(parents=True, exist_ok=True)
            own_folder(work)
            held = open_lock_file(work / LOCK)
    except EdgedlaError:
        remove_empty(made)
        raise
    try:
        _hold(held, key, fresh, work.parent)
        yield
    except BaseException:
        if made and _alone(held) and not any(work.glob(f"*/{RECORD}")):
            remove_folder(work)
            remove_empty(made)
        raise
    finally:
        os.close(held)


def _alone(held: int) -> bool:
    """True if no other call uses the folder."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _hold(held: int, key: str, fresh: bool, folder: Path) -> None:
    """Writes the key if no other call uses the folder; then takes a lock shared by all calls with this key."""
    if fcntl is None:
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if fresh:
            raise _refusal(folder, "it uses steps that --fresh would remove") from None
    except OSError:
        # A file system without locks.
        return
    else:
        os.ftruncate(held, 0)
        os.pwrite(held, key.encode(), 0)
    # Waits briefly for a call that is writing its key.
    fcntl.flock(held, fcntl.LOCK_SH)
    if os.pread(held, KEY_BYTES, 0) != key.encode():
        raise _refusal(folder, "its request is another one, and both results would be mixed")


def _refusal(folder: Path, why: str) -> BuildError:
    return BuildError(
        f"another deployment is writing into this folder; {why}",
        where=str(folder),
        hint="Wait until it ends, or give another folder with -o.",
    )
