"""`inspect` verifies a bundle in each of its forms without running it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Dict

import numpy as np
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.errors import DocumentError
from tests.models import node, onnx_model

FORMS = ("app", "app.pyz", "app.tar", "app.tgz")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspected")
    weights = {"w": np.ones((2, 3, 8, 8), np.float32)}
    model = onnx_model([node("Conv", "x w", "y", name="conv")], {"x": (1, 3, 8, 8)}, {"y": (1, 2, 1, 1)}, weights, opset=17)
    edgedla.build(model, folder / "artifact", edgedla.BuildRequest(target="agx-orin-64gb", backend="host"))
    for form in FORMS:
        edgedla.bundle(folder / "artifact", folder / form)
    return folder


def copied(made: Path, form: str, to: Path, changes: Dict[str, bytes]) -> Path:
    """The bundle with other contents of some files; b"-" leaves one out."""
    target = to / form
    if form == "app":
        shutil.copytree(made / form, target)
        for name, body in changes.items():
            (target / name).write_bytes(body)
            if body == b"-":
                (target / name).unlink()
    elif form == "app.pyz":
        with zipfile.ZipFile(made / form) as old, open(target, "wb") as f:
            f.write((made / form).read_bytes()[:80].partition(b"\n")[0] + b"\n")
            with zipfile.ZipFile(f, "a") as new:
                for name in old.namelist():
                    if changes.get(name) != b"-":
                        new.writestr(name, changes.get(name, old.read(name)))
    else:
        with tarfile.open(made / form) as old, tarfile.open(target, "w:gz" if form.endswith("z") else "w") as new:
            for member in old:
                opened = old.extractfile(member)
                assert opened is not None
                body = changes.get(member.name.partition("/")[2], opened.read())
                member.size = len(body)
                if body != b"-":
                    new.addfile(member, io.BytesIO(body))
    return target


@pytest.mark.parametrize("form", FORMS)
def test_a_complete_bundle_is_reported_as_such(made: Path, form: str) -> None:
    found = edgedla.inspect(made / form)
    assert found.kind == "bundle"
    assert "are those that were bundled" in found.notes[0]
    assert found.size_bytes > 100_000 or form.endswith(("pyz", "tgz"))


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_main_that_python_would_run_is_refused(made: Path, tmp_path: Path, form: str) -> None:
    damaged = copied(made, form, tmp_path, {"__main__.py": b""})
    if form in ("app", "app.pyz"):
        assert subprocess.run([sys.executable, str(damaged)], capture_output=True).returncode == 0
    with pytest.raises(DocumentError, match="__main__.py is not the file that was bundled; it is empty"):
        edgedla.inspect(damaged)


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_or_changed_file_is_named(made: Path, tmp_path: Path, form: str) -> None:
    for change in (b"-", b"# other\n"):
        folder = tmp_path / str(len(change))
        folder.mkdir()
        with pytest.raises(DocumentError, match="errors.py"):
            edgedla.inspect(copied(made, form, folder, {"edgedla/errors.py": change}))


def test_a_truncated_pyz_and_invalid_settings_are_refused(made: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pyz"
    cut.write_bytes((made / "app.pyz").read_bytes()[:9000])
    with pytest.raises(DocumentError, match="the bundle is damaged"):
        edgedla.inspect(cut)
    settings = json.loads((made / "app" / "bundle.json").read_text())
    for change, says in (
        ({"files": {**settings["files"], "../x": "0" * 64}}, "outside"),
        ({"files": []}, "lists no files"),
        ({"files": {"a": 1}}, "lists no files"),
    ):
        folder = tmp_path / says
        folder.mkdir(exist_ok=True)
        shutil.rmtree(folder / "app", ignore_errors=True)
        body = json.dumps({**settings, **change}).encode()
        with pytest.raises(DocumentError, match=says):
            edgedla.inspect(copied(made, "app", folder, {"bundle.json": body}))


@pytest.mark.parametrize("form", ["app.tar", "app.tgz", "app.pyz"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_a_bundle_that_was_cut_off_is_said_to_be_one(made: Path, form: str, share: float, tmp_path: Path) -> None:
    """It was taken for a damaged DLA loadable."""
    whole = (made / form).read_bytes()
    (tmp_path / form).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DocumentError, match="the bundle is damaged: .*\n.*copy or bundle it again"):
        edgedla.inspect(tmp_path / form)


@pytest.mark.parametrize(
    "address",
    [
        "rtsp://cam:S3cretPw@127.0.0.1:9/x",
        "rtsp://127.0.0.1:9/live?user=admin&password=S3cretPw",
        "rtsp://127.0.0.1:9/user=admin_password=S3cretPw_channel=1.sdp",
        "gst://rtspsrc location=rtsp://127.0.0.1:9/x user-id=a user-pw=S3cretPw ! decodebin",
    ],
)
def test_no_form_of_inspect_shows_the_password_of_a_camera(
    made: Path, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = tmp_path / "p.yaml"
    source = json.dumps(address)
    pipeline.write_text(f"version: 1\nartifact: {made / 'artifact'}\nsource: {{uri: {source}}}\ndecode: {{kind: none}}\n")
    edgedla.bundle(pipeline=pipeline, out=tmp_path / "cam")
    assert "S3cretPw" in (tmp_path / "cam" / "bundle.json").read_text(), "a bundle needs it"
    found = edgedla.inspect(tmp_path / "cam")
    assert "S3cretPw" not in json.dumps(found.to_dict())
    for words in (["inspect", str(tmp_path / "cam")], ["inspect", str(tmp_path / "cam"), str(made / "app")]):
        for form in ("text", "json"):
            assert exit_code_of([*words, "--format", form]) in (0, 1)
            shown = capsys.readouterr()
            assert "S3cretPw" not in shown.out + shown.err
            assert "cam" in shown.out
