"""Frames between laptop and board: one line of JSON, then as many payload bytes as its `bytes` says."""

from __future__ import annotations

import json
import os
import select
from typing import Any, Dict, Optional, Tuple

#: A message's JSON has file lists at most; payloads are chunks of files.
MAX_HEADER_BYTES = 16 << 20
MAX_PAYLOAD_BYTES = 4 << 20
CHUNK_BYTES = 1 << 20

Message = Dict[str, Any]


class WireClosed(Exception):
    """The other side is gone."""


class WireBroken(Exception):
    """What came is no frame of this protocol."""


class Wire:
    """Frames over two file descriptors. Not for several threads."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._buffer = bytearray()

    def send(self, message: Message, payload: bytes = b"") -> None:
        """Raises WireClosed where nobody reads any more."""
        header = {**message, "bytes": len(payload)} if payload else message
        data = memoryview(json.dumps(header, separators=(",", ":")).encode("ascii") + b"\n" + payload)
        try:
            while data:
                data = data[os.write(self._write_fd, data) :]
        except OSError as e:
            raise WireClosed(str(e)) from e

    def receive(self, timeout_s: Optional[float] = None) -> Optional[Tuple[Message, bytes]]:
        """The next frame; None where none begins within `timeout_s` (None: waits).

        Raises:
            WireClosed, WireBroken.
        """
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_HEADER_BYTES:
                raise WireBroken("a header without end")
            if not self._fill(timeout_s):
                return None
        at = self._buffer.index(b"\n")
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        try:
            message = json.loads(line.decode("utf-8"))
            size = message.get("bytes", 0)
        except (ValueError, AttributeError, RecursionError) as e:
            raise WireBroken(f"no frame: {line[:80]!r}") from e
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_PAYLOAD_BYTES:
            raise WireBroken(f"a payload of {size!r} bytes")
        while len(self._buffer) < size:
            if not self._fill(timeout_s):
                raise WireClosed("the rest of a frame did not come")
        payload = bytes(self._buffer[:size])
        del self._buffer[:size]
        return message, payload

    def skip_to(self, mark: bytes, limit: int = 1 << 16) -> None:
        """Drops what a login script prints before our own first line.

        Raises:
            WireClosed, WireBroken: the mark does not come.
        """
        while mark not in self._buffer:
            if len(self._buffer) > limit:
                raise WireBroken(f"the board's shell prints text of its own: {bytes(self._buffer[:80])!r}")
            if not self._fill(60.0):
                raise WireClosed("no answer within 60 s")
        del self._buffer[: self._buffer.index(mark) + len(mark)]

    def _fill(self, timeout_s: Optional[float]) -> bool:
        if timeout_s is not None and not select.select([self._read_fd], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self._read_fd, 1 << 20)
        except OSError as e:
            raise WireClosed(str(e)) from e
        if not data:
            raise WireClosed("the connection is closed")
        self._buffer += data
        return True
