"""`fix`, `place`, `build` and `deploy` on a strongly typed release: the model as FLOAT16, with its error measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.builder.request import BuildRequest
from edgedla.importers.model_file.float16_tensors import HALF
from edgedla.quantization.session import open_session
from tests.models import node, onnx_model, save

TYPED: Any = {"target": "agx-orin-64gb", "jetpack": "7.2.2"}


def net(scale: float = 1.0) -> Any:
    """Conv, HardSwish, Conv, then a decoder that no DLA takes."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((16, 4, 3, 3)).astype(np.float32) * 0.3,
        "v": rng.standard_normal((8, 16, 3, 3)).astype(np.float32) * 0.1,
        "k": np.array(scale, np.float32),
        "shape": np.array([1, 8, 196]),
        "half": np.array(0.5 / scale, np.float32),
    }
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("HardSwish", "a", "h"),
        node("Conv", "h v", "c", pads=[1, 1, 1, 1]),
        node("Mul", "c k", "m", name="large"),
        node("Mul", "m half", "n"),
        node("Conv", "n u", "d"),
        node("Exp", "d", "e", name="decode"),
        node("Reshape", "e shape", "y"),
    ]
    weights["u"] = rng.standard_normal((8, 8, 1, 1)).astype(np.float32)
    return onnx_model(nodes, {"x": (1, 4, 14, 14)}, {"y": (1, 8, 196)}, weights, opset=17)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save(net(), tmp_path / "net.onnx")


def run(model: Any, x: np.ndarray) -> np.ndarray:
    return np.asarray(open_session(model.SerializeToString(), optimize=False).run(["y"], {"x": x})[0])


def test_fix_converts_by_itself_measures_the_error_and_rewrites_in_float16(path: Path, tmp_path: Path) -> None:
    result = edgedla.fix(str(path), **TYPED)
    assert result.types.startswith("types converted to FLOAT16 (6 of 8 nodes compute in FP16, with 2 Casts at borders")
    assert "decode (behind the DLA part)" in result.types
    assert "error measured on seeded random input (relative L2): y " in result.types
    before = edgedla.check(str(path), **TYPED).totals
    assert before.layers_dla > 0
    assert result.before.layers_dla == before.layers_dla < result.after.layers_dla
    assert result.counts["hard-sigmoid"] == 1, "equal within FLOAT16's rounding"
    written = onnx.load(str(result.save(tmp_path / "out.onnx")[0]))
    assert [v.type.tensor_type.elem_type for v in (*written.graph.input, *written.graph.output)] == [1, 1]
    assert {t.name: t.data_type for t in written.graph.initializer}["v"] == HALF
    x = np.random.default_rng(1).standard_normal((1, 4, 14, 14)).astype(np.float32)
    expected = run(net(), x)
    assert np.linalg.norm(run(written, x) - expected) < 1e-2 * np.linalg.norm(expected)


def test_the_conversion_runs_by_name_or_by_default_and_can_be_skipped(path: Path) -> None:
    assert edgedla.fix(str(path), **TYPED, skip="float16-types").types == ""
    alone = edgedla.fix(str(path), **TYPED, only="fp16-tensors")
    assert (alone.applied, alone.types != "") == ((), True)
    assert edgedla.fix(str(path), target="agx-orin-64gb", trt="10.3").types == ""


def test_values_beyond_float16_stay_float_by_the_samples(tmp_path: Path) -> None:
    result = edgedla.fix(str(save(net(3e5), tmp_path / "large.onnx")), **TYPED, only="float16-types")
    assert "large (values up to" in result.types
    written = onnx.load(str(result.save(tmp_path / "out.onnx")[0]))
    x = np.random.default_rng(1).standard_normal((1, 4, 14, 14)).astype(np.float32)
    assert np.all(np.isfinite(run(written, x)))


def test_a_standalone_fix_takes_and_gives_float16(path: Path, tmp_path: Path) -> None:
    result = edgedla.fix(str(path), **TYPED, purpose="standalone")
    assert "x takes FLOAT16, before FLOAT" in result.interface
    assert "with 0 Casts" in result.types


def test_external_weights_are_halved_on_writing(tmp_path: Path) -> None:
    source = tmp_path / "net.onnx"
    onnx.save(net(), str(source), save_as_external_data=True, location="net.data", size_threshold=64)
    written = edgedla.fix(str(source), **TYPED, only="float16-types").save(tmp_path / "out.onnx")
    inside = edgedla.fix(net(), **TYPED, only="float16-types").to_proto()
    outside = onnx.load(str(written[0]))
    assert {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in outside.graph.initializer} == {
        t.name: onnx.numpy_helper.to_array(t).tobytes() for t in inside.graph.initializer
    }


def test_a_placement_of_the_file_is_built_and_measured_against_the_file(path: Path, tmp_path: Path) -> None:
    placement = edgedla.place(str(path), **TYPED, devices=["GPU", "DLA0"])
    saved = tmp_path / "placement.json"
    saved.write_text(placement.to_json())
    artifact = edgedla.build(
        str(path), tmp_path / "artifact", BuildRequest(**TYPED, precision="fp16", backend="host", placement=saved)
    )
    assert any(note.startswith("as FP16, converted by edgedla") for note in artifact.notes)
    assert artifact.model["sha256"] == edgedla.check(str(path), **TYPED).sha256
    assert artifact.accuracy is not None
    assert 0 < artifact.accuracy["worst_rel_l2"] < 1e-2, "against the file in FP32, not against itself"


