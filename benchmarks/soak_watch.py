"""A run that is disturbed: three RTSP cameras that die, a broker that dies, a disk that fills, reloads. For --minutes; 24 h in pieces.

Real parts: GStreamer's RTSP server (tests/runtime/cameras.py), Mosquitto, `edgedla run` with every output as a process of its own, the
shapes detector on the host (SIMULATED), a reader of results, events and frames by ZeroMQ that comes and goes. Outputs of clips and lines
lie in --folder; make it a small tmpfs to fill its disk. Prints a document: memory, threads and open files, at the middle, at the end and
once a minute, and what was lost; --json adds it to the pieces that the file has. Exit code 1 if something that must hold does not.

No event is lost: the broker has acknowledged each that began and its end (mqtt_relay.py listens in), and a subscriber with a session
gets each message. The broker is stopped by SIGTERM and killed by SIGKILL in turn. Stopped, it keeps all it took. Killed, it may lose
what it took since it last saved, once a second: such messages are counted, and those alone.

usage: python benchmarks/soak_watch.py --minutes 3 [--every 30] [--rate 8] [--folder DIR] [--json FILE] [--samples FILE]

Pieces may run at once, each in a network of its own (`unshare --net`) and with a file of its own; --sum adds the files of a folder up:

usage: python benchmarks/soak_watch.py --sum FOLDER [--json FILE]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Dict, List

from mqtt_relay import Relay, by_mqtt
from provenance import provenance
from soak_field import free_port

ROOT = Path(__file__).resolve().parents[1]
CAMERAS = ROOT / "tests" / "runtime" / "cameras.py"
NAMES = ("gate", "yard", "door")
SAMPLE_S = 2.0
BROKER = """
listener {port} 127.0.0.1
allow_anonymous true
user root
persistence true
persistence_location {folder}/
autosave_interval 1
max_queued_messages 0
"""
PIPELINE = """
version: 2
sources:
  gate: {{uri: "rtsp://127.0.0.1:{cameras}/plain", max_rate: {rate}}}
  yard: {{uri: "rtsp://127.0.0.1:{cameras}/mjpeg", max_rate: {slow}}}
  door: {{uri: "rtsp://127.0.0.1:{cameras}/dies", max_rate: {slow}}}
models:
  shapes: {{artifact: detector, track: {track}, decode: {{kind: yolov8, reg_max: 8, score: 0.01, labels: [circle, square, triangle]}}}}
events:
  seen: {{score: 0, frames: 2, end_s: 1}}
{more}
outputs:
  jsonl: out/r.jsonl
  rotate_mb: 0.5
  keep: 1000
  keep_gb: 0.02
  clips: {{folder: out/clips, before_s: 1, after_s: 1, most_s: 4, rate: 5, width: 320, keep: 0}}
  events_state: out/events.json
  mqtt: {{url: "mqtt://127.0.0.1:{relay}", topic: "site/{{source}}", qos: 1, max_rate: 2, discovery: homeassistant}}
  zmq: "tcp://127.0.0.1:{zmq}"
metrics: {{prometheus_port: {metrics}}}
view: {{port: {view}}}
"""


class Part:
    """A server that is killed and started again."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self.process: Any = None

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, by: int = signal.SIGKILL) -> None:
        self.process.send_signal(by)
        self.process.wait()


class Listener:
    """The events that arrive by MQTT, in a session that the broker keeps."""

    def __init__(self, port: int) -> None:
        from paho.mqtt import client as paho

        self.payloads: List[bytes] = []
        version = [paho.CallbackAPIVersion.VERSION2] if hasattr(paho, "CallbackAPIVersion") else []
        self.client = paho.Client(*version, client_id="soak", clean_session=False)
        self.client.on_connect = lambda client, *_: client.subscribe("site/+/event", qos=1)
        self.client.on_message = lambda c, u, m: self.payloads.append(m.payload)
        self.client.reconnect_delay_set(1, 1)
        self.client.connect_async("127.0.0.1", port)
        self.client.loop_start()


