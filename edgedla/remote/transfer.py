"""Files to and from a board: each content is sent once, resumed after a break, and verified on arrival."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

from edgedla.errors import DataError, EnvironmentMissing, ModelError, RunError, UsageError
from edgedla.io.files import make_folder, sha256_of
from edgedla.remote.board_side.store import SHA256
from edgedla.remote.board_side.wire import CHUNK_BYTES, Message
from edgedla.remote.connection import Connection, printable

#: Chunks sent before the first answer is awaited.
WINDOW = 8
MAX_INPUTS = 20_000
#: (bytes done, bytes in total) during a transfer.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Sent:
    """A file of ours and its path below a job's `in`."""

    path: str
    source: Path
    sha256: str
    size: int


@dataclass(frozen=True)
class Output:
    """A file that a board offers, with a path verified to stay below a folder."""

    path: str
    sha256: str
    size: int


def file_to_send(source: Path, path: str) -> Sent:
    """Raises DataError if the file cannot be read."""
    try:
        return Sent(path, source, sha256_of(source), source.stat().st_size)
    except OSError as e:
        raise DataError(f"cannot be read: {e.strerror}", where=str(source)) from e


def model_files(source: Path, path: str) -> List[Sent]:
    """An ONNX file and the files beside it that hold its weights; any other file alone.

    Raises:
        DataError: unreadable. ModelError: the model names weights outside its folder.
    """
    files = [file_to_send(source, path)]
    if source.suffix.lower() != ".onnx":
        return files
    from edgedla.importers.model_file.model_identity import model_identity

    try:
        external = model_identity(source)["external"]
    except Exception:
        # A broken model: the board's command reports what is wrong, as it would here.
        return files
    parent = path.rpartition("/")[0]
    for name in external:
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise ModelError(f"weights outside the model's folder: {name!r}", where=str(source))
        files.append(file_to_send(source.parent / name, f"{parent}/{Path(name).as_posix()}"))
    return files


def folder_files(source: Path, path: str) -> List[Sent]:
    """Every plain file of a folder, except hidden ones.

    Raises:
        UsageError: too many files.
    """
    sendable: List[Sent] = []
    for parent, folders, files in os.walk(source):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(files):
            member = Path(parent) / name
            if not name.startswith(".") and member.is_file():
                sendable.append(file_to_send(member, f"{path}/{member.relative_to(source).as_posix()}"))
        if len(sendable) > MAX_INPUTS:
            raise UsageError(f"more than {MAX_INPUTS} files", where=str(source))
    return sendable


def send_files(connection: Connection, files: Sequence[Sent], client: str, progress: Progress) -> int:
    """Sends the files that the board lacks; returns the number of bytes sent.

    Raises:
        BoardRefused: the disk is full. ConnectionLost: what has arrived stays, and the next call continues.
    """
    unique = {f.sha256: f for f in files}
    blobs = [{"sha256": f.sha256, "size": f.size} for f in unique.values()]
    offsets = connection.ask("have", blobs=blobs, client=client)["offsets"]
    if not isinstance(offsets, list) or len(offsets) != len(blobs) or not all(isinstance(o, int) for o in offsets):
        raise RunError("the board answered another request", where=connection.where)
    todo = [(f, o) for f, o in zip(unique.values(), offsets) if o != f.size or f.size == 0]
    total, done = sum(f.size - o for f, o in todo), 0
    for file, offset in todo:
        for sent in _send(connection, file, offset, client):
            done += sent
            progress(done, total)
    return total


def _send(connection: Connection, file: Sent, offset: int, client: str) -> Iterator[int]:
    waiting = 0
    with open(file.source, "rb") as f:
        f.seek(offset)
        at = offset
        while True:
            block = f.read(min(CHUNK_BYTES, file.size - at))
            last = at + len(block) >= file.size
            if not block and not last:
                raise UsageError("the file became shorter while it was sent", where=str(file.source))
            fields: Dict[str, Any] = {"sha256": file.sha256, "size": file.size, "offset": at, "client": client}
            connection.send("put", block, last=last, **fields)
            at, waiting = at + len(block), waiting + 1
            while waiting > (0 if last else WINDOW):
                connection.answer()
                waiting -= 1
            yield len(block)
            if last:
                return


def checked_outputs(entries: Any, where: str) -> Tuple[Output, ...]:
    """The results that a board offers, as values that cannot name a file outside their folder.

    Raises:
        RunError: a path that leaves its folder, a wrong type.
    """
    if not isinstance(entries, list):
        raise RunError("the board sent no valid list of results", where=where)
    outputs, names = [], set()
    for e in entries:
        path, sha256, size = (e.get(k) for k in ("path", "sha256", "size")) if isinstance(e, dict) else (None,) * 3
        parts = path.split("/") if isinstance(path, str) else [""]
        wrong = any(p in ("", ".", "..") or "\\" in p or printable(p) != p or "\n" in p or len(p) > 255 for p in parts)
        if wrong or not isinstance(sha256, str) or not SHA256.match(sha256) or path in names:
            raise RunError(f"the board names a result {printable(str(path))[:200]!r}", where=where)
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise RunError(f"the board says that {path} has {printable(str(size))[:40]} bytes", where=where)
        names.add(path)
        outputs.append(Output(str(path), sha256, size))
    return tuple(outputs)


def fetch(connection: Connection, job: str, output: Output, target: Path) -> None:
    """Fetches one result to `target`, which may already hold its beginning.

    Raises:
        RunError: the content is not as announced; the file is removed. EnvironmentMissing: our disk is full.
    """
    make_folder(target.parent)
    present = target.stat().st_size if target.is_file() else 0
    if present > output.size:
        target.unlink()
        present = 0
    if output.size - present > shutil.disk_usage(target.parent).free:
        raise EnvironmentMissing(f"{output.path} has {output.size / 1e6:.1f} MB, more than is free", where=str(target.parent))
    with open(target, "ab") as f:
        connection.send("get", job=job, path=output.path, offset=present)

        def write(message: Message, payload: bytes) -> None:
            if f.tell() + len(payload) > output.size:
                raise RunError(f"the board sends more than the {output.size} bytes of {output.path}", where=connection.where)
            f.write(payload)

        try:
            connection.answer(write)
            f.flush()
        except OSError as e:
            raise EnvironmentMissing(f"cannot write: {e.strerror}", where=str(target)) from e
    digest = sha256_of(target)
    if digest != output.sha256 or target.stat().st_size != output.size:
        target.unlink()
        raise RunError(f"{output.path} is not what the board announced (another SHA-256)", where=connection.where)
