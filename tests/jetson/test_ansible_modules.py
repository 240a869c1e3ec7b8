"""The role's modules on boards whose files somebody changed, with a stand-in for Ansible."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Dict

import pytest

from tests.amounts import amount
from tests.hostile.values import bytes_changed, changed

LIBRARY = Path(__file__).resolve().parents[2] / "jetson/ansible/roles/edgedla/library"


class Ended(Exception):
    """The module gave its answer."""


def module_named(name: str, monkeypatch: pytest.MonkeyPatch, **params: Any) -> Any:
    """A module of the role whose parameters are given; `answer` runs it."""
    told: Dict[str, Any] = {}

    def exit_json(**answer: Any) -> None:
        told.update(answer)
        raise Ended

    standing = SimpleNamespace(params=params, check_mode=False, exit_json=exit_json)
    for package in ("ansible", "ansible.module_utils", "ansible.module_utils.basic"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    basic: Any = sys.modules["ansible.module_utils.basic"]
    basic.AnsibleModule = lambda **_: standing
    spec = importlib.util.spec_from_file_location(name, LIBRARY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def answer() -> Dict[str, Any]:
        with pytest.raises(Ended):
            module.main()
        return told

    module.answer = answer
    return module


MANIFEST = {
    "digest": "00",
    "model": {"name": "m"},
    "platform": {"target": "agx-orin-64gb"},
    "software": {"tensorrt": "10.3.0"},
    "simulated": False,
}
DOCTOR = {
    "checks": [
        {"name": "module", "state": "ok", "found": "agx-orin-64gb"},
        {"name": "DLA in this release", "state": "ok", "found": "2"},
    ]
}


@pytest.mark.parametrize("number", range(amount(60, 500)))
def test_facts_of_changed_documents_are_facts_or_nothing(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = module_named("edgedla_facts", monkeypatch)
    rng = random.Random(number)
    data = json.dumps(changed(MANIFEST, rng)).encode()
    (tmp_path / "manifest.json").write_bytes(bytes_changed(data, rng) if rng.random() < 0.3 else data)
    found = facts.manifest(str(tmp_path / "manifest.json"))
    assert found is None or set(found) == {"digest", "model", "target", "tensorrt", "simulated"}
    assert set(facts.read_doctor(json.dumps(changed(DOCTOR, rng)))) <= {"module", "jetpack", "tensorrt", "dla_ok"}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{}", "", "null", '{"checks": [{"name": "module", "state": "ok"}]}', '{"checks": ["module"]}']
)
def test_documents_of_another_form_hold_no_facts(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = module_named("edgedla_facts", monkeypatch)
    (tmp_path / "m").write_text(text)
    assert facts.manifest(str(tmp_path / "m")) is None
    assert facts.read_doctor(text) == {}


def test_a_pipe_in_place_of_a_manifest_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = tmp_path / "front/current/artifact"
    artifact.mkdir(parents=True)
    (tmp_path / "front/releases").mkdir()
    os.mkfifo(artifact / "manifest.json")
    facts = module_named("edgedla_facts", monkeypatch, venv=str(tmp_path), state=str(tmp_path)).answer()
    assert facts["ansible_facts"]["edgedla"]["pipelines"] == {"front": {"current": None, "releases": [], "artifact": None}}


@pytest.mark.parametrize("keep", [-1, 0, 1, 2, 9])
def test_only_old_folders_of_releases_are_removed(keep: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, files and the release that runs stay; where links point to stays, too."""
    releases, elsewhere = tmp_path / "releases", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for n in range(4):
        (releases / str(n)).mkdir(parents=True)
        os.utime(releases / str(n), (n, n))
    (releases / "file").touch()
    (releases / "link").symlink_to(elsewhere)
    (releases / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "current").symlink_to(releases / "1")
    told = module_named("edgedla_prune", monkeypatch, base=str(tmp_path), keep=keep).answer()
    removed = ["3", "2", "0"][max(keep - 1, 0) :]
    assert told == {"changed": bool(removed), "removed": removed}
    assert {p.name for p in releases.iterdir()} == {"0", "1", "2", "3", "file", "link", "broken"} - set(removed)
    assert elsewhere.is_dir()