def sample(pid: int) -> Dict[str, int]:
    """Memory in kB, in all and by kind, threads, open files and children of the process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    found = {
        "rss_kb": int(status["VmRSS"].split()[0]),
        "anonymous_kb": int(status["RssAnon"].split()[0]),
        "of_files_kb": int(status["RssFile"].split()[0]),
        "shared_kb": int(status["RssShmem"].split()[0]),
        "threads": int(status["Threads"]),
        "files": 0,
        "children": 0,
    }
    with contextlib.suppress(OSError):
        found["children"] = len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        found["files"] = len(os.listdir(f"/proc/{pid}/fd"))
    return found


def read_frames(address: str, seconds: float) -> int:
    """A reader of everything that is published: comes, takes what it gets, goes. Returns how many messages it got."""
    import zmq

    got, end = 0, time.monotonic() + seconds
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address)
        socket.subscribe("")
        while time.monotonic() < end:
            if socket.poll(500):
                socket.recv_multipart()
                got += 1
    return got


def median(values: List[int]) -> float:
    return float(sorted(values)[len(values) // 2])


def disturb(
    stop: threading.Event,
    every_s: float,
    cameras: Part,
    broker: Part,
    rewrite: Any,
    read: Any,
    folder: Path,
    log: List[str],
    kills: List[float],
) -> None:
    """One disturbance every `every_s`, in turn; the last quarter of the run has none, so that everything can come back."""
    turns = 0
    while not stop.wait(every_s):
        what = ("cameras", "broker stopped", "reload", "disk", "broker killed", "reader")[turns % 6]
        turns += 1
        log.append(what)
        if what == "cameras":
            cameras.kill()
            stop.wait(min(10, every_s / 3))
            cameras.start()
        elif what.startswith("broker"):
            if what == "broker killed":
                kills.append(time.monotonic())
            broker.kill(signal.SIGKILL if what == "broker killed" else signal.SIGTERM)
            stop.wait(min(10, every_s / 3))
            broker.start()
        elif what == "reload":
            rewrite(turns)
        elif what == "reader":
            read(min(10, every_s / 3))
        else:
            # The disk has no byte left for a while, where it is small enough to fill it.
            if shutil.disk_usage(folder).total < 1 << 30:
                with contextlib.suppress(OSError), open(folder / "filler", "wb") as filler:
                    while True:
                        filler.write(b"x" * (1 << 16))
                        filler.flush()
                stop.wait(min(10, every_s / 3))
                (folder / "filler").unlink()


def lines_in(folder: Path) -> List[Dict[str, Any]]:
    found = []
    for path in folder.glob("r.jsonl*"):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between disturbances")
    parser.add_argument("--rate", type=int, default=8, help="analysed frames per second of each camera")
    parser.add_argument("--folder", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--samples", default="", help="a file that gets each minute's sample at once, as a line of JSON")
    parser.add_argument("--sum", default="", help="a folder of --json files: add them up, run nothing")
    given = parser.parse_args()
    if given.sum:
        text = json.dumps(added_up(Path(given.sum)), indent=1) + "\n"
        Path(given.json).write_text(text) if given.json else print(text, end="")
        return 0
    work = Path(tempfile.mkdtemp(prefix="soak-"))
    out = work / "out"
    if given.folder:
        out.symlink_to(Path(given.folder).resolve())
    else:
        out.mkdir()
    ports = {name: free_port() for name in ("cameras", "broker", "relay", "metrics", "view", "zmq")}
    model = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
    build = [sys.executable, "-m", "edgedla", "build", str(model), "--precision", "fp16", "-o", str(work / "detector")]
    subprocess.run(build, check=True, capture_output=True)
    track = "bytetrack" if _has("lap") else '""'
    more = "  each: {each: object, score: 0, frames: 1, end_s: 1}" if track == "bytetrack" else ""

    def rewrite(turn: int) -> None:
        text = PIPELINE.format(**ports, rate=given.rate + turn % 3, slow=given.rate, track=track, more=more)
        (work / "p.yaml.new").write_text(text)
        os.replace(work / "p.yaml.new", work / "p.yaml")

    rewrite(0)
    (work / "mosquitto.conf").write_text(BROKER.format(port=ports["broker"], folder=work))
    cameras = Part("/usr/bin/python3", str(CAMERAS), str(ports["cameras"]))
    broker = Part(shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(work / "mosquitto.conf"))
    for part in (cameras, broker):
        part.start()
    time.sleep(2)
    listener, relay = Listener(ports["broker"]), Relay(ports["relay"], ports["broker"], "/event")
    stop, disturbances, samples, published, kills = threading.Event(), [], [], [], []

    def read(seconds: float) -> None:
        published.append(read_frames(f"tcp://127.0.0.1:{ports['zmq']}", seconds))

    disturber = threading.Thread(
        target=disturb, args=(stop, given.every, cameras, broker, rewrite, read, out, disturbances, kills), daemon=True
    )
    began = time.monotonic()
    with open(work / "log", "w") as log:
        run = subprocess.Popen(
            [sys.executable, "-m", "edgedla", "run", "p.yaml", "--format", "json", "-o", "summary.json"], cwd=work, stderr=log
        )
        disturber.start()
        while time.monotonic() - began < given.minutes * 60 and run.poll() is None:
            time.sleep(SAMPLE_S)
            with contextlib.suppress(OSError, KeyError):
                samples.append({"s": round(time.monotonic() - began), **sample(run.pid), "events": len(listener.payloads)})
                if given.samples and (len(samples) == 1 or samples[-1]["s"] // 60 > samples[-2]["s"] // 60):
                    with open(given.samples, "a") as lines:
                        lines.write(json.dumps(samples[-1]) + "\n")
            if time.monotonic() - began > given.minutes * 45:
                stop.set()
        early = run.poll()
        run.send_signal(signal.SIGTERM)
        code = run.wait(60)
    time.sleep(5)
    for part in (cameras, broker):
        part.kill()
    document = judge(work, out, samples, disturbances, early, code, given.minutes)
    document["by_mqtt"] = by_mqtt(relay.acknowledged, listener.payloads, kills, began_in(document["outputs"]), document["broken"])
    document["messages_read_by_zmq"] = published
    if published and not all(published):
        document["broken"].append("a reader by ZeroMQ got no message")
    if given.json:
        add_piece(Path(given.json), document)
    print(json.dumps(document, indent=1))
    shutil.rmtree(work, ignore_errors=True)
    return 0 if not document["broken"] else 1


def _has(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def add_piece(path: Path, document: Dict[str, Any]) -> None:
    """A further piece of a long soak in its file."""
    pieces = json.loads(path.read_text())["pieces"] if path.exists() else []
    pieces.append(document)
    whole = {"minutes_in_all": sum(piece["minutes"] for piece in pieces), "pieces": pieces}
    path.write_text(json.dumps(whole, indent=1) + "\n")


def added_up(folder: Path) -> Dict[str, Any]:
    """The pieces of a folder's files as one document: what they count is added, of what may not grow the worst stands."""
    pieces = [piece for path in sorted(folder.glob("*.json")) for piece in json.loads(path.read_text())["pieces"]]
    by_mqtt = [piece["by_mqtt"] for piece in pieces]
    disturbances: Dict[str, int] = collections.Counter()
    for piece in pieces:
        disturbances.update(piece["disturbances"])
    spans = {key: [piece[f"{key}_middle_end"] for piece in pieces] for key in ("rss_kb", "threads", "files")}
    return {
        **{key: sorted({piece["provenance"][key] for piece in pieces}) for key in ("commit", "machine")},
        "simulated": True,
        "pieces": len(pieces),
        "minutes_of_a_piece": [min(piece["minutes"] for piece in pieces), max(piece["minutes"] for piece in pieces)],
        "minutes_in_all": sum(piece["minutes"] for piece in pieces),
        "disturbances": dict(disturbances),
        "frames_captured": sum(piece["frames"]["captured"] for piece in pieces),
        **{
            key: sum(b[key] for b in by_mqtt)
            for key in ("events", "arrived", "no_end_acknowledged", "kills", "lost_by_kills", "lost")
        },
        "most_growth_middle_to_end": {key: round(max(b / a for a, b in found), 4) for key, found in spans.items()},
        "rss_kb_most": max(piece["rss_kb_most"] for piece in pieces),
        "broken": [line for piece in pieces for line in piece["broken"]],
    }


