"""Detects the kind of a file from its first bytes and, for JSON, from its keys. Executes and loads nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Tuple

from edgedla.builder.artifact.load import folder_hint
from edgedla.errors import DocumentError
from edgedla.inspection.bundle_file import is_bundle, read_bundle
from edgedla.io.documents import DOCUMENTS, MANIFEST, artifact_folder, identify
from edgedla.io.strict_documents import read_yaml
from edgedla.records.build_log_lines import recognise
from edgedla.records.build_log_prefix import split_prefix
from edgedla.records.engine_info import is_engine_info
from edgedla.records.json_text import parse_json
from edgedla.records.plan_header import plan_header
from edgedla.records.profile_table import read_profile_table
from edgedla.records.text_lines import BROKEN_STREAM, text_lines
from edgedla.rules.messages import explain_line
from edgedla.text.addresses import shown_document

HEAD_BYTES = 64 * 1024
MAX_JSON_BYTES = 512 * 1024 * 1024
MAX_DRIFT_BYTES = 16 * 1024 * 1024
#: Lines searched for the mark of a log; output of other tools may come first.
LOG_LINES = 20_000

#: The first bytes of TensorRT's calibration cache.
_CACHE = re.compile(rb"TRT-\d+-\w+\s*\n")
#: A drift file: YAML, because people read and edit it.
_DRIFT = re.compile(rb"(?:#[^\n]*\n)*(?:schema: edgedla\.drift/|document: edgedla\.drift\b)")


@dataclass(frozen=True)
class DetectedFile:
    """A file's kind; `document` holds the parsed JSON if it is JSON."""

    kind: str
    document: Any = None


def detect(path: Path) -> DetectedFile:
    """The kind of a file or folder.

    Raises:
        DocumentError: unreadable, or of no kind that can be inspected.
    """
    if is_bundle(path):
        return DetectedFile("bundle", shown_document(read_bundle(path)))
    if path.is_dir():
        if (artifact_folder(path) / MANIFEST).exists():
            return DetectedFile("artifact")
        raise DocumentError("a folder without manifest.json is not an artifact", where=str(path), hint=folder_hint(path))
    if path.exists() and not path.is_file():
        # Opening a named pipe would block, and reading a device might never end.
        raise DocumentError("a pipe or device, not a file", where=str(path), hint="write it to a file first")
    head = _head(path)
    if plan_header(path) is not None:
        return DetectedFile("tensorrt-engine")
    plain = head.replace(b"\0", b"").lstrip(b"\xff\xfe\xef\xbb\xbf \t\r\n")
    if _CACHE.match(plain):
        return DetectedFile("calibration-cache")
    if _DRIFT.match(plain):
        return DetectedFile("drift", read_yaml(path, wrong="not a drift file", most_bytes=MAX_DRIFT_BYTES))
    if plain[:1] in (b"{", b"["):
        document = _json(path)
        if document is not None:
            return DetectedFile(_kind_of_json(document, path), document)
    if path.suffix.lower() == ".onnx" or (len(head) > 2 and head[0] == 0x08 and 0 < head[1] < 0x20):
        return DetectedFile("onnx")
    # UTF-16, and logs cut by a power loss, contain zeros; a loadable contains none of these words.
    marked = any(mark in plain for mark in (b"[TRT]", b"&&&& RUNNING", b"[TensorRT]"))
    if plain[:1] == b"{" and not marked and _begins_with_a_row(plain):
        raise DocumentError(
            "JSON lines, as a sweep or a pipeline writes them: each line is a document of its own",
            where=str(path),
            allowed="one JSON document of edgedla or TensorRT, or another kind of file",
        )
    if marked or head[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff") or b"\0" not in head[:4096]:
        if _is_log(path):
            return DetectedFile("build-log")
        table = _profile_table(path)
        if table is not None:
            return DetectedFile("profile", table)
        if _has_log_lines(path):
            return DetectedFile("build-log")
        if plain[:1] in (b"{", b"["):
            raise DocumentError(
                "it begins like JSON but is not valid JSON: cut off, or edited", where=str(path), hint="write the file again"
            )
        raise DocumentError(
            "a text without any line of TensorRT's builder",
            where=str(path),
            hint="write the log with trtexec --verbose, and pass the file itself",
        )
    return DetectedFile("loadable")


def _begins_with_a_row(plain: bytes) -> bool:
    """Whether the first line is a JSON object; the words in it may look like lines of a log."""
    first, end, _ = plain.partition(b"\n")
    try:
        return bool(end) and isinstance(parse_json(first), dict)
    except (ValueError, RecursionError):
        return False


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as f:
            return f.read(HEAD_BYTES)
    except OSError as e:
        raise DocumentError(f"cannot read it: {e.strerror or e}", where=str(path)) from e


def _json(path: Path) -> Any:
    if path.stat().st_size > MAX_JSON_BYTES:
        raise DocumentError("larger than any JSON document of this kind", where=str(path))
    try:
        # NaN and infinities are not JSON: a report of the document could not be written with them.
        return parse_json(path.read_bytes())
    except RecursionError as e:
        raise DocumentError("JSON nested too deeply", where=str(path)) from e
    except ValueError:
        return None


def _kind_of_json(document: Any, path: Path) -> str:
    if is_engine_info(document):
        return "engine-info"
    if isinstance(document, Mapping):
        identity = identify(document)
        if identity is not None:
            return DOCUMENTS[identity[0]].kind
        if "parsed" in document and isinstance(document.get("layers"), list):
            return "layers"
    if _is_profile(document):
        return "profile"
    raise DocumentError(
        "JSON of an unknown kind",
        where=str(path),
        allowed="engine inspector output, a trtexec profile, an edgedla document or manifest",
    )


def _is_profile(document: Any) -> bool:
    """True for rows of --exportProfile; TensorRT 7's have a total and no average."""
    rows = document if isinstance(document, list) else []
    return any(isinstance(r, Mapping) and "name" in r and ("averageMs" in r or "timeMs" in r) for r in rows)


def _profile_table(path: Path) -> Any:
    try:
        return read_profile_table(text_lines(path))
    except BROKEN_STREAM:
        return None


def _has_log_lines(path: Path) -> bool:
    """True if lines begin like TensorRT's, or match the message catalogue: a pasted piece of a log."""
    try:
        for number, line in enumerate(text_lines(path)):
            severity, text = split_prefix(line)
            if (severity and text) or ("DLA" in text and explain_line(line) is not None):
                return True
            if number >= LOG_LINES:
                break
    except BROKEN_STREAM:
        pass
    return False


def _is_log(path: Path) -> bool:
    try:
        for number, line in enumerate(text_lines(path)):
            if recognise(split_prefix(line)[1]):
                return True
            if number >= LOG_LINES:
                return False
    except BROKEN_STREAM:
        return False
    return False


def kinds() -> Tuple[str, ...]:
    """All kinds, for help texts."""
    others = ("calibration-cache", "onnx", "loadable", "engine-info", "build-log", "artifact", "tensorrt-engine", "profile")
    return tuple(sorted({*others, *(row.kind for row in DOCUMENTS.values())}))
