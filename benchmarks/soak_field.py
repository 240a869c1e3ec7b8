"""A pipeline with every output at a high rate, whose cameras, broker and viewers come and go: what it holds must not grow.

The pipeline is a process of its own: one camera made here and two by RTSP, a fake runner of RUNNER_MS (a stated figure), a
decoder by file that finds an object every few seconds, JSON lines, MQTT to a real Mosquitto, events with clips, the live page
and RTSP out. Every few seconds something happens: a camera dies and returns (with another size every second time) or hangs, the
broker dies, viewers come and go, and some stop reading. What the RTSP server holds, a process of its own, is sampled too, and how
fast both grow. At the end it gets SIGTERM. No number here is one of a Jetson.

usage: python benchmarks/soak_field.py [--minutes 30] [--seed 1] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
from provenance import provenance, tell

ROOT = Path(__file__).resolve().parents[1]
RUNNER_MS, SAMPLE_S, GRACE_S = 2.0, 10.0, 10.0
#: Growth is a line through the samples of so many last minutes.
SLOPE_MINUTES = 10.0
SYSTEM_PYTHON, MOSQUITTO = "/usr/bin/python3", "/usr/sbin/mosquitto"
CAMERA = ROOT / "tests" / "rtsp_camera.py"
#: Of a camera, in turn from one return to the next.
SIZES = (("320", "240"), ("640", "360"))
HAPPENINGS = ("camera_dies", "camera_hangs", "broker_dies", "page_viewer", "rtsp_viewer", "rtsp_viewer_stops")
HEAD = """
import time
from edgedla.runtime.decode import Detection
def decode(outputs, geometry, options):
    if time.monotonic() % 12 > 5:
        return []
    return [Detection((40.0, 40.0, 120.0, 160.0), 0.9, 0, "thing")]
"""
FILE = """
version: 2
sources:
  made: {uri: "synthetic://?rate=100&width=320&height=240"}
  dying: {uri: "rtsp://127.0.0.1:%(camera0)d/cam"}
  hanging: {uri: "rtsp://127.0.0.1:%(camera1)d/cam"}
models:
  objects: {artifact: detector, decode: "head.py:decode"}
capture: {backoff_first_s: 0.5, backoff_most_s: 5}
events: {thing: {classes: [thing], frames: 3, end_s: 1}}
outputs:
  jsonl: r.jsonl
  rotate_mb: 5
  keep: 2
  mqtt: {url: "mqtt://127.0.0.1:%(broker)d", topic: "site/{source}", queue: 500}
  clips: {folder: clips, before_s: 2, after_s: 1, most_s: 8, rate: 5, width: 320, keep: 6}
  rtsp: {url: "rtsp://127.0.0.1:%(out)d/{source}", rate: 10, width: 320}
