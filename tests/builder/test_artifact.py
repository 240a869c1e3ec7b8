"""Artifacts: what is written loads unchanged; what is stale, foreign, damaged or tampered with is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Optional

import jsonschema
import pytest

from edgedla.builder import Artifact, Binding, Running, load_artifact
from edgedla.builder.artifact.artifact import manifest_digest
from edgedla.builder.artifact.store import save_artifact
from edgedla.errors import BuildError, DocumentError, EnvironmentMissing, UsageError
from edgedla.inspection.file_kind import detect

SCHEMA = Path(__file__).resolve().parents[2] / "edgedla/schemas/artifact.schema.json"


def artifact(**changes: Any) -> Artifact:
    values: dict = {
        "kind": "hybrid",
        "backend": "tensorrt",
        "simulated": False,
        "model": {"name": "net", "sha256": "0" * 64},
        "platform": {"target": "agx-orin-64gb", "chip": "orin", "trt": "10.3"},
        "software": {"tensorrt": "10.3.0.30", "jetpack": "6.2", "dla_software": None},
        "precision": "int8",
        "bindings": (Binding("x", True, (1, 3, 8, 8), "INT8", "DLA_HWC4", 512, {"row": 64}, 0.0078125),),
        "placement_predicted": {"conv": "DLA0"},
        "placement_real": {"conv": "DLA0"},
    }
    values.update(changes)
    return Artifact(**values)


def save(folder: Path, engine: bytes = b"engine", **changes: Any) -> Artifact:
    return save_artifact(artifact(**changes), folder, {("engine", "model.engine"): engine, ("plan", "plan.json"): b"{}"})


def test_saved_and_loaded_artifacts_are_equal_and_meet_the_schema(tmp_path: Path) -> None:
    saved = save(tmp_path / "out")
    loaded = load_artifact(tmp_path / "out")
    assert loaded == saved
    assert load_artifact(tmp_path / "out" / "manifest.json") == saved
    assert loaded.file("engine").read_bytes() == b"engine"
    assert [b.name for b in loaded.inputs] == ["x"]
    assert loaded.outputs == ()
    jsonschema.validate(loaded.to_dict(), json.loads(SCHEMA.read_text()))
    with pytest.raises(DocumentError, match="no loadable file"):
        loaded.file("loadable")


def test_a_second_build_replaces_the_first_and_leaves_none_of_its_files(tmp_path: Path) -> None:
    first = save(tmp_path / "out", b"one")
    second = save(tmp_path / "out", b"two")
    assert load_artifact(tmp_path / "out") == second
    assert not first.file("engine").exists()
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")) == sorted(
        ["manifest.json"] + [f.path for f in second.files]
    )


def test_folders_with_other_files_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"other files: notes\.txt"):
        save(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="not a folder"):
        save(tmp_path / "file")


def change_engine(folder: Path) -> None:
    path = load_artifact(folder).file("engine")
    path.write_bytes(b"e" + path.read_bytes()[1:-1] + b"X")


def drop_engine(folder: Path) -> None:
    load_artifact(folder).file("engine").unlink()


def link_engine(folder: Path) -> None:
    path = load_artifact(folder).file("engine")
    content = path.read_bytes()
    path.unlink()
    (folder.parent / "elsewhere").write_bytes(content)
    os.symlink(folder.parent / "elsewhere", path)


def edit(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        document = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps(document))

    return change


def forge(**changes: Any) -> Callable[[Path], None]:
    """An edit with a digest that fits: the other checks must hold by themselves."""

    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        document = {**json.loads(path.read_text()), **changes}
        del document["digest"]
        path.write_text(json.dumps({**document, "digest": manifest_digest(document)}))

    return change


def make_huge(folder: Path) -> None:
    with open(folder / "manifest.json", "wb") as f:
        f.truncate((64 << 20) + 1)


BINDING = artifact().bindings[0].to_dict()
OUTSIDE = {"role": "engine", "path": "../elsewhere", "sha256": "0" * 64, "size_bytes": 1}


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (change_engine, "engine file is not the one that was built"),
        (drop_engine, "engine file is missing"),
        (link_engine, "missing or no plain file"),
        (edit(simulated=True), "changed after it was written"),
        (edit(schema_version=9), "edgedla.artifact, version 9"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "manifest is damaged"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "not a JSON object"),
        (lambda folder: (folder / "manifest.json").write_text("[" * 100000), "manifest is damaged"),
        (lambda folder: (folder / "manifest.json").unlink(), "unfinished build"),
        (forge(files=[OUTSIDE]), "points outside its folder"),
        (forge(bindings=[{"name": "x"}]), r"misnames a field: bindings\[0\]\.is_input"),
        (forge(bindings=[{**BINDING, "scale": "1"}]), r"field: bindings\[0\]\.scale$"),
        (forge(bindings=[{**BINDING, "shape_nchw": [1, -3]}]), r"field: bindings\[0\]\.shape_nchw$"),
        (forge(bindings=[{**BINDING, "more": 1}]), r"field: bindings\[0\]\.more$"),
        (forge(files=[{**OUTSIDE, "path": 5, "sha256": None}]), r"field: files\[0\]\.path, files\[0\]\.sha256$"),
        (forge(files=None), "field: files$"),
        (forge(model=None), "field: model$"),
        (forge(model={"name": "net", "sha256": "0" * 64, "external": ["w"]}), r"field: model\.external$"),
        (forge(platform={"target": 5}), r"field: platform$"),
        (forge(accuracy={"within": True}), r"field: accuracy$"),
        (forge(accuracy=5), "field: accuracy$"),
        (forge(placement={"predicted": ["DLA"], "real": None}), r"field: placement\.predicted$"),
        (make_huge, "manifest is damaged: it is larger than 67108864 bytes"),
    ],
)
def test_damaged_or_tampered_artifacts_are_refused(tmp_path: Path, damage: Callable[[Path], Any], why: str) -> None:
    save(tmp_path / "out")
    damage(tmp_path / "out")
    with pytest.raises(DocumentError, match=why):
        load_artifact(tmp_path / "out")


def test_a_folder_without_an_artifact_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="not an artifact"):
        load_artifact(tmp_path)
    with pytest.raises(DocumentError, match="nowhere: no such file or folder"):
        load_artifact(tmp_path / "nowhere")


def test_a_pipeline_file_in_place_of_an_artifact_names_the_commands_that_take_it(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("version: 1\n")
    with pytest.raises(DocumentError) as caught:
        load_artifact(tmp_path / "p.yaml")
    assert "bundle --pipeline FILE" in str(caught.value)


def test_a_folder_with_artifacts_in_it_names_them(tmp_path: Path) -> None:
    def hint() -> str:
        with pytest.raises(DocumentError, match="not an artifact") as caught:
            load_artifact(tmp_path)
        assert detect_hint(tmp_path) == caught.value.hint
        return str(caught.value.hint)

    assert hint() == "give the folder that `edgedla build -o` wrote"
    for size in ("1x3x8x8", "1x3x16x16"):
        save(tmp_path / "sizes" / size / "artifact")
    (tmp_path / "sizes" / "1x3x8x8" / "artifact").rename(tmp_path / "one")
    assert hint() == f"give the artifact in it: {tmp_path / 'one'}"
    save(tmp_path / "two")
    assert hint() == f"give one of the artifacts in it: {tmp_path / 'one'}, {tmp_path / 'two'}"
    # What `deploy` wrote goes before whatever else lies there.
    save(tmp_path / "artifact")
    assert hint() == f"give the artifact in it: {tmp_path / 'artifact'}"
    with pytest.raises(DocumentError) as caught:
        load_artifact(tmp_path / "sizes")
    assert caught.value.hint == f"give the artifact in it: {tmp_path / 'sizes' / '1x3x16x16' / 'artifact'}"


def detect_hint(folder: Path) -> Optional[str]:
    with pytest.raises(DocumentError) as caught:
        detect(folder)
    return caught.value.hint


def test_stale_artifacts_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "out")
    (tmp_path / "net.onnx").write_bytes(b"another version")
    with pytest.raises(DocumentError, match="stale"):
        load_artifact(tmp_path / "out", model=tmp_path / "net.onnx")
    for none in (tmp_path / "nowhere.onnx", tmp_path):
        with pytest.raises(DocumentError, match=f"{none}: no such file"):
            load_artifact(tmp_path / "out", model=none)


@pytest.mark.parametrize(
    ("kind", "on", "why"),
    [
        ("hybrid", Running(target="orin-nx-16gb"), "module agx-orin-64gb, this is module orin-nx-16gb"),
        ("hybrid", Running(tensorrt="10.7.0.23"), "TensorRT 10.3.0.30, this is TensorRT 10.7.0.23"),
        ("hybrid", Running(jetpack="6.0"), "JetPack 6.2, this is JetPack 6.0"),
        ("hybrid", Running("agx-orin-64gb", "10.3.0.30", "6.2"), None),
        ("hybrid", Running(), None),
        ("standalone", Running(tensorrt="10.7.0.23"), None),
        ("standalone", Running(target="agx-xavier"), "module"),
    ],
)
def test_foreign_artifacts_are_refused(tmp_path: Path, kind: str, on: Running, why: str) -> None:
    save(tmp_path / "out", kind=kind)
    if why is None:
        assert load_artifact(tmp_path / "out", on=on).kind == kind
    else:
        with pytest.raises(DocumentError, match=f"foreign: built for .*{why}"):
            load_artifact(tmp_path / "out", on=on)


def test_simulated_artifacts_run_anywhere(tmp_path: Path) -> None:
    save(tmp_path / "out", backend="host", simulated=True)
    assert load_artifact(tmp_path / "out", on=Running("orin-nx-16gb", "8.6.2", "6.0")).simulated


def test_a_full_disk_leaves_the_old_artifact_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = save(tmp_path / "out", b"one")
    calls = []

    def full(fd: int) -> None:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentMissing, match="No space left") as caught:
        save(tmp_path / "out", b"two")
    assert caught.value.hint == "the earlier artifact still loads; free some space and build again"
    with pytest.raises(EnvironmentMissing, match="No space left") as caught:
        save(tmp_path / "other", b"two")
    assert caught.value.hint == "free some space and build again", "there was none before"
    monkeypatch.undo()
    assert load_artifact(tmp_path / "out") == first
    assert save(tmp_path / "out", b"two").file("engine").read_bytes() == b"two"
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.endswith(".part")]


def test_two_builds_into_one_folder_are_refused(tmp_path: Path) -> None:
    from edgedla.builder.artifact.store import folder_lock

    save(tmp_path / "out")
    with folder_lock(tmp_path / "out"), pytest.raises(BuildError, match="another build"):
        save(tmp_path / "out")


def test_a_manifest_of_version_0_1_still_loads(tmp_path: Path) -> None:
    saved = save(tmp_path / "out")
    manifest = tmp_path / "out" / "manifest.json"
    document = {k: v for k, v in saved.to_dict().items() if k not in ("document", "schema_version", "digest")}
    document["schema"] = "edgedla.artifact/1"
    document["digest"] = manifest_digest(document)
    manifest.write_text(json.dumps(document))
    assert load_artifact(tmp_path / "out").bindings == saved.bindings
