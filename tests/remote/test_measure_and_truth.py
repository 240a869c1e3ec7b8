"""What `board report` does with a board's files, with a stand-in for the board; and parts of the connection's plain Python."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import onnx
import pytest

from edgedla.builder.building import build
from edgedla.builder.request import BuildRequest
from edgedla.errors import ModelError, RunError
from edgedla.remote import boards, client, measure, ssh, truth
from edgedla.remote.address import parse_address
from edgedla.remote.board_side import jobs, lock
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.job import Ended, Request
from edgedla.remote.measure import Measured, measure_on
from edgedla.remote.results import staging_of
from edgedla.remote.transfer import model_files
from edgedla.targets import platform_for
from tests.frozen import changeable
from tests.hostile.commands import small_model

BOARD = BoardEntry("orin1", parse_address("127.0.0.1"))
RESULT: Dict[str, Any] = {
    "runner": "DLA0",
    "simulated": True,
    "mean_ms": 1.5,
    "throughput_qps": 600.0,
    "percentiles_ms": {"50": 1.5},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "secret.onnx"
    onnx.save(small_model(), str(path))
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> Any:
    return build(model, model.parent / "artifact", BuildRequest(target="agx-orin-64gb", trt="10.3", backend="host"))


@pytest.fixture
def asked(artifact: Any, monkeypatch: pytest.MonkeyPatch) -> List[Request]:
    """The requests to a board that builds `artifact` and measures RESULT."""
    requests: List[Request] = []

    def run_on(board: Any, request: Request, terminal: Any) -> Ended:
        requests.append(request)
        if request.argv[0] == "build":
            shutil.copytree(artifact.folder, request.slots["0/artifact"])
        else:
            request.slots["0/bench.json"].write_text(json.dumps({"results": [RESULT]}))
        return Ended("1", 0, ())

    monkeypatch.setattr(measure, "run_on", run_on)
    return requests


def test_a_model_is_built_and_measured_on_the_board(asked: List[Request], artifact: Any, model: Path, tmp_path: Path) -> None:
    measured = measure_on(BOARD, model, tmp_path / "out", what="sweep", build=("--fp16",), bench=("--streams=2",))
    assert [r.argv for r in asked] == [
        ("build", "--fp16", "--output=out/0/artifact", "--", "in/1/model.onnx"),
        ("bench", "--streams=2", "--format=json", "--output=out/0/bench.json", "--", "in/1/artifact"),
    ]
    assert [f.path for f in asked[0].files] == ["1/model.onnx"]
    assert "1/artifact/manifest.json" in {f.path for f in asked[1].files}
    assert (measured.artifact.digest, measured.result, measured.profile) == (artifact.digest, RESULT, None)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"results": []}', '{"results": [{"mean_ms": 1}]}', '{"results": [{"mean_ms": "x"}]}']
)
def test_a_measurement_that_cannot_be_read_is_told(
    asked: List[Request], model: Path, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = measure.run_on

    def broken(board: Any, request: Request, terminal: Any) -> Ended:
        ended = answers(board, request, terminal)
        if "0/bench.json" in request.slots:
            request.slots["0/bench.json"].write_text(text)
        return ended

    monkeypatch.setattr(measure, "run_on", broken)
    with pytest.raises(RunError, match="what the board measured cannot be read"):
        measure_on(BOARD, model, tmp_path / "out", what="sweep")


def report(artifact: Any, model: Path, hash_names: bool = False, **changes: Any) -> Dict[str, Any]:
    return truth.model_report(model, Measured(replace(artifact, **changes), {"results": [RESULT]}), hash_names)


def test_a_report_counts_layers_that_tensorrt_placed_otherwise(artifact: Any, model: Path) -> None:
    planned = dict(artifact.placement_predicted)
    first = next(name for name, device in planned.items() if device == "DLA0")
    found = report(artifact, model, placement_real={**planned, first: "GPU"})
    assert {x["planned"] for x in found["layers"]} == {"DLA0", "GPU"}
    assert [(x["planned"], x["placed"]) for x in found["layers"] if x["planned"] != x["placed"]] == [("DLA0", "GPU")]
    assert (found["moved"], found["mode"], found["precision"]) == (1, "hybrid", "fp16")
    assert report(artifact, model, placement_real=planned)["moved"] == 0
    # Nothing is known of where it ran.
    assert report(artifact, model)["moved"] == 0


def test_a_report_counts_verdicts_that_tensorrt_contradicts(artifact: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert report(artifact, model)["contradicted"] == 0
    verdicts = truth._verdicts(Measured(artifact, {}))
    name, verdict = next(iter(verdicts.items()))
    for answer, count in ((verdict, 0), ("other", 1)):
        monkeypatch.setattr(truth, "_answers", lambda _, answer=answer: {name: answer})
        assert report(artifact, model)["contradicted"] == count


def test_a_report_states_the_boards_release_and_mode_and_nothing_that_identifies_it(artifact: Any, model: Path) -> None:
    facts = {
        "l4t": "36.4.3",
        "jetpack": "6.1",
        "power_mode": "MAXN",
        "clocks_mhz": {"gpu": 1300.5},
        "serial": "1421",
        "host": "lab7",
    }
    assert report(artifact, model, board=facts)["board"] == {
        "l4t": "36.4.3",
        "jetpack": "6.1",
        "power_mode": "MAXN",
        "clocks_mhz": {"gpu": 1300.5},
        "target": "agx-orin-64gb",
        "trt": "10.3.0",
    }
    assert report(artifact, model)["board"]["target"] == "agx-orin-64gb"


def test_names_stand_in_a_report_as_hashes_or_not_at_all(artifact: Any, model: Path) -> None:
    assert "secret" not in json.dumps(report(artifact, model))
    hashed = report(artifact, model, hash_names=True)
    assert hashed["model"] == hashlib.sha256(b"secret.onnx").hexdigest()[: truth.HASH_DIGITS]
    assert len({x["name"] for x in hashed["layers"]}) == len(hashed["layers"]) > 0


@pytest.mark.parametrize("place", ["/etc/passwd", "../outside.bin", "a/../../b"])
def test_weights_outside_the_models_folder_are_not_sent(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedla.importers.model_file.model_identity.model_identity", lambda path: {"external": {place: "00"}})
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match="weights outside the model's folder"):
        model_files(tmp_path / "m.onnx", "1/model.onnx")


def test_a_job_that_left_nothing_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDLA_BOARD_HOME", str(tmp_path))
    for name in ("a", "b"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
    (tmp_path / "jobs/b/job.json").write_text(json.dumps({"id": "b", "kind": "run", "owner": "ana", "what": "w", "started": 1.0}))
    assert [entry["id"] for entry in jobs.listing()] == ["b"]


def test_a_job_lives_while_a_process_holds_its_file(tmp_path: Path) -> None:
    assert not jobs._alive(str(tmp_path))
    (tmp_path / "alive").touch()
    assert not jobs._alive(str(tmp_path))
    with open(tmp_path / "alive") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert jobs._alive(str(tmp_path))


def test_every_user_may_take_the_lock_and_nobody_may_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path))
    before = os.umask(0o077)
    try:
        os.close(lock._open("board"))
    finally:
        os.umask(before)
    assert (tmp_path / "tmp/edgedla-board.lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("set_", [True, False])
def test_the_state_folder_follows_xdg_or_stands_below_home(set_: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state") if set_ else "")
    assert client.state_folder() == tmp_path / ("state" if set_ else ".local/state") / "edgedla"


def test_results_for_a_pipe_are_collected_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert staging_of(tmp_path / "pipe", "j", "0/x") == tmp_path / "state/edgedla/jobs/j.0.part"
    for name in ("file", "folder"):
        assert staging_of(tmp_path / name, "j", "0/x") == tmp_path / f".{name}.j.0.part"


def test_a_jobs_start_is_told_on_this_clock() -> None:
    now = time.time()
    (job,) = boards._jobs([{"id": "a", "started": now + 100.0}], boards._clock_off_s({"now": now + 100.0}))
    assert abs(job.started - now) < 5
    (unknown,) = boards._jobs([{"id": "a", "started": "yesterday"}], 100.0)
    assert unknown.started == 0.0


def test_settings_of_a_host_are_asked_of_ssh_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: List[List[str]] = []

    def answers(command: List[str], **options: Any) -> Any:
        commands.append(command)
        return SimpleNamespace(stdout="hostname 10.0.0.7\ncontrolpath none\n")

    monkeypatch.setattr(subprocess, "run", answers)
    assert ssh._settings(("ssh",), ("--", "orin1")) == {"hostname": "10.0.0.7", "controlpath": "none"}
    assert commands == [["ssh", "-G", "--", "orin1"]]


@pytest.mark.parametrize("option", ["BatchMode=yes", "ClearAllForwardings=yes", "RemoteCommand=none", "PermitLocalCommand=no"])
def test_a_connection_asks_nothing_forwards_nothing_and_runs_nothing_else(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the user's ssh_config says of the host."""
    monkeypatch.setattr(ssh, "_base", lambda: ["ssh"])
    monkeypatch.setattr(ssh, "_settings", lambda base, target: {})
    words = ssh.ssh_command(parse_address("orin1"), "true")
    assert f"-o {option}" in " ".join(words).replace("-o" + option, f"-o {option}")


def test_what_a_board_said_cannot_be_changed_by_who_reads_it() -> None:
    assert changeable("remote") == set()


@pytest.mark.parametrize(
    ("board", "mode"),
    [
        ({"power_mode": "MODE_30W_ALL"}, "30W"),
        ({"power_mode": "MAXN"}, "MAXN"),
        ({"power_mode": "MODE_7W"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_what_is_measured_is_predicted_in_the_boards_own_power_mode(board: Any, mode: Optional[str]) -> None:
    measured: Any = SimpleNamespace(artifact=SimpleNamespace(board=board))
    assert truth._mode(measured, platform_for("agx-orin-64gb")) == mode
