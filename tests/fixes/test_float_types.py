"""`fix` of a model in half precision: converted to FLOAT for INT8, proven node by node, and only if requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelError
from edgedla.fixes.proofs import float_types
from edgedla.fixes.proofs.float_types import prove_types
from edgedla.quantization.session import open_session
from edgedla.reports.fixes import render_fix
from tests.importers.test_float32_types import types_left
from tests.models import constant, node, onnx_model, save
from tests.quantization.half_nets import halved

ORIN: Any = {"target": "agx-orin-64gb", "trt": "10.3"}


def net() -> Any:
    """Conv, HardSwish, a large Conv, and its mean."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((16, 3, 3, 3)).astype(np.float32) * 0.3,
        "v": rng.standard_normal((32, 16, 3, 3)).astype(np.float32) * 0.1,
    }
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("HardSwish", "a", "h"),
        node("Conv", "h v", "c", pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", "c", "y"),
    ]
    return onnx_model(nodes, {"x": (1, 3, 14, 14)}, {"y": (1, 32, 1, 1)}, weights, opset=17)


def outputs(model: Any, x: np.ndarray) -> np.ndarray:
    feed = x.astype(np.float16) if model.graph.input[0].type.tensor_type.elem_type == 10 else x
    return np.asarray(open_session(model.SerializeToString(), optimize=False).run(["y"], {"x": feed})[0], np.float32)


@pytest.mark.parametrize("keep_ends", [False, True])
def test_int8_fix_converts_half_types_to_float_with_a_proof(keep_ends: bool, tmp_path: Path) -> None:
    model = halved(net(), keep_ends)
    result = edgedla.fix(model, precision="int8", **ORIN)
    assert result.types.startswith("types converted to FLOAT (4 of 4 nodes compute in FLOAT16, first 'a'): proven on ")
    assert result.interface == (() if keep_ends else ("x takes FLOAT, before FLOAT16", "y gives FLOAT, before FLOAT16"))
    assert result.counts["hard-sigmoid"] == 1, "exact in FLOAT, and not in FLOAT16"
    written = onnx.load(str(result.save(tmp_path / "out.onnx")[0]))
    assert types_left(written) == []
    x = np.random.default_rng(1).standard_normal((1, 3, 14, 14)).astype(np.float32)
    assert np.allclose(outputs(written, x), outputs(model, x), rtol=4e-3, atol=2e-3)
    assert result.to_dict()["types"] == result.types
    for form in ("text", "html"):
        assert "proven on" in " ".join(render_fix(result, form).split())


def test_float32_types_runs_for_int8_or_by_name_unless_skipped() -> None:
    model = halved(net())
    assert edgedla.fix(model, precision="int8", skip="float32-types", **ORIN).types == ""
    assert edgedla.fix(model, precision="fp16", **ORIN).types == "", "FP16 builds of it need nothing"
    assert edgedla.fix(model, target="agx-orin-64gb", trt="11.4.1", precision="int8").types == "", "it is FP16 already"
    alone = edgedla.fix(model, only="float32-types", **ORIN)
    assert (alone.applied, types_left(alone.to_proto())) == ((), [])
    both = edgedla.fix(model, only=["float32-types", "hard-sigmoid"], **ORIN)
    assert (set(both.counts), types_left(both.to_proto())) == ({"hard-sigmoid"}, [])
    assert edgedla.fix(net(), precision="int8", **ORIN).types == ""


def test_external_weights_are_converted_to_float_on_writing(tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    onnx.save(halved(net()), str(path), save_as_external_data=True, location="half.bin", size_threshold=10)
    edgedla.fix(path, precision="int8", **ORIN).save(tmp_path / "out.onnx")
    whole = onnx.load(str(tmp_path / "out.onnx"))
    assert types_left(whole) == []
    original = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(path)).graph.initializer}
    kept = {t.name: numpy_helper.to_array(t) for t in whole.graph.initializer if t.name in original}
    assert kept
    assert all(np.array_equal(kept[name], original[name]) for name in kept)
    (tmp_path / "half.bin").unlink()
    without = edgedla.fix(path, precision="int8", **ORIN)
    assert without.types.endswith("not proven: it did not run")
    assert types_left(without.to_proto()) == []


