"""Between a publisher and its broker: what was published by MQTT 3.1.1, and when the broker acknowledged it."""

from __future__ import annotations

import collections
import contextlib
import json
import socket
import threading
import time
from typing import Any, Dict, Iterator, List, Tuple

PUBLISH, PUBACK = 3, 4
#: A killed broker may have lost what it took for so long: it saves each second, and says so some time later.
UNSAVED_S = 2.5


class Packets:
    """The packets of a stream, whole, as their bytes come."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, some: bytes) -> Iterator[Tuple[int, bytes]]:
        """The first byte and the body of each packet that is whole by now."""
        self._rest += some
        while len(self._rest) > 1:
            length, at = 0, 1
            while at < len(self._rest):
                length |= (self._rest[at] & 127) << 7 * (at - 1)
                at += 1
                if self._rest[at - 1] < 128:
                    break
            else:
                return
            if len(self._rest) < at + length:
                return
            yield self._rest[0], self._rest[at : at + length]
            self._rest = self._rest[at + length :]


class Relay:
    """Passes every byte on, and keeps the payloads of topics that end in `ending` once the broker has acknowledged them.

    Attributes:
        acknowledged: payload -> `time.monotonic()` of its last acknowledgement.
    """

    def __init__(self, port: int, broker: int, ending: str) -> None:
        self._broker, self._ending = broker, ending.encode()
        self.acknowledged: Dict[bytes, float] = {}
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker))
            except OSError:
                client.close()
                continue
            waiting: Dict[bytes, bytes] = {}
            for ends in ((client, broker), (broker, client)):
                threading.Thread(target=self._pass, args=(*ends, waiting), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, waiting: Dict[bytes, bytes]) -> None:
        packets = Packets()
        with contextlib.suppress(OSError):
            while True:
                some = source.recv(1 << 16)
                if not some:
                    break
                for first, body in packets.take(some):
                    self._note(first, body, waiting)
                sink.sendall(some)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        sink.close()

    def _note(self, first: int, body: bytes, waiting: Dict[bytes, bytes]) -> None:
        if first >> 4 == PUBLISH and first & 6:
            at = 2 + int.from_bytes(body[:2], "big")
            if body[2:at].endswith(self._ending):
                waiting[body[at : at + 2]] = body[at + 2 :]
        elif first >> 4 == PUBACK and body[:2] in waiting:
            self.acknowledged[waiting.pop(body[:2])] = time.monotonic()


def by_mqtt(
    acknowledged: Dict[bytes, float], arrived: List[bytes], kills: List[float], counted: int, broken: List[str]
) -> Dict[str, Any]:
    """Events that the broker took and those that reached the subscriber; what must not be is added to `broken`."""
    documents = [json.loads(payload) for payload in acknowledged]
    began = {d["id"] for d in documents if d["state"] in ("begin", "new")}
    ended = {d["id"] for d in documents if d["state"] == "end"}
    distinct = set(arrived)
    missing = [when for payload, when in acknowledged.items() if payload not in distinct]
    by_kill = [when for when in missing if any(kill - UNSAVED_S <= when <= kill + 0.5 for kill in kills)]
    if len(began) != counted:
        broken.append(f"the run counts {counted} events, the broker took the begin of {len(began)}")
    if began - ended:
        broken.append(f"the broker took no end of {len(began - ended)} events")
    if len(missing) > len(by_kill):
        broken.append(f"{len(missing) - len(by_kill)} messages that the broker took reached no subscriber, and no kill was near")
    return {
        "acknowledged": dict(collections.Counter(d["state"] for d in documents)),
        "events": len(began),
        "events_by_the_run": counted,
        "no_end_acknowledged": len(began - ended),
        "arrived": len(distinct),
        "arrived_twice": len(arrived) - len(distinct),
        "kills": len(kills),
        "lost_by_kills": len(by_kill),
        "lost": len(missing) - len(by_kill),
    }
