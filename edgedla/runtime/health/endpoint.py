"""A small read-only HTTP server for metrics that no visitor can exhaust: few connections, all of them short."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple, Type

from edgedla.runtime.hosts import may_ask, refused

#: Most connections at a time; a scraper needs one. Each costs a thread and a descriptor, which outputs need too.
MOST_CONNECTIONS = 16
#: A connection is closed after so long without a byte, and in any case after TOTAL_S.
SILENCE_S = 5.0
TOTAL_S = 15.0
#: Wait after the system has run out of descriptors, instead of spinning.
NO_DESCRIPTOR_WAIT_S = 0.2
PATHS = ("/", "/metrics")
#: Answers 200 or 503, for probes by Kubernetes, Ansible and load balancers.
HEALTH_PATH = "/healthz"
Health = Callable[[], Tuple[bool, str]]
#: Visitors may use this fraction (1 / SHARE) of the process's descriptors: without any, cameras and outputs would fail.
SHARE = 8


@dataclass
class Visitor:
    """An open connection.

    Attributes:
        watches: it receives a continuous stream, such as pictures; another connection of its address does not end it.
        ended: its thread is about to close it.
    """

    address: str
    since: float
    watches: bool = False
    ended: bool = False


def _descriptors() -> int:
    """The process's limit of open files, sockets and pipes."""
    try:
        import resource
    except ImportError:  # Windows
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class QuietHandler(BaseHTTPRequestHandler):
    """Answers whole bodies and keeps no log: visitors choose their paths, and an address may contain a token."""

    timeout = SILENCE_S

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "edgedla"

    def log_message(self, format: str, *args: object) -> None:
        pass


class BoundedServer(socketserver.ThreadingTCPServer):
    """An HTTP server with at most `most` open connections, each for at most `total_s`.

    Beyond that, a new connection is still answered: the longest-waiting connection of the address with the most connections is
    ended. So slow visitors cannot keep a scraper out.
    """

    most, total_s = MOST_CONNECTIONS, TOTAL_S
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: Tuple[str, int], handler: Type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.most = max(1, min(self.most, _descriptors() // SHARE))
        self._open: Dict[socket.socket, Visitor] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def get_request(self) -> Tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(NO_DESCRIPTOR_WAIT_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        address = str(client_address[0])
        with self._lock:
            # Threads of ended connections live a moment longer.
            if len(self._open) >= 2 * self.most or not self._has_place(address):
                return False
            self._open[request] = Visitor(address, time.monotonic())
            return True

    def _has_place(self, address: str) -> bool:
        """Ends a connection if there are too many; False if there is none to end for this address."""
        visitors = {request: visitor for request, visitor in self._open.items() if not visitor.ended}
        if len(visitors) < self.most:
            return True
        counts = Counter(visitor.address for visitor in visitors.values())
        most = max(counts.values())
        crowd = {address} if counts[address] == most else {a for a, count in counts.items() if count == most}
        waiting = [r for r, v in visitors.items() if v.address in crowd and not (v.watches and v.address == address)]
        if not waiting:
            return False
        victim = min(waiting, key=lambda r: (visitors[r].watches, visitors[r].since))
        self._shut(victim)
        return True

    def watches(self, request: Any) -> None:
        """Marks this connection as a continuous stream."""
        with self._lock:
            if request in self._open:
                self._open[request].watches = True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called twice a second: ends connections that have been open for too long."""
        self._end(time.monotonic() - self.total_s)

    def server_close(self) -> None:
        super().server_close()
        self._end(float("inf"))

    def _end(self, older_than: float) -> None:
        with self._lock:
            for request, visitor in self._open.items():
                if visitor.since <= older_than:
                    self._shut(request)

    def _shut(self, request: socket.socket) -> None:
        # The reading thread notices this and closes the connection.
        self._open[request].ended = True
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A visitor that disconnects midway is no reason for a traceback."""


@contextlib.contextmanager
def serve(
    address: str,
    port: int,
    page: Callable[[], bytes],
    content_type: str,
    health: Optional[Health] = None,
    names: Sequence[str] = (),
) -> Iterator[BoundedServer]:
    """Serves `page` at PATHS and `health` at HEALTH_PATH within the `with` block; `port` 0 picks a free one.

    Args:
        names: names besides localhost and addresses by which visitors may call this machine.

    Raises:
        OSError: the address is in use, or is not this machine's.
    """

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            path, host = self.path.partition("?")[0], self.headers.get("Host", "")
            # A scraper of HTTP/1.0 sends none; a browser always does.
            if host and not may_ask(host, names):
                return self.answer(421, "text/plain; charset=utf-8", refused(host).encode())
            if path == HEALTH_PATH and health is not None:
                healthy, text = health()
                self.answer(200 if healthy else 503, "text/plain; charset=utf-8", text.encode("utf-8"))
            elif path in PATHS:
                self.answer(200, content_type, page())
            else:
                self.send_error(404)

    with BoundedServer((address, port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="edgedla-prometheus", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)
