"""Viewers that speak nonsense to the RTSP output. The server is one for all cases: what one of them leaves behind meets the next."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import random
import re
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import List, Optional

import numpy as np

from tests.hostile.values import bytes_changed, noise
from tests.ports import free_port

#: A viewer who asks properly gets the stream within so many seconds, whatever others do beside him. GStreamer's server answers 503
#: for some 0.6 s while it takes down what the viewer before him had; players and `run` ask again.
ANSWER_S, AGAIN_S = 20.0, 0.3
SIZE = (96, 128, 3)
#: More memory than this of the server, after the first cases, is a leak.
MOST_MIB = 400


def missing() -> Optional[str]:
    """What a server of pictures needs and this machine lacks."""
    for library in ("libgstrtspserver-1.0.so.0", "libgstapp-1.0.so.0"):
        try:
            ctypes.CDLL(library)
        except OSError:
            return library
    return None if shutil.which("gst-launch-1.0") else "gst-launch-1.0"


class Served:
    """An RTSP output that gets pictures, as long as the attack runs."""

    def __init__(self) -> None:
        from edgedla.runtime.outputs.rtsp import Rtsp, RtspConfig

        self.port = free_port()
        self.sink = Rtsp(RtspConfig(f"rtsp://127.0.0.1:{self.port}/site/{{source}}", rate=5, encoder="auto"), ("gate",))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _feed(self) -> None:
        from edgedla.runtime.frames import Frame, FrameResult

        number = 0
        while not self._stop.wait(0.1):
            frame = Frame(number, np.full(SIZE, number % 255, np.uint8), time.monotonic())
            self.sink.write(FrameResult(frame, (), "DLA0", True, 1.0, 2.0, "gate", "objects"))
            number += 1

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.sink.close()

    def memory_mib(self) -> int:
        process = self.sink._process
        if process is None:
            return 0
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        return int(found[1]) >> 10 if found else 0


served = functools.lru_cache(maxsize=1)(Served)


def requests(port: int) -> List[bytes]:
    """What a viewer says, in order, to get the stream over the connection that it asks by."""
    address = f"rtsp://127.0.0.1:{port}/site/gate"
    lines = (
        f"OPTIONS {address} RTSP/1.0",
        f"DESCRIBE {address} RTSP/1.0\r\nAccept: application/sdp",
        f"SETUP {address}/stream=0 RTSP/1.0\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1",
        f"PLAY {address} RTSP/1.0\r\nRange: npt=0-",
        f"GET_PARAMETER {address} RTSP/1.0",
        f"TEARDOWN {address} RTSP/1.0",
    )
    return [f"{line}\r\nCSeq: {n}\r\n\r\n".encode() for n, line in enumerate(lines, 1)]


def odd(port: int, rng: random.Random) -> bytes:
    address = f"rtsp://127.0.0.1:{port}/site/gate"
    return rng.choice(
        (
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"$\x00\xff\xff" + b"x" * 900,
            b"$\x09\x00\x00",
            b"\r\n" * 500,
            f"GET {address} HTTP/1.0\r\nx-sessioncookie: a\r\nAccept: application/x-rtsp-tunnelled\r\n\r\n".encode(),
            f"POST {address} HTTP/1.0\r\nx-sessioncookie: a\r\nContent-Length: 32767\r\n\r\n!!!!".encode(),
            f"DESCRIBE {address}/../../etc/passwd RTSP/1.0\r\nCSeq: 1\r\n\r\n".encode(),
            b"DESCRIBE * RTSP/1.0\r\nCSeq: 1\r\n\r\n",
            f"SETUP {address}/stream=99 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;unicast;client_port=0-99999\r\n\r\n".encode(),
            f"SETUP {address}/stream=0 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;multicast;destination=127.0.0.1\r\n\r\n".encode(),
            f"SETUP {address}/stream=0 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=254-999\r\n\r\n".encode(),
            f"ANNOUNCE {address} RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\nContent-Length: 5\r\n\r\nv=0\r\n".encode(),
            f"RECORD {address} RTSP/1.0\r\nCSeq: 1\r\n\r\n".encode(),
            f"PLAY {address} RTSP/1.0\r\nCSeq: 1\r\nSession: 1\r\n\r\n".encode(),
            f"SET_PARAMETER {address} RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 99999999\r\n\r\n".encode(),
            f"OPTIONS {address} RTSP/1.0\r\nCSeq: 1\r\nContent-Length: -1\r\n\r\n".encode(),
            b"OPTIONS  RTSP/9.9\r\nCSeq: x\r\n\r\n",
            b"OPTIONS rtsp://a/ RTSP/1.0\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
            b"OPTIONS rtsp://a/ RTSP/1.0\r\n" + b"X: y\r\n" * 3000 + b"\r\n",
            b"A" * 70_000,
            noise(rng, (1, 40, 2000)),
        )
    )


def speak(port: int, rng: random.Random) -> None:
    """One connection that says some of these, whole, changed or slowly, and goes by closing, by reset, or half."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as peer:
        peer.settimeout(0.2)
        for request in requests(port)[: rng.choice((0, 2, 4, 4, 6))]:
            draw = rng.random()
            said = request if draw < 0.7 else bytes_changed(request, rng) if draw < 0.85 else odd(port, rng)
            if rng.random() < 0.1:
                said = said[: rng.randrange(len(said))]
            peer.sendall(said)
            if rng.random() < 0.8:
                with contextlib.suppress(socket.timeout):
                    peer.recv(65536)
        if rng.random() < 0.6:
            peer.sendall(odd(port, rng))
        how = rng.random()
        if how < 0.3:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        elif how < 0.5:
            peer.shutdown(socket.SHUT_WR)
            with contextlib.suppress(socket.timeout):
                peer.recv(65536)


def asked(port: int) -> str:
    """First line of the answer to a sound DESCRIBE, or why there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as peer:
            peer.settimeout(ANSWER_S)
            peer.sendall(requests(port)[1])
            answer = peer.recv(65536)
            while answer.startswith(b"RTSP/1.0 200") and b"m=video" not in answer:
                part = peer.recv(65536)
                if not part:
                    return f"no video in {answer[:200]!r}"
                answer += part
    except OSError as e:
        return str(e)
    return answer.split(b"\r\n", 1)[0].decode("ascii", "replace")


def viewers(rng: random.Random, folder: Path) -> Optional[str]:
    """One to six hostile viewers at once; then a sound one is served by the same process."""
    server = served()
    started = server.sink.starts
    threads = [
        threading.Thread(target=speak, args=(server.port, random.Random(rng.random()))) for _ in range(rng.choice((1, 1, 2, 6)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began, answer = time.monotonic(), asked(server.port)
    while answer.startswith("RTSP/1.0 503") and time.monotonic() - began < ANSWER_S:
        time.sleep(AGAIN_S)
        answer = asked(server.port)
    if server.sink.starts != started:
        return "the RTSP server died and was started again"
    if not answer.startswith("RTSP/1.0 200"):
        return f"a sound viewer is refused after {time.monotonic() - began:.1f} s: {answer}"
    memory = server.memory_mib()
    return f"the server holds {memory} MiB" if memory > MOST_MIB else None
