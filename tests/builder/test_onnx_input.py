"""Models with broken constants: an error about the model, not one of the library that reads them first."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import edgedla
from edgedla import BuildRequest, build
from edgedla.builder.onnx_input import by_port, load_model, open_batches, read_model
from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from edgedla.quantization.calibration_cache import write_cache
from edgedla.quantization.session import open_session
from tests.hostile.commands import small_model
from tests.hostile.nasty_models import domain_without_opset, function_named_like_an_operator, model
from tests.models import node, onnx_model, save

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def cut(tensor: TensorProto) -> None:
    tensor.raw_data = tensor.raw_data[:-4]


def longer(tensor: TensorProto) -> None:
    tensor.dims[0] = 9


def without_type(tensor: TensorProto) -> None:
    tensor.data_type = 0


@pytest.mark.parametrize("precision", ["fp16", "int8"])
@pytest.mark.parametrize("damage", [cut, longer, without_type], ids=lambda f: f.__name__)
def test_a_constant_whose_data_does_not_match_its_dims_is_refused(damage: Callable, precision: str, tmp_path: Path) -> None:
    model = small_model()
    damage(model.graph.initializer[0])
    onnx.save(model, str(tmp_path / "m.onnx"))
    with pytest.raises(ModelError):
        build(tmp_path / "m.onnx", tmp_path / "a", BuildRequest(target="orin", backend="host", precision=precision))


@pytest.mark.parametrize("make", [domain_without_opset, function_named_like_an_operator], ids=lambda f: f.__name__)
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_models_on_which_shape_inference_raises_build_or_are_refused(make: Callable, precision: str, tmp_path: Path) -> None:
    from edgedla.cli.main import exit_code_of

    onnx.save(make(), str(tmp_path / "m.onnx"))
    line = ["build", str(tmp_path / "m.onnx"), "--target", "orin", "--backend", "host", "--precision", precision]
    assert exit_code_of([*line, "-o", str(tmp_path / "a")]) in (0, 3, 5)


def test_an_attribute_of_another_type_in_an_old_model_is_refused_before_it_is_converted(tmp_path: Path) -> None:
    """onnx's converter crashes in native code at it."""
    nodes = [onnx.helper.make_node("Unsqueeze", ["x"], ["u"]), onnx.helper.make_node("Squeeze", ["u"], ["y"], axes=[1])]
    nodes[0].attribute.add(name="axes", type=onnx.AttributeProto.INTS, s=b"1")
    onnx.save(model(nodes, dims=(1, 8, 4, 4), opset=6), str(tmp_path / "m.onnx"))
    with pytest.raises(ModelError, match="opset 6 is too old and cannot be converted"):
        read_model(tmp_path / "m.onnx")


def test_a_truncated_model_gives_the_same_error_as_check(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small_model().SerializeToString()[:-40])
    for weights in (True, False):
        with pytest.raises(ModelError, match="not a readable ONNX model: cut off") as refused:
            load_model(path, weights=weights)
        with pytest.raises(ModelError) as checked:
            edgedla.check(path, target="orin")
        assert str(refused.value) == str(checked.value)
    with pytest.raises(ModelError, match="no such file"):
        load_model(tmp_path / "none.onnx")


