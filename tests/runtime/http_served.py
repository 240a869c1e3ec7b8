"""A web server on a free port of this machine, for one test or module."""

from __future__ import annotations

import contextlib
import http.server
import threading
from typing import Iterator, Type


@contextlib.contextmanager
def served(handler: Type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Its address, without a slash at the end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
