"""The readable header of a serialised TensorRT engine, and the data before the engine in the file."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional, Tuple

#: A serialised TensorRT engine begins with these bytes from 8.6 on (tag 0x74727466, as trtexec --getPlanVersionOnly checks it).
PLAN_MAGIC = b"ftrt"
#: Up to 8.5: an engine that 8.5.3 wrote begins so.
OLDER_PLAN_MAGIC = b"ptrt"
#: Byte 8 of those engines, the serialisation version, by release (NVIDIA/TensorRT issue 3073; 232 also from our own engine).
RELEASE_OF_SERIALISATION = {205: "8.2", 213: "8.4", 232: "8.5"}
#: Common file endings of engines.
ENGINE_ENDINGS = (".engine", ".plan", ".trt")
#: A thousand class names take some 30 kB.
MOST_METADATA_BYTES = 1 << 20


@dataclass(frozen=True)
class PlanHeader:
    """The readable part of a serialised engine: TensorRT's version if the header's form is known.

    Attributes:
        offset: byte of the file at which the engine begins.
        metadata: the JSON object before the engine; None if there is none.
    """

    version: str
    offset: int
    metadata: Optional[Mapping[str, Any]]


def plan_header(path: Path) -> Optional[PlanHeader]:
    """The header of a serialised engine, also after the JSON that Ultralytics writes before it; None for other files.

    Form of the header (as trtexec itself checks it): tag, then a 32-bit serialisation version; if that is 0, bytes 24 to 27
    are TensorRT's major, minor, patch and build. Older engines tell major and minor at most.
    """
    header, engine = _read(path)
    if engine.startswith(OLDER_PLAN_MAGIC):
        known = RELEASE_OF_SERIALISATION.get(struct.unpack_from("<Q", engine, 8)[0], "") if len(engine) == 28 else ""
        return PlanHeader(known, header.offset, header.metadata)
    if not engine.startswith(PLAN_MAGIC):
        return None
    version = ""
    if len(engine) == 28 and struct.unpack_from("<I", engine, 4)[0] == 0 and any(engine[24:28]):
        version = ".".join(str(n) for n in engine[24:28])
    return PlanHeader(version, header.offset, header.metadata)


def engine_header(path: Path) -> Optional[PlanHeader]:
    """`plan_header`, also for a file that only its name marks as an engine; None for every other file."""
    header = plan_header(path)
    if header is not None:
        return header
    return _read(path)[0] if path.suffix.lower() in ENGINE_ENDINGS else None


def is_engine(path: Path) -> bool:
    """True if the file is an engine or named like one. False if it cannot be read."""
    try:
        return path.is_file() and engine_header(path) is not None
    except OSError:
        return False


def engine_bytes(path: Path) -> bytes:
    """The engine in a file, without the data before it."""
    with open(path, "rb") as f:
        f.seek(_read(path)[0].offset)
        return f.read()


def _read(path: Path) -> Tuple[PlanHeader, bytes]:
    """(header with what precedes the engine, the engine's first 28 bytes)."""
    with open(path, "rb") as f:
        start = f.read(5)
        before = PlanHeader("", 0, None)
        length = struct.unpack("<I", start[:4])[0] if len(start) == 5 else 0
        if start[4:5] == b"{" and 2 <= length <= MOST_METADATA_BYTES:
            f.seek(4)
            before = _before(f.read(length), length)
        f.seek(before.offset)
        return before, f.read(28)


def _before(text: bytes, length: int) -> PlanHeader:
    try:
        metadata = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return PlanHeader("", 0, None)
    return PlanHeader("", 4 + length, metadata if isinstance(metadata, dict) else None)
