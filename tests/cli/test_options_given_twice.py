"""A single-value option given twice: joined if it is a list, else refused with both values named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import click
import pytest

from edgedla.cli.arguments.option import Option, option
from edgedla.cli.arguments.trtexec import understood
from edgedla.cli.main import exit_code_of, main
from edgedla.cli.verbs import VERBS

MODEL = str(Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx")


def commands() -> Iterator[Tuple[str, click.Command]]:
    left: List[Tuple[str, click.Command]] = [(v, main.get_command(click.Context(main), v)) for v in VERBS]  # type: ignore[misc]
    while left:
        name, command = left.pop()
        yield name, command
        if isinstance(command, click.Group):
            left += [(f"{name} {sub}", of) for sub, of in command.commands.items()]


def test_every_option_of_every_command_refuses_repeats() -> None:
    """So none takes the last of two values without a word."""
    foreign = [
        f"{name} {param.opts[-1]}"
        for name, command in commands()
        for param in command.params
        if isinstance(param, click.Option) and not isinstance(param, Option)
    ]
    assert foreign == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", MODEL, "--target", "orin-nx-16gb", "--target=xavier-nx-8gb"], "'orin-nx-16gb' and as 'xavier-nx-8gb'"),
        (["place", MODEL, "--precision", "fp16", "--precision", "int8"], "--precision: given twice, as 'fp16' and as 'int8'"),
        (["place", MODEL, "--fps", "30", "--fps", "10"], "--fps: given twice, as '30' and as '10'"),
        # A pair is one value: two of them are two fronts, and one command answers with one.
        (["place", MODEL, "--pareto", "latency,energy", "--pareto", "latency,throughput"], "--pareto: given twice"),
        (["place", MODEL, "--pareto", "latency", "--pareto", "energy"], "--pareto: given twice"),
        (["build", MODEL, "-o", "here", "--output", "there"], "--output: given twice, as 'here' and as 'there'"),
        (["check", "trtexec", f"--onnx={MODEL}", "--useDLACore=0", "--useDLACore=1"], "--useDLACore: given twice, as '0'"),
        (["place", MODEL, "--concurrent", "--in-turn"], "--concurrent/--in-turn: both are given"),
        (["bench", "x", "--board", "one", "--board", "two"], "--board: given twice"),
    ],
)
def test_an_option_given_twice_is_refused(words: List[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(words) == 2
    assert said in capsys.readouterr().err


@click.command()
@option("--one", default="none")
@option("--all", "every", joins=True)
@option("--several", multiple=True)
@option("--yes/--no", default=None)
@option("--wait", type=float, is_flag=False, flag_value=60.0)
@option("-v", count=True)
def command(**given: Any) -> Dict[str, Any]:
    return given


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("", {"one": "none", "every": None, "several": (), "yes": None, "wait": None, "v": 0}),
        ("--one a --one a", {"one": "a"}),
        ("--all a,b --all c", {"every": "a,b,c"}),
        ("--several a --several b", {"several": ("a", "b")}),
        ("--yes --yes", {"yes": True}),
        ("--no", {"yes": False}),
        ("--wait", {"wait": 60.0}),
        ("--wait 5", {"wait": 5.0}),
        ("-vv", {"v": 2}),
    ],
)
def test_other_option_behaviour_equals_clicks(words: str, given: Dict[str, Any]) -> None:
    assert command.main(words.split(), standalone_mode=False).items() >= given.items()


def test_repeated_list_options_are_joined(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", MODEL, "-q", "--compare", "orin-nx-16gb", "--compare", "xavier-nx-8gb"]) == 0
    table = capsys.readouterr().out
    assert "orin-nx-16gb" in table
    assert "xavier-nx-8gb" in table
    # Every piece is looked at: the second one names no input.
    assert exit_code_of(["layers", MODEL, "--shapes", "images:1x3x128x128", "--shapes", "more:1x8"]) == 2
    assert "'more', which is not an input" in capsys.readouterr().err
    assert exit_code_of(["layers", MODEL, "--shapes", "1x3x128x128", "--shapes", "1x8"]) == 2
    assert "two shapes without a name" in capsys.readouterr().err


def test_repeated_list_options_of_trtexec_are_joined() -> None:
    pasted = understood("check", ["--optShapes=a:1x2", "--optShapes=b:1x3"], {"--shapes"})
    assert pasted.args == ("--shapes", "a:1x2", "--shapes", "b:1x3")
