"""Sources of `edgedla run`: from the command line, a file, standard input, or the environment.

An address may hold a camera's password, and every user of a machine can read the arguments of every process.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from typing import Callable, List, Optional, Sequence, Tuple, TypeVar

from edgedla.cli.arguments.option import option
from edgedla.errors import DocumentError, UsageError
from edgedla.io.files import open_plain

VARIABLE = "EDGEDLA_SOURCE"
STANDARD_INPUT = "-"
#: A larger file is no list of addresses.
MOST_BYTES = 1 << 20
#: Fields of /proc/PID/stat, counted after the program's name: start and end of its arguments in memory (proc(5), 48, 49).
_ARG_START, _ARG_END = 45, 46
_NAME = re.compile(r"[^:/=]+=")
Command = TypeVar("Command", bound=Callable[..., object])


def source_options() -> Callable[[Command], Command]:
    """--source and --source-file; `sources_of` reads their values."""

    def add(command: Command) -> Command:
        command = option(
            "--source-file",
            metavar="FILE",
            help=f"For addresses with a password: read sources, one per line, from a file that only you can read; "
            f"{STANDARD_INPUT} is standard input. Or set {VARIABLE}.",
        )(command)
        return option(
            "--source",
            "sources",
            multiple=True,
            metavar="[NAME=]URI",
            help="csi://0, v4l2:///dev/video0, rtsp://..., a file, a folder, or synthetic://. Several sources share the devices.",
        )(command)

    return add


def sources_of(named: Sequence[str], file: Optional[str], say: Callable[[str], None]) -> Tuple[str, ...]:
    """The sources that --source or --source-file name, else the environment; () leaves them to the pipeline file.

    Hides addresses among this process's arguments as far as the system allows, and warns of a password in them.

    Raises:
        DocumentError: the file is not to be read, or names nothing. UsageError: sources in both places.
    """
    if named and file:
        raise UsageError("--source and --source-file both name sources", allowed="one of them")
    if file:
        return _of_file(file)
    if not named:
        return tuple(_lines(os.environ.get(VARIABLE, "")))
    from edgedla.text.addresses import has_secret, shown

    addresses = [_NAME.sub("", text, count=1) if _NAME.match(text) else text for text in named]
    for address in addresses:
        if shown(address) != address:
            hide_argument(address, shown(address))
    if any(has_secret(address) for address in addresses):
        say(
            "warning: --source holds a password: other users could read it while this process started, and the shell's history keeps it."
            f" Use --source-file FILE, --source-file {STANDARD_INPUT} or {VARIABLE}."
        )
    return tuple(named)


def _of_file(file: str) -> Tuple[str, ...]:
    where = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with open_plain(file) as f:
                data = f.read(MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as e:
        raise DocumentError(f"cannot read the sources: {e}", where=where) from e
    if len(data) > MOST_BYTES:
        raise DocumentError("a list of sources must not exceed 1 MiB", where=where)
    sources = tuple(_lines(text))
    if not sources:
        raise DocumentError("no source in it", where=where, allowed="[NAME=]URI, one per line; # begins a comment")
    return sources


def _lines(text: str) -> List[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def hide_argument(secret: str, instead: str) -> bool:
    """Overwrites an argument in this process's memory, where `ps` and /proc read it; returns False if that fails."""
    old = os.fsencode(secret)
    new = os.fsencode(instead)[: len(old)].ljust(len(old), b"*")
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        if not 0 < start < end:
            return False
        memory = ctypes.string_at(start, end - start)
        at, hidden = memory.find(old), False
        while at >= 0:
            # The argument alone, or behind `--source=`.
            if memory[at + len(old) : at + len(old) + 1] in (b"\0", b"") and (at == 0 or memory[at - 1 : at] in (b"\0", b"=")):
                ctypes.memmove(start + at, new, len(new))
                hidden = True
            at = memory.find(old, at + 1)
        return hidden
    return False
