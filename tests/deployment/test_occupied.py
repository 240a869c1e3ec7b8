"""Two deployments into one folder at once: equal requests share it, a different one is refused before it writes anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Optional

import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.deployment.deploy import WORK
from edgedla.deployment.occupied import LOCK, key_of, occupied
from edgedla.deployment.request import DeployRequest
from edgedla.errors import BuildError, EdgedlaError, EnvironmentMissing, ModelError, UsageError

pytest.importorskip("fcntl")
TARGET: Dict[str, Any] = {"target": "agx-orin-64gb", "backend": "host", "place": "dla"}
REQUEST = DeployRequest(level=0, **TARGET)
#: Holds the folder as a deployment with this key does, says so, and waits for its standard input to end.
HOLDER = """
import sys
from pathlib import Path
from edgedla.deployment.occupied import occupied
with occupied(Path(sys.argv[1]), sys.argv[2], False):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(work: Path, key: str) -> subprocess.Popen:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(work), key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_another_request_into_a_busy_folder_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    holder = hold(out / WORK, key_of(model, None, REQUEST))
    try:
        before = sorted(p.name for p in out.rglob("*"))
        command = ["deploy", str(model), "--target", "agx-orin-64gb", "--backend", "host", "--level", "1", "-o", str(out)]
        assert exit_code_of(command) == BuildError.exit_code
        said = capsys.readouterr().err
        assert f"{out}: another deployment is writing into this folder" in said
        assert sorted(p.name for p in out.rglob("*")) == before
    finally:
        holder.kill()
        holder.communicate()
    # The lock of a killed process is gone.
    assert exit_code_of(command) == 0


def test_the_same_request_shares_a_busy_folder_unless_fresh(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    holder = hold(out / WORK, key_of(model, None, REQUEST))
    try:
        assert edgedla.deploy(model, out, request=REQUEST).accepted
        with pytest.raises(BuildError, match="fresh"):
            edgedla.deploy(model, out, request=REQUEST, fresh=True)
    finally:
        holder.communicate("")
    assert edgedla.deploy(model, out, request=REQUEST, fresh=True).accepted


def test_the_request_key_depends_on_options_and_model_content(model: Path) -> None:
    first = key_of(model, None, REQUEST)
    assert first == key_of(str(model), None, DeployRequest(level=0, **TARGET))
    assert first != key_of(model, None, DeployRequest(level=1, **TARGET))
    model.write_bytes(model.read_bytes() + b"\0")
    assert first != key_of(model, None, REQUEST)
    assert key_of(b"model", None, REQUEST) != key_of(b"model", None, REQUEST)


def test_a_deployment_of_an_invalid_model_leaves_no_folder(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelError):
        edgedla.deploy(broken, tmp_path / "above" / "out", request=REQUEST)
    assert [p.name for p in tmp_path.iterdir()] == ["broken.onnx"]


@pytest.mark.parametrize(
    "wrong", [{"data": "nosuch.npz"}, {"power_mode": "nope"}, {"devices": "DLA5"}, {"data": "random", "metric": "no:one"}]
)
def test_a_deployment_with_a_wrong_request_leaves_no_folder(wrong: Dict[str, Any], model: Path, tmp_path: Path) -> None:
    request = {"target": "agx-orin-64gb", "backend": "host", **wrong}
    with pytest.raises(EdgedlaError):
        edgedla.deploy(model, tmp_path / "out", **request)
    assert not (tmp_path / "out").exists()
    # What was there before stays.
    edgedla.deploy(model, tmp_path / "out", request=REQUEST)
    before = sorted(p.name for p in (tmp_path / "out").rglob("*"))
    with pytest.raises(EdgedlaError):
        edgedla.deploy(model, tmp_path / "out", **request)
    assert sorted(p.name for p in (tmp_path / "out").rglob("*")) == before


def test_an_unusable_work_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="a part of this path is a file"), occupied(tmp_path / "file" / WORK, "k", False):
        pass
    (tmp_path / "out" / WORK).mkdir(parents=True)
    (tmp_path / "out" / WORK / LOCK).symlink_to(tmp_path / "file")
    with pytest.raises(EnvironmentMissing, match="cannot write"), occupied(tmp_path / "out" / WORK, "k", False):
        pass
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("name", ["max_drop", "approximate", "budget_s", "max_latency_us"])
@pytest.mark.parametrize("value", ["1", float("nan"), -1])
def test_numeric_fields_of_a_request_refuse_other_types(name: str, value: Any) -> None:
    with pytest.raises(UsageError):
        DeployRequest("orin", level=3, **{name: value})


@pytest.mark.parametrize(
    ("field", "value", "option", "typed"),
    [
        ("level", 9, "--level", "9"),
        ("max_drop", -1.0, "--max-drop", "-1"),
        ("budget_s", -5, "--budget", None),
        ("max_latency_us", -5, "--max-latency", "-5"),
        ("holdout", "h.npz", "--holdout", "h.npz"),
    ],
)
def test_errors_name_the_field_in_python_and_the_option_on_the_command_line(
    field: str, value: Any, option: str, typed: Optional[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(UsageError) as error:
        DeployRequest("orin", **{field: value})
    assert error.value.where == field
    if typed is not None and field != "level":
        assert exit_code_of(["deploy", str(tmp_path / "m.onnx"), f"{option}={typed}", "-o", str(tmp_path / "o")]) == 2
        assert capsys.readouterr().err.startswith(f"edgedla: error: {option}: ")


def test_an_error_of_approximate_rewrites_is_for_level_3_only() -> None:
    assert DeployRequest("orin", level=3).approximate == 0.03
    assert DeployRequest("orin", level=2).approximate is None
    for level in (None, 0, 1, 2):
        with pytest.raises(UsageError, match=r"approximate: level \d makes no approximate rewrites \(allowed: with level 3\)"):
            DeployRequest("orin", level=level, approximate=0.03)
