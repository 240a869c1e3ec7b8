"""CHANGELOG.md, as far as one tree can tell: the rules and options named under Unreleased exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Set

import click
import pytest

from edgedla.cli.arguments.trtexec import options as options_of_trtexec
from edgedla.cli.main import main
from edgedla.cli.verbs import VERBS
from edgedla.rules.docs import all_rules

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
#: Words of the shell itself.
OF_THE_SHELL = {"--help", "--json", "--version"}


def unreleased() -> str:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    # In short, and in detail.
    return "\n".join(re.split(r"^## ", text, flags=re.M)[1:3])


def options_of(command: click.Command) -> Set[str]:
    names = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    return names.union(*(options_of(sub) for sub in getattr(command, "commands", {}).values()))


def test_rules_named_under_unreleased_exist() -> None:
    """A change of rules/layers that alters verdicts names its rules there; which change does, no test can see."""
    named = set(re.findall(r"\b[A-Z]{3,4}\d{3}\b", unreleased()))
    assert named
    assert named - {rule.id for rule in all_rules()} == set()


def test_options_named_under_unreleased_exist() -> None:
    context = click.Context(main)
    known = OF_THE_SHELL | set(options_of_trtexec())
    for verb in VERBS:
        command = main.get_command(context, verb)
        assert command is not None
        known |= options_of(command)
    quoted = " ".join(re.findall(r"`([^`]*)`", unreleased()))
    named = set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", quoted))
    assert named
    assert named - known == set()


def test_its_lines_can_be_read_where_they_are_not_folded() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert [f"{n}: {len(line)}" for n, line in enumerate(lines, 1) if len(line) > 140] == []
