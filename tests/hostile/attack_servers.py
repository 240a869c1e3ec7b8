"""Servers that speak nonsense to a pipeline: an MQTT broker, an RTSP camera, a camera over HTTP; and names in a sweep's tables."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import random
import socket
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import onnx

from tests.hostile.attack_surfaces import detector
from tests.hostile.commands import small_model
from tests.hostile.orders import ORDERS
from tests.hostile.started import EDGEDLA, PASSWORD, ended, start
from tests.hostile.values import bytes_changed, noise

#: What a server answers, one after the other: bytes, or None, which closes the connection.
Answers = Sequence[Optional[bytes]]


@contextlib.contextmanager
def serving(answers: Answers, rng: random.Random) -> Iterator[int]:
    """The port of a server that gives these answers to everyone, each behind what the other side says."""
    server, stop = socket.create_server(("127.0.0.1", 0)), threading.Event()
    server.settimeout(0.1)
    slow = rng.random() < 0.3

    def talk(peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer:
            peer.settimeout(0.3)
            for answer in answers:
                with contextlib.suppress(socket.timeout):
                    peer.recv(65536)
                if answer is None:
                    return
                if slow and len(answer) < 1000:
                    for at in range(len(answer)):
                        peer.sendall(answer[at : at + 1])
                else:
                    peer.sendall(answer)
            stop.wait(5)

    def accept() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                peer, _ = server.accept()
                threading.Thread(target=talk, args=(peer,), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        stop.set()
        thread.join()
        server.close()


def results_in(folder: Path, what: str) -> Tuple[List[bytes], Optional[str]]:
    """(the lines of a pipeline's results, what is wrong with one of them; None if all are whole)."""
    path = folder / "r.jsonl"
    rows = path.read_bytes().splitlines() if path.exists() else []
    try:
        for row in rows:
            json.loads(row)
    except ValueError as e:
        return rows, f"{what}: a broken line: {e}"
    return rows, None


def run_with(config: Dict[str, Any], folder: Path, must_see: bool, what: str) -> Optional[str]:
    """Runs a pipeline for 2 s. None: it ended in a documented way, and its lines are whole."""
    import yaml

    (folder / "p.yaml").write_text(yaml.safe_dump(config))
    process = start([*EDGEDLA, "run", "p.yaml", "--seconds", "2"], folder)
    wrong = ended(process, what)
    if wrong is not None:
        return wrong
    rows, wrong = results_in(folder, what)
    if wrong is not None:
        return wrong
    if must_see and (process.returncode or not rows):
        return f"{what}: ended with {process.returncode} and {len(rows)} results, though its camera is sound"
    return None


def pipeline(source: str, **outputs: Any) -> Dict[str, Any]:
    return {
        "version": 2,
        "sources": {"gate": source},
        "models": {"m": {"artifact": detector(), "decode": {"kind": "final", "score": 0}}},
        "outputs": {"jsonl": "r.jsonl", **outputs},
    }


# --- MQTT

CONNECTED = b"\x20\x02\x00\x00"
PACKETS = (
    CONNECTED,
    b"\x20\x02\x00\x05",
    b"\x20\x03\x00\x00\x00",
    b"\x20\x00",
    b"\x40\x02\x00\x01",
    b"\x40\x02\xff\xff" * 20,
    b"\x40\x00",
    b"\xd0\x00",
    b"\x20\xff\xff\xff\xff\x7f",
    b"\x30\xff\xff\xff\x7f" + b"x" * 1000,
    b"\x30\x08\x00\x04\xff\xfe\x00\x00ab",
    b"\x30\x03\x00\xffa",
    b"\x82\x00",
    b"\xe0\x00",
    b"\xf0\x00",
    b"\x00\x00",
    b"\x10\x00",
    b"HTTP/1.1 200 OK\r\n\r\n",
)


def broker(rng: random.Random, folder: Path) -> Optional[str]:
    """The camera and the other outputs are sound: whatever the broker says, every result is in the file and the run ends well."""
    answers: List[Optional[bytes]] = [CONNECTED] if rng.random() < 0.6 else []
    for _ in range(rng.choice((0, 1, 3, 8))):
        packet = rng.choice((rng.choice(PACKETS), rng.choice(PACKETS), noise(rng), bytes_changed(CONNECTED * 3, rng)))
        answers.append(packet if rng.random() < 0.9 else None)
    with serving(answers, rng) as port:
        mqtt = {"url": f"mqtt://127.0.0.1:{port}", "topic": "site/{source}", "qos": rng.choice((0, 1))}
        return run_with(pipeline("synthetic://?rate=10", mqtt=mqtt), folder, True, "run with a broker")


# --- Cameras


def _rtsp(rng: random.Random) -> List[Optional[bytes]]:
    sdp = (
        b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n"
        b"a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0IAKeKQFAe2AtwEBAaQeJEV,aM48gA==\r\na=control:track1\r\n"
    )
    heads = (
        b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nPublic: OPTIONS, DESCRIBE, SETUP, PLAY\r\n\r\n",
        b"RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n" % len(sdp) + sdp,
        b"RTSP/1.0 200 OK\r\nCSeq: 3\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n\r\n",
        b"RTSP/1.0 200 OK\r\nCSeq: 4\r\nSession: 1\r\n\r\n",
        b"$\x00\x00\x20" + b"\x80\x60" + bytes(30),
    )
    odd = (
        b'RTSP/1.0 401 Unauthorized\r\nCSeq: 1\r\nWWW-Authenticate: Digest realm="\x1b[2J", nonce="' + b"n" * 5000 + b'"\r\n\r\n',
        b"RTSP/1.0 302 Moved\r\nCSeq: 1\r\nLocation: file:///etc/passwd\r\n\r\n",
        b"RTSP/1.0 404 Not Found\r\nCSeq: 1\r\n\r\n",
        b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 99999999999\r\n\r\n",
        b"RTSP/1.0 200 OK\r\n" + b"X: y\r\n" * 2000,
        b"$\xff\xff\xff",
    )
    said: List[Optional[bytes]] = []
    for answer in heads:
        draw = rng.random()
        said.append(answer if draw < 0.6 else bytes_changed(answer, rng) if draw < 0.8 else rng.choice((*odd, noise(rng), None)))
    return said + [noise(rng) for _ in range(rng.choice((0, 2)))]


def _http(rng: random.Random) -> List[Optional[bytes]]:
    import io

    part = io.BytesIO()
    if importlib.util.find_spec("PIL") is not None:
        from PIL import Image

        Image.new("RGB", (16, 16)).save(part, "JPEG")
    jpeg = part.getvalue() or b"\xff\xd8\xff\xe0" + bytes(200) + b"\xff\xd9"
    frame = b"--b\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(jpeg) + jpeg + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=b\r\n\r\n"
    odd = (
        b"HTTP/1.1 301 Moved\r\nLocation: file:///etc/passwd\r\n\r\n",
        b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="\x1b[2J"\r\n\r\n',
        b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\nContent-Length: 99999999999\r\n\r\n" + jpeg,
        b"HTTP/1.1 999 \xff\r\n\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace\r\n\r\n" + frame,
        head + b"--b\r\n" + b"X: y\r\n" * 5000,
    )
    if rng.random() < 0.4:
        return [rng.choice((*odd, noise(rng), None))]
    return [head, *(frame if rng.random() < 0.6 else bytes_changed(frame, rng) for _ in range(8))]


def camera(rng: random.Random, folder: Path) -> Optional[str]:
    """A camera that is alone and speaks nonsense ends the run in words, or is waited for; it is no bug, hang or broken line."""
    scheme = rng.choice(("rtsp", "http"))
    answers = _rtsp(rng) if scheme == "rtsp" else _http(rng)
    with serving(answers, rng) as port:
        return run_with(pipeline(f"{scheme}://u:{PASSWORD}@127.0.0.1:{port}/x"), folder, False, f"run of a camera over {scheme}")


# --- Names in tables

ODD = (
    "a\0b",
    "a\x1b[2Jb",
    "a\x9bb",
    "a\u2028b",
    "a\u202eb",
    "a\nb\rc\td",
    '"',
    "'",
    "=1+1",
    "<script>",
    "é😀",
    "x" * 3000,
    "{{7*7}}",
    "%s",
    "\\",
    "",
)


def names(rng: random.Random, folder: Path) -> Optional[str]:
    """A sweep of models whose names and layers are odd: every table is written, read back, and holds no order to a terminal."""
    for number in range(3):
        model = small_model()
        for place in rng.sample((*model.graph.node, model.graph), 2):
            place.name = rng.choice(ODD) + rng.choice(ODD)
        model.producer_name, model.doc_string = rng.choice(ODD), rng.choice(ODD)
        file = rng.choice([name for name in ODD if "\0" not in name and "/" not in name and len(name) < 200])
        onnx.save(model, str(folder / f"{number}{file}.onnx"))
    tables = ["o.jsonl", "o.csv", "o.html", *(["o.parquet"] if importlib.util.find_spec("pyarrow") else [])]
    words = [word for table in tables for word in ("-o", table)]
    process = start([*EDGEDLA, "sweep", ".", "--target", "orin,xavier", *words], folder)
    wrong = ended(process, "sweep of odd names")
    if wrong is not None:
        return wrong
    if process.returncode not in (0, 1) or not all((folder / table).exists() for table in tables):
        return f"sweep of odd names: ended with {process.returncode} and without a table"
    rows = [json.loads(line) for line in (folder / "o.jsonl").read_text(encoding="utf-8").splitlines()]
    if len(rows) < 6:
        return f"sweep of odd names: {len(rows)} rows"
    for table in tables[:3]:
        text = (folder / table).read_text(encoding="utf-8")
        if ORDERS.search(text) or ("<script>a" in text and table == "o.html"):
            return f"sweep of odd names: an order in {table}"
    return None
