"""`edgedla place`: what it prints, writes, and the exit code of every answer."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from pathlib import Path
from typing import Callable, List, Tuple

import pytest

from edgedla.cli.main import exit_code_of
from tests.models import node, onnx_model, save


@pytest.fixture
def model(tmp_path: Path) -> str:
    """MaxPool, ReLU, Erf: two layers for the DLA, one that it refuses."""
    nodes = [
        node("MaxPool", "x", "a", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Relu", "a", "b", "relu"),
        node("Erf", "b", "y", "erf"),
    ]
    path = tmp_path / "tiny.onnx"
    save(onnx_model(nodes, {"x": (1, 16, 64, 64)}, {"y": (1, 16, 32, 32)}, name="tiny"), path)
    return str(path)


#: Arguments behind the model, the exit code, and words that stand in what is printed.
ANSWERS: List[Tuple[List[str], int, List[str]]] = [
    ([], 0, ["latency per frame", "proven optimum", "GPU alone", "Timeline", "ERF", "forced"]),
    (
        ["--layerDeviceTypes=pool:DLA,relu:GPU", "--min-region", "2"],
        1,
        ["at least 2 layers each", "pins pool:DLA,relu:GPU", "Loosen a limit, or leave out a pin."],
    ),
    (
        ["--min-region", "1"],
        0,
        ["warning: --min-region goes with the next release: predicted times rule out", "latency per frame"],
    ),
    (
        ["--evaluate", "DLA0", "--borders", "dla"],
        0,
        ["warning: --borders goes with the next release: Python has edgedla.predict"],
    ),
    (["--useDLACore=1"], 0, ["all legal on DLA1"]),
    (["--precision", "int8", "--objective", "throughput"], 0, ["frames/s", "DLA1"]),
    (["--objective", "energy", "--max-latency", "1"], 1, ["no placement keeps every frame within 1 us", "the optimum is"]),
    (["--layerDeviceTypes=erf:DLA"], 2, ["erf is pinned to DLA, but the DLA may not run it"]),
    (["--layerDeviceTypes=pool:NPU"], 2, ["is not a pin"]),
    (["--layerDeviceTypes=pol:DLA"], 2, ["no layer of tiny is called 'pol'", "did you mean pool?"]),
    (["--power-mode", "MAXM"], 2, ["--power-mode: unknown power mode 'MAXM'", "did you mean MAXN?"]),
    (["--evaluate", "GPU", "--clock", "gpuu=3"], 2, ["--clock: unknown clock 'gpuu'", "did you mean gpu?"]),
    (["--evaluate", "GPU", "--clock", "gpu=1e9"], 2, ["--clock: the gpu clock 1000000000.0 is not a number of MHz"]),
    (["--shapes", "xs:1x16x64x64"], 2, ["--shapes names 'xs'", "did you mean x?"]),
    (["--layerDeviceTypes=pool:DLA,relu:DLA", "--fail-on", "gpu-only"], 0, ["pinned"]),
    (["--fail-on", "gpu-only", "--devices", "GPU"], 1, ["no DLA core may be used"]),
    (["--target", "orin-nano-8gb"], 0, ["no DLA on this platform"]),
    (["--target", "orin-nano-8gb", "--fail-on", "gpu-only"], 1, ["no DLA on this platform"]),
    (["--target", "orin-nano-8gb", "--useDLACore=0"], 2, ["DLA0 cannot be used"]),
    (["--devices", "DLA0"], 1, ["no device is left for layer erf (of DLA0)"]),
    (["--objective", "energy", "--fps", "9999999"], 1, ["at most 16 loadables per core", "1e+07 frames/s"]),
    (["--devices", "NPU"], 2, ["--devices: NPU cannot be used"]),
    (["--evaluate", "erf:DLA"], 2, ["--evaluate: erf is pinned to DLA"]),
    (["--evaluate", "NPU"], 2, ["--evaluate: 'NPU' cannot be used"]),
    (["--rates", "1,2", "--objective", "throughput"], 2, ["--rates: 2 rates for 1 model "]),
    (["--fps", "1,2", "--objective", "energy"], 2, ["--fps: 2 frame rates for 1 model"]),
    (["--max-latency", "0"], 2, ["--max-latency: a latency bound of 0 us"]),
    (["--layerDeviceTypes", "erf:DLA"], 2, ["--layer-device-types: erf is pinned to DLA"]),
    (
        ["--loadables-per-core", "99"],
        2,
        ["--loadables-per-core: TensorRT 10.3.0 takes 16 loadables on one DLA core, not 99", "explain LOAD003"],
    ),
    (["--loadables-per-core", "9", "--target", "agx-xavier", "--trt", "8.4"], 2, ["(allowed: 1 to 8)"]),
    (["--loadables-per-core", "16"], 0, ["latency per frame"]),
    (["--rates", "2"], 2, ["--rates: the objective latency counts one frame of each model", "the objective throughput"]),
    (["--one-process"], 2, ["--one-process: it changes nothing with many frames in flight", "--evaluate"]),
    (["--rates", "fast", "--objective", "throughput"], 2, ["not a list of numbers"]),
    (["--buildDLAStandalone"], 2, ["standalone"]),
    (["--mode", "strict"], 2, ["--mode: a placement always runs on the GPU what the DLA refuses", "--devices DLA0"]),
    (["--mode", "fallback", "--useDLACore=0"], 0, ["latency per frame"]),
    (["--target", "agx-thorn"], 2, ["agx-thorn"]),
    (["--power-mode", "TURBO"], 2, ["TURBO"]),
    (["--evaluate", "GPU", "--int8"], 0, ["INT8", "frames/s are with one frame in flight; with many"]),
    (
        ["--evaluate", "GPU", "--objective", "energy", "--time-limit", "3"],
        2,
        [
            "--objective, --time-limit: means nothing with --evaluate, which predicts one assignment",
            "(allowed: --target, --jetpack, --trt, --precision, --shapes, --batch, --power-mode",
            "Leave out --objective, --time-limit, or leave out --evaluate.",
        ],
    ),
    (["--pareto", "latency,energy", "--objective", "energy"], 2, ["--pareto names both objectives"]),
    (["--in-turn"], 2, ["--concurrent/--in-turn: only --evaluate uses this option"]),
]


@pytest.mark.parametrize(("arguments", "code", "words"), ANSWERS, ids=[" ".join(a[0]) or "plain" for a in ANSWERS])
def test_place_prints_its_answer_with_the_exit_code(
    model: str, capsys: pytest.CaptureFixture[str], arguments: List[str], code: int, words: List[str]
) -> None:
    assert exit_code_of(["place", model, *arguments]) == code
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    for word in words:
        assert word.lower() in printed.lower(), printed
    assert "Traceback" not in printed


def test_several_models_keep_to_the_loadables_in_use(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    older = ["--target", "agx-xavier", "--trt", "8.4"]
    per_core = []
    for models in ([model], [model, model]):
        assert exit_code_of(["place", *models, *older, "--format", "json"]) == 0
        per_core.append(json.loads(capsys.readouterr().out)["limits"]["loadables_per_core"])
    assert per_core == [8, 4]
    assert exit_code_of(["place", model, model, *older, "--loadables-per-core", "4"]) == 0
    capsys.readouterr()
    assert exit_code_of(["place", model, model, *older, "--loadables-per-core", "5"]) == 2
    said = capsys.readouterr().err
    assert "takes 4 loadables on one DLA core, not 5 (allowed: 1 to 4)" in said
    assert "explain LOAD004" in said


def test_measured_times_replace_predictions(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = [{"count": 10}, *({"name": n, "averageMs": ms, "medianMs": ms} for n, ms in TIMES.items())]
    (tmp_path / "times.json").write_text(json.dumps(times), encoding="utf-8")
    assert exit_code_of(["place", model, "--profile", str(tmp_path / "times.json"), "--format", "json"]) == 0
    layers = json.loads(capsys.readouterr().out)["models"][0]["layers"]
    measured = {x["name"]: x["costs"]["GPU"] for x in layers if x["costs"].get("GPU", {}).get("basis") == "measured"}
    assert measured["pool"]["latency_us"] == 1000.0 * TIMES["pool"]
    assert exit_code_of(["place", model, "--profile", model]) == 3


#: Milliseconds by layer, as trtexec --exportProfile would write them for an engine on the GPU.
TIMES = {"pool": 0.5, "relu": 0.25, "erf": 0.125}


def test_every_form_is_written_by_the_ending_of_its_file(model: str, tmp_path: Path) -> None:
    names = ["p.txt", "p.json", "p.html"]
    outputs = [part for name in names for part in ("-o", str(tmp_path / name))]
    assert exit_code_of(["place", model, "--layerDeviceTypes=pool:DLA", *outputs]) == 0
    assert "DLA0" in (tmp_path / "p.txt").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))["document"] == "edgedla.placement"
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    svg = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    xml.etree.ElementTree.fromstring(svg)
    assert "<script" not in page


def test_trtexec_options_name_the_file_and_the_layers_on_the_gpu(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["place", model, "--layerDeviceTypes=pool:DLA,relu:GPU", "--format", "trtexec"]) == 0
    printed = capsys.readouterr().out
    assert f"--onnx={model}" in printed
    assert "--useDLACore=0 --allowGPUFallback" in printed
    assert "relu:GPU" in printed
    assert "pool:" not in printed


@pytest.mark.parametrize(
    ("tamper", "code", "word"),
    [
        (lambda text: text, 0, "every constraint is kept"),
        (lambda text: text.replace('"device": "GPU"', '"device": "DLA0"'), 1, "dla-verdict"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 2'), 3, "version 2"),
        (lambda text: text[:100], 3, "invalid JSON"),
        (lambda text: "{}", 3, "not edgedla's placement document"),
    ],
)
def test_a_placement_file_is_checked_against_its_model(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], tamper: Callable[[str], str], code: int, word: str
) -> None:
    path = tmp_path / "placement.json"
    assert exit_code_of(["place", model, "-o", str(path)]) == 0
    path.write_text(tamper(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert exit_code_of(["place", model, "--verify", str(path)]) == code
    captured = capsys.readouterr()
    assert word in captured.out + captured.err


@pytest.fixture
def placed(model: str, tmp_path: Path) -> str:
    path = str(tmp_path / "placement.json")
    asked = ["--target", "orin-nx-16gb", "--jetpack", "6.1", "--precision", "int8", "-o", path]
    assert exit_code_of(["place", model, *asked]) == 0
    return path


#: Options beside --verify of a placement for Orin NX 16GB, TensorRT 10.3.0, INT8; the option that is refused.
NAMED: List[Tuple[List[str], str]] = [
    (["--target", "orin-nx-16gb", "--jetpack", "6.1", "--int8"], ""),
    (["--trt", "10.3"], ""),
    (["--target", "agx-xavier-32gb"], "--target: the placement was made for orin-nx-16gb, not agx-xavier-32gb"),
    (["--jetpack", "5.1.4"], "--jetpack: the placement was made for 10.3.0, not 8.5.2"),
    (["--trt", "8.5"], "--trt: the placement was made for 10.3.0, not 8.5.2"),
    (["--fp16"], "--precision: the placement was made for int8, not fp16"),
    (["--time-limit", "3"], "--time-limit: means nothing with --verify"),
]


@pytest.mark.parametrize(("options", "refused"), NAMED, ids=[" ".join(n[0]) for n in NAMED])
def test_verify_refuses_options_other_than_the_placements(
    model: str, placed: str, capsys: pytest.CaptureFixture[str], options: List[str], refused: str
) -> None:
    capsys.readouterr()
    assert exit_code_of(["place", model, "--verify", placed, *options]) == (2 if refused else 0)
    assert refused in capsys.readouterr().err


def test_evaluate_defaults_to_the_placements_platform_and_notes_others(
    model: str, placed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert exit_code_of(["place", model, "--evaluate", placed]) == 0
    assert capsys.readouterr().out.startswith("Jetson Orin NX 16GB, INT8, MAXN, TensorRT 10.3.0: predicted")
    assert exit_code_of(["place", model, "--evaluate", placed, "--precision", "fp16"]) == 0
    assert "the placement was made for INT8; this prediction is for FP16" in capsys.readouterr().out
