"""What is removed from a truth report, and what must stay readable."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Dict

import pytest

from edgedla.acceptance import redact
from edgedla.acceptance.archive import pack, unpack
from edgedla.acceptance.redact import Redactor
from edgedla.io.documents import header

pytestmark = pytest.mark.once


@pytest.fixture
def redactor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Redactor:
    """Of a user whose name is a word of the report, on a host with a domain."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Kamera7.werk.example")
    monkeypatch.setattr(redact, "_user", lambda: "steps")
    return Redactor(tmp_path, ("jürgen",))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("ssh to kamera7 failed", "ssh to <host> failed"),
        ("KAMERA7.werk.example: up", "<host>: up"),
        ("nameserver of werk.example", "nameserver of <host>"),
        ("inet6 fe80::4ab0:2dff:feaa:bbcc%eth0", "inet6 <address>%eth0"),
        ("[2001:db8::7]:22", "[<address>]:22"),
        ("2001:db8:0:1:2:3:4:5", "<address>"),
        ("at 12:34:56, ::1, nvinfer1::ILayer, std::a::b, 0x7f", "at 12:34:56, ::1, nvinfer1::ILayer, std::a::b, 0x7f"),
    ],
)
def test_addresses_and_host_names_are_redacted(redactor: Redactor, text: str, left: str) -> None:
    assert redactor(text) == left


def report_of(*steps: Dict[str, Any]) -> Dict[str, Any]:
    step = {"id": "P1", "title": "t", "state": "ok", "seconds": 1.0, "reason": "", "findings": []}
    return {**header("edgedla.acceptance"), "edgedla": "0.2.0", "quick": False, "steps": [{**step, **s} for s in steps]}


def test_tensorrts_version_of_four_numbers_is_no_address(redactor: Redactor, tmp_path: Path) -> None:
    """10.3.0.30 would be an address of a private network as well."""
    finding = {"expected": None, "differs": False, "source": "", "data": {"tensorrt": "10.3.0.30"}}
    findings = [{**finding, "name": "TensorRT", "seen": "10.3.0.30"}, {**finding, "name": "power rails", "seen": "10.3.0.31"}]
    folder = tmp_path / "run"
    folder.mkdir()
    report = report_of({"id": "P2", "findings": findings})
    (folder / "report.json").write_text(json.dumps(report))
    pack(folder, tmp_path / "truth.tar.gz", redactor)
    (step,) = unpack(tmp_path / "truth.tar.gz")[0]["steps"]
    assert [f["seen"] for f in step["findings"]] == ["10.3.0.30", "<address>"]
    assert step["findings"][0]["data"] == {"tensorrt": "10.3.0.30"}


def test_redacted_documents_stay_valid(redactor: Redactor, tmp_path: Path) -> None:
    """A user may be called as a key of ours, or have a letter that JSON writes as a number."""
    data = {"reason": "jürgen: steps ran", "serial": "1425", "machine_id": None, "kamera7/x": 1.5, "n": [True, "::1"]}
    finding = {"name": "n", "expected": None, "seen": "x", "differs": False, "source": "", "data": data}
    document = report_of({"findings": [finding]})
    folder = tmp_path / "run"
    (folder / "files").mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(document))
    (folder / "files" / "cut.json").write_text('{"by": "steps')
    pack(folder, tmp_path / "truth.tar.gz", redactor)
    report, members = unpack(tmp_path / "truth.tar.gz")
    assert report["steps"][0]["findings"][0]["data"] == {
        "reason": "<name>: <user> ran",
        "serial": "<serial>",
        "machine_id": None,
        "<host>/x": 1.5,
        "n": [True, "::1"],
    }
    assert members["files/cut.json"] == b'{"by": "<user>'
