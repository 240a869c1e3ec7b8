"""A repository with three models and a baseline: a pull request makes one worse, one better and one broken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List
from xml.etree import ElementTree

import pytest
import yaml

from tests.models import node, ones, onnx_model, save

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
CONV = node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
#: The DLA runs no mean over the channels.
MEAN = node("ReduceMean", "c", "m", axes=[1], keepdims=1)
PLACE = ["--target", "orin-nx-16gb"]


def fits() -> Any:
    return onnx_model([CONV, node("Relu", "c", "y")], constants=[ones("w", 8, 3, 3, 3)])


def falls_back() -> Any:
    return onnx_model([CONV, MEAN, node("Relu", "m", "y")], constants=[ones("w", 8, 3, 3, 3)])


def edgedla(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgedla", *words], cwd=folder, capture_output=True, text=True, env={**os.environ, **more}
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Models under models/ and their baseline."""
    for name, model in (("first", fits()), ("second", falls_back()), ("third", fits())):
        save(model, tmp_path / "models" / f"{name}.onnx")
    done = edgedla(tmp_path, "check", "models", *PLACE, "-q", "--baseline", "dla.json", "--update-baseline")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_an_unchanged_repository_is_green_although_a_model_falls_back(repository: Path) -> None:
    assert edgedla(repository, "check", "models", *PLACE, "-q").returncode == 1
    done = edgedla(repository, "check", "models", *PLACE, "-q", "--baseline", "dla.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(json.loads((repository / "dla.json").read_text())["models"]) == [
        "models/first.onnx",
        "models/second.onnx",
        "models/third.onnx",
    ]


