"""The truth report as one file: packed content is redacted and listed; unpacked content is validated."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zlib
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, Tuple

from edgedla.acceptance.redact import Redactor
from edgedla.errors import DocumentError, EnvironmentMissing
from edgedla.inspection.tar_files import blocks, members_of, open_tar
from edgedla.io.documents import conform, require
from edgedla.io.files import MOST_NAME, write_atomic
from edgedla.io.strict_documents import json_of
from edgedla.text.printable import printable

#: A report is text: a file beyond these limits is not a report.
MAX_FILES, MAX_FILE_BYTES, MAX_BYTES = 500, 16 << 20, 64 << 20
PARTS = ("logs", "files")
#: Name of the finding whose value is TensorRT's version.
TENSORRT = "TensorRT"


def pack(folder: Path, out: Path, redact: Redactor) -> List[Tuple[str, int]]:
    """Writes report.json, logs/ and files/ of `folder`, redacted, to `out` (.tar.gz); returns (name, bytes) of each.

    Raises:
        EnvironmentMissing: `out` cannot be written.
    """
    redact.versions = _versions(folder / "report.json")
    listed: List[Tuple[str, int]] = []
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, path in _members(folder):
            text = path.read_bytes().decode("utf-8", "replace")
            data = (redact.document(text) if name.endswith(".json") else redact(text)).encode("utf-8")
            info = tarfile.TarInfo(name)
            # A tar header contains user names, ids and times by default; leave them out.
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
            listed.append((name, len(data)))
    write_atomic(out, buffer.getvalue())
    return listed


def _versions(report: Path) -> FrozenSet[str]:
    """What the report's findings say of TensorRT's version, in four numbers as its bindings give it."""
    try:
        steps = json.loads(report.read_text(encoding="utf-8"))["steps"]
        return frozenset(f["seen"] for step in steps for f in step["findings"] if f["name"] == TENSORRT)
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset()


def _members(folder: Path) -> Iterator[Tuple[str, Path]]:
    yield "report.json", folder / "report.json"
    for part in PARTS:
        for path in sorted((folder / part).rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(folder).as_posix(), path


def unpack(path: Path) -> Tuple[Dict[str, Any], Mapping[str, bytes]]:
    """(the report, every file by its name), read into memory; writes nothing.

    Raises:
        DocumentError: not a truth report, damaged, or too large. EnvironmentMissing: it cannot be read.
    """
    members: Dict[str, bytes] = {}
    total = 0
    try:
        with open_tar(path, 2 * MAX_BYTES) as tar:
            for member in members_of(tar, MAX_FILES):
                if not member.isfile() or not _is_name(member.name) or member.name in members:
                    raise DocumentError(f"it holds {member.name[:200]!r}, which is not part of a truth report", where=str(path))
                total += member.size
                if member.size > MAX_FILE_BYTES or total > MAX_BYTES:
                    raise DocumentError("it is larger than any truth report", where=str(path), allowed=f"{MAX_BYTES} bytes")
                extracted = tar.extractfile(member)
                members[member.name] = b"" if extracted is None else b"".join(blocks(extracted))
    except FileNotFoundError as e:
        raise DocumentError("no such file", where=str(path)) from e
    except PermissionError as e:
        raise EnvironmentMissing(f"cannot read it: {e.strerror}", where=str(path)) from e
    except (tarfile.TarError, OSError, EOFError, ValueError, RecursionError, zlib.error) as e:
        what = e.strerror if isinstance(e, OSError) and e.strerror else e
        raise DocumentError(f"not a truth report: {what}", where=str(path)) from e
    where = f"{os.fspath(path)}/report.json"
    if "report.json" not in members:
        raise DocumentError("it has no report.json", where=str(path), hint="`edgedla doctor --deep` writes one")
    report = json_of(members["report.json"], where)
    require(report, "edgedla.acceptance", where)
    conform(report, "edgedla.acceptance", where)
    return report, members


def _is_name(name: str) -> bool:
    """Whether a report may hold a file of this name: below its folder, for every system, and readable in a list."""
    parts = name.split("/")
    return all(p not in ("", ".", "..") and "\\" not in p and printable(p) == p and len(p.encode()) <= MOST_NAME for p in parts)