def test_overflows_in_half_precision_are_reported() -> None:
    nodes = [node("Mul", "x k", "a"), node("Sub", "a a", "b"), node("Relu", "b", "y")]
    model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)}, {"k": np.array(6e4, np.float32)}, opset=17)
    result = edgedla.fix(halved(model), precision="int8", **ORIN)
    assert result.types.endswith("not proven: on this input 'a' is not a number in the model's own type, but is one in FLOAT")


def test_a_type_conversion_whose_outputs_differ_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = float_types.turn_types

    def wrong(model: Any) -> Any:
        interface = plain(model)
        weight = model.graph.initializer[0]
        weight.CopyFrom(constant(weight.name, numpy_helper.to_array(weight) * 1.01))
        return interface

    monkeypatch.setattr(float_types, "turn_types", wrong)
    with pytest.raises(ModelError, match="in FLOAT the model computes something else: a differs by 0.0"):
        edgedla.fix(halved(net()), precision="int8", **ORIN)


def test_quantised_levels_may_differ_by_one_after_type_conversion() -> None:
    """x / scale in FLOAT16 falls on another side of a half now and then; the network does not compute something else."""
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    constants = [constant("s", np.array(0.013, np.float32)), constant("z", np.array(0, np.int8))]
    model = halved(onnx_model(nodes, {"x": (1, 3, 32, 32)}, {"y": (1, 3, 32, 32)}, constants, opset=19))
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float16)
    turned = type(model)()
    turned.CopyFrom(model)
    float_types.turn_types(turned)
    proof = prove_types(model, turned, {"x": x})
    assert (proof.failed, proof.nodes) == ("", 2)


def test_what_follows_an_overflow_is_left_out_and_the_rest_is_compared() -> None:
    """a is beyond FLOAT16, b reads it, and c and y do not."""
    nodes = [node("Mul", "x k", "a"), node("Relu", "a", "b"), node("Relu", "x", "c"), node("Sigmoid", "c", "y")]
    model = halved(onnx_model(nodes, {"x": (1, 4)}, {"b": (1, 4), "y": (1, 4)}, [constant("k", np.float32(6e4))]))
    turned = type(model)()
    turned.CopyFrom(model)
    float_types.turn_types(turned)
    proof = prove_types(model, turned, {"x": np.array([[1.0, 2.0, 3.0, 4.0]], np.float16)})
    assert (proof.overflow, proof.failed, proof.nodes) == ("a", "", len(nodes))


def test_a_large_network_is_proven_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = edgedla.fix(halved(net()), only="float32-types", **ORIN).types
    monkeypatch.setattr(float_types, "MOST_HELD_BYTES", 50_000)
    assert edgedla.fix(halved(net()), only="float32-types", **ORIN).types == whole


def test_networks_with_half_precision_inside_use_its_wider_bound() -> None:
    """Its outputs are FLOAT, so that the bound of FLOAT would refuse every rewrite with sums in another order."""
    result = edgedla.fix(halved(net(), keep_ends=True), only="global-average-pool", **ORIN)
    assert result.counts == {"global-average-pool": 1}
    assert result.network.within
    assert result.network.bound == 4e-3


def test_float32_types_is_listed_and_described_in_a_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["fix", "--list"]) == 0
    assert "float32-types" in capsys.readouterr().out.splitlines()[1]
    path = save(halved(net()), tmp_path / "half.onnx")
    assert exit_code_of(["fix", str(path), "--dry-run", "--only", "float32-types"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "types converted to FLOAT, no site rewritten" in text
    assert "x takes FLOAT, before FLOAT16" in text


def test_a_type_that_onnx_runtime_lacks_leaves_proofs_open_and_is_no_error() -> None:
    """ONNX Runtime has no convolution in BFLOAT16: the model is right all the same."""
    kernel = helper.make_tensor("w", TensorProto.BFLOAT16, [8, 8, 3, 3], [0.1] * 576)
    nodes = [
        node("Cast", "x", "b", to=TensorProto.BFLOAT16),
        node("Conv", "b w", "c", pads=[1, 1, 1, 1]),
        node("Cast", "c", "y", to=TensorProto.FLOAT),
    ]
    model = onnx_model(nodes, {"x": (1, 8, 16, 16)}, {"y": (1, 8, 16, 16)}, [kernel], opset=22)
    result = edgedla.fix(model, target="orin", precision="fp16", purpose="standalone")
    assert [(site.rewrite, site.proof.status) for site in result.applied] == [("decoder-cut", "unproved")]
    assert result.network.within is None
    assert result.network.detail.startswith("not run: ONNX Runtime refuses the model: Could not find an implementation")
