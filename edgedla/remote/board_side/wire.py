"""Frames between laptop and board: one line of JSON, then as many payload bytes as its `bytes` states."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple

#: The largest headers are lists of files; file contents are payloads.
MAX_HEADER_BYTES = 16 << 20
MAX_PAYLOAD_BYTES = 4 << 20
CHUNK_BYTES = 1 << 20
#: How often a side that waits for the other checks whether it still should.
LOOK_S = 0.2

Message = Dict[str, Any]


class WireClosed(Exception):
    """The other side has closed the connection."""


class WireBroken(Exception):
    """The received data is not a frame of this protocol."""


class Wire:
    """Frames over two file descriptors. One thread receives; others may send.

    Attributes:
        heard, spoke: time of the last bytes received, and of the last frame sent (time.monotonic).
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._buffer = bytearray()
        self._begun: Optional[Tuple[Message, int]] = None
        self._sending = threading.Lock()
        self.heard = self.spoke = time.monotonic()

    def send(self, message: Message, payload: bytes = b"", look: Callable[[], None] = lambda: None) -> None:
        """Sends one frame; data received meanwhile is kept for `receive`.

        Args:
            look: called repeatedly while the other side accepts nothing, if the descriptor does not block.

        Raises:
            WireClosed: the other side no longer reads.
        """
        header = {**message, "bytes": len(payload)} if payload else message
        data = memoryview(json.dumps(header, separators=(",", ":")).encode("ascii") + b"\n" + payload)
        with self._sending:
            while data:
                try:
                    data = data[os.write(self._write_fd, data) :]
                except BlockingIOError:
                    readable, _, _ = select.select([self._read_fd], [self._write_fd], [], LOOK_S)
                    if readable:
                        self._fill(0)
                    look()
                except OSError as e:
                    raise WireClosed(str(e)) from e
            self.spoke = time.monotonic()

    def receive(self, timeout_s: Optional[float] = None) -> Optional[Tuple[Message, bytes]]:
        """The next frame; None if nothing comes for `timeout_s` (None: waits for ever). A frame may come in many parts.

        Raises:
            WireClosed, WireBroken.
        """
        if self._begun is None:
            while b"\n" not in self._buffer:
                if len(self._buffer) > MAX_HEADER_BYTES:
                    raise WireBroken("a header without end")
                if not self._fill(timeout_s):
                    return None
            self._begun = self._header()
        message, size = self._begun
        while len(self._buffer) < size:
            if not self._fill(timeout_s):
                return None
        self._begun = None
        payload = bytes(self._buffer[:size])
        del self._buffer[:size]
        return message, payload

    def _header(self) -> Tuple[Message, int]:
        at = self._buffer.index(b"\n")
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        try:
            message = json.loads(line.decode("utf-8"))
            size = message.get("bytes", 0)
        except (ValueError, AttributeError, RecursionError) as e:
            raise WireBroken(f"not a frame: {line[:80]!r}") from e
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_PAYLOAD_BYTES:
            raise WireBroken(f"a payload of {size!r} bytes")
        return message, size

    @property
    def unread(self) -> bytes:
        return bytes(self._buffer)

    def skip_to(self, mark: bytes, look: Callable[[], None], limit: int = 1 << 16) -> None:
        """Drops what a login script prints before our first line.

        Raises:
            WireClosed, WireBroken: the mark does not arrive.
        """
        while mark not in self._buffer:
            if len(self._buffer) > limit:
                raise WireBroken(f"the board's shell prints text of its own: {bytes(self._buffer[:80])!r}")
            self._fill(LOOK_S)
            look()
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
        self.heard = time.monotonic()
        self._buffer += data
        return True
