"""A small HTTP server for a page of numbers, which no visitor can use up: few connections, short ones, and read-only."""

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
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Type

#: Connections at one time; a scraper needs one. Each costs a thread and a descriptor, which the sinks need too.
MOST_CONNECTIONS = 16
#: A connection without a byte for so long is closed, and any after TOTAL_S: a byte now and then does not hold it.
SILENCE_S = 5.0
TOTAL_S = 15.0
#: The system gives no descriptor: wait before asking again, instead of spinning.
NO_DESCRIPTOR_WAIT_S = 0.2
PATHS = ("/", "/metrics")
#: Answers 200 or 503, for probes of Kubernetes, Ansible and load balancers.
HEALTH_PATH = "/healthz"
Health = Callable[[], Tuple[bool, str]]


#: Visitors get this part of the descriptors that the process may have: without any, cameras and results would fail.
SHARE = 8


@dataclass
class Visitor:
    """An open connection.

    Attributes:
        watches: it gets something that goes on, as pictures; it is not ended for another one of its own address.
        ended: its thread is about to close it.
    """

    address: str
    since: float
    watches: bool = False
    ended: bool = False


def _descriptors() -> int:
    """How many files, sockets and pipes the process may have open."""
    try:
        import resource
    except ImportError:  # Windows
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class BoundedServer(socketserver.ThreadingTCPServer):
    """An HTTP server with at most `most` open connections, each for at most `total_s`.

    A further one is answered all the same: of the address with the most, the connection that has waited longest ends. So
    visitors who send slowly keep no scraper out.
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
            # Threads of ended connections last a moment longer.
            if len(self._open) >= 2 * self.most or not self._has_place(address):
                return False
            self._open[request] = Visitor(address, time.monotonic())
            return True

    def _has_place(self, address: str) -> bool:
        """Ends a connection where there are too many; False where none is to end for this address."""
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
        """This connection gets something that goes on."""
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
        # The thread that reads it sees the end, and closes it.
        self._open[request].ended = True
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A visitor that goes away in the middle is nothing to print a traceback about."""


@contextlib.contextmanager
def serve(
    address: str, port: int, page: Callable[[], bytes], content_type: str, health: Optional[Health] = None
) -> Iterator[BoundedServer]:
    """Serves `page` at PATHS and `health` at HEALTH_PATH until the block ends; `port` 0 takes a free one.

    Raises:
        OSError: the address is taken, or is none of this machine.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENCE_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == HEALTH_PATH and health is not None:
                healthy, text = health()
                self.answer(200 if healthy else 503, "text/plain; charset=utf-8", text.encode("utf-8"))
            elif path in PATHS:
                self.answer(200, content_type, page())
            else:
                self.send_error(404)

        def answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return "edgedla"

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged: their paths are the visitor's words."""

    with BoundedServer((address, port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="edgedla-prometheus", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)
