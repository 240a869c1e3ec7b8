"""Where `run` takes its sources from, and that other users cannot read an address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.cli.running.source_option import VARIABLE, sources_of
from edgedla.errors import DocumentError, UsageError
from edgedla.text.addresses import has_secret

ROOT = Path(__file__).resolve().parents[2]


def silent(line: str) -> None:
    raise AssertionError(line)


def test_a_sources_file_holds_one_source_per_line(tmp_path: Path) -> None:
    path = tmp_path / "cameras"
    path.write_text("\ufeff# the yard\nrtsp://u:p@cam/1\n\n  door=csi://0  \n", encoding="utf-8")
    assert sources_of((), str(path), silent) == ("rtsp://u:p@cam/1", "door=csi://0")


def test_sources_default_to_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources_of((), None, silent) == ()
    monkeypatch.setenv(VARIABLE, "rtsp://u:p@cam/1\ncsi://0")
    assert sources_of((), None, silent) == ("rtsp://u:p@cam/1", "csi://0")
    assert sources_of(("csi://1",), None, silent) == ("csi://1",)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe", b"x" * (1 << 20) + b"y"])
def test_an_invalid_sources_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cameras"
    path.write_bytes(content)
    with pytest.raises(DocumentError):
        sources_of((), str(path), silent)
    with pytest.raises(DocumentError, match="cannot read the sources"):
        sources_of((), str(tmp_path / "absent"), silent)


def test_sources_in_two_places_are_refused() -> None:
    with pytest.raises(UsageError, match="both"):
        sources_of(("csi://0",), "file", silent)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("rtsp://user:S3cret@cam/1", True),
        ("rtsp://cam/1?token=S3cret", True),
        ("http://cam/user=a_password=b", True),
        ("gst://rtspsrc location=rtsp://cam user-pw=S3cret ! appsink", True),
        ("rtsp://cam/1", False),
        ("/tmp/a@b.mp4", False),
        ("synthetic://?rate=5", False),
        ("file:///a@b/password=x", False),
    ],
)
def test_has_secret_detects_credentials_in_addresses(text: str, secret: bool) -> None:
    assert has_secret(text) is secret


CHILD = """
import sys
from edgedla.cli.running.source_option import sources_of
said = []
assert sources_of([a.partition("--source=")[2] or a for a in sys.argv[2:]], None, said.append)[-1].endswith("S3cret@cam:554/1")
sys.stdout.buffer.write(open("/proc/self/cmdline", "rb").read() + b"\\n" + "".join(said).encode())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="this system has no /proc")
@pytest.mark.parametrize("form", ["{}", "--source={}", "door={}"])
def test_a_secret_address_is_removed_from_the_process_arguments(form: str) -> None:
    words = ["plain", "csi://0", form.format("rtsp://user:S3cret@cam:554/1")]
    done = subprocess.run([sys.executable, "-c", CHILD, *words], cwd=str(ROOT), capture_output=True, check=True)
    arguments, _, said = done.stdout.rpartition(b"\n")
    assert arguments.split(b"\0")[3:5] == [b"plain", b"csi://0"]
    assert arguments.split(b"\0")[5].startswith(form.format("rtsp://cam:554/...").encode())
    assert b"S3cret" not in arguments.split(b"\0", 3)[3]
    assert b"--source-file" in said
    assert b"S3cret" not in said


def test_a_run_takes_its_source_from_standard_input(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    import onnx

    from tests.hostile.commands import small_model

    onnx.save(small_model(), str(tmp_path / "m.onnx"))
    assert exit_code_of(["build", str(tmp_path / "m.onnx"), "--backend", "host", "-o", str(tmp_path / "art")]) == 0
    command: List[str] = [sys.executable, "-m", "edgedla", "run", str(tmp_path / "art"), "--source-file", "-", "--frames", "3"]
    done = subprocess.run(command, cwd=str(ROOT), input="synthetic://?rate=50\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "3 results" in done.stdout
    empty = subprocess.run(command, cwd=str(ROOT), input="", capture_output=True, text=True)
    assert empty.returncode == 3
    assert "standard input" in empty.stderr
