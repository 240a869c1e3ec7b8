"""Every verb on a board starts from the TensorRT that is installed there, whatever JetPack's own is."""

from __future__ import annotations

import csv
import json
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Callable, Iterator

import numpy as np
import onnx
import pytest

from edgedla.builder.artifact.load import load_artifact
from edgedla.cli.main import exit_code_of
from edgedla.targets import _platform, platform_for
from edgedla.targets.installed import asked_for_a_builder
from tests.models import node, onnx_model

SHAPES = str(Path(__file__).resolve().parents[2] / "examples/00_shapes_detector/shapes_detector.onnx")

PROGRAM = """__version__ = {version!r}
class Logger:
    WARNING = 2
    def __init__(self, level): print("TensorRT's own line")
class Builder:
    def __init__(self, logger): self.num_DLA_cores = {cores}
"""


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes this machine an AGX Orin 64GB of an L4T release, with an installed TensorRT that counts so many cores."""

    def make(revision: str, version: str, cores: int = 2) -> None:
        (tmp_path / "nv_tegra_release").write_text(f"# {revision}, GCID: 1, BOARD: generic")
        (tmp_path / "model").write_text("NVIDIA Jetson AGX Orin Developer Kit")
        (tmp_path / "compatible").write_text("nvidia,p3737-0000+p3701-0005")
        (tmp_path / "stub").mkdir()
        (tmp_path / "stub/tensorrt.py").write_text(PROGRAM.format(version=version, cores=cores))
        monkeypatch.setenv("EDGEDLA_BOARD_DIR", str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stub"))
        monkeypatch.setattr("edgedla.builder.tensorrt.bindings.installed_version", lambda: version)
        for cache in (_platform, asked_for_a_builder):
            cache.cache_clear()

    yield make
    for cache in (_platform, asked_for_a_builder):
        cache.cache_clear()


JP62, JP72, JP721, JP722 = (
    f"R{n}"
    for n in (
        "36 (release), REVISION: 4.3",
        "39 (release), REVISION: 2.0",
        "39 (release), REVISION: 2.1",
        "39 (release), REVISION: 2.2",
    )
)


NEEDS_310 = pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")


@pytest.mark.parametrize("verb", ["check", "place", pytest.param("fix", marks=NEEDS_310)])
@pytest.mark.parametrize(
    ("revision", "version"),
    [(JP62, "10.7.0"), (JP72, "11.4.1"), (JP721, "11.4.1"), (JP722, "11.4.1"), (JP722, "11.5.0"), (JP722, "11.6.0")],
)
def test_the_installed_tensorrt_answers(
    board: Callable[..., None], capsys: pytest.CaptureFixture[str], verb: str, revision: str, version: str
) -> None:
    board(revision, version)
    assert exit_code_of([verb, SHAPES, "--format", "json", *(["--dry-run"] if verb == "fix" else [])]) in (0, 1)
    document = json.loads(capsys.readouterr().out)
    assert (document["platform"]["trt"], document["platform"]["dla_status"]) == (version, "yes")
    assert (document["notes"][0] if document["notes"] else "").startswith(
        {
            (JP722, "11.4.1"): "L4T 39.2.2 is not on record: JetPack 7.2.2 answers",
            (JP722, "11.5.0"): "TensorRT 11.5.0 counts 2 DLA cores here; no source names them",
            (JP722, "11.6.0"): "TensorRT 11.6.0 is not on record: the rules of 11.5.0 answer; TensorRT 11.6.0 counts 2",
        }.get((revision, version), "")
    )


@pytest.mark.parametrize("verb", ["check", "place", pytest.param("fix", marks=NEEDS_310)])
def test_a_release_without_dla_names_the_one_that_has_it(
    board: Callable[..., None], capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    board(JP721, "10.16.2", 0)
    assert exit_code_of([verb, SHAPES, *(["--dry-run"] if verb == "fix" else [])]) in (0, 1)
    assert "before 11.4.1, of JetPack 7.2.2" in " ".join(capsys.readouterr().out.split())


BOARDS = [(JP62, "10.7.0"), (JP72, "10.16.2"), (JP721, "10.16.2"), (JP722, "11.4.1"), (JP722, "11.5.0"), (JP72, "11.4.1")]


@pytest.mark.parametrize(("revision", "version"), BOARDS)
def test_build_layers_and_inspect_take_the_installed_release(
    board: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str], revision: str, version: str
) -> None:
    # Of 10.16 and 11 no parser was seen: that of 10.10 stands in.
    parser = "10.7" if version == "10.7.0" else "10.10"
    board(revision, version, 0 if version.startswith("10.16") else 2)
    assert exit_code_of(["build", SHAPES, "--plan"]) == 0
    assert f"TensorRT {version}" in capsys.readouterr().out
    assert exit_code_of(["build", SHAPES, "--backend", "trtexec", "-o", str(tmp_path / "script")]) == 0
    assert f"for trtexec of TensorRT {version}" in (tmp_path / "script/build.sh").read_text()
    capsys.readouterr()
    assert exit_code_of(["layers", SHAPES]) == 0
    assert f"as the ONNX parser of TensorRT {parser} makes them" in capsys.readouterr().out
    assert exit_code_of(["inspect", SHAPES, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["content"]["lowering"] == parser


@pytest.mark.parametrize(("revision", "version"), BOARDS)
def test_tables_and_sweeps_take_the_installed_release_for_this_module(
    board: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str], revision: str, version: str
) -> None:
    board(revision, version, 0 if version.startswith("10.16") else 2)
    line = ["check", SHAPES, "--compare", "agx-orin-64gb,orin-nx-16gb,agx-orin-64gb@6.2", "--format", "json"]
    assert exit_code_of(line) in (0, 1)
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert [c["platform"]["trt"] for c in columns] == [version, "10.3.0", "10.3.0"]
    assert exit_code_of(["sweep", SHAPES, "-o", str(tmp_path / "rows.csv")]) in (0, 1)
    row = next(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))
    named = {name: row[name] or None for name in ("jetpack", "trt")}
    assert platform_for(row["target"], **named).release.trt_text == version


@pytest.mark.parametrize(("revision", "version"), BOARDS)
def test_deploy_takes_the_installed_release_to_its_end(
    board: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str], revision: str, version: str
) -> None:
    board(revision, version, 0 if version.startswith("10.16") else 2)
    line = ["deploy", SHAPES, "--data", "random", "--level", "0", "--backend", "host", "-o", str(tmp_path / "out")]
    assert exit_code_of(line) == 0
    assert json.loads((tmp_path / "out/deployment.json").read_text())["platform"]["trt"] == version


@pytest.mark.parametrize(("revision", "version"), [(JP62, "10.7.0"), (JP721, "10.16.2"), (JP722, "11.4.1"), (JP722, "11.5.0")])
def test_scales_artifacts_exports_and_runs_are_of_the_installed_release(
    board: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str], revision: str, version: str
) -> None:
    typed = version.startswith("11")
    board(revision, version, 0 if version.startswith("10.16") else 2)
    model, samples, built = tmp_path / "net.onnx", tmp_path / "samples.npz", str(tmp_path / "built")
    onnx.save(
        onnx_model(
            [node("Conv", "x w", "y", pads=[1] * 4)],
            {"x": (1, 3, 8, 8)},
            {"y": (1, 4, 8, 8)},
            {"w": np.full((4, 3, 3, 3), 0.1, "f")},
        ),
        model,
    )
    np.savez(samples, x=np.random.default_rng(0).random((8, 3, 8, 8), np.float32))
    assert exit_code_of(["quantize", str(model), "--data", str(samples), "--quick", "-o", str(tmp_path / "scales")]) == 0
    assert (tmp_path / "scales/calib.cache").exists() is not typed
    assert exit_code_of(["build", str(model), "--backend", "host", "-o", built]) == 0
    assert load_artifact(built).platform["trt"] == version
    assert exit_code_of(["export", "triton", built, "-o", str(tmp_path / "triton")]) == 0
    assert exit_code_of(["run", built, "--source", "synthetic://?rate=100", "--frames", "1"]) == 0


@pytest.mark.parametrize(("cores", "words", "code"), [(2, "MACs", 0), (0, "counts no DLA cores", 1)])
def test_tensorrt_itself_settles_what_the_table_does_not_know(
    board: Callable[..., None], capsys: pytest.CaptureFixture[str], cores: int, words: str, code: int
) -> None:
    board(JP722, "11.5.0", cores)
    assert exit_code_of(["check", SHAPES]) == code
    text = " ".join(capsys.readouterr().out.split())
    assert words in text
    assert "UNKNOWN WHETHER" not in text


def test_doctor_advises_no_older_release_where_the_table_is_older_than_tensorrt(
    board: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board(JP722, "11.5.0")
    (tmp_path / "stub/tensorrt.py").write_text("__version__ = '11.5.0'")
    with suppress(SystemExit):
        exit_code_of(["doctor", "--format", "json"])
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    found = checks["DLA in this release"]
    assert (found["state"], found["remedy"]) == ("warn", "TensorRT counts the cores once it makes a builder")


def test_bindings_that_are_not_whole_are_an_error_of_the_machine(
    board: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board(JP722, "11.4.1")
    broken = ModuleType("tensorrt")
    monkeypatch.setattr(broken, "__version__", "11.4.1", raising=False)
    monkeypatch.setitem(sys.modules, "tensorrt", broken)
    assert exit_code_of(["build", SHAPES, "--backend", "tensorrt", "-o", str(tmp_path / "out")]) == 4
    assert "TensorRT's Python bindings cannot be imported" in capsys.readouterr().err


def test_deploy_compares_the_request_with_the_board_before_the_work(
    board: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board(JP721, "11.4.1")
    assert exit_code_of(["deploy", SHAPES, "--jetpack", "7.2.1", "-o", str(tmp_path / "out")]) == 4
    assert "is for TensorRT 10.16.2, this is 11.4.1" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/.work/*/"))
