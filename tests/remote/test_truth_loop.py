"""The whole loop over real sshd and a made-up Jetson with TensorRT: profiles, a fit to them, reports, sweeps on boards."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from onnx import helper, numpy_helper

from edgedla.io.documents import schema
from tests.fake_tensorrt.board_libraries import make_libraries
from tests.models import onnx_model, save

pytestmark = pytest.mark.slow
TRT = "10.3.0"


def network(path: Path, channels: int, last: str = "Erf") -> Path:
    """Convolutions and rectifiers of growing size for the DLA, and an operator for the GPU at the end."""
    rng, nodes, weights, at, size = np.random.default_rng(channels), [], [], "x", 3
    for n in range(6):
        width = channels + 8 * n
        weights.append(numpy_helper.from_array(rng.standard_normal((width, size, 3, 3)).astype("float32") / 30, f"w{n}"))
        nodes.append(helper.make_node("Conv", [at, f"w{n}"], [f"c{n}"], name=f"secret_conv{n}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{n}"], [f"r{n}"], name=f"secret_relu{n}"))
        at, size = f"r{n}", width
    nodes.append(helper.make_node(last, [at], ["y"], name="secret_last"))
    save(onnx_model(nodes, {"x": (1, 3, 64, 64)}, {"y": (1, channels + 40, 64, 64)}, weights, name="secret_graph"), path)
    return path


@pytest.fixture
def lab(new_laptop, tmp_path):
    """A laptop with the boards orin1 and orin2, each with TensorRT, cuDLA and CUDA, and two networks."""
    libraries = make_libraries(tmp_path / "libraries")
    laptop = new_laptop()
    for name in ("orin1", "orin2"):
        laptop.add(name, path=str(libraries), LD_LIBRARY_PATH=str(libraries), FAKE_TENSORRT_RELEASE=TRT)
    network(laptop.folder / "a.onnx", 16)
    network(laptop.folder / "b.onnx", 24)
    return laptop


def test_profiles_of_a_board_fit_its_cost_model(lab):
    for name in ("a", "b"):
        done = lab.edgedla("build", f"{name}.onnx", "-o", name, "--board", "orin1")
        assert done.returncode == 0, done.stderr
        done = lab.edgedla(
            "bench", name, "--onnx", f"{name}.onnx", "--export-profile", f"{name}.json", "--duration", "0.05", "--board", "orin1"
        )
        assert done.returncode == 0, done.stderr
        profile = json.loads((lab.folder / f"{name}.json").read_text())
        assert (profile["target"], profile["power_mode"]) == ("agx-orin-64gb", "30W")
        assert {m["device"] for m in profile["measurements"]} == {"DLA", "GPU"}
    done = lab.edgedla(
        "costs", "fit", "a.onnx", "b.onnx", "--evidence", "a.json", "--evidence", "b.json", "-o", "mine.json", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    dla = next(e for e in json.loads(done.stdout)["engines"] if e["device"] == "DLA")
    assert dla["after"] < dla["before"], "the error is smaller after the fit"
    assert dla["left_out"] < dla["before"], "on a network that the fit did not see too"
    # What was measured in FP16 says nothing of INT8, which is the default for this module.
    words = ("a.onnx", "--target", "agx-orin-64gb", "--power-mode", "30W", "--precision", "fp16")
    before = json.loads(lab.edgedla("place", *words, "--evaluate", "tensorrt", "--format", "json").stdout)
    after = json.loads(
        lab.edgedla("place", *words, "--evaluate", "tensorrt", "--profile", "mine.json", "--format", "json").stdout
    )
    assert after["streams"][0]["latency"] != before["streams"][0]["latency"], "place takes the fitted file"
    for verb in (("check", *words, "--profile", "mine.json"), ("place", *words, "--profile", "mine.json")):
        assert lab.edgedla(*verb).returncode in (0, 1)
    done = lab.edgedla("sweep", *words, "--objective", "latency", "--profile", "mine.json", "-o", "s.jsonl")
    assert done.returncode == 0, done.stderr


def test_a_board_report_holds_differences_and_times_without_layer_names(lab):
    # On this board TensorRT refuses a layer that the rules allow.
    board = lab.boards["orin1"]
    text = (board.folder / "sshd_config").read_text()
    (board.folder / "sshd_config").write_text(text.replace("SetEnv ", "SetEnv FAKE_REFUSES=secret_relu1 "))
    board.stop()
    board.start()
    done = lab.edgedla("board", "report", "orin1", "a.onnx", "--precision", "fp16", "--duration", "0.05", "-o", "r.json")
    assert done.returncode == 5 or done.returncode == 1, "TensorRT refuses what was planned: a build stops, the report says so"
    report = json.loads((lab.folder / "r.json").read_text())
    jsonschema.validate(report, schema("edgedla.board-report"))
    assert report["models"][0]["failed"] == "BuildError"
    done = lab.edgedla(
        "board", "report", "orin2", "a.onnx", "--precision", "fp16", "--duration", "0.05", "--hash-names", "-o", "r.json"
    )
    assert done.returncode == 0, done.stderr
    text = (lab.folder / "r.json").read_text()
    report = json.loads(text)
    jsonschema.validate(report, schema("edgedla.board-report"))
    assert [len(m["layers"]) for m in report["models"]] == [13]
    first = report["models"][0]
    assert {x["placed"] for x in first["layers"]} == {"DLA0", "GPU"}
    assert first["board"]["power_mode"] == "MODE_30W"
    assert first["time"]["predicted_ms"] > 0
    assert {o["device"] for o in first["operators"]} == {"DLA", "GPU"}
    assert all(o["predicted_us"] for o in first["operators"])
    assert len({x["name"] for x in first["layers"]}) == 13
    for private in ("secret", "a.onnx", "orin2", "127.0.0.1", str(lab.folder)):
        assert private not in text


def test_a_sweep_measures_on_the_boards_of_a_group(lab):
    done = lab.edgedla(
        "sweep",
        "a.onnx",
        "b.onnx",
        "--target",
        "agx-orin-64gb,xavier-nx-8gb",
        "--board-group",
        "lab",
        "-o",
        "r.jsonl",
        "-o",
        "r.html",
    )
    rows = [json.loads(line) for line in (lab.folder / "r.jsonl").read_text().splitlines()]
    assert done.returncode == 1, "no board of the group is a Xavier NX"
    measured = [r for r in rows if r["platform"] == "agx-orin-64gb"]
    assert [(r["status"], r["basis"]) for r in measured] == [("ok", "measured")] * 2, measured
    assert {r["board"] for r in measured} == {"orin1", "orin2"}
    assert all(r["latency_us"] > 0 and r["period_us"] > 0 for r in measured)
    missing = [r for r in rows if r["platform"] == "xavier-nx-8gb"]
    assert all(r["status"] == "error" and "no board of the group" in r["reason"] for r in missing), missing
    assert measuring_jobs(lab) == {"orin1": ["build", "bench"], "orin2": ["build", "bench"]}, "each board did its share"
    again = lab.edgedla(
        "sweep", "a.onnx", "b.onnx", "--target", "agx-orin-64gb,xavier-nx-8gb", "--board-group", "lab", "-o", "r.jsonl"
    )
    assert again.returncode == 1
    assert measuring_jobs(lab)["orin1"] == ["build", "bench"], "finished rows are not measured again"


def measuring_jobs(lab):
    """The verbs of each board's jobs, but for the look at its module."""
    verbs = {}
    for board in ("orin1", "orin2"):
        jobs = json.loads(lab.edgedla("board", "jobs", board, "--format", "json").stdout)["jobs"]
        verbs[board] = [j["what"].split()[2] for j in jobs if j["what"].startswith("edgedla sweep: ")]
    return verbs
