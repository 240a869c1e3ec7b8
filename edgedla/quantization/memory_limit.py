"""The memory that ONNX Runtime may take: the user's limit, or the free memory of the machine."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Iterator, List, Optional

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.processes import guard
from edgedla.quantization.session_memory import MIB, SessionMemory

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
#: A container's limit and use, in bytes; "max" is no limit (Linux kernel documentation, cgroup v2, memory).
_CGROUP = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))

#: Sets the limit if no option does, for example in a program that calls edgedla.
VARIABLE = "EDGEDLA_MAX_MEMORY"
_HINT = f"give smaller --shapes or a smaller --batch, or a larger --max-memory; {VARIABLE} for a program"
#: A small file that needs this much memory is more likely an attack than a network, so the user must set a limit first.
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
        raise UsageError(f"{text!r} is not a size", allowed="as 512M or 4G; a number alone counts MiB")
    return size


@contextmanager
def memory_limit(limit_bytes: Optional[int]) -> Iterator[None]:
    """Limits the memory of sessions opened in the `with` block. None takes EDGEDLA_MAX_MEMORY or the free memory.

    Refuses sessions whose estimate exceeds the limit. Only the `edgedla` command also watches its real use
    (`edgedla.processes.guard`).
    """
    token = _limit.set(limit_bytes)
    try:
        yield
    finally:
        _limit.reset(token)


def require(memory: SessionMemory, fed_bytes: int = 0) -> None:
    """Args:
    fed_bytes: weights of the user's file that the session takes as inputs; they count toward the file's size.

    Raises:
    EnvironmentMissing: the estimate exceeds the limit or the free memory; or a small file needs more than
        SMALL_FILE_LIMIT and no limit is set.
    UsageError: EDGEDLA_MAX_MEMORY is not a size.
    """
    limit, held = _limit_bytes(), guard.held_bytes()
    small = limit is None and memory.file_bytes + fed_bytes < SMALL_FILE_BYTES
    refused = small and memory.total_bytes > SMALL_FILE_LIMIT
    free_bytes = available_bytes() if limit is None else limit - held
    if not refused and (free_bytes is None or memory.total_bytes <= free_bytes):
        if small:
            # The estimate leaves out tensors of unknown size, so the guard enforces the limit at run time.
            guard.allow(held + SMALL_FILE_LIMIT)
        return
    if refused:
        allowed = f"{SMALL_FILE_LIMIT // MIB} MiB for a model file below {SMALL_FILE_BYTES // MIB} MiB, unless asked for"
    elif limit is None:
        allowed = f"{(free_bytes or 0) // MIB} MiB, which is what is free"
    else:
        allowed = (
            f"{max(0, free_bytes or 0) // MIB} MiB: {limit // MIB} MiB by --max-memory, less {held // MIB} MiB in use already"
        )
    raise EnvironmentMissing(f"ONNX Runtime would take {memory}", allowed=allowed, hint=_HINT)


def require_room(count: int, what: str) -> None:
    """As `require`, for `count` bytes that edgedla is about to allocate. Without a limit, SMALL_FILE_LIMIT applies.

    Raises:
        EnvironmentMissing: `count` bytes exceed the limit.
        UsageError: EDGEDLA_MAX_MEMORY is not a size.
    """
    limit = _limit_bytes()
    free_bytes = SMALL_FILE_LIMIT if limit is None else limit - guard.held_bytes()
    if count > free_bytes:
        raise EnvironmentMissing(
            f"{what} would take {count // MIB} MiB of memory", allowed=f"{max(0, free_bytes) // MIB} MiB", hint=_HINT
        )


def _limit_bytes() -> Optional[int]:
    limit = _limit.get()
    return limit_of_environment() if limit is None else limit


def limit_of_environment() -> Optional[int]:
    """Raises:
    UsageError: EDGEDLA_MAX_MEMORY is not a size.
    """
    text = os.environ.get(VARIABLE, "")
    try:
        return parse_size(text) if text else None
    except UsageError as e:
        raise UsageError(e.what, where=VARIABLE, allowed=e.allowed) from e


def available_bytes() -> Optional[int]:
    """Free bytes of the machine or of the container's limit; None if unknown."""
    limits: List[int] = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits.append(int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))) * 1024)
    with suppress(OSError, ValueError):
        most, used = (path.read_text().strip() for path in _CGROUP)
        if most != "max":
            limits.append(max(0, int(most) - int(used)))
    return min(limits, default=None)
