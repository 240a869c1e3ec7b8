"""Lines of a text file that may be huge, compressed, UTF-16 or not text at all."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from typing import Any, Iterable, Iterator, Union

from edgedla.errors import DocumentError
from edgedla.io.files import open_plain

#: A path, the content, or the lines themselves.
Source = Union[str, "os.PathLike[str]", bytes, Iterable[str]]

#: Longer lines are cut: a file without line breaks must not fill the memory.
MAX_LINE_BYTES = 1 << 20

#: Raised while reading a truncated or damaged gzip file.
BROKEN_STREAM = (EOFError, zlib.error, gzip.BadGzipFile)


def text_lines(source: Source) -> Iterator[str]:
    """The lines of a log, cut at MAX_LINE_BYTES. Reading a damaged gzip file raises one of BROKEN_STREAM.

    Raises:
        DocumentError: the file cannot be opened.
    """
    if isinstance(source, bytes):
        yield from _decoded(io.BytesIO(source))
    elif isinstance(source, (str, os.PathLike)):
        try:
            stream = open_plain(source)
        except OSError as e:
            raise DocumentError(f"cannot read the log: {e.strerror or e}", where=str(source)) from e
        with stream:
            yield from _decoded(stream)
    else:
        for line in source:
            yield line[:MAX_LINE_BYTES]


def _decoded(raw: Any) -> Iterator[str]:
    head = raw.read(2)
    raw.seek(0)
    stream: Any = gzip.GzipFile(fileobj=raw) if head == b"\x1f\x8b" else raw
    if head in (b"\xff\xfe", b"\xfe\xff"):  # PowerShell's redirection writes UTF-16
        text = io.TextIOWrapper(stream, encoding="utf-16", errors="replace")
        yield from iter(lambda: text.readline(MAX_LINE_BYTES), "")
        return
    whole = True
    for line in iter(lambda: stream.readline(MAX_LINE_BYTES), b""):
        if whole:  # the rest of a longer line is dropped
            yield line.decode("utf-8", "replace")
        whole = line.endswith(b"\n")
