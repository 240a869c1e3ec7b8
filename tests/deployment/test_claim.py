"""Who owns an output folder: other people's files and other models' deployments are not touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.deployment.claim import MODEL_RECORD, REPORTS, WORK, claim, own_file_named, require_own_folder
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.io.sealed import read_sealed

TARGET: Dict[str, Any] = {"target": "agx-orin-64gb", "backend": "host", "level": 0, "place": "dla"}


def tree(folder: Path) -> Dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def deployed(model: Path, tmp_path: Path) -> Path:
    edgedla.deploy(model, tmp_path / "out", **TARGET)
    return tmp_path / "out"


def test_deploy_into_a_folder_of_other_files_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "model.onnx").write_text("mine")
    (out / "notes.txt").write_text("mine")
    before = tree(out)
    assert exit_code_of(["deploy", str(model), "--target", "orin", "-o", str(out)]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert f"{out}: the folder holds other files: model.onnx, notes.txt" in said
    assert "an earlier deployment of the same model" in said
    assert tree(out) == before
    # Names that a deployment gives are no proof that it is one.
    (out / "notes.txt").unlink()
    (out / REPORTS["json"]).write_text('{"document": "edgedla.check", "schema_version": 1}')
    with pytest.raises(UsageError, match="other files: deployment.json, model.onnx"):
        edgedla.deploy(model, out, **TARGET)


def test_deploy_into_the_deployment_of_another_model_is_refused(
    deployed: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(deployed)
    other = tmp_path / "other.onnx"
    shutil.copy(model, other)
    other.write_bytes(other.read_bytes() + b"\0")
    assert exit_code_of(["deploy", str(other), "--target", "orin", "-o", str(deployed)]) == UsageError.exit_code
    assert "the folder holds the deployment of small, not of other" in capsys.readouterr().err
    (tmp_path / "b").mkdir()
    namesake = tmp_path / "b" / model.name
    namesake.write_bytes(other.read_bytes())
    with pytest.raises(UsageError, match="the deployment of another small, of ") as caught:
        edgedla.deploy(namesake, deployed, fresh=True, **TARGET)
    assert str(model) in str(caught.value)
    assert "remove this one" in str(caught.value)
    assert tree(deployed) == before


@pytest.mark.parametrize("how", ["again", "content", "trained on", "no steps", "killed", "broken report"])
def test_deploy_of_the_renamed_or_retrained_model_resumes(deployed: Path, model: Path, tmp_path: Path, how: str) -> None:
    if how == "content":
        model = model.rename(tmp_path / "renamed.onnx")
    elif how == "trained on":
        import onnx

        changed = onnx.load(str(model))
        weights = onnx.numpy_helper.to_array(changed.graph.initializer[0])
        changed.graph.initializer[0].CopyFrom(
            onnx.numpy_helper.from_array(weights * np.float32(2), changed.graph.initializer[0].name)
        )
        onnx.save(changed, str(model))
    elif how == "no steps":
        shutil.rmtree(deployed / WORK)
    elif how == "killed":
        # Between the renames of its publication.
        for name in REPORTS.values():
            (deployed / name).unlink()
    elif how == "broken report":
        (deployed / REPORTS["json"]).write_text("{")
    assert edgedla.deploy(model, deployed, **TARGET).accepted
    assert json.loads((deployed / REPORTS["json"]).read_text())["model"] == model.stem
    assert (read_sealed(deployed / WORK / MODEL_RECORD) or {})["path"] == str(model)


def test_published_files_hold_no_path_of_the_model(deployed: Path, tmp_path: Path) -> None:
    published = {name: data for name, data in tree(deployed).items() if not name.startswith(WORK)}
    assert not [name for name, data in published.items() if str(tmp_path).encode() in data]


def test_a_folder_of_several_sizes_is_claimed_as_a_whole(
    deployed: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("1x3x32x32", "1x3x48x48")
    sizes = tmp_path / "sizes"
    claim(sizes, model, names)
    shutil.copytree(deployed, sizes / names[0])
    # A size that this call does not ask for is one of ours too.
    shutil.copytree(deployed, sizes / "1x3x64x64")
    claim(sizes, model, names)
    (sizes / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="other files: notes.txt"):
        claim(sizes, model, names)
    (sizes / "notes.txt").unlink()
    (sizes / names[1]).mkdir()
    (sizes / names[1] / "photo.jpg").write_text("mine")
    before = tree(sizes)
    command = ["deploy", str(model), "--target", "orin", "--shapes", "1x3x32..48/16x32", "-o", str(sizes)]
    with pytest.raises(UsageError, match="photo.jpg"):
        claim(sizes, model, names)
    (sizes / names[1]).rename(sizes / "1x3x48x32")
    assert exit_code_of(command) == UsageError.exit_code
    assert "other files: photo.jpg" in capsys.readouterr().err
    assert len(tree(sizes)) == len(before)


def test_a_deployment_is_saved_over_no_other_files(tmp_path: Path) -> None:
    require_own_folder(tmp_path / "new")
    require_own_folder(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"mine")
    with pytest.raises(UsageError, match="the folder holds other files: model.onnx"):
        require_own_folder(tmp_path)


def test_a_full_disk_is_said_of_the_copy_not_of_the_model(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / WORK / f"{model.stem}.onnx"
    for what, named in (("cannot write: No space left on device", copy), ("the copy's own fault", model)):
        with pytest.raises(EnvironmentMissing) as caught, own_file_named(model, tmp_path / WORK):
            raise EnvironmentMissing(what, where=str(copy))
        assert caught.value.where == str(named)