def test_a_trtexec_script_has_the_converted_model_beside_it(path: Path, tmp_path: Path) -> None:
    scripts = edgedla.write_scripts(str(path), tmp_path / "b.sh", BuildRequest(**TYPED, precision="fp16"))
    (beside,) = scripts.stages
    assert beside.name in scripts.script.read_text()
    assert {t.data_type for t in onnx.load(str(beside)).graph.initializer if t.name in ("w", "v")} == {HALF}


def test_deploy_accepts_fp16_only_of_the_converted_model(path: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(str(path), tmp_path / "out", **TYPED, level=2, data="random", backend="host", place="dla")
    assert found.best.name == "the model as FP16, converted by edgedla" or found.best.rewrites
    assert any("as FP16, converted by edgedla" in note for note in found.notes)
    assert found.details["layers_after"]
    assert [t.outcome for t in found.trials if t.name == "INT8"] == ["skipped"]


@pytest.mark.parametrize("kind", [onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16])
def test_double_and_bfloat16_go_to_float16_by_way_of_float(kind: int, tmp_path: Path) -> None:
    """The conversion works on FLOAT alone: such a model stayed as it was, with nothing on the DLA."""
    weight = onnx.helper.make_tensor("w", kind, (8, 3, 3, 3), (np.arange(216.0) / 300 - 0.3).tolist())
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), onnx.helper.make_node("Relu", ["c"], ["y"])],
        "m",
        [onnx.helper.make_tensor_value_info("x", kind, (1, 3, 16, 16))],
        [onnx.helper.make_tensor_value_info("y", kind, (1, 8, 16, 16))],
        [weight],
    )
    opset = 22 if kind == onnx.TensorProto.BFLOAT16 else 17
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    found = edgedla.fix(tmp_path / "m.onnx", target="agx-orin-64gb", trt="11.4.1")
    assert (found.before.layers_dla, found.after.layers_dla) == (2, 2), "a build converts it too"
    assert "types converted to FLOAT (" in found.types
    assert "types converted to FLOAT16 (" in found.types
    kept = edgedla.fix(tmp_path / "m.onnx", target="agx-orin-64gb", trt="11.4.1", skip=["float32-types"])
    assert kept.types == ""


def test_an_output_without_an_error_is_equal_or_was_not_measured() -> None:
    """Neither reads as an error of 0.0."""
    from onnx import helper

    from edgedla.fixes.proofs.float16 import measured_text
    from tests.models import onnx_model

    nodes = [helper.make_node("Relu", ["x"], ["e"]), helper.make_node("Sub", ["x", "x"], ["z"])]
    model = onnx_model(nodes, {"x": (1, 4)}, {"e": (1, 4), "z": (1, 4)}, {})
    text = measured_text(model, model, [{"x": np.arange(4, dtype=np.float32)[None]}], "the data")
    assert text == "error measured on the data (relative L2): e equal; z 0 on every input: not measured"


@pytest.mark.parametrize(("given", "written"), [(None, 14), (12, 12)])
def test_the_operator_set_is_raised_to_the_first_with_float16(given: Optional[int], written: int) -> None:
    """CumSum takes FLOAT16 from operator set 14 on: before, the convolution behind it got a Cast on either side."""
    nodes = [node("Conv", "x w", "a"), node("CumSum", "a axis", "b", name="sums"), node("Conv", "b w", "y")]
    constants = {"w": np.ones((4, 4, 1, 1), np.float32), "axis": np.array(2)}
    model = onnx_model(nodes, {"x": (1, 4, 8, 8)}, {"y": (1, 4, 8, 8)}, constants, opset=12)
    fixed = edgedla.fix(model, **TYPED, opset=given)
    assert [e.version for e in fixed.to_proto().opset_import if e.domain == ""] == [written]
    assert ("operator set 12 has no FLOAT16 for it" in fixed.types) == (given is not None)
    assert ("written in operator set 14" in " ".join(fixed.notes)) == (given is None)


def test_a_model_all_beyond_the_range_stays_float_says_so_and_builds(tmp_path: Path) -> None:
    weights = {"w": np.full((4, 4, 3, 3), 3e5, np.float32)}
    model = onnx_model([node("Conv", "x w", "y", name="large")], {"x": (1, 4, 8, 8)}, {"y": (1, 4, 6, 6)}, weights, opset=17)
    result = edgedla.fix(save(model, tmp_path / "net.onnx"), **TYPED)
    assert result.types.startswith(
        "types stay FLOAT, and nothing runs on the DLA: no node has its values in FP16's range on seeded"
    )
    assert "scale the model's inputs or weights down, or let --data show" in result.types
    assert result.after.layers_dla == 0
    fixed = result.save(tmp_path / "fixed.onnx")[0]
    assert edgedla.check(fixed, **TYPED).totals.layers_dla == 0
    # A build converted it all the same, and ended with infinities.
    artifact = edgedla.build(fixed, tmp_path / "built", BuildRequest(**TYPED, backend="host"))
    assert set(artifact.placement_predicted.values()) == {"GPU"}
