"""Models below a folder, without edgedla's own artifacts, decoders and working folders."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from edgedla.deployment.claim import FILES, REPORTS
from edgedla.errors import ModelError
from edgedla.importers.model_file.changed_outputs import METADATA, ChangedOutput, ChangedOutputs, decoder_path
from edgedla.inspection.models_below import DECODER_ENDING, DEPLOYMENT, models_below
from edgedla.io.documents import header
from edgedla.io.files import sha256_of_bytes
from tests.models import node, onnx_model


def network() -> Any:
    return onnx_model([node("Relu", "x", "y", "relu")], {"x": (1, 8, 4, 4)}, {"y": (1, 8, 4, 4)})


def put(path: Path, content: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content or network().SerializeToString())
    return path


def artifact(folder: Path, document: Any = None) -> Path:
    put(folder / "model-0123456789ab.onnx")
    text = json.dumps(header("edgedla.artifact") if document is None else document)
    return put(folder / "manifest.json", text.encode()).parent


def names(folder: Path, entries: Any) -> List[str]:
    return [os.path.relpath(getattr(entry, "path", entry), folder) for entry in entries]


def test_folders_with_a_dot_and_artifacts_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "b.onnx")
    put(tmp_path / "a" / "A.ONNX")
    put(tmp_path / ".work" / "step" / "hidden.onnx")
    artifact(tmp_path / "a" / "built" / "detector")
    artifact(artifact(tmp_path / "chain") / "stage0-0123456789ab")
    artifact(tmp_path / "old", {"schema": "edgedla.artifact/1"})
    below = models_below(str(tmp_path))
    assert names(tmp_path, below.models) == ["b.onnx", "a/A.ONNX"]
    assert names(tmp_path, below.left_out) == ["chain", "old", "a/built/detector"]
    assert below.note.count("(an artifact of `edgedla build`)") == 3


@pytest.mark.parametrize("manifest", [{}, [], {"name": "an app"}, header("edgedla.plan"), "no JSON"])
def test_a_folder_with_another_manifest_is_not_an_artifact(manifest: Any, tmp_path: Path) -> None:
    artifact(tmp_path / "app", manifest)
    if manifest == "no JSON":
        put(tmp_path / "app" / "manifest.json", b'{"document": ')
    below = models_below(str(tmp_path))
    assert names(tmp_path, below.models) == ["app/model-0123456789ab.onnx"]
    assert below.note == ""


def test_an_artifact_is_no_folder_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = artifact(tmp_path / "my built")
    with pytest.raises(ModelError, match="an artifact of `edgedla build`, no model") as caught:
        models_below(str(built))
    assert caught.value.where == str(built)
    assert f"`edgedla inspect '{built}'`" in (caught.value.hint or "")
    monkeypatch.chdir(built)
    with pytest.raises(ModelError, match="no model"):
        models_below(".")


def test_a_folder_of_artifacts_alone_is_refused_with_a_hint(tmp_path: Path) -> None:
    built = artifact(tmp_path / "built")
    with pytest.raises(ModelError, match="except what edgedla wrote") as caught:
        models_below(str(tmp_path))
    assert f"{built} is an artifact of `edgedla build`" in (caught.value.hint or "")
    assert "give the model itself" in (caught.value.hint or "")


def test_a_folder_without_models_names_what_was_not_searched(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"a folder without any \.onnx file$") as caught:
        models_below(str(tmp_path))
    assert caught.value.hint is None
    put(tmp_path / ".cache" / "a.onnx")
    with pytest.raises(ModelError) as caught:
        models_below(str(tmp_path))
    assert ".cache" in (caught.value.hint or "")
    # Named by the user it is searched like any other.
    assert len(models_below(str(tmp_path / ".cache")).models) == 1


def test_the_model_of_a_deployment_is_recognised_by_its_hash(tmp_path: Path) -> None:
    assert REPORTS["json"] == DEPLOYMENT
    assert "model.onnx" in FILES
    model = put(tmp_path / "model.onnx")

    def report(sha256: str) -> None:
        document: Dict[str, Any] = {**header("edgedla.deployment"), "hashes": {"built_model": sha256}}
        put(tmp_path / DEPLOYMENT, json.dumps(document).encode())

    report(sha256_of_bytes(model.read_bytes()))
    put(tmp_path / "other.onnx")
    below = models_below(str(tmp_path))
    assert names(tmp_path, below.models) == ["other.onnx"]
    assert below.left_out[0].what == "the model as `edgedla deploy` built it"
    report("0" * 64)
    assert names(tmp_path, models_below(str(tmp_path)).models) == ["model.onnx", "other.onnx"]


def test_a_decoder_file_is_recognised_by_its_model(tmp_path: Path) -> None:
    decoder = put(tmp_path / "net.decoder.onnx")
    assert decoder == decoder_path(tmp_path / f"net{DECODER_ENDING.replace('.decoder', '')}")
    assert names(tmp_path, models_below(str(tmp_path)).models) == ["net.decoder.onnx"]
    model = network()
    changed = ChangedOutputs((ChangedOutput("y", (1,), ("z",), True),), sha256_of_bytes(decoder.read_bytes()))
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA, changed.to_text()
    put(tmp_path / "net.onnx", model.SerializeToString())
    below = models_below(str(tmp_path))
    assert names(tmp_path, below.models) == ["net.onnx"]
    assert names(tmp_path, below.left_out) == ["net.decoder.onnx"]
    put(decoder, b"of another run")
    assert names(tmp_path, models_below(str(tmp_path)).models) == ["net.decoder.onnx", "net.onnx"]


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_link_to_an_artifact_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "models" / "a.onnx")
    (tmp_path / "models" / "link").symlink_to(artifact(tmp_path / "built"))
    below = models_below(str(tmp_path / "models"))
    assert (names(tmp_path, below.models), below.left_out) == (["models/a.onnx"], ())


def test_skipped_artifacts_are_named_with_the_number_of_others(tmp_path: Path) -> None:
    put(tmp_path / "a.onnx")
    for n in range(5):
        artifact(tmp_path / f"built{n}")
    assert models_below(str(tmp_path)).note.endswith("and 2 more")