metrics: {jsonl: m.jsonl, interval_s: 5, rotate_mb: 5}
view: {port: %(view)d, rate: 10, width: 320}
stop_after: {grace_s: %(grace)g}
"""


def run(file: str) -> int:
    """The pipeline, until SIGTERM."""
    from edgedla.builder.artifact.load import load_artifact
    from edgedla.processes.malloc import limit_arenas
    from edgedla.runtime.health.metrics import serve_metrics
    from edgedla.runtime.live.server import serve_view
    from edgedla.runtime.pipeline.config import load_config
    from edgedla.runtime.pipeline.open_pipeline import open_pipeline
    from edgedla.runtime.pipeline.pool import Pool

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.runtime.fake_runner import FakeRunner

    # As `edgedla run` does.
    limit_arenas()
    config = load_config(file)
    artifact = load_artifact(config.models["objects"].artifact)
    answer = {b.name: np.zeros(b.size_bytes, np.uint8) for b in artifact.outputs}
    runner = FakeRunner(artifact.bindings, RUNNER_MS, lambda given: answer, name="DLA0")
    with open_pipeline(config, pool=Pool([runner])) as p, contextlib.ExitStack() as stack:
        signal.signal(signal.SIGTERM, lambda *_: p.stop())
        stack.enter_context(serve_metrics(p, config.metrics))
        stack.enter_context(serve_view(p, config.view, "soak"))
        summary = p.run()
    Path(file).with_name("summary.json").write_text(json.dumps(summary))
    return 0


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class World:
    """Cameras, broker and viewers, and what happens to them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.ports = {name: free_port() for name in ("camera0", "camera1", "broker", "out", "view")}
        self.counts: Dict[str, int] = {}
        self.viewers: List[threading.Thread] = []
        self.cameras = [self._camera(i) for i in range(2)]
        self.broker = self._broker()

    def _camera(self, i: int, size: Tuple[str, str] = SIZES[0]) -> subprocess.Popen:
        command = [SYSTEM_PYTHON, CAMERA, str(self.ports[f"camera{i}"]), *size, "25"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    def _broker(self) -> subprocess.Popen:
        (self.folder / "broker.conf").write_text(f"listener {self.ports['broker']} 127.0.0.1\nallow_anonymous true\n")
        return subprocess.Popen(
            [MOSQUITTO, "-c", str(self.folder / "broker.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def happen(self) -> None:
        name = self.rng.choice(HAPPENINGS)
        self.counts[name] = self.counts.get(name, 0) + 1
        getattr(self, name)()

    def camera_dies(self) -> None:
        self.cameras[0].kill()
        self.cameras[0].wait()
        time.sleep(self.rng.uniform(0, 4))
        self.cameras[0] = self._camera(0, SIZES[self.counts["camera_dies"] % len(SIZES)])

    def camera_hangs(self) -> None:
        self.cameras[1].send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(1, 8))
        self.cameras[1].send_signal(signal.SIGCONT)

    def broker_dies(self) -> None:
        self.broker.kill()
        self.broker.wait()
        time.sleep(self.rng.uniform(0, 4))
        self.broker = self._broker()

    def page_viewer(self) -> None:
        self._look(self._page, self.rng.uniform(3, 20))

    def rtsp_viewer(self) -> None:
        self._look(self._rtsp, self.rng.uniform(3, 20))

    def rtsp_viewer_stops(self) -> None:
        self._look(self._rtsp_stopped, self.rng.uniform(15, 90))

    def _look(self, how: Any, seconds: float) -> None:
        self.viewers = [t for t in self.viewers if t.is_alive()]
        thread = threading.Thread(target=how, args=(time.monotonic() + seconds,), daemon=True)
        self.viewers.append(thread)
        thread.start()

    def _page(self, until_s: float) -> None:
        with contextlib.suppress(OSError):
            address = f"http://127.0.0.1:{self.ports['view']}/camera/made.mjpg"
            with urllib.request.urlopen(address, timeout=5) as stream:
                while time.monotonic() < until_s and stream.read(4096):
                    pass

    def _rtsp_stopped(self, until_s: float) -> None:
        self._rtsp(until_s, stop=True)

    def _rtsp(self, until_s: float, stop: bool = False) -> None:
        address = f"rtspsrc location=rtsp://127.0.0.1:{self.ports['out']}/made protocols=tcp ! fakesink".split()
        process = subprocess.Popen(["gst-launch-1.0", "-q", *address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if stop:
            time.sleep(3)
            process.send_signal(signal.SIGSTOP)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, until_s - time.monotonic()))
        process.kill()
        process.wait()

    def end(self) -> None:
        for process in (*self.cameras, self.broker):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def held_by(pid: int) -> Dict[str, float]:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return {
        "rss_mib": int(fields["VmRSS"].split()[0]) / 1024,
        "threads": int(fields["Threads"]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
    }


def child_of(pid: int, program: str) -> int:
    """The process that `pid` started with this file; 0 for none."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            with contextlib.suppress(OSError):
                if program in Path(f"/proc/{child}/cmdline").read_text():
                    return int(child)
    return 0


def sample(pid: int, port: int) -> Dict[str, float]:
    results, server = 0.0, {}  # type: Tuple[float, Dict[str, float]]
    with contextlib.suppress(OSError, KeyError):
        server = {f"rtsp_server_{k}": v for k, v in held_by(child_of(pid, "rtsp_child.py")).items()}
    address = f"http://127.0.0.1:{port}/state.json"
    with contextlib.suppress(OSError, ValueError, KeyError), urllib.request.urlopen(address, timeout=10) as answer:
        results = sum(m["results"] for m in json.load(answer)["models"])
    return {"at_s": time.monotonic(), **held_by(pid), **server, "results": results}


def mib_per_hour(samples: List[Dict[str, float]], key: str) -> float:
    """The slope of a least-squares line through the last SLOPE_MINUTES; the start, where caches fill, is no growth."""
    kept = [s for s in samples if key in s and s["at_s"] >= samples[-1]["at_s"] - SLOPE_MINUTES * 60]
    if len(kept) < 3:
        return 0.0
    return float(np.polyfit([s["at_s"] / 3600 for s in kept], [s[key] for s in kept], 1)[0])


def figures(samples: List[Dict[str, float]]) -> Dict[str, Any]:
    """Means of the second and of the last third, so that growth is seen after the start, and the most of each."""
    third = max(1, len(samples) // 3)
    report: Dict[str, Any] = {"samples": len(samples), "results": int(max(s["results"] for s in samples))}
    parts = {"second_third": samples[third : 2 * third], "last_third": samples[-third:]}
    for key in sorted({key for s in samples for key in s} - {"results", "at_s"}):
        # The server is away between its end and its next start.
        values = {k: [s[key] for s in v if key in s] for k, v in parts.items()}
        report[key] = {k: round(sum(v) / max(1, len(v)), 1) for k, v in values.items()}
        report[key]["most"] = round(max(s[key] for s in samples if key in s), 1)
        if key.endswith("rss_mib"):
            report[key]["mib_per_hour"] = round(mib_per_hour(samples, key), 2)
    return report


def soak(minutes: float, seed: int) -> Dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="soak-field-") as name:
        folder = Path(name)
        model = str(ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx")
        build = [sys.executable, "-m", "edgedla", "build", model, "--precision", "fp16", "-o", str(folder / "detector")]
        subprocess.run(build, check=True, capture_output=True)
        (folder / "head.py").write_text(HEAD)
        world = World(folder, seed)
        (folder / "p.yaml").write_text(FILE % {**world.ports, "grace": GRACE_S})
        with open(folder / "log", "wb") as log:
            pipeline = subprocess.Popen([sys.executable, __file__, "--run", str(folder / "p.yaml")], stderr=log)
        samples: List[Dict[str, float]] = []
        end_s, next_s = time.monotonic() + minutes * 60, time.monotonic() + 15
        try:
            while time.monotonic() < end_s and pipeline.poll() is None:
                time.sleep(SAMPLE_S)
                if pipeline.poll() is None:
                    samples.append(sample(pipeline.pid, world.ports["view"]))
                if time.monotonic() >= next_s:
                    world.happen()
                    next_s = time.monotonic() + world.rng.uniform(4, 12)
            alive, asked_s = pipeline.poll() is None, time.monotonic()
            pipeline.send_signal(signal.SIGTERM)
            code = pipeline.wait(60)
            took_s = time.monotonic() - asked_s
        finally:
            if pipeline.poll() is None:
                pipeline.kill()
            world.end()
        log_lines = (folder / "log").read_text(errors="replace").strip().splitlines()
        if not samples:
            raise SystemExit("the pipeline ended at once: " + "\n".join(log_lines[-5:]))
        summary = json.loads((folder / "summary.json").read_text()) if (folder / "summary.json").exists() else {}
        return {
            "minutes": minutes,
            "load": round(os.getloadavg()[0], 1),
            "alive_to_the_end": alive,
            "exit_code": code,
            "seconds_from_sigterm_to_exit": round(took_s, 2),
            "happened": world.counts,
            **figures(samples),
            "outputs": summary.get("outputs"),
            "sources": {
                s["name"]: {k: s[k] for k in ("captured", "dropped", "reconnects", "stalls", "outages") if k in s}
                for s in summary.get("sources", [])
            },
            "last_words": log_lines[-3:] if not alive or code else [],
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.run:
        return run(a.run)
    origin = provenance(("numpy", "opencv-python", "opencv-python-headless", "paho-mqtt"))
    tell({"basis": "measured, with a fake runner of a stated time", **origin, **soak(a.minutes, a.seed)}, a.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