def test_a_model_without_an_operator_set_is_said_to_have_none(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    made = small_model()
    del made.opset_import[:]
    onnx.save(made, str(path))
    with pytest.raises(ModelError, match="it names no operator set"):
        read_model(path)


def test_weights_beyond_protobufs_limit_are_refused_before_they_are_read(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Serialising the model ended as a bug, with exit code 70."""
    weights = [TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[16384, 16384]) for i in range(2)]
    for weight in weights:
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="weights.bin")
    nodes = [node("MatMul", "x w0", "a", "mm0"), node("MatMul", "a w1", "y", "mm1")]
    path = tmp_path / "large.onnx"
    made = onnx_model(nodes, {"x": (1, 16384)}, {"y": (1, 16384)}, weights, opset=17)
    path.write_bytes(made.SerializeToString())
    for command in (["build", "--backend", "host"], ["deploy"], ["quantize", "--data", "gone.npy"]):
        assert exit_code_of([command[0], str(path), *command[1:], "-o", str(tmp_path / command[0])]) == 3
        assert "large.onnx: 2.0 GiB of weights cannot run here: protobuf" in capsys.readouterr().err
    assert exit_code_of(["check", str(path), "-q", "--fail-on", "never"]) == 0
    assert exit_code_of(["build", str(path), "--backend", "trtexec", "-o", str(tmp_path / "script")]) == 0


def test_missing_weights_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_model(), str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match=r"external weights are missing \(w.bin\)"):
        load_model(path)
    assert load_model(path, weights=False).graph.initializer
    (tmp_path / "w.bin").write_bytes(b"1")
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(path)


@pytest.mark.parametrize("given", [{}, {"calib": "calib.cache"}], ids=["random samples", "a cache"])
def test_int8_build_of_an_fp16_model_is_refused(given: Dict[str, str], tmp_path: Path) -> None:
    half = onnx_model(
        [node("Conv", "x w", "y", name="conv")],
        outputs={"y": (1, 4, 6, 6)},
        constants={"w": np.ones((4, 3, 3, 3), np.float16)},
        kind=TensorProto.FLOAT16,
    )
    half.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    save(half, tmp_path / "half.onnx")
    (tmp_path / "calib.cache").write_text(write_cache({"x": 12.7, "y": 12.7}, (10, 3, 0)))
    paths = {option: str(tmp_path / file) for option, file in given.items()}
    request = BuildRequest(target="agx-orin-64gb", precision="int8", backend="host", **paths)
    with pytest.raises(ModelError, match="1 of 1 layers compute in FP16 by the model's own types, first 'conv'"):
        build(tmp_path / "half.onnx", tmp_path / "out", request)
    assert not (tmp_path / "out").exists()


def test_unreadable_external_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.onnx"
    onnx.save(small_model(), str(file), save_as_external_data=True, location="w.bin", size_threshold=0)

    # Root may read every file.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "w.bin")
    if sys.version_info >= (3, 10):
        with pytest.raises(ModelError, match="w.bin: external weights cannot be read"):
            edgedla.fix(file, target="agx-orin-64gb")

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError("kernel rejected path")

    monkeypatch.setattr(onnx, "load", refused)
    with pytest.raises(ModelError, match=r"cannot be read \(w.bin\): permission denied"):
        load_model(file)


def test_only_an_open_batch_is_closed() -> None:
    rows = [("x", ("n", 3, 8, 8)), ("z", (2, "h")), ("both", ("n", "h")), ("fixed", (4, 3))]
    model = onnx_model([node("Identity", name, f"{name}1") for name, _ in rows], dict(rows), [f"{name}1" for name, _ in rows])
    assert open_batches(model) == {"x": (1, 3, 8, 8)}


def test_an_input_that_is_also_an_output_gets_the_engines_binding_name(tmp_path: Path) -> None:
    dims = ("N", 3, 8, 8)
    handed_on = onnx_model([node("Relu", "x", "y"), node("Neg", "y", "__x")], {"x": dims}, {"x": dims, "y": dims})
    read = read_model(save(handed_on, tmp_path / "m.onnx"))
    onnx.checker.check_model(read)
    assert [v.name for v in (*read.graph.input, *read.graph.output)] == ["__x", "x", "y"]
    assert (read.graph.node[0].op_type, list(read.graph.node[0].input)) == ("Relu", ["__x"])
    assert by_port(read, {"x": (2, 3, 8, 8), "z": (1,)}) == {"__x": (2, 3, 8, 8), "z": (1,)}
    plain = onnx_model([node("Relu", "x", "y")])
    assert by_port(plain, {"x": (1,)}) == by_port(plain, {"": (1,)}) == {"x": (1,)}
    for name in ("x", "__x", ""):
        assert load_onnx(tmp_path / "m.onnx", shapes={name: (2, 3, 8, 8)}).tensors["__x"].dims == (2, 3, 8, 8)


def test_a_tensor_with_the_engines_binding_name_stays_another_tensor() -> None:
    """Two tensors of one name joined layers that have nothing to do with each other, in a circle."""
    dims = (1, 3, 8, 8)
    model = onnx_model([node("Relu", "x", "y"), node("Neg", "y", "__x")], {"x": dims}, {"x": dims, "y": dims})
    graph = load_onnx(model)
    assert {layer.type: (layer.inputs, layer.outputs) for layer in graph.layers} == {
        "ACTIVATION": (("__x",), ("y",)),
        "UNARY": (("y",), ("__x_1",)),
        "IDENTITY": (("__x",), ("x",)),
    }
    assert edgedla.predict(model, target="orin").latency.latency_us > 0


def test_the_copy_of_such_an_input_is_no_part_of_the_node_before_it(tmp_path: Path) -> None:
    """Else a GPU layer would count as the last node's, and that node would be simulated in FP32 on the GPU."""
    dims = (1, 8, 16, 16)
    weights = {"w": np.ones((8, 8, 1, 1), "f4")}
    handed_on = onnx_model([node("Conv", "x w", "y", name="c")], {"x": dims}, {"y": dims, "x": dims}, weights)
    graph = load_onnx(handed_on)
    # As NVIDIA's parser names it.
    assert {x.type: x.onnx_node for x in graph.layers} == {"CONVOLUTION": "c", "IDENTITY": "c"}
    assert [n.layers for n in graph.nodes] == [(0,)]
    artifact = build(handed_on, tmp_path / "a", BuildRequest(target="orin", backend="host"))
    assert artifact.accuracy["nodes"] == {"dla_int8": 0, "dla_fp16": 1, "gpu_fp32": 1}


def test_a_shape_without_a_name_is_that_of_the_only_input_for_evaluate_too(tmp_path: Path) -> None:
    from edgedla.cli.main import exit_code_of

    path, data = save(onnx_model([node("Relu", "x", "y")], {"x": ("N", 3, 8, 8)}), tmp_path / "m.onnx"), "s.npz"
    np.savez(tmp_path / data, x=np.ones((2, 2, 3, 8, 8), np.float32))
    asked = ["evaluate", str(path), "--data", str(tmp_path / data), "--metric", "cosine", "--against", str(path)]
    assert exit_code_of([*asked, "--shapes", "2x3x8x8"]) == 0


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_model_that_returns_its_input_is_built_and_evaluated(precision: str, tmp_path: Path) -> None:
    from edgedla.cli.main import exit_code_of

    dims = ("N", 3, 8, 8)
    path, data, built = str(tmp_path / "m.onnx"), str(tmp_path / "s.npz"), str(tmp_path / "a")
    save(onnx_model([node("Relu", "x", "y")], {"x": dims}, {"x": dims, "y": dims}), Path(path))
    np.savez(data, x=np.random.default_rng(0).standard_normal((8, 2, 3, 8, 8)).astype(np.float32))
    sizes = ["--shapes", "x:2x3x8x8"]
    options = [*sizes, "--precision", precision, *(["--calib-data", data] if precision == "int8" else [])]
    assert exit_code_of(["build", path, "--backend", "host", "-o", built, *options]) == 0
    scored = ["--data", data, "--metric", "cosine"]
    assert exit_code_of(["evaluate", built, *scored, "--against", path, *sizes]) == 0
    assert exit_code_of(["evaluate", path, *scored, "--against", built, *sizes]) == 0
    # It is written; that few samples do not show that it keeps the metric.
    assert exit_code_of(["deploy", path, "--backend", "host", "--data", data, "-o", str(tmp_path / "d"), *sizes]) == 7


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_converting_an_old_clip_keeps_the_type_of_its_bounds(kind: int, tmp_path: Path) -> None:
    """ONNX's converter writes them in FLOAT, and nothing runs the model."""
    nodes = [node("Clip", "x", "a", min=0.0, max=6.0), node("Clip", "a", "y", min=1.0, max=5.0)]
    old = onnx_model(nodes, outputs={"y": (1, 3, 8, 8)}, opset=9, kind=kind)
    old.graph.input[0].type.tensor_type.elem_type = kind
    session = open_session(read_model(save(old, tmp_path / "m.onnx")).SerializeToString())
    x = np.linspace(-9, 9, 192).reshape(1, 3, 8, 8).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], np.clip(x, 1, 5))
    if sys.version_info >= (3, 10):
        fixed = edgedla.fix(tmp_path / "m.onnx", target="agx-orin-64gb", precision="fp16", opset=13).save(tmp_path / "f.onnx")
        found = open_session(Path(fixed[0]).read_bytes()).run(["y"], {"x": x})[0]
        np.testing.assert_array_equal(found, np.clip(x, 1, 5))
