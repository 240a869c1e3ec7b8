"""Manifests of chains: complete and consistent ones load; forged, truncated and foreign ones are refused without a traceback."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

from edgedla.builder import Artifact, Binding, Running, load_artifact
from edgedla.builder.artifact.artifact import Stage, manifest_digest
from edgedla.builder.artifact.store import save_artifact
from edgedla.cli.main import exit_code_of
from edgedla.errors import BuildError, DocumentError

IMAGE = Binding("image", True, (1, 3, 8, 8), "FLOAT", "LINEAR", 768)
MIDDLE = Binding("middle", False, (1, 16, 8, 8), "HALF", "CHW16", 2048)
EARLY = Binding("early", False, (1, 8, 8, 8), "FLOAT", "LINEAR", 2048)
LAST = Binding("last", False, (1, 8, 4, 4), "FLOAT", "LINEAR", 512)


def read(binding: Binding) -> Binding:
    return replace(binding, is_input=True)


def artifact(bindings: List[Binding], devices: Dict[str, str], **changes: Any) -> Artifact:
    values: Dict[str, Any] = {
        "kind": "hybrid",
        "backend": "tensorrt",
        "simulated": False,
        "model": {"name": "net", "sha256": "0" * 64},
        "platform": {"target": "agx-orin-64gb", "chip": "orin", "trt": "10.3"},
        "software": {"tensorrt": "10.3.0.30", "jetpack": "6.2", "dla_software": None},
        "precision": "fp16",
        "bindings": tuple(bindings),
        "placement_predicted": devices,
    }
    return Artifact(**{**values, **changes})


def stage(folder: Path, bindings: List[Binding], device: str, **changes: Any) -> Artifact:
    made = artifact(bindings, {"conv": device, "resize": "GPU"}, **changes)
    return save_artifact(made, folder, {("engine", "model.engine"): b"engine" + folder.name.encode()})


def save(tmp_path: Path, **changes: Any) -> Artifact:
    """Two stages; `early` is an output of the network that the second one reads too."""
    kind = {"kind": changes.pop("stage_kind", "hybrid")}
    first = stage(tmp_path / "one", [IMAGE, MIDDLE, EARLY], "DLA0", **kind)
    second = stage(tmp_path / "two", [IMAGE, read(MIDDLE), read(EARLY), LAST], "DLA1", **kind)
    stages = (Stage("DLA0", first), Stage("DLA1", second))
    chain = artifact([IMAGE, EARLY, LAST], {"a": "DLA0", "b": "DLA1"}, kind="chain", stages=stages, **changes)
    return save_artifact(chain, tmp_path / "out", {("plan", "plan.json"): b"{}"})


def test_a_saved_chain_loads_with_all_stages_in_one_folder(tmp_path: Path) -> None:
    saved = save(tmp_path)
    assert load_artifact(tmp_path / "out") == saved
    assert not (tmp_path / "one").exists()
    folders = [s.artifact.folder for s in saved.stages]
    assert [f.parent for f in folders if f] == [tmp_path / "out"] * 2
    assert [s.artifact.file("engine").read_bytes() for s in saved.stages] == [b"engineone", b"enginetwo"]
    # Each is an artifact of its own.
    assert load_artifact(folders[1] or "") == saved.stages[1].artifact


def test_a_chain_with_an_unsaved_stage_is_refused(tmp_path: Path) -> None:
    chain = artifact([IMAGE], {}, kind="chain", stages=(Stage("DLA0", artifact([IMAGE], {})),))
    with pytest.raises(BuildError, match="was not saved"):
        save_artifact(chain, tmp_path / "out", {})


def manifest(folder: Path) -> Dict[str, Any]:
    found: Dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def write(folder: Path, document: Dict[str, Any]) -> None:
    document.pop("digest", None)
    (folder / "manifest.json").write_text(json.dumps({**document, "digest": manifest_digest(document)}))


def forge(**changes: Any) -> Callable[[Path], None]:
    return lambda out: write(out, {**manifest(out), **changes})


def forge_entry(k: int, **changes: Any) -> Callable[[Path], None]:
    def change(out: Path) -> None:
        document = manifest(out)
        document["stages"][k].update(changes)
        write(out, document)

    return change


def forge_stage(k: int, change: Callable[[Dict[str, Any]], Any]) -> Callable[[Path], None]:
    """A stage's manifest changed, with every digest above it made to fit: only the checks of the content are left."""

    def forged(out: Path) -> None:
        document = manifest(out)
        entry = document["stages"][k]
        inner = manifest(out / entry["folder"])
        change(inner)
        write(out / entry["folder"], inner)
        entry["digest"] = manifest(out / entry["folder"])["digest"]
        write(out, document)

    return forged


def binding(tensor: str, **changes: Any) -> Callable[[Dict[str, Any]], None]:
    def change(document: Dict[str, Any]) -> None:
        for b in document["bindings"]:
            if b["name"] == tensor:
                b.update(changes)

    return change


def drop(out: Path) -> None:
    shutil.rmtree(out / manifest(out)["stages"][1]["folder"])


def link(out: Path) -> None:
    here = out / manifest(out)["stages"][1]["folder"]
    shutil.move(str(here), str(out.parent / "elsewhere"))
    os.symlink(out.parent / "elsewhere", here)


def damage_engine(out: Path) -> None:
    here = load_artifact(out).stages[1].artifact.file("engine")
    here.write_bytes(b"x" * here.stat().st_size)


def swap(out: Path) -> None:
    write(out, {**manifest(out), "stages": manifest(out)["stages"][::-1]})


