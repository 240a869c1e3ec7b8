"""Spellings that people use: trtexec's lines, modules, releases, shapes, help."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

from edgedla.cli.arguments.trtexec import options, understood
from edgedla.cli.main import exit_code_of
from edgedla.cli.options import parse_shapes
from edgedla.targets import module_for, platform_for

MODEL = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"

#: Lines as people post them in forums and guides, the model's name aside.
POSTED = (
    "trtexec --onnx=MODEL --saveEngine=OUT.engine --fp16 --useDLACore=0 --allowGPUFallback",
    "/usr/src/tensorrt/bin/trtexec --onnx=MODEL --int8 --useDLACore=0 --allowGPUFallback --saveEngine=OUT.trt",
    "./trtexec --onnx=MODEL --useDLACore=1 --fp16 --verbose --saveEngine=OUT.plan --allowGPUFallback",
    "--onnx=MODEL --best --useDLACore=0 --allowGPUFallback --workspace=4096 --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --workspace=1024 --explicitBatch --useDLACore=0 --allowGPUFallback --saveEngine=OUT.engine",
    "--onnx=MODEL --int8 --fp16 --memPoolSize=dlaSRAM:1 --useDLACore=0 --allowGPUFallback --saveEngine=OUT.engine",
    "--onnx=MODEL --int8 --useDLACore=0 --allowGPUFallback --profilingVerbosity=detailed --dumpLayerInfo --saveEngine=OUT.e",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --dumpProfile --separateProfileRun --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --buildOnly --useDLACore=0 --allowGPUFallback --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --skipInference --useDLACore=0 --allowGPUFallback --saveEngine=OUT.engine --timingCacheFile=t.cache",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --duration=10 --iterations=100 --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --useCudaGraph --useSpinWait --warmUp=500 --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --optShapes=images:1x3x192x256 --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --minShapes=images:1x3x192x256 --optShapes=images:1x3x192x256 "
    "--maxShapes=images:1x3x192x256 --saveEngine=OUT.engine",
    "--onnx=MODEL --int8 --fp16 --sparsity=enable --useDLACore=0 --allowGPUFallback --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --precisionConstraints=obey --useDLACore=0 --allowGPUFallback --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --builderOptimizationLevel=5 --avgRuns=100 --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --inputIOFormats=fp16:chw16 --outputIOFormats=fp16:chw16 "
    "--saveEngine=OUT.engine",
    "--onnx=MODEL --noTF32 --fp16 --device=0 --streams=2 --useDLACore=0 --allowGPUFallback --saveEngine=OUT.engine",
    "--onnx=MODEL --fp16 --useDLACore=0 --allowGPUFallback --exportLayerInfo=l.json --exportProfile=p.json --saveEngine=OUT.e",
)


def words(line: str, out: Path) -> List[str]:
    return line.replace("MODEL", str(MODEL)).replace("OUT", str(out)).split()


@pytest.mark.parametrize("line", POSTED, ids=range(len(POSTED)))
def test_posted_lines_are_understood_behind_check_and_build(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "192x256" in line:
        line = line.replace("192x256", "")  # set below: the model's own size
        from edgedla.importers import load_onnx

        graph = load_onnx(MODEL, trt="10.3")
        (name,) = graph.inputs
        dims = "x".join(str(d) for d in graph.tensors[name].dims)
        line = line.replace("images:1x3x", f"{name}:{dims}")
    assert exit_code_of(["check", *words(line, tmp_path / "out"), "-q", "--no-cost"]) in (0, 1)
    code = exit_code_of(["build", *words(line, tmp_path / "out"), "--plan"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert "No such option" not in printed.err


def test_posted_lines_keep_the_engine_s_name(tmp_path: Path) -> None:
    own = {"-o", "--output", "--onnx"}
    pasted = understood("build", ["--onnx=m.onnx", "--saveEngine=models/x.engine"], own)
    assert pasted.args == ("--onnx=m.onnx", "-o", "models/x")
    assert "--saveEngine became -o models/x" in pasted.notes[0]
    kept = understood("build", ["--onnx=m.onnx", "-o", "here", "--saveEngine=x.engine"], own)
    assert kept.args == ("--onnx=m.onnx", "-o", "here")


def test_values_of_ignored_options_are_no_models() -> None:
    pasted = understood("check", ["--workspace", "4096", "model.onnx", "--verbose"], set())
    assert pasted.args == ("model.onnx",)
    assert [note.split()[0] for note in pasted.notes] == ["--workspace", "--verbose"]


@pytest.mark.parametrize("option", ["--deploy=a.prototxt", "--uff=a.uff"])
def test_models_of_other_frameworks_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["build", option]) == 2
    assert "convert them to ONNX" in capsys.readouterr().err


def test_every_option_of_trtexec_has_an_answer(shared: Path) -> None:
    import yaml

    listed = yaml.safe_load((shared / "facts" / "trtexec-flags.yaml").read_text())
    names = {name for release in listed.values() if isinstance(release, list) for name in release}
    assert len(names) > 100
    assert names <= set(options()), "an option without an answer"
    for name in sorted(names):
        for verb in ("check", "build", "bench"):
            assert all(row.text for row in options()[name] if row.does == "ignored"), (name, verb)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("image:1x3x224x224", {"image": [1, 3, 224, 224]}),
        ("image=1x3x224x224", {"image": [1, 3, 224, 224]}),
        ("image:[1,3,224,224]", {"image": [1, 3, 224, 224]}),
        ("image:[1, 3, 224, 224],mask:1X8", {"image": [1, 3, 224, 224], "mask": [1, 8]}),
        ("1x3x224x224", {"": [1, 3, 224, 224]}),
        ("a:b:1x2", {"a:b": [1, 2]}),
    ],
)
def test_shapes_as_people_write_them(text: str, shapes: object) -> None:
    assert parse_shapes(text) == shapes


def test_a_shape_without_a_name_is_that_of_the_only_input() -> None:
    from edgedla.importers import load_onnx

    graph = load_onnx(MODEL, trt="10.3")
    (name,) = graph.inputs
    assert load_onnx(MODEL, trt="10.3", shapes={"": graph.tensors[name].dims}).inputs == (name,)


@pytest.mark.parametrize("text", ["orinnx", "Orin-NX", "agxorin", "Jetson AGX Orin 64GB", "XAVIER_NX"])
def test_modules_as_people_write_them(text: str) -> None:
    assert module_for(text).dla_cores == 2


@pytest.mark.parametrize("text", ["nano", "tx2", "TX1"])
def test_modules_that_never_had_a_dla_say_so(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", str(MODEL), "--target", text]) == 2
    assert "has no DLA" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "jetpack"),
    [
        ("6.2", "6.2"),
        ("v6.2", "6.2"),
        ("JetPack 6.2", "6.2"),
        ("r36.4.3", "6.2"),
        ("L4T 36.4.3", "6.2"),
        ("# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64", "6.2"),
    ],
)
def test_releases_as_people_write_them(text: str, jetpack: str) -> None:
    assert platform_for("agx-orin-64gb", jetpack=text).release.jetpack == jetpack


def test_latest_is_the_newest_release_of_the_module() -> None:
    assert (platform_for("agx-xavier-32gb", jetpack="latest").release.jetpack or "").startswith("5.")


def test_help_and_json_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["help", "check"]) == 0
    assert "--compare" in capsys.readouterr().out
    assert exit_code_of(["help"]) == 0
    assert "Commands" in capsys.readouterr().out
    assert exit_code_of(["targets", "--json"]) == 0
    assert capsys.readouterr().out.startswith("{")
