"""Recipes of `edgedla hub`: listed, printed, on their page, and (slow) run."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from edgedla.cli.deploy.hub import recipes
from edgedla.cli.main import exit_code_of
from edgedla.targets import module_ids
from edgedla.vocabulary import PRECISIONS

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import hub  # noqa: E402


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_is_whole(name: str) -> None:
    r = recipes()[name]
    assert set(r) == {"task", "source", "input", "target", "precision", "commands", "result", "figures", "int8_loss"}
    assert set(r["figures"]) == {"loadables_before", "loadables", "layers_gpu", "ms", "gpu_ms"}
    assert r["target"] in module_ids()
    assert r["precision"] in PRECISIONS
    for command in r["commands"]:
        words = shlex.split(command)
        assert words[0] == "edgedla"
        assert [words[words.index(f"--{key}") + 1] for key in ("target", "precision")] == [r["target"], r["precision"]]
    assert r["source"] in r["commands"][0]
    assert r["result"] in r["commands"][-1]
    # Not the name of the file that a user gives in place of the source.
    assert r["result"] == f"{name}-dla.onnx"


def test_the_list_has_every_recipe_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["hub", "list"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == list(recipes())
    for row, r in zip(rows, recipes().values()):
        assert f"{r['figures']['loadables_before']} to {r['figures']['loadables']}" in row
        assert row.endswith(str(r["int8_loss"]))


def test_a_recipe_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["hub", "get", "mobilenet_v3_small"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("pip install 'edgedla[torch]' torchvision" in line for line in lines)
    assert [line for line in lines if not line.startswith("#")] == recipes()["mobilenet_v3_small"]["commands"]


def test_recipes_are_documents_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert exit_code_of(["hub", "list", "--format", "json"]) == 0
    every = json.loads(capsys.readouterr().out)["recipes"]
    assert [{k: v for k, v in row.items() if k != "name"} for row in every] == list(recipes().values())
    assert exit_code_of(["hub", "get", "resnet18", "-o", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["recipes"] == every[:1]


def test_an_unknown_recipe_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["hub", "get", "mobilenet_v3_smal"]) == 2
    assert "did you mean mobilenet_v3_small?" in capsys.readouterr().err


def test_the_benchmark_refuses_an_unknown_recipe_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["hub.py", "resnet18", "resnet1"])
    with pytest.raises(SystemExit, match=r"unknown recipe 'resnet1'; did you mean resnet18\? \(allowed: resnet18, "):
        hub.main()


def test_the_page_is_that_of_the_file() -> None:
    assert hub.PAGE.read_text(encoding="utf-8") == hub.page(recipes()), "run: python benchmarks/hub.py --page"


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes())
def test_the_commands_give_what_the_recipe_says(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    assert hub.figures(recipes()[name], tmp_path) == recipes()[name]["figures"], f"run: python benchmarks/hub.py {name}"
