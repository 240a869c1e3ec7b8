"""`edgedla run` and a bundle (.pyz) of the same pipeline over a film in a loop: what they hold must not grow.

The shapes detector, simulated by ONNX Runtime, finds its shapes in a film that begins anew every few seconds. Results go to JSON
lines and to a real Mosquitto; the metrics are scraped every few seconds. Both run at once, each a process of its own, and get SIGTERM
at the end. No number here is one of a Jetson.

usage: python benchmarks/soak_run.py [--minutes 15] [--rate 30] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Dict, List

from provenance import provenance, tell
from soak_field import MOSQUITTO, ROOT, SAMPLE_S, figures, free_port, held_by

DETECTOR = ROOT / "examples" / "00_shapes_detector"
FILM_FRAMES = 75
SCRAPE_S = 2.0
FILE = """
version: 1
artifact: detector
source: {uri: shapes.avi, loop: true, rate: %(rate)g}
preprocess: {std: [255, 255, 255]}
decode: {kind: yolov8, labels: [circle, square, triangle], reg_max: 8, score: 0.4}
outputs:
  jsonl: r-%(name)s.jsonl
  rotate_mb: 5
  keep: 2
  mqtt: {url: "mqtt://127.0.0.1:%(broker)d", topic: "site/%(name)s"}
metrics: {jsonl: m-%(name)s.jsonl, interval_s: 5, rotate_mb: 5, prometheus_port: %(port)d}
"""


def scrape(port: int) -> Dict[str, float]:
    """{name: value} of the metrics page; {} where it does not answer."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        rows = [line.rsplit(" ", 1) for line in page.read().decode().splitlines() if not line.startswith("#")]
        return {name.partition("{")[0]: float(value) for name, value in rows}
    return {}


def start(folder: Path, name: str, broker: int, port: int, rate: float) -> subprocess.Popen:
    file = folder / f"{name}.yaml"
    file.write_text(FILE % {"name": name, "broker": broker, "port": port, "rate": rate})
    command = [sys.executable, "-m", "edgedla", "run", str(file)]
    if name == "bundle":
        made = folder / "bundle.pyz"
        subprocess.run(
            [sys.executable, "-m", "edgedla", "bundle", "--pipeline", str(file), "-o", str(made)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        command = [sys.executable, str(made)]
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


def soak(minutes: float, rate: float) -> Dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="soak-run-") as name, contextlib.ExitStack() as stack:
        folder, broker = Path(name), free_port()
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        build = [sys.executable, "-m", "edgedla", "build", str(DETECTOR / "shapes_detector.onnx"), "--precision", "fp16"]
        subprocess.run([*build, "-o", str(folder / "detector")], check=True, capture_output=True)
        film = [str(DETECTOR / "make_data.py"), str(folder), "--frames", str(FILM_FRAMES)]
        subprocess.run([sys.executable, *film], check=True, capture_output=True)
        (folder / "broker.conf").write_text(f"listener {broker} 127.0.0.1\nallow_anonymous true\n")
        listening = subprocess.Popen(
            [MOSQUITTO, "-c", str(folder / "broker.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stack.callback(listening.wait)
        stack.callback(listening.kill)
        ports = {"run": free_port(), "bundle": free_port()}
        processes = {n: start(folder, n, broker, port, rate) for n, port in ports.items()}
        for process in processes.values():
            stack.callback(process.kill)
        samples: Dict[str, List[Dict[str, float]]] = {n: [] for n in ports}
        end_s, next_s = time.monotonic() + minutes * 60, time.monotonic() + SAMPLE_S
        while time.monotonic() < end_s:
            time.sleep(SCRAPE_S)
            pages = {n: scrape(port) for n, port in ports.items()}
            if time.monotonic() < next_s:
                continue
            next_s += SAMPLE_S
            for n, process in processes.items():
                if process.poll() is not None:
                    raise SystemExit(f"{n} ended at once: " + (folder / f"{n}.log").read_text(errors="replace")[-800:])
                results = pages[n].get("edgedla_results_total", 0.0)
                samples[n].append({"at_s": time.monotonic(), "results": results, **held_by(process.pid)})
        report: Dict[str, Any] = {"minutes": minutes, "load": round(os.getloadavg()[0], 1)}
        for n, process in processes.items():
            process.send_signal(signal.SIGTERM)
            report[n] = {"exit_code": process.wait(60), **figures(samples[n])}
        return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=30.0)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    origin = provenance(("numpy", "onnxruntime", "opencv-python", "opencv-python-headless", "paho-mqtt"))
    tell({"basis": "measured, simulated runner", **origin, **soak(a.minutes, a.rate)}, a.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
