"""Blocks on pages that no test can run: commands for a board must exist in edgedla, and YAML must be valid."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Iterator, List, Tuple

import click
import pytest

from edgedla.cli.main import main
from edgedla.runtime.pipeline.config import PipelineConfig, load_config

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md")), ROOT / "jetson" / "README.md"]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


def commands() -> Iterator[Tuple[str, List[str]]]:
    """(page and command, words after `edgedla`) of each command in a block for a board."""
    for page in PAGES:
        for language, info, body in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "console" and "jetson" in info:
                shown = re.sub(r"\\?\n> ", " ", body)
                for line in re.findall(r"^\$ (.*)$", shown, re.M):
                    for part in re.split(r"\s*(?:&&|\|\||[;|])\s*", line):
                        words = shlex.split(part, comments=True)
                        if "edgedla" in words:
                            yield f"{page.relative_to(ROOT)}: {part}", words[words.index("edgedla") + 1 :]


@pytest.mark.parametrize(("where", "words"), [pytest.param(w, a, id=w) for w, a in commands()])
def test_commands_for_a_board_have_the_options_that_they_name(where: str, words: List[str]) -> None:
    command: click.Command = main
    context = click.Context(main, info_name="edgedla")
    while isinstance(command, click.Group):
        name, words = words[0], words[1:]
        found = command.get_command(context, name)
        assert found is not None, f"{where}: no command {name}"
        command = found
        context = click.Context(command, parent=context, info_name=name)
    words = [re.split(r"^\d?>", word)[0] for word in words]
    command.make_parser(context).parse_args([word for word in words if word])


def pipelines() -> Iterator[Tuple[str, str]]:
    """Parts of pipeline files, made whole where they show some keys only."""
    one = {"version": "1", "artifact": "a", "source": "synthetic://"}
    tracked = "{m: {artifact: a, track: bytetrack, decode: yolov8}}"
    several = {"version": "2", "sources": "{s: 'synthetic://'}", "models": tracked}
    keys = {f.name for f in dataclasses.fields(PipelineConfig)}
    for page in PAGES:
        for number, (language, _, body) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            shown = set(re.findall(r"^(\w+):", body, re.M))
            whole = several if "version: 2" in body or "each: object" in body else one
            if language == "yaml" and shown and shown <= keys | {"version"}:
                head = "".join(f"{key}: {value}\n" for key, value in whole.items() if key not in shown)
                yield f"{page.relative_to(ROOT)}#{number}", head + body


@pytest.mark.parametrize(("where", "text"), [pytest.param(w, t, id=w) for w, t in pipelines()])
def test_pipeline_files_shown_on_pages_are_valid(where: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    load_config(str(path))


def test_pages_hold_board_commands_and_pipelines() -> None:
    assert len(list(commands())) >= 20
    assert len(list(pipelines())) >= 4
