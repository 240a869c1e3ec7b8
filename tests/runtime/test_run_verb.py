"""`edgedla run` and `edgedla bench` as processes: signals, service messages, metrics, errors."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from edgedla.cli.main import exit_code_of
from tests.ports import free_port
from tests.runtime.waiting import until

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def command(*arguments):
    return [sys.executable, "-m", "edgedla", *arguments]


def edgedla(*arguments, code=0):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_run_gracefully_with_every_result_on_disk(artifact, tmp_path, number):
    results = tmp_path / "r.jsonl"
    process = subprocess.Popen(
        command("run", str(artifact), "--source", "synthetic://?rate=50", "--jsonl", str(results), "--format", "json"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert until(lambda: results.exists() and results.stat().st_size > 2000)
    process.send_signal(number)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    summary = json.loads(out)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(lines) == summary["frames"]["results"] == summary["frames"]["submitted"]
    assert [x["frame"] for x in lines] == sorted(x["frame"] for x in lines)


def test_a_killed_run_leaves_only_whole_lines(artifact, tmp_path):
    results = tmp_path / "r.jsonl"
    process = subprocess.Popen(
        command("run", str(artifact), "--source", "synthetic://?rate=50", "--jsonl", str(results)), stdout=subprocess.DEVNULL
    )
    assert until(lambda: results.exists() and results.stat().st_size > 2000)
    process.kill()
    process.wait()
    text = results.read_text()
    assert text.endswith("\n")
    for line in text.splitlines():
        json.loads(line)


def test_systemd_is_notified_of_start_and_watchdog(artifact, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(20)
        process = subprocess.Popen(
            command("run", str(artifact), "--source", "synthetic://?rate=50", "--seconds", "2"),
            env={**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "900000"},
            stdout=subprocess.DEVNULL,
        )
        heard = []
        while "STOPPING=1" not in heard:
            heard.append(s.recv(100).decode())
        process.wait(20)
    assert heard[0] == "READY=1"
    assert heard.count("WATCHDOG=1") >= 2


def test_prometheus_reads_the_running_pipeline(artifact, tmp_path):
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    port = free_port()
    metrics = tmp_path / "m.jsonl"
    process = subprocess.Popen(
        command("run", str(artifact), "--source", "synthetic://?rate=50", "--prometheus", str(port), "--metrics", str(metrics)),
        stdout=subprocess.DEVNULL,
    )
    text = ""

    def scraped():
        nonlocal text
        try:
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2).read().decode()
        except OSError:
            return False
        return "edgedla_results_total 0.0" not in text

    try:
        assert until(scraped)
    finally:
        process.terminate()
        process.wait(30)
    assert 'edgedla_stage_ms_count{stage="inference"}' in text
    assert "edgedla_simulated 1.0" in text
    last = json.loads(metrics.read_text().splitlines()[-1])
    assert last["frames"]["results"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["ARTIFACT"], 2, "an artifact and a source"),
        (["ARTIFACT", "--source", "cis://0"], 2, "did you mean csi"),
        (["ARTIFACT", "--source", "nothere.mp4"], 3, "no such file"),
        (["ARTIFACT", "--source", "synthetic://", "--decode", "yolo9"], 2, "unknown decoder"),
        (["ARTIFACT", "--source", "synthetic://", "--decode", "clasification"], 2, "did you mean classification?"),
        (["ARTIFACT", "--source", "synthetic://", "--device", "DLA7"], 2, "unknown device"),
        (["nothere", "--source", "synthetic://"], 3, "no such file or folder"),
        ([str(MODEL), "--source", "synthetic://"], 3, "edgedla build"),
        (
            ["ARTIFACT", "--source", "synthetic://", "--decode", "yolov8", "--reg-max", "8", "--labels", "a,b"],
            2,
            "2 labels for 3",
        ),
        (["ARTIFACT", "--source", "synthetic://?frames=9", "--video", "v.webm"], 2, "no video of this kind"),
        (["ARTIFACT", "--source", "synthetic://?frames=9", "--jsonl", "/dev/full"], 6, "No space left"),
    ],
)
def test_wrong_use_of_run_has_its_exit_code_and_reason(artifact, arguments, code, says, capsys):
    assert exit_code_of(["run", *[str(artifact) if a == "ARTIFACT" else a for a in arguments]]) == code
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_bench_counts_and_marks_simulated_times(artifact, tmp_path):
    times = tmp_path / "t.json"
    done = edgedla(
        "bench",
        f"--loadEngine={artifact}",
        "--warmUp=10",
        "--duration=0.2",
        "--iterations=5",
        "--percentile=50,99",
        f"--exportTimes={times}",
        "--format",
        "json",
    )
    (result,) = json.loads(done.stdout)["results"]
    assert result["simulated"] is True
    assert set(result["percentiles_ms"]) == {"p50", "p99"}
    assert len(json.loads(times.read_text())["results"][0]["times_ms"]) == result["count"] >= 5


def test_bench_accepts_common_trtexec_options(artifact):
    done = edgedla(
        "bench",
        f"--loadEngine={artifact}",
        "--useDLACore=0",
        "--warmUp=1",
        "--duration=0",
        "--iterations=2",
        "--avgRuns=10",
        "--useSpinWait",
        "--useCudaGraph",
        "--noDataTransfers",
        "--verbose",
        "--infStreams=2",
    )
    assert "DLA0" in done.stdout
    assert re.search(r"^edgedla: ignored: .*--useSpinWait \(edgedla bench measures in one way\)", done.stderr, re.M)
    assert "--infStreams" not in done.stderr
