"""A pipeline at full rate on an RTSP stream whose server dies, hangs and changes its size: its resources must not grow."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Dict, List, Optional

from tests.ports import free_port

PYTHON = "/usr/bin/python3"
CAMERA = Path(__file__).resolve().parents[1] / "rtsp_camera.py"
SIZES = (("160", "120"), ("320", "240"), ("64", "48"))
SAMPLE_S = 5.0


def possible() -> Optional[str]:
    """What is missing for a soak; None where nothing is."""
    if shutil.which("gst-launch-1.0") is None or not os.path.exists(PYTHON):
        return "GStreamer is not installed"
    missing = subprocess.run([PYTHON, CAMERA, "--probe"], capture_output=True).returncode
    return "gst-rtsp-server's Python binding is not installed" if missing else None


def soak(minutes: float, seed: int) -> Dict[str, Any]:
    """Runs `edgedla run` and breaks its camera every few seconds; memory, threads and descriptors by time."""
    from tests.hostile.commands import Scene

    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        scene = Scene(folder)
        scene.build_artifact()
        ports = [free_port(), free_port()]
        server = _server(ports[0], SIZES[0])
        pipeline = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "edgedla",
                "run",
                str(folder / "art"),
                "--source",
                f"rtsp://u:p@127.0.0.1:{ports[0]}/cam",
                "--jsonl",
                str(folder / "r.jsonl"),
                "--images",
                str(folder / "images"),
                "--metrics",
                str(folder / "m.jsonl"),
                "--prometheus",
                str(ports[1]),
                "-o",
                str(folder / "summary.json"),
            ],
            stderr=(folder / "log").open("wb"),
        )
        events: Dict[str, int] = {"death": 0, "hang": 0, "size": 0}
        samples: List[Dict[str, float]] = []
        end, next_event = time.monotonic() + minutes * 60, time.monotonic() + 20
        try:
            while time.monotonic() < end and pipeline.poll() is None:
                time.sleep(SAMPLE_S)
                if pipeline.poll() is None:
                    samples.append(_sample(pipeline.pid, ports[1]))
                _trim(folder)
                if time.monotonic() >= next_event:
                    event = rng.choice(list(events))
                    events[event] += 1
                    server = _break(server, event, ports[0], rng)
                    next_event = time.monotonic() + rng.uniform(15, 40)
            alive = pipeline.poll() is None
            pipeline.send_signal(signal.SIGTERM)
            code = pipeline.wait(60)
        finally:
            for process in (pipeline, server):
                if process.poll() is None:
                    process.kill()
                process.wait()
        said = (folder / "log").read_text(errors="replace").strip().splitlines()[-3:] if not alive or code else []
        ended = {"alive_to_the_end": alive, "exit_code": code, "said": said}
        return {"minutes": round(minutes, 1), **ended, "events": events, **_figures(samples)}


def _server(port: int, size: Any) -> subprocess.Popen:
    process = subprocess.Popen([PYTHON, CAMERA, str(port), *size, "30"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def _break(server: subprocess.Popen, event: str, port: int, rng: random.Random) -> subprocess.Popen:
    if event == "hang":
        server.send_signal(signal.SIGSTOP)
        time.sleep(rng.uniform(1, 14))
        server.send_signal(signal.SIGCONT)
        return server
    server.kill()
    server.wait()
    if event == "death":
        time.sleep(rng.uniform(0, 8))
    return _server(port, rng.choice(SIZES))


def _sample(pid: int, port: int) -> Dict[str, float]:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    results = 0.0
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        results = float(next(line.split()[1] for line in lines if line.startswith("edgedla_results_total")))
    except (OSError, StopIteration, ValueError):
        pass
    return {
        "rss_mib": int(fields["VmRSS"].split()[0]) / 1024,
        "threads": int(fields["Threads"]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "results": results,
    }


def _trim(folder: Path) -> None:
    """Images are not what is measured: the newest stay."""
    for old in sorted((folder / "images").glob("*.jpg"))[:-20]:
        old.unlink()


def _figures(samples: List[Dict[str, float]]) -> Dict[str, Any]:
    """The thirds of the run, so that growth is seen, and the most of each. The first one warms up."""
    third = max(1, len(samples) // 3)
    figures: Dict[str, Any] = {"samples": len(samples), "results": int(max((s["results"] for s in samples), default=0))}
    for key in ("rss_mib", "threads", "descriptors"):
        parts = {
            "first_third": samples[third // 2 : third],
            "second_third": samples[third:-third],
            "last_third": samples[-third:],
        }
        figures[key] = {k: round(sum(s[key] for s in v) / max(1, len(v)), 1) for k, v in parts.items()}
        figures[key]["most"] = round(max((s[key] for s in samples), default=0.0), 1)
    return figures
