"""A small HTTP server for a page of numbers, which no visitor can use up: few connections, short ones, and read-only."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
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


class BoundedServer(socketserver.ThreadingTCPServer):
    """An HTTP server with at most `most` open connections; further ones are closed unanswered, and each after `total_s`."""

    most, total_s = MOST_CONNECTIONS, TOTAL_S
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Tuple[str, int], handler: Type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._open: Dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def get_request(self) -> Tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(NO_DESCRIPTOR_WAIT_S)
            raise

    def verify_request(self, request: Any, client_address: object) -> bool:
        with self._lock:
            if len(self._open) >= self.most:
                return False
            self._open[request] = time.monotonic()
            return True

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
            late = [request for request, since in self._open.items() if since <= older_than]
        for request in late:
            # The thread that reads it sees the end, and closes it.
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
