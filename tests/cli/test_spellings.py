"""Common spellings: trtexec's lines, modules, releases, shapes, help."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import yaml
from onnx import helper, numpy_helper

from edgedla.cli.arguments.shapes import parse_shapes
from edgedla.cli.arguments.trtexec import options, understood
from edgedla.cli.main import exit_code_of
from edgedla.targets import module_for, platform_for
from tests.models import onnx_model, save

MODEL = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"

#: Lines as people posted them, with their threads.
POSTED = yaml.safe_load((Path(__file__).resolve().parents[1] / "data" / "trtexec_lines.yaml").read_text())["lines"]


def posted_model(path: Path, entry: Dict[str, Any]) -> None:
    """A small network with the inputs and layers that a posted line names."""
    inputs = entry.get("inputs", {"images": [1, 3, 64, 64]})
    layers = entry.get("layers", ["conv"])
    first = next(iter(inputs))
    nodes, tensor = [], first
    constants = []
    for i, name in enumerate(layers):
        constants.append(numpy_helper.from_array(np.full((3, 3, 1, 1), 0.1, np.float32), f"w{i}"))
        nodes.append(helper.make_node("Conv", [tensor, f"w{i}"], [f"c{i}"], name=name))
        tensor = f"c{i}"
    ends = [tensor]
    for other in list(inputs)[1:]:
        nodes.append(helper.make_node("Relu", [other], [f"{other}_out"], name=f"relu_{other}"))
        ends.append(f"{other}_out")
    save(onnx_model(nodes, inputs, ends, constants, opset=17, name="posted"), path)


def posted_words(entry: Dict[str, Any], folder: Path) -> List[str]:
    """The line's words, with its files in `folder`."""
    posted_model(folder / "m.onnx", entry)
    (folder / "c.cache").write_text("TRT-100300-EntropyCalibration2\nimages: 3c010a14\n")
    files = {"--onnx": "m.onnx", "--calib": "c.cache", "--saveEngine": "out.engine"}
    found = []
    for word in entry["line"].split():
        name, equals, _ = word.partition("=")
        found.append(f"{name}={folder / files[name]}" if equals and name in files else word)
    return found


def test_the_corpus_holds_at_least_20_published_trtexec_lines() -> None:
    built = [entry for entry in POSTED if "after" not in entry]
    assert len(built) >= 20
    assert all(entry["source"].startswith("https://") for entry in POSTED)
    assert len({entry["line"] for entry in POSTED}) == len(POSTED)


