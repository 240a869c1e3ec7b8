"""What `board setup` sends and decides, and what ssh is started with, without a board: each row is a state and its answer."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import subprocess
import zipfile
from dataclasses import replace
from email.message import Message
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Tuple

import pytest

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.remote import boards, setup, ssh
from edgedla.remote.address import parse_address
from edgedla.remote.boards import BoardState, state_of
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.wheel import write_wheel

pytestmark = pytest.mark.once

BOARD = BoardEntry("orin1", parse_address("ana@10.0.0.7:2222"))
STATE = BoardState("3.10.12", "aarch64", "2.35", "ana", 1, "edgedla", "0.2", "# R36 (release), REVISION: 4.3", None)


@pytest.mark.parametrize(
    ("l4t", "python"),
    [
        ("# R35 (release)", "3.8"),
        ("# R36 (release)", "3.10"),
        ("# R38 (release)", "3.12"),
        ("# R32 (release)", ""),
        ("# R3 (release)", ""),
        ("# R366 (release)", ""),
        ("R36 (release)", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_only_jetpacks_with_a_known_python_are_set_up(l4t: Any, python: str) -> None:
    state = replace(STATE, l4t=l4t)
    if python:
        assert setup.python_of(state, BOARD) == python
        return
    with pytest.raises(EnvironmentMissing, match="not a Jetson with JetPack 5, 6 or 7") as e:
        setup.python_of(state, BOARD)
    assert ("missing" in str(e.value)) is (not l4t)


@pytest.mark.parametrize(
    ("glibc", "machine", "newest"),
    [
        ("2.17", "aarch64", "manylinux_2_17_aarch64"),
        ("2.35", "x86_64", "manylinux_2_35_x86_64"),
        ("2.16", "aarch64", "manylinux2014_aarch64"),
        ("3.0", "aarch64", ""),
        ("2.1000", "aarch64", ""),
        ("2.35x", "aarch64", ""),
        ("", "aarch64", ""),
        ("2.35", "", ""),
        ("2.35", "a" * 21, ""),
        ("2.35", "a/b", ""),
    ],
)
def test_tags_of_wheels_follow_glibc_and_machine(glibc: str, machine: str, newest: str) -> None:
    state = replace(STATE, glibc=glibc, machine=machine)
    if newest:
        assert setup.platforms_of(state)[0] == newest
    else:
        with pytest.raises(EnvironmentMissing, match="are not known"):
            setup.platforms_of(state)


@pytest.mark.parametrize(
    ("rc", "options", "differs", "says"),
    [
        (0, (), ("rules",), True),
        (0, ("--dry-run",), ("rules",), False),
        (1, (), ("rules",), False),
        (0, (), (), False),
        (0, ("--no-packages",), ("rules", "code"), True),
    ],
)
def test_after_a_setup_a_board_that_still_runs_other_code_is_named(
    monkeypatch: pytest.MonkeyPatch, rc: int, options: Tuple[str, ...], differs: Tuple[str, ...], says: bool
) -> None:
    asked = requests(monkeypatch, rc)
    said: List[str] = []
    states = iter((STATE, replace(STATE, differs=differs)))
    monkeypatch.setattr(setup, "state_of", lambda board: next(states))
    monkeypatch.setattr(setup, "write_wheel", lambda folder: _file(folder / "edgedla-0.2-py3-none-any.whl"))
    ended = setup.set_up(BOARD, options, SimpleNamespace(say=said.append), wait_s=3.0)  # type: ignore[arg-type]
    assert ended.rc == rc
    assert bool(said) is says
    assert all(word in "".join(said) for word in (*differs, "board orin1", "edgedla board add") if says)
    (request,) = asked
    assert request.argv == ("in/jetson/setup.sh", "--wheel", "in/edgedla-0.2-py3-none-any.whl", *options)
    assert (request.program, request.wait_s) == ("/bin/bash", 3.0)
    assert {"edgedla-0.2-py3-none-any.whl", "jetson/setup.sh"} <= {file.path for file in request.files}


def requests(monkeypatch: pytest.MonkeyPatch, rc: int) -> List[Any]:
    """What the setup asks the board for; each request ends with `rc`."""
    asked: List[Any] = []

    def run_on(board: BoardEntry, request: Any, terminal: Any) -> SimpleNamespace:
        asked.append(request)
        return SimpleNamespace(rc=rc)

    monkeypatch.setattr(setup, "run_on", run_on)
    return asked


def _file(path: Path) -> Path:
    path.write_bytes(b"w")
    return path


def test_an_offline_setup_downloads_for_the_boards_python_and_sends_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: List[List[str]] = []

    def pip(command: List[str], **options: Any) -> Any:
        commands.append(command)
        _file(Path(command[command.index("--dest") + 1]) / "numpy.whl")
        return subprocess.CompletedProcess(command, 0, "", "")

    asked = requests(monkeypatch, 0)
    monkeypatch.setattr(setup, "state_of", lambda board: STATE)
    monkeypatch.setattr(setup.subprocess, "run", pip)
    monkeypatch.setattr(setup, "write_wheel", lambda folder: _file(folder / "e.whl"))
    setup.set_up(BOARD, (), SimpleNamespace(say=lambda text: None), offline=True)  # type: ignore[arg-type]
    (command,) = commands
    assert command[command.index("--python-version") + 1] == "3.10"
    assert "--platform=manylinux_2_35_aarch64" in command
    assert asked[0].argv[-2:] == ("--wheels", "in/wheels")
    assert "wheels/numpy.whl" in {file.path for file in asked[0].files}


@pytest.mark.parametrize(("code", "refused"), [(0, False), (1, True)])
def test_a_download_that_fails_is_told_with_pips_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, refused: bool
) -> None:
    done = subprocess.CompletedProcess([], code, "", "x" * 600 + "no such wheel")
    monkeypatch.setattr(setup.subprocess, "run", lambda *words, **options: done)
    if not refused:
        setup.download(tmp_path / "e.whl", "3.10", STATE, tmp_path)
        return
    with pytest.raises(EnvironmentMissing, match="no such wheel") as e:
        setup.download(tmp_path / "e.whl", "3.10", STATE, tmp_path)
    assert "x" * 488 not in str(e.value)


# --- The wheel


def test_a_wheel_says_what_it_holds_and_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    about = Message()
    for key, value in (("Requires-Python", ">=3.8"), ("Provides-Extra", "torch"), ("Provides-Extra", "sweep")):
        about[key] = value
    monkeypatch.setattr(metadata, "metadata", lambda name: about)
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy>=1.20", "torch; extra == 'torch'"])
    with zipfile.ZipFile(write_wheel(tmp_path)) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist()}
        assert len({info.date_time for info in wheel.infolist()}) == 1
    (record,) = (name for name in held if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(io.StringIO(held[record].decode())))
    assert {row[0] for row in rows} == set(held)
    for name, digest, size in rows:
        if name == record:
            assert (digest, size) == ("", "")
            continue
        hashed = base64.urlsafe_b64encode(hashlib.sha256(held[name]).digest()).decode().rstrip("=")
        assert (digest, int(size)) == (f"sha256={hashed}", len(held[name]))
    lines = held[record.replace("RECORD", "METADATA")].decode().splitlines()
    assert lines[:2] == ["Metadata-Version: 2.1", "Name: edgedla"]
    assert lines[3:8] == [
        "Requires-Python: >=3.8",
        "Provides-Extra: torch",
        "Provides-Extra: sweep",
        "Requires-Dist: numpy>=1.20",
        "Requires-Dist: torch; extra == 'torch'",
    ]
    assert held[record.replace("RECORD", "WHEEL")].decode().splitlines()[-2:] == ["Root-Is-Purelib: true", "Tag: py3-none-any"]
    assert b"edgedla = edgedla.cli.main:run\n" in held[record.replace("RECORD", "entry_points.txt")]


# --- ssh's words


@pytest.mark.parametrize(
    ("said", "words"),
    [(None, ["ssh"]), ("", ["ssh"]), ("sh -F 'a b'", ["sh", "-F", "a b"]), ("'", None), ("no-such-ssh -F x", None)],
)
def test_the_program_of_the_variable_is_started_or_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: Any, words: Any
) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(ssh, "_settings", lambda base, target: {})
    monkeypatch.delenv(ssh.SSH_VARIABLE, raising=False)
    if said is not None:
        monkeypatch.setenv(ssh.SSH_VARIABLE, said)
    if words is None:
        with pytest.raises((UsageError, EnvironmentMissing), match="not a command|there is no no-such-ssh"):
            ssh.ssh_command(BOARD.address, "true")
        return
    command = ssh.ssh_command(BOARD.address, "true")
    assert command[: len(words)] == words
    assert command[-7:] == ["-l", "ana", "-p", "2222", "--", "10.0.0.7", "true"]
    assert "-oStrictHostKeyChecking=yes" not in command


@pytest.mark.parametrize(
    ("settings", "strict"),
    [
        ({}, False),
        ({"stricthostkeychecking": "no"}, True),
        ({"stricthostkeychecking": "off"}, True),
        ({"stricthostkeychecking": "ask"}, False),
        ({"stricthostkeychecking": "false"}, True),
        ({"userknownhostsfile": "/dev/null"}, True),
        ({"globalknownhostsfile": "/a /dev/null"}, True),
        ({"userknownhostsfile": "~/.ssh/known_hosts"}, False),
    ],
)
def test_keys_of_hosts_are_checked_whatever_the_users_settings(
    monkeypatch: pytest.MonkeyPatch, settings: Dict[str, str], strict: bool
) -> None:
    monkeypatch.setenv(ssh.SSH_VARIABLE, "sh")
    monkeypatch.setattr(ssh, "_settings", lambda base, target: settings)
    assert ("-oStrictHostKeyChecking=yes" in ssh.ssh_command(BOARD.address, "true")) is strict


# --- What a board says of itself


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ({"free_bytes": 5}, "free_bytes", 5),
        ({"free_bytes": "5"}, "free_bytes", 0),
        ({}, "free_bytes", 0),
        ({"python": "3.10"}, "python", "3.10"),
        ({"python": 3}, "python", ""),
        ({"machine": "aarch64"}, "machine", "aarch64"),
        ({"glibc": "2.35"}, "glibc", "2.35"),
        ({"user": "ana"}, "user", "ana"),
        ({"edgedla": "/opt/e"}, "edgedla", "/opt/e"),
        ({"version": "0.2"}, "version", "0.2"),
        ({}, "version", None),
        ({"l4t": "# R36"}, "l4t", "# R36"),
        ({}, "l4t", None),
    ],
)
def test_each_fact_of_a_board_has_its_own_place(
    monkeypatch: pytest.MonkeyPatch, said: Dict[str, Any], field: str, value: Any
) -> None:
    connection = SimpleNamespace(ask=lambda what, edgedla: said, close=lambda: None)
    monkeypatch.setattr(boards, "Connection", lambda board: connection)
    monkeypatch.setattr(boards, "other_parts", lambda theirs: [])
    assert getattr(state_of(BOARD), field) == value