def test_the_baseline_holds_from_any_folder_of_the_checkout(repository: Path) -> None:
    done = edgedla(repository / "models", "check", "first.onnx", *PLACE, "-q", "--baseline", "../dla.json")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_got_worse_fails_by_name_and_rule_and_what_got_better_is_said(repository: Path) -> None:
    save(falls_back(), repository / "models" / "first.onnx")
    save(fits(), repository / "models" / "second.onnx")
    done = edgedla(repository, "check", "models", *PLACE, "-o", "dla.sarif", "--baseline", "dla.json")
    assert done.returncode == 1
    told = done.stderr.splitlines()
    (layers,) = (line for line in told if "worse: models/first.onnx" in line and "off the DLA" in line)
    assert "m (RED" in layers
    assert [line for line in told if "worse:" in line and "second" in line] == []
    assert any(line.startswith("edgedla: better: models/second.onnx") for line in told)
    results = json.loads((repository / "dla.sarif").read_text())["runs"][0]["results"]
    assert any(r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/first.onnx" for r in results)


@pytest.mark.parametrize(
    ("words", "name", "said"),
    [
        (["--baseline", "dla.json"], "baseline", "Worse than the baseline"),
        (["--max-gpu-layers", "0"], "max-gpu-layers", "--max-gpu-layers"),
        (["--max-loadables", "1", "--no-cost"], "max-loadables", "--max-loadables"),
    ],
)
def test_what_made_the_exit_code_1_stands_first_in_every_file(repository: Path, words: List[str], name: str, said: str) -> None:
    save(falls_back(), repository / "models" / "first.onnx")
    place = ["check", "models/first.onnx", *PLACE]
    done = edgedla(repository, *place, *words, "-o", "dla.sarif", "-o", "dla.xml", "-o", "dla.md")
    assert done.returncode == 1
    told = [line.split(": ", 1)[1] for line in done.stderr.splitlines() if "models/first.onnx" in line]
    told = [line[len("worse: ") :] if line.startswith("worse: ") else line for line in told]
    case = ElementTree.parse(repository / "dla.xml").getroot()[0][0]
    assert (case.get("classname"), case.get("name")) == ("edgedla", name)
    assert case[0].get("message") == "; ".join(told)
    results = json.loads((repository / "dla.sarif").read_text())["runs"][0]["results"]
    errors = [(r["ruleId"], r["message"]["text"]) for r in results if r["level"] == "error"]
    assert errors == [(name, line) for line in told]
    assert (repository / "dla.md").read_text().startswith(f"✕ {said}: models/first.onnx")


def test_without_a_reason_no_file_has_a_failure(repository: Path) -> None:
    done = edgedla(repository, "check", "models", *PLACE, "--baseline", "dla.json", "--max-loadables", "4", "-o", "dla.xml")
    assert done.returncode == 0
    assert {suite.get("failures") for suite in ElementTree.parse(repository / "dla.xml").getroot()} == {"0"}


def test_a_broken_model_ends_with_3_and_the_others_still_get_their_answers(repository: Path) -> None:
    (repository / "models" / "third.onnx").write_bytes(b"no model")
    done = edgedla(repository, "check", "models", *PLACE, "-q", "--baseline", "dla.json")
    assert done.returncode == 3
    assert "third.onnx" in done.stderr
    assert "second on orin-nx-16gb" in done.stdout


def test_a_model_whose_file_is_gone_is_named_and_an_update_leaves_it_out(repository: Path) -> None:
    (repository / "models" / "third.onnx").unlink()
    words = ("check", "models", *PLACE, "-q", "--baseline", "dla.json")
    gone = "gone: models/third.onnx, which dla.json holds: there is no such file; "
    done = edgedla(repository, *words)
    assert (done.returncode, done.stderr) == (0, f"edgedla: {gone}--update-baseline leaves it out\n")
    # A function that makes a model has no file.
    document = json.loads((repository / "dla.json").read_text())
    document["models"]["timm:resnet18"] = document["models"]["models/third.onnx"]
    (repository / "dla.json").write_text(json.dumps(document))
    done = edgedla(repository, *words, "--update-baseline")
    assert f"edgedla: {gone}it is left out" in done.stderr.splitlines()
    held = json.loads((repository / "dla.json").read_text())["models"]
    assert sorted(held) == ["models/first.onnx", "models/second.onnx", "timm:resnet18"]


def test_a_model_without_a_row_is_new_and_no_failure(repository: Path) -> None:
    save(falls_back(), repository / "models" / "fourth.onnx")
    done = edgedla(repository, "check", "models", *PLACE, "-q", "--baseline", "dla.json")
    assert done.returncode == 0
    assert "edgedla: new: models/fourth.onnx" in done.stderr


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("layers_gpu", -1, "a count is a whole number"),
        ("passes", "yes", "`passes`"),
        ("refused", ["x"], "a refusal"),
        ("share_macs_dla", 2, "a share"),
        ("off_dla", ["a"], "not a baseline"),
        ("unheard", 1, "unknown field"),
    ],
)
def test_a_damaged_baseline_is_refused_and_stays_as_it_is(repository: Path, field: str, value: Any, told: str) -> None:
    path = repository / "dla.json"
    held: Dict[str, Any] = json.loads(path.read_text())
    next(iter(held["models"]["models/first.onnx"].values()))[field] = value
    path.write_text(json.dumps(held))
    done = edgedla(repository, "check", "models", *PLACE, "-q", "--baseline", "dla.json", "--update-baseline")
    assert done.returncode == 3
    assert told in done.stderr
    assert path.read_text() == json.dumps(held)


def test_limits_fail_with_the_value_and_leave_fallback_alone(repository: Path) -> None:
    done = edgedla(repository, "check", "models", *PLACE, "-q", "--max-gpu-layers", "1", "--max-loadables", "2")
    assert (done.returncode, done.stderr) == (0, "")
    done = edgedla(repository, "check", "models", *PLACE, "-q", "--max-gpu-layers", "0", "--max-latency", "1us")
    assert done.returncode == 1
    assert "second.onnx: 1 layer off the DLA, at most 0 wanted" in done.stderr
    assert done.stderr.count("per frame, at most 1.00 µs wanted") == 3