@pytest.mark.parametrize("entry", [e for e in POSTED if "after" not in e], ids=lambda e: e["source"][19:])
def test_check_and_build_accept_published_trtexec_lines(
    entry: Dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = posted_words(entry, tmp_path)
    for verb, more in (("check", ("-q", "--no-cost")), ("build", ("--plan",))):
        code = exit_code_of([verb, *words, *more])
        said = capsys.readouterr().err
        if "refused" in entry:
            assert code == 2
            assert entry["refused"] in said
        else:
            assert code in ((0, 1) if verb == "check" else (0,)), said
        assert "No such option" not in said


#: Ten releases, from the first of a DLA v2 back to Xavier's and up to the strongly typed ones, each with a module that has it.
RELEASES = (
    ("xavier", "7.1.3"),
    ("xavier", "8.0.1"),
    ("xavier", "8.2.1"),
    ("xavier", "8.4.1"),
    ("xavier", "8.5.2"),
    ("orin", "8.5.2"),
    ("orin", "8.6.2"),
    ("orin", "10.3.0"),
    ("orin", "10.7.0"),
    ("orin", "11.4.1"),
)
BUILT = [entry for entry in POSTED if "after" not in entry]


@pytest.mark.parametrize(("target", "trt"), RELEASES)
def test_20_published_trtexec_lines_are_understood_for_each_of_ten_releases(
    target: str, trt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line is answered, by yes or no, or by the rule or option that this release or edgedla lacks."""
    answered = 0
    for number, entry in enumerate(BUILT):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = [*posted_words(entry, folder), "--target", target, "--trt", trt, "-q", "--no-cost"]
        code = exit_code_of(["check", *words])
        said = capsys.readouterr().err
        assert "No such option" not in said
        if "refused" in entry:
            assert code == 2
            assert entry["refused"] in said
        else:
            assert code in (0, 1) or (code == 2 and "these formats" in said), (entry["line"], said)
            answered += code != 2
    assert len(BUILT) >= 20
    assert answered >= 16


@pytest.mark.parametrize("entry", [e for e in POSTED if e.get("after") == ["bench"]], ids=lambda e: e["source"][19:])
def test_bench_accepts_published_trtexec_lines(entry: Dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    # The engine is not here: that it is looked for shows that the rest of the line was understood.
    assert exit_code_of(["bench", *entry["line"].split()]) == 3
    assert "No such option" not in capsys.readouterr().err


def test_save_engine_of_a_pasted_line_becomes_the_output_folder(tmp_path: Path) -> None:
    own = {"-o", "--output", "--onnx"}
    pasted = understood("build", ["--onnx=m.onnx", "--saveEngine=models/x.engine"], own)
    assert pasted.args == ("--onnx=m.onnx", "-o", "models/x")
    assert "--saveEngine became -o models/x" in pasted.notes[0]
    kept = understood("build", ["--onnx=m.onnx", "-o", "here", "--saveEngine=x.engine"], own)
    assert kept.args == ("--onnx=m.onnx", "-o", "here")


def test_values_of_ignored_options_are_no_models() -> None:
    pasted = understood("check", ["--workspace", "4096", "model.onnx", "--verbose"], set())
    assert pasted.args == ("model.onnx",)
    assert re.findall(r"(?:ignored: |\), )(--\w+) \(", " ".join(pasted.notes)) == ["--workspace", "--verbose"]
    assert len(pasted.notes) == 1


@pytest.mark.parametrize("option", ["--deploy=a.prototxt", "--uff=a.uff"])
def test_models_of_other_frameworks_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["build", option]) == 2
    assert "convert them to ONNX" in capsys.readouterr().err


def test_every_option_of_trtexec_is_handled(shared: Path) -> None:
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
def test_common_spellings_of_shapes_are_parsed(text: str, shapes: object) -> None:
    assert parse_shapes(text) == shapes


def test_a_shape_without_a_name_is_that_of_the_only_input() -> None:
    from edgedla.importers import load_onnx

    graph = load_onnx(MODEL, trt="10.3")
    (name,) = graph.inputs
    assert load_onnx(MODEL, trt="10.3", shapes={"": graph.tensors[name].dims}).inputs == (name,)


@pytest.mark.parametrize("text", ["orinnx", "Orin-NX", "agxorin", "Jetson AGX Orin 64GB", "XAVIER_NX"])
def test_common_spellings_of_modules_are_recognised(text: str) -> None:
    assert module_for(text).dla_cores == 2


@pytest.mark.parametrize("text", ["nano", "tx2", "TX1"])
def test_modules_that_never_had_a_dla_are_refused_with_the_reason(text: str, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_common_spellings_of_jetpack_releases_are_recognised(text: str, jetpack: str) -> None:
    assert platform_for("agx-orin-64gb", jetpack=text).release.jetpack == jetpack


def test_a_target_may_name_its_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", str(MODEL), "-q", "--target", "orin-nx-16gb@trt8.5.2", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["platform"]["trt"] == "8.5.2"
    assert exit_code_of(["check", str(MODEL), "-q", "--target", "orin@6.2", "--jetpack", "6.1"]) == 2
    assert platform_for("orin", trt="latest").release.trt == platform_for("orin").release.trt


def test_latest_is_the_newest_release_of_the_module() -> None:
    assert (platform_for("agx-xavier-32gb", jetpack="latest").release.jetpack or "").startswith("5.")


def test_help_and_json_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["help", "check"]) == 0
    assert "--compare" in capsys.readouterr().out
    assert exit_code_of(["help"]) == 0
    assert "Understand a model" in capsys.readouterr().out
    assert exit_code_of(["targets", "--json"]) == 0
    assert capsys.readouterr().out.startswith("{")


SAFE = ["trtexec", "--onnx=m.onnx", "--useDLACore=0", "--fp16", "--safe"]


@pytest.mark.parametrize("verb", ["check", "build"])
@pytest.mark.parametrize(
    ("platform", "standalone"),
    [
        (["--target", "agx-xavier", "--trt", "8.0.1"], True),
        (["--target=orin@8.5.2"], True),
        (["--target", "agx-orin-64gb", "--jetpack", "5.1"], True),
        (["--trt", "8.6.2"], False),
        (["--trt=10.3"], False),
        ([], False),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_safe_with_a_dla_core_is_a_standalone_loadable_before_8_6(verb: str, platform: List[str], standalone: bool) -> None:
    own = {"--onnx", "--useDLACore", "--fp16", "--buildDLAStandalone", "--target", "--jetpack", "--trt"}
    pasted = understood(verb, [*SAFE, *platform], own)
    assert ("--buildDLAStandalone" in pasted.args) == standalone
    assert ("--safe became --buildDLAStandalone" in pasted.notes[0]) == standalone


def test_safe_without_a_dla_core_is_ignored() -> None:
    pasted = understood("check", ["--safe", "--trt=8.0.1"], {"--buildDLAStandalone", "--trt"})
    assert pasted.args == ("--trt=8.0.1",)
    assert "safety engines" in pasted.notes[0]


def test_check_and_build_take_a_safe_line_as_standalone(capsys: pytest.CaptureFixture[str]) -> None:
    line = [f"--onnx={MODEL}", "--useDLACore=0", "--fp16", "--safe", "--target", "agx-xavier", "--trt", "8.0.1"]
    exit_code_of(["check", *line, "-q", "--no-cost", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["mode"] == "standalone"
    assert exit_code_of(["build", *line, "--plan"]) == 5
    assert "--mode hybrid builds it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [f"trtexec --onnx={MODEL} --useDLACore=0 --fp16 --allowGPUFallback"],
        [f"/usr/src/tensorrt/bin/trtexec --onnx='{MODEL}' \\\n  --useDLACore=0 --fp16 --allowGPUFallback"],
        [f"$ sudo trtexec --onnx={MODEL} --useDLACore=0 --fp16 --allowGPUFallback"],
        ["CUDA_VISIBLE_DEVICES=0", "trtexec", f"--onnx={MODEL}", "--useDLACore=0", "--fp16", "--allowGPUFallback"],
    ],
    ids=["quoted", "path, two lines", "prompt", "variable"],
)
def test_a_line_pasted_in_quotes_or_behind_a_prompt_is_taken(words: List[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", *words, "-q", "--no-cost"]) in (0, 1)
    assert "no such file" not in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--dumpOptimizationProfile", "--getPlanVersionOnly", "--ni", "--explicitPrecision"])
def test_a_switch_of_trtexec_takes_no_word_behind_it(option: str) -> None:
    assert understood("check", [option, "model.onnx"], set()).args == ("model.onnx",)


@pytest.mark.parametrize(
    "option", ["--decomposableAttentions", "--serialized", "--useRuntime", "--tuneBuildRoutes", "--tuningResultFile"]
)
def test_an_option_with_a_value_takes_the_word_behind_it(option: str) -> None:
    assert understood("check", [option, "value", "model.onnx"], set()).args == ("model.onnx",)
