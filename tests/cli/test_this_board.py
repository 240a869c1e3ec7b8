"""On a Jetson every command answers for the board it runs on; elsewhere for a common module."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Callable, List

import pytest

from edgedla.cli.main import exit_code_of

ROOT = Path(__file__).resolve().parents[2]
SHAPES = str(ROOT / "examples/00_shapes_detector/shapes_detector.onnx")
#: JetPack 6.2 on an Orin NX whose power mode is not the default one.
ORIN_NX = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic",
    "proc/device-tree/model": "NVIDIA Jetson Orin NX Engineering Reference Developer Kit\0",
    "proc/device-tree/compatible": "nvidia,p3768-0000+p3767-0000\0nvidia,p3767-0000\0",
    "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=15W >\n",
    "var/lib/nvpmodel/status": "pmode:0002",
}
#: A container: only devices tell that this is a Jetson.
HIDDEN = {"dev/nvmap": ""}


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict], Path]:
    """A root with these files, as the kernel of a board shows them, and no TensorRT that another test may have left."""
    monkeypatch.setattr("edgedla.builder.tensorrt.bindings.installed_version", lambda: None)

    def lay(files: dict) -> Path:
        root = tmp_path / "board"
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        monkeypatch.setenv("EDGEDLA_ROOT", str(root))
        return root

    return lay


def json_of(arguments: List[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert exit_code_of([*arguments, "--format", "json"]) == 0
    document: dict = json.loads(capsys.readouterr().out)
    return document


def test_check_and_place_default_to_the_board(board: Callable[[dict], Path], capsys: pytest.CaptureFixture[str]) -> None:
    board(ORIN_NX)
    checked = json_of(["check", SHAPES, "--cost"], capsys)
    placed = json_of(["place", SHAPES], capsys)
    for platform in (checked["platform"], placed["platform"]):
        assert (platform["target"], platform["jetpack"]) == ("orin-nx-16gb", "6.2")
    assert checked["worth"]["power_mode"] == placed["power_mode"] == "15W"


def test_deploy_predicts_for_the_power_mode_of_the_board(
    board: Callable[[dict], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board(ORIN_NX)
    placed = json_of(["place", SHAPES, "--precision", "fp16"], capsys)
    words = ["deploy", SHAPES, "--backend", "host", "--level", "0", "-o", str(tmp_path / "out")]
    deployed = json_of(words, capsys)
    assert deployed["power_mode"] == "15W"
    assert deployed["after"]["predicted"]["build"]["latency_us"] == placed["predicted"]["latency"]["latency_us"]
    assert exit_code_of(words) == 0
    assert "fitted: in 15W; frames per second: with many frames in flight" in capsys.readouterr().out


def test_the_boards_release_is_the_default_for_its_own_module_only(
    board: Callable[[dict], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    board({**ORIN_NX, "etc/nv_tegra_release": "# R35 (release), REVISION: 4.1"})
    for arguments, expected in (
        (["--target", "orin-nx"], ("orin-nx-16gb", "5.1.2")),
        (["--target", "orin-nx", "--jetpack", "6.1"], ("orin-nx-16gb", "6.1")),
        (["--target", "agx-orin-32gb"], ("agx-orin-32gb", "6.2.2")),
    ):
        platform = json_of(["check", SHAPES, "--no-cost", *arguments], capsys)["platform"]
        assert (platform["target"], platform["jetpack"]) == expected


def test_layers_compare_sweep_and_build_default_to_the_board(
    board: Callable[[dict], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board({**ORIN_NX, "etc/nv_tegra_release": "# R35 (release), REVISION: 4.1"})
    assert exit_code_of(["layers", SHAPES]) == 0
    assert "TensorRT 8.5" in capsys.readouterr().out
    assert exit_code_of(["check", SHAPES, "--precision", "fp16", "--compare", "fp16,jp6.2", "--no-cost"]) == 0
    shown = capsys.readouterr().out
    assert "orin-nx-16gb 8.5.2 fp16" in shown
    assert "orin-nx-16gb 10.3.0 fp16" in shown
    rows = tmp_path / "rows.jsonl"
    assert exit_code_of(["sweep", SHAPES, "-j", "1", "-o", str(rows)]) == 0
    assert json.loads(rows.read_text().splitlines()[0])["platform"] == "orin-nx-16gb@jp5.1.2"
    capsys.readouterr()
    assert exit_code_of(["build", SHAPES, "--plan", "--backend", "host", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["platform"]["target"] == "orin-nx-16gb"


def test_an_unidentified_jetson_requires_a_target(
    board: Callable[[dict], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board(HIDDEN)
    for arguments in (["check", SHAPES], ["place", SHAPES], ["layers", SHAPES], ["build", SHAPES, "--plan"]):
        assert exit_code_of(arguments) == 2
        assert "cannot tell which module" in capsys.readouterr().err
    assert exit_code_of(["check", SHAPES, "--target", "orin-nx-16gb", "-q"]) == 0
    # Reading a file needs no module.
    log = tmp_path / "build.log"
    log.write_text("[TRT] [W] Default DLA is enabled but layer add is not supported on DLA, falling back to GPU.\n")
    assert exit_code_of(["inspect", str(log)]) == 0


def test_a_board_without_tensorrts_bindings_builds_nothing(
    board: Callable[[dict], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from edgedla.builder.tensorrt.bindings import bindings_remedy
    from edgedla.runtime.board.doctor import doctor

    root = board(ORIN_NX)
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    out = tmp_path / "out"
    assert exit_code_of(["build", SHAPES, "-o", str(out)]) == 4
    said = capsys.readouterr()
    assert "this is a Jetson" in said.err
    assert bindings_remedy() in said.err
    assert bindings_remedy() == next(c.remedy for c in doctor(root) if c.name == "TensorRT")
    assert "built" not in said.out
    assert not out.exists()


def test_a_build_for_another_module_on_a_board_is_simulated_with_a_note(
    board: Callable[[dict], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board(ORIN_NX)
    build = ["build", SHAPES, "--target", "agx-orin-64gb", "-o", str(tmp_path / "out")]
    assert exit_code_of(build) == 0
    assert "this is orin-nx-16gb: for agx-orin-64gb the build is simulated" in capsys.readouterr().err
    assert exit_code_of([*build, "--backend", "tensorrt"]) == 2
    assert "TensorRT builds for the module it runs on" in capsys.readouterr().err


def test_the_board_is_detected_once_per_command(board: Callable[[dict], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.targets import board as boards

    board(ORIN_NX)
    looked = []
    found = boards.this_board
    monkeypatch.setattr(boards, "this_board", lambda *base: looked.append(1) or found(*base))
    assert exit_code_of(["place", SHAPES]) == 0
    assert len(looked) == 1
