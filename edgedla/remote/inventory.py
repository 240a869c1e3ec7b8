"""boards.yaml: the boards by name, validated strictly."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Tuple

from edgedla.errors import DocumentError, RuleError, UsageError
from edgedla.io.files import make_folder, write_atomic
from edgedla.remote.address import Address, parse_address

#: Names another file than ~/.config/edgedla/boards.yaml.
FILE_VARIABLE = "EDGEDLA_BOARDS"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
#: A program on the board becomes part of ssh's command line: no characters that a shell interprets.
_PROGRAM = re.compile(r"[A-Za-z0-9_./+~][A-Za-z0-9_./+~-]*\Z")
_KEYS = ("host", "groups", "python", "edgedla", "note")


@dataclass(frozen=True)
class BoardEntry:
    """One board.

    Attributes:
        groups: names that `sweep --board-group` and `board list` select by.
        python: the board's Python for the connection, 3.8 or newer.
        edgedla: the board's edgedla; None: where jetson/setup.sh installs it, else on PATH.
    """

    name: str
    address: Address
    groups: Tuple[str, ...] = ()
    python: str = "python3"
    edgedla: Optional[str] = None
    note: str = ""


def inventory_file() -> Path:
    chosen = os.environ.get(FILE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "edgedla" / "boards.yaml"


def read_inventory(path: Optional[Path] = None) -> Dict[str, BoardEntry]:
    """The boards by name; {} if there is no file.

    Raises:
        DocumentError: an unknown key, a wrong type, an invalid name or address; `where` is file:line.
    """
    from edgedla.io.strict_documents import read_yaml
    from edgedla.io.strict_yaml import Table

    path = path or inventory_file()
    if not path.exists():
        return {}
    document = read_yaml(path)
    if not isinstance(document, Table):
        raise DocumentError("not a mapping", where=str(path), allowed="boards: with one entry per board")
    try:
        boards = document.only(["boards"]).table("boards")
        return {name: _entry(name, boards) for name in boards}
    except RuleError as e:
        raise DocumentError(e.what, where=e.where, allowed=e.allowed, hint=e.hint) from e


def _entry(name: str, boards: Any) -> BoardEntry:
    if not _NAME.match(name):
        raise boards.error(f"{name!r} is not a valid name of a board", name, allowed="letters, digits, - and _")
    table = boards.table(name).only(["host"], _KEYS)
    for key in ("python", "edgedla"):
        if key in table and not _PROGRAM.match(table.text(key)):
            raise table.error(f"{table[key]!r} is not a valid path of a program", key, allowed="letters, digits and _./+~-")
    try:
        address = parse_address(table.text("host"))
    except UsageError as e:
        raise table.error(e.what, "host", allowed=e.allowed or "") from e
    program = table.text("edgedla", "")
    return BoardEntry(
        name, address, table.texts("groups"), table.text("python", "python3"), program or None, table.text("note", "")
    )


def board_named(text: str, path: Optional[Path] = None) -> BoardEntry:
    """A board of the inventory, or one given by its address.

    Raises:
        UsageError: neither. DocumentError: the inventory is invalid.
    """
    boards = read_inventory(path)
    if text in boards:
        return boards[text]
    address = parse_address(text)
    # A bare name may be a Host of ssh_config; if it is not, ssh says so.
    return BoardEntry(text, address)


def boards_in(group: str, path: Optional[Path] = None) -> Tuple[BoardEntry, ...]:
    """The boards of a group; "all" selects every board.

    Raises:
        UsageError: the group has no board.
    """
    boards = read_inventory(path)
    members = tuple(b for b in boards.values() if group == "all" or group in b.groups)
    if not members:
        groups = sorted({g for b in boards.values() for g in b.groups} | {"all"})
        raise UsageError(
            f"no board belongs to the group {group!r}",
            where="--board-group",
            allowed=", ".join(groups),
            hint=f"boards are listed in {path or inventory_file()}; `edgedla board add` adds one",
        )
    return members


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Locks the inventory's folder: of two processes that read, change and save it, neither loses the other's change."""
    folder = inventory_file().absolute().parent
    make_folder(folder)
    with contextlib.ExitStack() as stack:
        # On Windows, or on a file system without locks, the last to save wins.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            held = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, held)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def save_board(board: BoardEntry, path: Optional[Path] = None) -> Path:
    """Writes a board into the file after checking that it reads back; other content stays unchanged.

    Raises:
        UsageError: a name or value that the file cannot hold. DocumentError: the file is invalid.
    """
    from edgedla.remote.inventory_text import with_board

    path = path or inventory_file()
    if not _NAME.match(board.name):
        raise UsageError(f"{board.name!r} is not a valid name of a board", where="NAME", allowed="letters, digits, - and _")
    boards = read_inventory(path)
    # As bytes, to keep the line endings.
    old = path.read_bytes().decode("utf-8") if path.exists() else ""
    before = _values(boards[board.name]) if board.name in boards else {}
    text = with_board(old, board.name, _values(board), before)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "boards.yaml"
        probe.write_bytes(text.encode("utf-8"))
        try:
            same = list(read_inventory(probe).items()) == list({**boards, board.name: board}.items())
        except DocumentError as e:
            # Its position refers to a temporary file.
            raise UsageError(e.what, where=str(path), allowed=e.allowed, hint=e.hint) from e
        if not same:
            raise UsageError("the inventory cannot hold these values", where=str(path))
    return write_atomic(path, text)


def _values(board: BoardEntry) -> Dict[str, Any]:
    """The keys of a board's entry, without those that have their default."""
    values = {
        "host": str(board.address),
        "groups": list(board.groups),
        "python": board.python,
        "edgedla": board.edgedla,
        "note": board.note,
    }
    return {key: value for key, value in values.items() if value and (key, value) != ("python", "python3")}
