"""The examples of every --help: those that need neither a board nor another framework run; the others name options that exist."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import click
import pytest

from edgedla.cli import main
from edgedla.cli.examples import BELOW, EXAMPLES, FEWEST, GROUPS, grouped
from edgedla.cli.verbs import VERBS

ROOT = Path(__file__).resolve().parents[2]
DETECTOR = ROOT / "examples" / "00_shapes_detector"
#: Needs a board, a browser that looks, a framework, or files that a board wrote.
NOT_RUN = (
    "--board",
    "--view",
    "--onvif",
    "edgedla monitor",
    "edgedla board",
    "edgedla convert",
    "edgedla mcp",
    "truth.tar.gz",
    "edgedla doctor",
    "edgedla costs fit",
    "--profile costs.json",
    "pipeline.yaml",
)
LONG = ("deploy",)
LINES = list(dict.fromkeys(line for examples in (*EXAMPLES.values(), *BELOW.values()) for line in examples))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    made = tmp_path_factory.mktemp("examples")
    shutil.copy(DETECTOR / "shapes_detector.onnx", made / "model.onnx")
    shutil.copy(DETECTOR / "shapes_detector.onnx", made / "fixed.onnx")
    (made / "zoo").mkdir()
    shutil.copy(DETECTOR / "shapes_detector.onnx", made / "zoo")
    (made / "build.log").write_text(
        "[W] [TRT] Default DLA is enabled but layer X is not supported on DLA, falling back to GPU.\n"
    )
    subprocess.run(
        [sys.executable, str(DETECTOR / "make_data.py"), "data", "--frames", "2", "--calibration", "5"],
        cwd=made,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.move(str(made / "data" / "calibration.npz"), str(made / "samples.npz"))
    assert main.exit_code_of(["build", str(made / "model.onnx"), "--precision", "fp16", "-o", str(made / "detector")]) == 0
    return made


def test_every_command_has_two_examples_of_its_own() -> None:
    assert set(EXAMPLES) == set(VERBS)
    assert [verb for verb, lines in EXAMPLES.items() if len(set(lines)) != 2 or not lines[0].startswith(f"edgedla {verb}")] == []


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_the_examples_before_the_options(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("\nExamples:\n") < shown.index("\nOptions:\n")
    assert [line for line in EXAMPLES[verb] if f"\n  {line}\n" not in shown] == []


def test_every_command_below_a_verb_shows_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(main.main)
    verbs = {verb: main.main.get_command(context, verb) for verb in VERBS}
    assert set(BELOW) == {f"{verb} {name}" for verb, command in verbs.items() for name in getattr(command, "commands", ())}
    alone = ("acceptance show",)
    assert [words for words, lines in BELOW.items() if len(set(lines)) != (1 if words in alone else 2)] == []
    for words, lines in BELOW.items():
        assert all(line.startswith(f"edgedla {words} ") or line == f"edgedla {words}" for line in lines)
        assert main.exit_code_of([*words.split(), "--help"]) == 0
        shown = capsys.readouterr().out
        assert [line for line in lines if f"\n  {line}\n" not in shown] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_in_one_group(verb: str) -> None:
    command = main.main.get_command(click.Context(main.main), verb)
    assert command is not None
    ctx = click.Context(command)
    shown = [p for p in command.get_params(ctx) if isinstance(p, click.Option) and p.get_help_record(ctx)]
    groups = grouped(command, ctx)
    assert sorted(o.name or "" for options in groups.values() for o in options) == sorted(o.name or "" for o in shown)
    assert len(shown) < FEWEST or max(map(len, groups.values())) <= 30, "one list that long is not read"


def test_groups_name_parameters_that_exist() -> None:
    known = set()
    for verb in VERBS:
        command = main.main.get_command(click.Context(main.main), verb)
        known |= {p.name for c in (command, *getattr(command, "commands", {}).values()) for p in c.params}
    names = " ".join(GROUPS.values()).split()
    assert len(names) == len(set(names))
    assert [name for name in names if name not in known | {"help"}] == []


@pytest.mark.parametrize(
    "line", [pytest.param(x, marks=[pytest.mark.slow] if any(f" {w} " in x for w in LONG) else []) for x in LINES]
)
def test_an_example_runs(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    words: List[str] = shlex.split(line)[1:]
    if " fix " in line and sys.version_info < (3, 10):
        pytest.skip("fix needs Python 3.10")
    if any(part in line for part in NOT_RUN) or (" mcp" in line and not importlib.util.find_spec("mcp")):
        command: click.Command = main.main
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words[0])
            assert found is not None, f"no command {words[0]}"
            command, words = found, words[1:]
        command.make_parser(click.Context(command)).parse_args(words)
        return
    assert main.exit_code_of(words) in (0, 1, 7)


def test_edgedla_alone_is_one_screen_in_five_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of([]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("Start here: edgedla check")
    assert len([line for line in shown if line.endswith(":") and not line.startswith(" ")]) == 5
    assert len(shown) <= 40
    assert max(map(len, shown)) <= 80
    assert [verb for verb in VERBS if not any(line.startswith(f"  {verb} ") for line in shown)] == []
