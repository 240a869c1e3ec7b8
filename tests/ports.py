"""Ports of this machine that nobody listens at."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A TCP port that was free a moment ago; nothing keeps it for the caller."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