def nest(out: Path) -> None:
    """A chain whose stage is a chain."""

    def change(document: Dict[str, Any]) -> None:
        document.update(kind="chain", stages=[manifest(out)["stages"][0]])

    forge_stage(1, change)(out)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (drop, "stage is missing or no plain folder"),
        (link, "stage is missing or no plain folder"),
        (damage_engine, "engine file is not the one that was built"),
        (swap, "stage 0 does not belong to this chain: it reads middle, which nothing before it makes"),
        (nest, "a stage of a chain is a chain itself"),
        (forge(stages=[]), "a chain without stages"),
        (forge(stages=None), "field: stages$"),
        (forge(stages=[5]), "field: stages$"),
        (forge(stages=[{"device": "DLA0"}]), r"field: stages\[0\]\.folder, stages\[0\]\.digest$"),
        (forge(kind="hybrid"), "field: stages$"),
        (forge(kind=5), "field: kind, stages$"),
        (forge_entry(0, folder="../one"), "points outside its folder: '../one'"),
        (forge_entry(0, folder="/etc"), "points outside its folder"),
        (forge_entry(0, folder="."), "points outside its folder"),
        (forge_entry(0, folder="stage0-0123456789ab\n"), "points outside its folder"),
        (forge_entry(0, more=1), r"field: stages\[0\]\.more$"),
        (forge_entry(0, digest="0" * 64), "its manifest is not the one that the chain names"),
        (forge_entry(0, device="DLA7"), "device 'DLA7'"),
        (forge_entry(0, device="DLA1"), "it is on DLA1, with layers on DLA0"),
        (forge_entry(1, device="GPU"), "it is on GPU, with layers on DLA1"),
        (forge_stage(1, lambda d: d.update(simulated=True)), "simulated True, of the chain False"),
        (forge_stage(1, lambda d: d["platform"].update(target="orin-nx-16gb")), "platform .*orin-nx"),
        (forge_stage(1, lambda d: d.update(precision="int8")), "precision int8, of the chain fp16"),
        (forge_stage(1, binding("middle", dtype="INT8")), "it reads middle with dtype INT8, which is made with HALF"),
        (forge_stage(1, binding("middle", format="LINEAR")), "middle with format LINEAR, which is made with CHW16"),
        (forge_stage(1, binding("middle", shape_nchw=[1, 16, 8, 4])), "middle with shape_nchw"),
        (forge_stage(1, binding("middle", size_bytes=4096)), "middle with size_bytes 4096, which is made with 2048"),
        (forge_stage(1, binding("image", dtype="HALF")), "it reads image with dtype HALF"),
        (forge_stage(1, binding("middle", name="other")), "it reads other, which nothing before it makes"),
        (
            forge_stage(0, binding("middle", name="image")),
            "it makes image, which an earlier stage or the network provides already",
        ),
        (forge_stage(1, binding("last", name="early2")), "no stage makes the output last"),
        (forge_stage(1, binding("early", name="image")), "early is made|no stage|reads"),
        (lambda out: binding_of_chain(out, "last", dtype="HALF"), "no stage makes the output last as the chain states"),
        (forge_stage(1, lambda d: d["bindings"].pop(1)), "middle is written by a stage, and nothing reads it"),
        (forge_stage(1, lambda d: d.update(bindings=None)), "field: bindings$"),
    ],
)
def test_forged_and_damaged_chains_are_refused(
    tmp_path: Path, damage: Callable[[Path], Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path)
    damage(tmp_path / "out")
    with pytest.raises(DocumentError, match=why):
        load_artifact(tmp_path / "out")
    assert exit_code_of(["inspect", str(tmp_path / "out")]) == 3
    assert "Traceback" not in capsys.readouterr().err


def binding_of_chain(out: Path, name: str, **changes: Any) -> None:
    document = manifest(out)
    binding(name, **changes)(document)
    write(out, document)


@pytest.mark.parametrize(
    ("kind", "on", "why"),
    [
        ("hybrid", Running("agx-orin-64gb", "10.3.0.30", "6.2"), None),
        ("hybrid", Running(target="orin-nx-16gb"), "module agx-orin-64gb, this is module orin-nx-16gb"),
        ("hybrid", Running(tensorrt="10.7.0.23"), "TensorRT 10.3.0.30, this is TensorRT 10.7.0.23"),
        # Loadables need no TensorRT to run.
        ("standalone", Running(tensorrt="10.7.0.23"), None),
    ],
)
def test_foreign_chains_are_refused(tmp_path: Path, kind: str, on: Running, why: Optional[str]) -> None:
    save(tmp_path, stage_kind=kind)
    if why is None:
        assert load_artifact(tmp_path / "out", on=on).kind == "chain"
    else:
        with pytest.raises(DocumentError, match=why):
            load_artifact(tmp_path / "out", on=on)


def test_stale_chains_are_refused(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "net.onnx").write_bytes(b"another version")
    with pytest.raises(DocumentError, match="stale"):
        load_artifact(tmp_path / "out", model=tmp_path / "net.onnx")


def test_an_unfinished_chain_is_named_as_one_and_built_over(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "out/manifest.json").unlink()
    for path in (tmp_path / "out").glob("plan-*"):
        path.unlink()
    with pytest.raises(DocumentError, match="unfinished build"):
        load_artifact(tmp_path / "out")
    # Its folders are no stranger's, so the next build takes the folder over.
    saved = save(tmp_path)
    assert load_artifact(tmp_path / "out") == saved
