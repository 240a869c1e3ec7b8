"""A board whose edgedla has other code or data is told by digest, whatever its version says. Needs no SSH."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgedla.errors import EnvironmentMissing
from edgedla.identity import identity
from edgedla.remote.board_side.agent import _made_by
from edgedla.remote.job import _program, other_parts

pytestmark = pytest.mark.once

CONNECTION = SimpleNamespace(board=SimpleNamespace(name="orin1", edgedla=None), where="board orin1")


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def facts(**changes):
    return {"edgedla": "/opt/edgedla", "version": identity().version, "identity": identity().digests, **changes}


def test_the_board_tells_the_identity_of_its_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    version, parts = _made_by(script(tmp_path / "edgedla", f'exec {sys.executable} -m edgedla "$@"'))
    assert version == identity().version
    assert other_parts(parts) == []


def test_an_edgedla_of_0_1_tells_its_version_alone(tmp_path):
    old = script(tmp_path / "edgedla", '[ $# = 1 ] || { echo "no such option" >&2; exit 2; }\necho edgedla, version 0.1.0')
    assert _made_by(old) == ("0.1.0", {})
    assert other_parts({}) == ["code", "rules", "costs", "schemas"]


@pytest.mark.parametrize("text", ["exit 1", "kill $$", "true"])
def test_an_edgedla_that_does_not_start_tells_nothing(tmp_path, text):
    assert _made_by(script(tmp_path / "edgedla", text)) == (None, {})


def test_the_same_code_and_data_may_run(tmp_path):
    assert _program(facts(), CONNECTION) == "/opt/edgedla"
    # The commit of a copy without git is not known; its files are the same.
    assert _program(facts(version="0.2.0.dev0+unknown"), CONNECTION) == "/opt/edgedla"


@pytest.mark.parametrize("part", ["code", "rules", "costs", "schemas"])
def test_other_code_or_data_of_the_same_version_is_refused(part):
    other = facts(identity={**identity().digests, part: "0" * 12})
    with pytest.raises(EnvironmentMissing, match=f"they differ in {part}") as e:
        _program(other, CONNECTION)
    assert "edgedla board setup orin1" in str(e.value)


@pytest.mark.parametrize("told", [None, [], "x", {}, {"code": 1}])
def test_a_board_that_tells_no_digests_is_refused(told):
    with pytest.raises(EnvironmentMissing, match="differ in code, rules, costs, schemas"):
        _program(facts(identity=told), CONNECTION)
    with pytest.raises(EnvironmentMissing, match="does not start"):
        _program(facts(version=None, identity=told), CONNECTION)