@pytest.mark.parametrize(
    "words", [["--update-baseline"], ["--min-dla-macs", "95"], ["--max-latency", "5 weeks"], ["--max-energy", "nan"]]
)
def test_options_that_say_nothing_are_wrong_use(repository: Path, words: List[str]) -> None:
    done = edgedla(repository, "check", "models/first.onnx", *PLACE, "-q", *words)
    assert done.returncode == 2
    assert words[0] in done.stderr


def test_two_versions_of_a_model_are_compared_by_verdict(repository: Path) -> None:
    old, new = "models/first.onnx", "models/second.onnx"
    done = edgedla(repository, "inspect", old, new, *PLACE, "--fail-on-worse")
    assert done.returncode == 1
    assert "+ m  GPU: RED" in done.stdout
    assert "worse: 1 more layer runs off the DLA" in done.stderr
    assert edgedla(repository, "inspect", new, old, *PLACE, "--fail-on-worse").returncode == 0
    elsewhere = edgedla(repository, "inspect", old, new, "--target", "orin-nano-8gb").stdout
    assert elsewhere != done.stdout


def test_the_actions_script_writes_summary_and_outputs(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    save(falls_back(), repository / "models" / "first.onnx")
    # Of the pull request, and not to be trusted.
    save(falls_back(), repository / "models" / "::set-output name=a::[b](c)<img>.onnx")
    runner = tmp_path_factory.mktemp("runner")
    command = runner / "edgedla"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgedla "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", str(ROOT / "action" / "check.sh")],
        cwd=repository,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PATH": f"{runner}:{os.environ['PATH']}",
            "MODELS": "models/*.onnx",
            "TARGET": "orin-nx-16gb",
            "BASELINE": "dla.json",
            "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(runner),
            "GITHUB_STEP_SUMMARY": str(runner / "summary"),
            "GITHUB_OUTPUT": str(runner / "output"),
            "PYTHONPATH": str(ROOT),
        },
    )
    assert done.returncode == 1, done.stderr
    summary = (runner / "summary").read_text()
    assert summary.startswith("### Against the baseline\n- ")
    assert "\n- worse: models/first.onnx" in summary
    assert "Worse than the baseline" not in summary
    assert "second" in summary
    assert "new: models/::set-output name=a::\\[b\\](c)\\<img\\>.onnx" in summary
    outside_code = re.sub("`[^`]*`", "", summary)
    assert "[b](c)" not in outside_code
    assert "<img>" not in outside_code
    first, *_, last = done.stdout.splitlines()
    assert first == f"::stop-commands::{last.strip(':')}"
    assert len(last) > 30
    written = dict(line.split("=", 1) for line in (runner / "output").read_text().splitlines())
    assert sorted(written) == ["markdown", "sarif"]
    assert all(Path(file).is_file() for file in written.values())


def test_the_page_lists_the_actions_inputs_as_they_are() -> None:
    inputs = yaml.safe_load((ROOT / "action" / "action.yml").read_text())["inputs"]
    rows = []
    for name, said in inputs.items():
        default = f"`{said['default']}`" if said.get("default") else "required" if said.get("required") else "none"
        rows.append(f"| `{name}` | {default} | {said['description']} |")
    assert "\n".join(["|---|---|---|", *rows, ""]) in (ROOT / "docs/howto/ci.md").read_text()


def test_the_action_gives_the_script_every_variable_that_it_reads() -> None:
    action = yaml.safe_load((ROOT / "action" / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "check")
    script = (ROOT / "action" / "check.sh").read_text()
    assert all(f"${name}" in script or f"${{{name}" in script for name in step["env"])
    asked = {word.split("inputs.")[1].split(" ")[0] for word in step["env"].values()}
    assert asked | {"version"} == set(action["inputs"])
