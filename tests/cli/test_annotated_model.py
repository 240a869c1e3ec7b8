"""`check -o annotated.onnx`: the answer in the nodes' metadata, every other byte of the file as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnx
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.importers.model_file.annotate import PREFIX, annotated
from tests.models import node, onnx_model, save

ORIN = ["--target", "agx-orin-64gb", "--jetpack", "6.2", "--precision", "fp16", "--fail-on", "never"]


def network() -> onnx.ModelProto:
    """Conv, Relu and, on the GPU, Erf."""
    weights = {"w": np.ones((8, 3, 3, 3), np.float32)}
    nodes = [node("Conv", "x w", "a", "conv"), node("Relu", "a", "b", ""), node("Erf", "b", "y", "erf")]
    nodes[1].name = ""
    return onnx_model(nodes, {"x": (1, 3, 16, 16)}, {"y": (1, 8, 14, 14)}, weights)


def entries(proto: Any) -> Dict[str, str]:
    return {p.key[len(PREFIX) :]: p.value for p in proto.metadata_props if p.key.startswith(PREFIX)}


def without_entries(path: Path) -> bytes:
    proto = onnx.load(str(path), load_external_data=False)
    for holder in (proto, *proto.graph.node):
        kept = [p for p in holder.metadata_props if not p.key.startswith(PREFIX)]
        del holder.metadata_props[:]
        holder.metadata_props.extend(kept)
    return proto.SerializeToString(deterministic=True)


def test_each_node_says_device_reason_loadable_and_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(network(), tmp_path / "net.onnx")
    assert exit_code_of(["check", str(path), *ORIN, "-o", str(tmp_path / "shown.onnx")]) == 0
    out, err = capsys.readouterr()
    assert "TO FREE" in out or "layers" in out, "the text still goes to the terminal"
    assert "shown.onnx" in err
    found = onnx.load(str(tmp_path / "shown.onnx"))
    conv, relu, erf = map(entries, found.graph.node)
    assert (conv["device"], relu["device"], erf["device"]) == ("DLA", "DLA", "GPU")
    assert conv["loadable"] == relu["loadable"]
    assert conv["loadable"].startswith("{ForeignNode[conv")
    assert "loadable" not in erf
    assert conv["time"].endswith("fitted")
    assert "UNARY" in erf["reason"] or "Erf" in erf["reason"] or "ERF" in erf["reason"]
    assert entries(found)["precision"] == "fp16"
    onnx.checker.check_model(found)


def test_everything_else_is_byte_equal_and_a_second_answer_replaces_the_first(tmp_path: Path) -> None:
    proto = network()
    proto.metadata_props.add(key="author", value="somebody")
    proto.graph.node[0].metadata_props.add(key="mine", value="1")
    path, once, twice = save(proto, tmp_path / "net.onnx"), tmp_path / "once.onnx", tmp_path / "twice.onnx"
    before = path.read_bytes()
    assert exit_code_of(["check", str(path), *ORIN, "-o", str(once)]) == 0
    assert path.read_bytes() == before
    assert without_entries(once) == proto.SerializeToString(deterministic=True)
    assert exit_code_of(["check", str(once), *ORIN, "-o", str(twice)]) == 0
    assert twice.read_bytes() == once.read_bytes()
    assert b"".join(annotated(once, {}, [])) == before


def test_weights_of_gigabytes_are_copied_a_few_bytes_at_a_time(tmp_path: Path) -> None:
    proto = network()
    proto.graph.initializer.add(name="unread", data_type=1, dims=[3 << 18], raw_data=bytes(range(256)) * (3 << 12))
    path, data = save(proto, tmp_path / "net.onnx"), proto.SerializeToString()
    parts = list(annotated(path, {"target": "orin"}, []))
    assert max(map(len, parts)) == 1 << 20
    assert len([part for part in parts if len(part) == 1 << 20]) == 3
    assert b"".join(parts) == b"".join(annotated(data, {"target": "orin"}, []))


def test_weights_in_another_file_stay_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(), str(path), save_as_external_data=True, location="net.data", size_threshold=0)
    data = (tmp_path / "net.data").read_bytes()
    assert exit_code_of(["check", str(path), *ORIN, "-o", str(tmp_path / "beside.onnx")]) == 0
    assert "its weights stay" not in capsys.readouterr().err
    assert np.array_equal(
        onnx.numpy_helper.to_array(onnx.load(str(tmp_path / "beside.onnx")).graph.initializer[0]), np.ones((8, 3, 3, 3))
    )
    assert exit_code_of(["check", str(path), *ORIN, "-o", str(tmp_path / "far" / "shown.onnx")]) == 0
    assert f"its weights stay in {tmp_path}" in capsys.readouterr().err
    assert (tmp_path / "net.data").read_bytes() == data
    assert [p.name for p in (tmp_path / "far").iterdir()] == ["shown.onnx"]
    assert without_entries(tmp_path / "far" / "shown.onnx") == onnx.load(str(path), load_external_data=False).SerializeToString(
        deterministic=True
    )


def test_a_model_of_open_sizes_gets_no_times(tmp_path: Path) -> None:
    proto = onnx_model([node("Relu", "x", "y", "relu")], {"x": (1, 3, "h", 8)}, {"y": None})
    path = save(proto, tmp_path / "net.onnx")
    assert exit_code_of(["check", str(path), *ORIN, "-o", str(tmp_path / "shown.onnx")]) in (0, 3)
    assert "time" not in entries(onnx.load(str(tmp_path / "shown.onnx")).graph.node[0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.onnx", "b.onnx", "-o", "c.onnx"], "one MODEL"),
        (["a.onnx", "-o", "c.onnx", "-o", "d.onnx"], "one -o FILE.onnx"),
        (["a.onnx", "--compare", "orin-nx,agx-orin", "-o", "c.onnx"], "no --compare"),
        (["a.onnx", "-o", "a.onnx"], "would overwrite it"),
        ([".", "-o", "a.onnx"], "would overwrite it"),
        (["a.onnx", "-o", "link.onnx"], "would overwrite it"),
    ],
)
def test_what_cannot_be_annotated_is_refused_before_any_work(
    arguments: List[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = save(network(), tmp_path / "a.onnx").read_bytes()
    if "b.onnx" in arguments:
        save(network(), tmp_path / "b.onnx")
    (tmp_path / "link.onnx").symlink_to("a.onnx") if "link.onnx" in arguments else None
    assert exit_code_of(["check", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "a.onnx").read_bytes() == before
    assert not (tmp_path / "c.onnx").exists()
