"""Every command in README.md, docs/ and examples/ runs, ends with the exit code shown, and prints what is shown.

A ```console block holds commands behind `$ ` and their output. `...` in an output line stands for any text, a line `...`
for any lines. `$ echo $?` shows the exit code of the command before it; a command without one must end with 0. A block marked
`console python3.10` needs that Python or a newer one.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Tuple

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
#: The project's README runs in every suite, every other page with --long.
RUN_PAGES = [p if p.parent == ROOT else pytest.param(p, marks=pytest.mark.long) for p in PAGES]
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.M | re.S)
#: A page may say which programs its commands need beside edgedla: `<!-- needs: sshd -->`.
NEEDS = re.compile(r"<!-- needs: (.*?) -->")
#: Commands that set edgedla up, or that belong on a device; everything else in a code block must be a console block.
NOT_RUN = re.compile(r"^(pip install|python3? -m (pip|venv)|make |git clone|sudo |\.ci/run|#|$)")


@dataclass
class Step:
    command: str
    expected: List[str]
    line: int


def blocks(page: Path) -> List[Tuple[str, str, str, int]]:
    """(language, rest of the info line, body, line number) of each fenced block."""
    text = page.read_text(encoding="utf-8")
    return [(m[1], m[2].strip(), m[3], text[: m.start()].count("\n") + 2) for m in BLOCK.finditer(text)]


def steps(page: Path) -> List[Step]:
    found: List[Step] = []
    for language, info, body, line in blocks(page):
        if language != "console" or "jetson" in info or ("python3.10" in info and sys.version_info < (3, 10)):
            continue
        for offset, text in enumerate(body.splitlines()):
            if text.startswith("$ "):
                found.append(Step(text[2:], [], line + offset))
            elif found and found[-1].expected is not None and text.startswith("> "):
                found[-1].command += "\n" + text[2:]
            else:
                found[-1].expected.append(text)
    return found


def matches(expected: List[str], actual: List[str]) -> bool:
    """Whether the lines agree, `...` being any lines or any text within one."""
    if not expected:
        return not actual
    if expected[0].strip() == "...":
        return any(matches(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    if not actual:
        return False
    pattern = ".*".join(re.escape(part) for part in expected[0].rstrip().split("..."))
    return bool(re.fullmatch(pattern, actual[0].rstrip())) and matches(expected[1:], actual[1:])


@pytest.mark.parametrize(
    ("expected", "actual", "answer"),
    [
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b"], False),
        (["a ... c"], ["a b c"], True),
        ([], [], True),
        (["(x)"], ["x"], False),
    ],
)
def test_shown_output_is_matched_with_placeholders(expected: List[str], actual: List[str], answer: bool) -> None:
    assert matches(expected, actual) == answer


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_code_block_has_a_language_and_is_run_or_exempt(page: Path) -> None:
    for language, _, body, line in blocks(page):
        assert language, f"{page}:{line}: say which language this block is in"
        if language in ("sh", "bash", "shell"):
            for text in body.splitlines():
                assert NOT_RUN.match(text), f"{page}:{line}: {text!r} is a command: write it as a console block"


@pytest.mark.parametrize("page", RUN_PAGES, ids=name_of)
def test_python_blocks_of_pages_run(page: Path, tmp_path: Path) -> None:
    # ```python torch needs that library.
    known = [
        body
        for language, needs, body, _ in blocks(page)
        if language == "python" and all(map(importlib.util.find_spec, needs.split()))
    ]
    source = "\n".join(known)
    if source:
        copy_examples(tmp_path)
        done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", RUN_PAGES, ids=name_of)
def test_commands_of_pages_print_the_shown_output(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    wrong, actual = follow(page, tmp_path, Path(sys.executable).parent)
    if wrong and request.config.getoption("--update-golden"):
        update(page, steps(page), actual)
        return
    assert not wrong, "\n\n".join(wrong)


def follow(page: Path, tmp_path: Path, programs: Path) -> Tuple[List[str], Dict[int, List[str]]]:
    """Runs the commands of a page as a reader does; what differs from the page, and the output of the command in each line.

    Args:
        programs: folder with the `python` and `edgedla` that the commands mean.
    """
    needs = NEEDS.search(page.read_text(encoding="utf-8"))
    missing = [n for n in needs[1].split() if not shutil.which(n, path=f"{os.environ['PATH']}:/usr/sbin")] if needs else []
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    copy_examples(tmp_path)
    # Commands of an example run in its own folder, those of other pages at the root.
    folder = tmp_path / page.parent.relative_to(ROOT) if page.parent.parent == ROOT / "examples" else tmp_path
    wrong: List[str] = []
    actual: Dict[int, List[str]] = {}
    code = 0
    todo = steps(page)
    for number, step in enumerate(todo):
        shows_code = number + 1 < len(todo) and todo[number + 1].command.strip() == "echo $?"
        done = run(f"(exit {code}); {step.command}", folder, programs)
        output = done.stdout.splitlines()
        actual[step.line] = output
        if done.returncode != 0 and not shows_code:
            wrong.append(f"{page.name}:{step.line}: $ {step.command}\nended with {done.returncode}:\n{done.stdout}")
        elif not matches(step.expected, output):
            shown, found = "\n".join(step.expected), "\n".join(output)
            wrong.append(f"{page.name}:{step.line}: $ {step.command}\nshown:\n{shown}\nprinted:\n{found}")
        code = done.returncode
    return wrong, actual


def run(command: str, folder: Path, programs: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "100"}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=300,
    )


def copy_examples(folder: Path) -> None:
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))


def update(page: Path, todo: List[Step], actual: Dict[int, List[str]]) -> None:
    """Writes what was printed in place of what is shown; outputs with `...` are left to a person."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for step in sorted(todo, key=lambda s: -s.line):
        if any("..." in text for text in step.expected):
            continue
        first = step.line + step.command.count("\n")
        lines[first : first + len(step.expected)] = actual[step.line]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
