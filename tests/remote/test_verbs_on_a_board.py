"""Verbs with --board over a real sshd: files are sent once, results are verified, answers are the board's."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import click
import onnx
import pytest
from click.testing import CliRunner

from edgedla import load_artifact
from edgedla.cli.board_option import FILES, SHARED, BoardCommand, request_of, way_to_page
from edgedla.cli.main import main
from edgedla.cli.verbs import VERBS
from edgedla.remote.address import parse_address
from tests.models import node, ones, onnx_model
from tests.remote.loopback import MODEL

pytestmark = pytest.mark.once


def build(laptop, *words, model=MODEL, out="art"):
    return laptop.edgedla("build", model, "-o", out, "--backend", "host", "--board", "orin1", *words)


def test_a_build_on_a_board_is_fetched_like_a_local_one(laptop):
    done = build(laptop)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("built     art (SIMULATED, host backend)\n"), "the user's path, not the board's"
    assert "building with the host backend" in done.stderr, "progress comes too"
    artifact = load_artifact(laptop.folder / "art", model=MODEL)
    assert artifact.board == {
        "model": "NVIDIA Jetson AGX Orin Developer Kit",
        "target": "agx-orin-64gb",
        "l4t": "36.4.3",
        "jetpack": "6.2",
        "power_mode": "MODE_30W",
        "clocks_mhz": {"gpu": 624.8},
    }
    assert artifact.platform["target"] == "agx-orin-64gb", "the board's module is the default"
    assert not list(laptop.folder.glob(".*.part"))
    again = build(laptop)
    assert "sent" not in again.stderr, "a content that the board has is not sent again"
    assert load_artifact(laptop.folder / "art").digest == artifact.digest


def test_weights_in_external_files_go_along(laptop):
    model = onnx_model([node("Conv", "x w", "y")], outputs={"y": (1, 8, 6, 6)}, constants=[ones("w", 8, 3, 3, 3)])
    path = laptop.folder / "m.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    done = build(laptop, model=path)
    assert done.returncode == 0, done.stderr
    assert "2 files" in done.stderr
    assert list(load_artifact(laptop.folder / "art").model["external"]) == ["w.bin"]


@pytest.mark.long
def test_bench_run_and_inspect_send_inputs_and_fetch_outputs(laptop):
    assert build(laptop).returncode == 0
    done = laptop.edgedla(
        "bench", "art", "--board", "orin1", "--duration", "0.05", "--exportTimes", "t/times.json", "-o", "bench.json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((laptop.folder / "bench.json").read_text())["results"][0]["simulated"] is True
    assert (laptop.folder / "t/times.json").is_file()
    (laptop.folder / "p.yaml").write_text(
        "version: 1\nartifact: art\nsource: {uri: 'synthetic://'}\nstop_after: {frames: 3}\ndecode: {kind: none}\n"
    )
    done = laptop.edgedla("run", "p.yaml", "--board", "orin1", "--jsonl", "results.jsonl")
    assert done.returncode == 0, done.stderr
    assert len((laptop.folder / "results.jsonl").read_text().splitlines()) >= 1
    done = laptop.edgedla("inspect", f"board:{laptop.boards['orin1'].root}/none", "--board", "orin1")
    assert done.returncode == 3, "a path of the board is not looked for here"
    done = laptop.edgedla("inspect", "missing.json", "--board", "orin1")
    assert (done.returncode, "no such file" in done.stderr) == (3, True)


def test_exit_codes_and_errors_of_the_board_are_passed_on(laptop):
    (laptop.folder / "broken.onnx").write_bytes(b"no model")
    done = build(laptop, model="broken.onnx")
    assert done.returncode == 3
    assert "broken.onnx" in done.stderr
    assert "in/1/" not in done.stderr
    assert not (laptop.folder / "art").exists(), "nothing half-written"
    done = build(laptop, "--precision", "fp64")
    assert done.returncode == 2, "wrong use is found before a connection is made"


def test_shell_metacharacters_in_arguments_are_not_interpreted(laptop, tmp_path):
    nasty = laptop.folder / "a'; touch pwned; $(touch pwned) `id`.onnx"
    nasty.write_bytes(MODEL.read_bytes())
    done = build(laptop, "--layer-devices", "$(touch pwned)*:GPU", model=nasty, out="o; touch pwned")
    assert "pwned" not in " ".join(str(p) for p in laptop.boards["orin1"].folder.rglob("pwned"))
    assert done.returncode in (0, 2, 5), done.stderr
    assert not (laptop.folder / "pwned").exists()
    done = build(laptop, model=nasty, out="o; touch pwned")
    assert done.returncode == 0, done.stderr
    assert load_artifact(laptop.folder / "o; touch pwned", model=nasty)


def test_non_ascii_file_names_work_on_a_board_with_c_locale(new_laptop, tmp_path):
    laptop = new_laptop()
    laptop.add("orin1", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    model = tmp_path / "nétwörk 測.onnx"
    shutil.copy(MODEL, model)
    built = laptop.edgedla("build", model, "-o", "ärt", "--backend", "host", "--board", "orin1")
    assert built.returncode == 0, built.stderr
    assert "ärt" in built.stdout
    assert load_artifact(laptop.folder / "ärt", model=model)
    assert "build nétwörk 測.onnx" in laptop.edgedla("board", "jobs", "orin1").stdout


def test_another_version_on_the_board_is_refused(laptop):
    board = laptop.boards["orin1"]
    board.edgedla.write_text("#!/bin/sh\necho edgedla, version 0.0.1\n")
    done = build(laptop)
    assert done.returncode == 4
    assert "the board runs edgedla 0.0.1" in done.stderr
    assert "edgedla board setup orin1" in done.stderr
    board.edgedla.unlink()
    assert "edgedla is not installed on the board" in build(laptop).stderr


@pytest.mark.parametrize(
    ("words", "exclusive"),
    [
        (["doctor"], False),
        (["doctor", "--deep", "-o", "t.tar.gz"], True),
        (["doctor", "--deep", "--quick", "-o", "t.tar.gz"], True),
        (["monitor", "--count", "1"], False),
        (["bench", "board:art"], True),
    ],
)
def test_commands_that_build_or_measure_take_the_board_exclusively(words, exclusive):
    """Two who measure at once measure each other."""
    command = main.get_command(None, words[0])
    given, _, _ = command.make_parser(click.Context(command)).parse_args(args=words[1:])
    assert request_of(command, given).exclusive is exclusive


def test_every_option_that_names_a_file_is_known():
    """An option that nobody wrote into the table would name a file of the laptop on the board."""
    for verb, table in FILES.items():
        command = main.get_command(None, verb)
        assert isinstance(command, BoardCommand), verb
        names = {p.name for p in command.params}
        assert set(table) <= names
        for param in command.params:
            metavar = (param.metavar or "").upper()
            if any(word in metavar for word in ("FILE", "FOLDER", "PATH", "ARTIFACT", "MODEL.ONNX")):
                assert param.name in table, f"{verb}: {param.name} {metavar}"
    assert set(SHARED) <= set(FILES) <= set(VERBS)


def test_wait_without_a_board_is_wrong_use():
    done = CliRunner().invoke(main, ["doctor", "--wait", "3"])
    assert "with --board" in str(done.exception)


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "a b", "host:99999", "u$er@host", "host;id", "@h", "", "[::1", "-"])
def test_invalid_addresses_for_board_are_usage_errors(laptop, text):
    done = laptop.edgedla("doctor", f"--board={text}")
    assert done.returncode == 2, done.stderr


def test_python_38_on_the_board(new_laptop):
    old = Path(os.path.expanduser("~/.pyenv/versions/3.8.18/bin/python"))
    if not old.exists():
        pytest.skip("no Python 3.8 on this machine")
    laptop = new_laptop()
    board = laptop.add("orin1")
    # The connection's side under 3.8; the verb's own side under 3.8 is what the suite under 3.8 shows.
    text = (laptop.folder / "boards.yaml").read_text().splitlines()
    (laptop.folder / "boards.yaml").write_text("\n".join(f"    python: {old}" if "python:" in t else t for t in text))
    done = build(laptop)
    assert done.returncode == 0, done.stderr
    assert board.jobs.is_dir()


@pytest.mark.parametrize(
    ("view", "told"),
    [
        ("8080", "ssh -N -L 8080:127.0.0.1:8080 -p 2222 nvidia@10.0.0.5"),
        ("[::1]:8080", "ssh -N -L 8080:[::1]:8080 -p 2222 nvidia@10.0.0.5"),
        ("0.0.0.0:8080", ""),
        (None, ""),
    ],
)
def test_the_way_to_a_page_that_the_board_serves_to_itself_is_told(view, told):
    way = way_to_page(view, parse_address("nvidia@10.0.0.5:2222"))
    assert way.endswith(told)
    assert bool(way) == bool(told)
