"""`edgedla run` as a process on bad days: hung runners and signals, no stdout, ports in use, an old prometheus-client."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgedla.errors import RunError, UsageError
from edgedla.runtime.health.metrics import serve_metrics
from edgedla.runtime.pipeline.open_pipeline import end_on_signals
from edgedla.runtime.pipeline.settings import MetricsConfig

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

#: The command line in a process whose host runner hangs from its third inference on.
HANGING = """
import sys, time
import edgedla.runtime.runners.host as host
from edgedla.cli.main import run
real, count = host.HostRunner._infer, [0]
def infer(self, inputs):
    count[0] += 1
    if count[0] > 2:
        print("hangs", file=sys.stderr, flush=True)
        time.sleep(600)
    return real(self, inputs)
host.HostRunner._infer = infer
host.HostRunner.close_timeout_s = 0.5
run(sys.argv[1:])
"""


def arguments(artifact, *more):
    return ["run", str(artifact), "--source", "synthetic://?rate=50", *more]


def start_hanging(grace_s, artifact, folder):
    file = folder / "p.yaml"
    file.write_text(f"version: 1\nartifact: {artifact}\nsource: synthetic://?rate=50\nstop_after: {{grace_s: {grace_s}}}\n")
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, "run", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = ""
    while "hangs" not in line:
        line = process.stderr.readline()
        assert line or process.poll() is None
    time.sleep(0.2)
    return process


@pytest.mark.parametrize(
    ("grace_s", "signals"), [(0.5, [signal.SIGTERM]), (600, [signal.SIGINT, signal.SIGINT]), (600, [signal.SIGTERM] * 2)]
)
def test_a_hung_runner_does_not_hang_the_process(artifact, tmp_path, grace_s, signals):
    process = start_hanging(grace_s, artifact, tmp_path)
    started = time.monotonic()
    for number in signals:
        process.send_signal(number)
        time.sleep(0.5)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 6, said
    assert time.monotonic() - started < 60
    assert "still running when the end was forced" in said
    assert "Traceback" not in said


def signalled(monkeypatch, names):
    """What a pipeline is told by SIGINT, SIGTERM and SIGHUP, in the order of `names`."""
    said, handlers = [], {}
    pipeline = SimpleNamespace(stopping=False, force_stop=lambda: said.append("force"))

    def stop():
        said.append("stop")
        pipeline.stopping = True

    pipeline.stop = stop
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    end_on_signals(pipeline, "SIGINT", "SIGTERM", "SIGHUP")
    for name in names:
        handlers[getattr(signal, name)](getattr(signal, name), None)
    return said


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["SIGTERM", "SIGTERM"], ["stop", "force"]),
        (["SIGHUP", "SIGINT"], ["stop", "force"]),
        (["SIGHUP", "SIGHUP"], ["stop", "stop"]),
        (["SIGTERM", "SIGHUP", "SIGINT"], ["stop", "stop", "force"]),
    ],
    ids=" ".join,
)
def test_a_second_signal_forces_the_end_but_a_closed_terminal_sends_two(monkeypatch, names, said):
    assert signalled(monkeypatch, names) == said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after_s", [0.05, 0.4, 0.9])
def test_a_signal_during_the_start_ends_the_run(artifact, number, after_s):
    process = subprocess.Popen(
        [sys.executable, "-m", "edgedla", *arguments(artifact)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Jobs that a script starts in the background ignore SIGINT, and hand that on to what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        time.sleep(after_s)
        process.send_signal(number)
        process.communicate(timeout=120)
    finally:
        process.kill()
    # Killed by the signal before there was anything to finish, interrupted in the middle of an import, or ended gracefully.
    assert process.returncode in (0, 1, 130, -number)


@pytest.mark.parametrize("how", [">&-", "| true", "> /dev/full"])
def test_an_unwritable_stdout_ends_run_without_a_traceback(artifact, how):
    command = " ".join([sys.executable, "-m", "edgedla", *arguments(artifact, "--frames", "3")]).replace("?", "\\?")
    done = subprocess.run(["bash", "-c", f"{command} {how}"], capture_output=True, text=True, timeout=60)
    assert "bug in edgedla" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


class FakePipeline:
    def summary(self):
        return {
            "frames": dict.fromkeys(("captured", "dropped", "submitted", "results", "reconnects", "stalls"), 0),
            "throughput_fps": 0.0,
            "simulated": True,
            "stages": {},
            "runners": [],
        }


def test_a_metrics_port_that_is_taken_is_named():
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        config = MetricsConfig(prometheus_port=port)
        with pytest.raises(RunError, match="cannot serve metrics") as taken, serve_metrics(FakePipeline(), config):
            pass
    assert str(port) in taken.value.where
    assert "give this pipeline another port" in taken.value.hint
    with pytest.raises(RunError) as other, serve_metrics(
        FakePipeline(), MetricsConfig(prometheus_port=port, address="192.0.2.1")
    ):
        pass
    assert "no such address" in other.value.hint


def test_metrics_in_a_folder_that_cannot_be_written_are_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("")
    config = MetricsConfig(jsonl=str(tmp_path / "file" / "m.jsonl"))
    with pytest.raises(UsageError, match="cannot write"), serve_metrics(FakePipeline(), config):
        pass
