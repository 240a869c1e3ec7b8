"""Defaults from a project's file: found upwards, checked strictly, and replaced by what the command line says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import pytest

from edgedla.cli.arguments.project_file import KEYS, _checked, project_file
from edgedla.cli.check.check import check
from edgedla.cli.main import exit_code_of, main
from edgedla.cli.verbs import VERBS
from edgedla.errors import DocumentError
from tests.models import node, onnx_model, save

ROOT = Path(__file__).resolve().parents[2]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_nearest_file_counts_up_to_the_checkouts_root(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    write(tmp_path / "edgedla.toml", 'target = "above-the-checkout"\n')
    deep = tmp_path / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    assert project_file(deep) is None
    shared = write(tmp_path / "repo" / "pyproject.toml", '[tool.edgedla]\ntarget = "orin"\n')
    write(tmp_path / "repo" / "a" / "pyproject.toml", "[tool.other]\nkey = 1\n")
    found = project_file(deep)
    assert found is not None
    assert (found.path, dict(found.values)) == (shared, {"target": "orin"})
    own = write(tmp_path / "repo" / "edgedla.toml", 'target = "xavier"\n')
    found = project_file(deep)
    assert found is not None
    assert found.path == own


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("precison = 'int8'", "unknown key 'precison'"),
        ("target = 3", "target = 3"),
        ("max-loadables = true", "max-loadables = True"),
        ("models = 'models'", "a list of texts"),
        ("models = [1]", "a list of texts"),
        ("shapes = {x = []}", "a table of dims"),
        ("shapes = {x = [0]}", "a table of dims"),
        ("shapes = {x = [true]}", "a table of dims"),
        ("target = ", "not valid TOML"),
        ("[tool.edgedla]\ntarget = 'orin'", "unknown key 'tool'"),
    ],
)
def test_anything_else_is_an_error_that_names_the_file(text: str, told: str, tmp_path: Path) -> None:
    path = write(tmp_path / "edgedla.toml", text)
    with pytest.raises(DocumentError) as failure:
        project_file(tmp_path)
    assert told in str(failure.value)
    assert str(path) in str(failure.value)


@pytest.mark.parametrize(
    "text", ["[tool]\nedgedla.target = 'orin'", "[tool]\nedgedla = {target = 'orin'}", "tool.edgedla.target = 'orin'"]
)
def test_every_spelling_of_the_table_counts(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "pyproject.toml", text)
    found = project_file(tmp_path / "a")
    assert found is not None
    assert (found.path, dict(found.values)) == (path, {"target": "orin"})


@pytest.mark.parametrize("text", ["[[tool.edgedla]]\ntarget = 'orin'", "[tool]\nedgedla = 5"])
def test_what_is_no_table_is_an_error_that_names_the_file(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "pyproject.toml", text)
    with pytest.raises(DocumentError, match="is not a table") as failure:
        project_file(tmp_path)
    assert str(path) in str(failure.value)


@pytest.mark.parametrize("text", ["tool = 5 # edgedla", "[project]\ndependencies = ['edgedla']"])
def test_a_file_that_only_mentions_edgedla_is_passed_over(text: str, tmp_path: Path) -> None:
    shared = write(tmp_path / "pyproject.toml", "[tool.edgedla]\ntarget = 'orin'")
    write(tmp_path / "a" / "pyproject.toml", text)
    found = project_file(tmp_path / "a")
    assert found is not None
    assert found.path == shared


def test_a_value_that_an_option_refuses_is_told_with_the_file_that_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "edgedla.toml", "max-loadables = 1.5")
    monkeypatch.chdir(tmp_path)
    assert exit_code_of(["check", "m.onnx"]) == 2
    assert f"edgedla: {path} sets max-loadables=1.5" in capsys.readouterr().err


def test_every_key_is_an_option_of_a_verb_that_it_holds_for() -> None:
    context = main.make_context("edgedla", ["check"], resilient_parsing=True)
    for name, key in KEYS.items():
        for verb in key.verbs or ("check",):
            command = main.get_command(context, verb)
            assert command is not None
            assert verb in VERBS
            assert {f"--{name}", name} & {opt for p in command.params for opt in p.opts}, (name, verb)


@pytest.fixture
def project(tmp_path: Path) -> Any:
    write(
        tmp_path / "edgedla.toml",
        'target = "orin-nx-16gb"\njetpack = "6.0"\nprecision = "int8"\nbatch = 2\nmodels = ["models"]\nmax-loadables = 4\n',
    )
    found = project_file(tmp_path)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("args", "left_out"),
    [
        ([], set()),
        (["m.onnx", "--precision", "fp16"], {"precision"}),
        (["--fp16"], {"precision"}),
        (["--target=xavier"], {"target", "jetpack"}),
        (["--trt", "8.5"], {"jetpack"}),
        (["--compare", "orin"], {"max_loadables"}),
        (["--onnx=m.onnx"], {"models"}),
    ],
)
def test_the_command_line_replaces_what_it_says_itself(args: List[str], left_out: Any, project: Any) -> None:
    whole: Dict[str, Any] = project.defaults("check", check, [])
    assert set(whole) == {"target", "jetpack", "precision", "batch", "models", "max_loadables"}
    assert set(whole) - set(project.defaults("check", check, args)) == left_out


def test_keys_of_another_verb_and_options_that_a_verb_lacks_are_left_alone(project: Any) -> None:
    context = main.make_context("edgedla", ["place"], resilient_parsing=True)
    for verb, taken in (("place", {"target", "jetpack", "precision", "batch"}), ("targets", set())):
        command = main.get_command(context, verb)
        assert command is not None
        assert set(project.defaults(verb, command, [])) == taken


def test_a_check_without_a_model_takes_all_from_the_file_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(onnx_model([node("Relu", "x", "y")]), tmp_path / "nets" / "one.onnx")
    write(tmp_path / "edgedla.toml", 'target = "orin-nx-16gb"\nprecision = "int8"\nmodels = ["nets"]\nmax-loadables = 0\n')
    inside = tmp_path / "code"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert exit_code_of(["-v", "check", "-q"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("one on orin-nx-16gb, int8")
    assert "edgedla.toml sets target=orin-nx-16gb" in told.err
    assert "1 loadable, at most 0 wanted" in told.err
    assert exit_code_of(["check", "-q", "--max-loadables", "1"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            (key, value)
            for key in KEYS
            for value in ("text", 3, 0.5, True, [], ["a"], [1], {}, {"x": [1, 3]}, {"x": [0]}, {"x": []}, {"x": 1})
        ),
        ("unknown", 1),
    ],
)
def test_the_schema_for_editors_takes_what_the_command_takes(key: str, value: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "howto" / "edgedla.schema.json").read_text())
    assert set(schema["properties"]) == set(KEYS)
    try:
        _checked({key: value}, Path("edgedla.toml"))
        taken = True
    except DocumentError:
        taken = False
    assert jsonschema.Draft202012Validator(schema).is_valid({key: value}) == taken