def began_in(outputs: Any) -> int:
    """How many events the run itself counted."""
    return next((int(o["began"]) for o in outputs or () if o["output"] == "events"), -1)


def judge(
    work: Path, out: Path, samples: List[Dict[str, int]], disturbances: List[str], early: Any, code: int, minutes: float
) -> Dict[str, Any]:
    """What was seen, and what of it must not be."""
    broken: List[str] = []
    # The first third is the start; the middle is compared with the end.
    n = len(samples)
    spans = {
        key: (median([s[key] for s in samples[n // 3 : 2 * n // 3]]), median([s[key] for s in samples[2 * n // 3 :]]))
        for key in ("rss_kb", "threads", "files")
    }
    limits = {"rss_kb": 1.10, "threads": 1.25, "files": 1.25}
    broken += [f"{key} grew from {a:.0f} to {b:.0f}" for key, (a, b) in spans.items() if b > a * limits[key]]
    if early is not None:
        broken.append(f"the run ended by itself with {early}")
    if code != 0:
        broken.append(f"exit code {code}: {(work / 'log').read_text()[-500:]}")
    events = [d for d in lines_in(out) if "event" in d]
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    if size > 0.03e9:
        broken.append(f"retention: {size} bytes are left of at most 0.02 GB and the open files")
    summary = json.loads((work / "summary.json").read_text()) if (work / "summary.json").exists() else {}
    left = subprocess.run(["pgrep", "-f", str(work)], capture_output=True, text=True).stdout.split()
    if left:
        broken.append(f"processes are left: {left}")
    return {
        "provenance": provenance(),
        "simulated": True,
        "minutes": minutes,
        "disturbances": dict(collections.Counter(disturbances)),
        "rss_kb_middle_end": spans["rss_kb"],
        "threads_middle_end": spans["threads"],
        "files_middle_end": spans["files"],
        "rss_kb_most": max((s["rss_kb"] for s in samples), default=0),
        "frames": summary.get("frames"),
        "outputs": summary.get("outputs"),
        "events_left_in_lines": dict(collections.Counter(d["state"] for d in events)),
        "bytes_left": size,
        "rss_kb_each_minute": [s["rss_kb"] for before, s in zip(samples, samples[1:]) if s["s"] // 60 > before["s"] // 60],
        "broken": broken,
    }


if __name__ == "__main__":
    sys.exit(main())
