"""`edgedla help`, its topics, and the pages that --help names."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import List

import pytest

from edgedla.cli import main
from edgedla.cli.terminal.topics import topics, topics_of
from edgedla.cli.verbs import VERBS
from edgedla.text.pages import SITE_VARIABLE


def test_help_lists_commands_and_every_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: edgedla" in shown
    assert [name for name in topics() if f"  {name} " not in shown] == []


def test_no_help_topic_has_the_name_of_a_command() -> None:
    assert set(topics()) & set(VERBS) == set()


def test_topics_name_commands_that_exist() -> None:
    assert {verb for topic in topics().values() for verb in topic.verbs} <= set(VERBS)


@pytest.mark.parametrize("name", topics())
def test_a_help_topic_is_printed_as_text_with_its_address(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["help", name]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"# {topics()[name].title}\n")
    assert shown.rstrip().endswith(f"{name}.html")
    assert "](" not in shown.replace("](http", "")


def test_help_with_a_command_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["help", "board", "add"]) == 0
    assert "Usage: edgedla board add" in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_a_commands_help_ends_with_its_page_and_names_its_topics(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SITE_VARIABLE, "https://docs.example/0.2")
    for _ in range(2):  # the second time says it once as well
        assert main.exit_code_of([verb, "--help"]) == 0
        shown = capsys.readouterr().out
        assert shown.count(f"Page: https://docs.example/0.2/reference/commands/{verb}.html") == 1
        assert [topic.name for topic in topics_of(verb) if topic.name not in unbroken(shown)] == []


def unbroken(text: str) -> str:
    """The text with names whole that a line end broke at a hyphen."""
    return re.sub(r"-\n\s+", "-", text)


def test_an_unknown_topic_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["help", "dynamic-btch"]) == 2
    assert "Did you mean 'dynamic-batch'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["why", "is", "my", "layer", "not", "on", "the", "DLA"], "layer-on-gpu"),
        (["INT8 lost accuracy"], "int8-accuracy"),
        (["my", "model", "has", "dynamic", "batch", "size"], "dynamic-batch"),
        (["cameras"], "camera-pipeline"),
        (["worth"], "glossary"),
    ],
)
def test_a_question_finds_topics_the_best_first(words: List[str], first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["help", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"edgedla help {first} ")
    assert len(lines) <= 5


def test_words_that_no_page_holds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["help", "xyzzy", "plugh"]) == 2
    assert "There is no help on 'xyzzy plugh'" in capsys.readouterr().err


def test_help_of_help_lists_topics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["help", "--help"]) == 0
    assert "dynamic-batch" in capsys.readouterr().out


#: Prints the help of every command and of those below it.
ALL_HELP = """
from click import Context
from edgedla.cli.main import main
from edgedla.cli.verbs import VERBS
def show(command, name, above=None):
    context = Context(command, above, name)
    print(command.get_help(context))
    for below in getattr(command, "commands", {}).values():
        show(below, below.name, context)
print(main.get_help(Context(main, info_name="edgedla")))
for verb in VERBS:
    show(main.get_command(None, verb), verb)
"""


def test_help_survives_without_docstrings() -> None:
    stripped = subprocess.run([sys.executable, "-OO", "-c", ALL_HELP], capture_output=True, text=True, check=True).stdout
    said = " ".join(stripped.split())
    assert all(f" {line} " in said for _, line in VERBS.values())
