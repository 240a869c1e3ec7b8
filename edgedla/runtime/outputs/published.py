"""Results, events and frames for other programs, by ZeroMQ."""

from __future__ import annotations

import logging
import threading
from typing import Any, Dict, Set
from urllib.parse import urlsplit

import numpy as np

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.hosts import is_this_machine
from edgedla.runtime.outputs.mqtt_config import ONLY
from edgedla.runtime.outputs.sinks import as_json

log = logging.getLogger("edgedla.runtime.outputs.published")

#: Messages that wait for a slow subscriber: frames of 1080p are 3 MB each. Who does not read gets no more.
MOST_WAITING = 16
#: Longest time that closing waits for messages that are on their way.
FLUSH_MS = 3000


class Published:
    """Publishes [result/SOURCE/MODEL, JSON] and [event/SOURCE/MODEL, JSON] at an address, and, while anybody subscribes to
    them, [frame/SOURCE/MODEL, the result's JSON with `pixels` and `shape`, bytes of the frame].

    Raises:
        EnvironmentMissing: pyzmq is missing. RunError: the address cannot be served.
    """

    def __init__(self, address: str) -> None:
        try:
            import zmq
        except ImportError as e:
            raise EnvironmentMissing(f"pyzmq cannot be imported: {e}", hint="pip install pyzmq") from e
        self._lock = threading.Lock()
        self._asked: Set[bytes] = set()
        # An XPUB socket tells what is subscribed to, so that frames that nobody wants are not copied.
        self._socket: Any = zmq.Context.instance().socket(zmq.XPUB)
        self._socket.set(zmq.SNDHWM, MOST_WAITING)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as e:
            self._socket.close(0)
            allowed = "tcp://127.0.0.1:5555, or ipc://FILE"
            raise RunError(f"cannot serve: {e}", where=f"outputs.zmq: {address}", allowed=allowed) from e
        if address.startswith("tcp:") and not is_this_machine(urlsplit(address).hostname or ""):
            log.warning("outputs.zmq: everybody who reaches %s gets results and frames", address)

    def write(self, result: FrameResult) -> None:
        document, stream = result.to_dict(), f"{result.source or ONLY}/{result.model or 'model'}"
        self._send(f"result/{stream}", document)
        if self._wanted(f"frame/{stream}"):
            image = np.ascontiguousarray(result.frame.image)
            document = {**document, "pixels": result.frame.pixels, "shape": image.shape}
            self._send(f"frame/{stream}", document, image)

    def write_event(self, document: Dict[str, Any]) -> None:
        self._send(f"event/{document.get('source') or ONLY}/{document.get('model') or 'model'}", document)

    def _wanted(self, topic: str) -> bool:
        with self._lock:
            while self._socket.poll(0):
                asked = self._socket.recv()
                (self._asked.add if asked[:1] == b"\1" else self._asked.discard)(asked[1:])
            return any(topic.encode().startswith(start) for start in self._asked)

    def _send(self, topic: str, document: Dict[str, Any], *more: np.ndarray) -> None:
        with self._lock:
            self._socket.send_multipart([topic.encode(), as_json(document).encode(), *more])

    def close(self) -> None:
        with self._lock:
            self._socket.close(FLUSH_MS)
