"""How much memory ONNX Runtime may take: what the user says, or what the machine has left."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Iterator, List, Optional

from edgedla import guard
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.quantization.session_memory import MIB, SessionMemory

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
#: A container's limit and use, in bytes; "max" is no limit (Linux kernel documentation, cgroup v2, memory).
_CGROUP = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))

#: The limit where nothing else says one, as in a program that calls edgedla.
VARIABLE = "EDGEDLA_MAX_MEMORY"
#: A file below this that wants more memory than that is more likely made to harm than a network: it must be asked for.
SMALL_FILE_BYTES, SMALL_FILE_LIMIT = 10 << 20, 1 << 30

_limit: ContextVar[Optional[int]] = ContextVar("memory_limit", default=None)


def parse_size(text: str) -> int:
    """Bytes of "512M", "1.5G" or "800 MiB"; a number alone counts MiB, as in trtexec's --memPoolSize.

    Raises:
        UsageError: another form, or nothing.
    """
    match = _SIZE.match(text.strip())
    size = int(float(match[1]) * (1 << " KMGT".index(match[2].upper() or "M") * 10)) if match else 0
    if size <= 0:
        raise UsageError(f"{text!r} is no size", allowed="as 512M or 4G; a number alone counts MiB")
    return size


@contextmanager
def memory_limit(limit_bytes: Optional[int]) -> Iterator[None]:
    """Limits the process while sessions are opened inside; None: EDGEDLA_MAX_MEMORY, or what the machine has left.

    Sessions whose estimate is beyond it are refused. Only the `edgedla` command is watched besides (`edgedla.guard`).
    """
    token = _limit.set(limit_bytes)
    try:
        yield
    finally:
        _limit.reset(token)


def require(memory: SessionMemory, fed_bytes: int = 0) -> None:
    """Args:
    fed_bytes: weights of the user's file that the session takes as inputs: they make the file no small one.

    Raises:
    EnvironmentMissing: the estimate is beyond the limit, or beyond what the machine has left; or a small file wants more
        than SMALL_FILE_LIMIT and nobody has set a limit.
    UsageError: EDGEDLA_MAX_MEMORY is no size.
    """
    limit, held = _limit.get(), guard.resident_bytes(os.getpid())
    if limit is None:
        limit = limit_of_environment()
    small = limit is None and memory.file_bytes + fed_bytes < SMALL_FILE_BYTES
    refused = small and memory.total_bytes > SMALL_FILE_LIMIT
    left = available_bytes() if limit is None else limit - held
    if not refused and (left is None or memory.total_bytes <= left):
        if small:
            # The estimate leaves out what it does not know; the promise holds all the same.
            guard.allow(held + SMALL_FILE_LIMIT)
        return
    if refused:
        allowed = (
            f"{SMALL_FILE_LIMIT // MIB} MiB for a model file below {SMALL_FILE_BYTES // MIB} MiB, unless asked for"
        )
    elif limit is None:
        allowed = f"{(left or 0) // MIB} MiB, which is what is free"
    else:
        allowed = (
            f"{max(0, left or 0) // MIB} MiB: {limit // MIB} MiB by --max-memory, less {held // MIB} MiB in use already"
        )
    raise EnvironmentMissing(
        f"ONNX Runtime would take {memory}",
        allowed=allowed,
        hint=f"give smaller --shapes or a smaller --batch, or a larger --max-memory; {VARIABLE} for a program",
    )


def require_room(count: int, what: str) -> None:
    """As `require`, of values that edgedla itself is about to make; SMALL_FILE_LIMIT holds where nobody has set a limit.

    Raises:
        EnvironmentMissing: `count` bytes are beyond the limit.
        UsageError: EDGEDLA_MAX_MEMORY is no size.
    """
    limit = _limit.get()
    if limit is None:
        limit = limit_of_environment()
    left = SMALL_FILE_LIMIT if limit is None else limit - guard.resident_bytes(os.getpid())
    if count > left:
        raise EnvironmentMissing(
            f"{what} would take {count // MIB} MiB of memory",
            allowed=f"{max(0, left) // MIB} MiB",
            hint=f"give smaller --shapes or a smaller --batch, or a larger --max-memory; {VARIABLE} for a program",
        )


def limit_of_environment() -> Optional[int]:
    """Raises:
    UsageError: EDGEDLA_MAX_MEMORY is no size.
    """
    text = os.environ.get(VARIABLE, "")
    try:
        return parse_size(text) if text else None
    except UsageError as e:
        raise UsageError(e.what, where=VARIABLE, allowed=e.allowed) from e


def available_bytes() -> Optional[int]:
    """What the machine, or the container's limit, has left; None where nothing says it."""
    left: List[int] = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        left.append(int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))) * 1024)
    with suppress(OSError, ValueError):
        most, used = (path.read_text().strip() for path in _CGROUP)
        if most != "max":
            left.append(max(0, int(most) - int(used)))
    return min(left, default=None)
