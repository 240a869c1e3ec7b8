"""Models whose constants are broken: an error of the model, not of the library that first looks at them."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import onnx
import pytest
from onnx import TensorProto

import edgedla
from edgedla import BuildRequest, build
from edgedla.builder.onnx_input import load_model, read_model
from edgedla.errors import ModelError
from tests.hostile.commands import small_model
from tests.hostile.nasty_models import domain_without_opset, function_named_like_an_operator, model

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def cut(tensor: TensorProto) -> None:
    tensor.raw_data = tensor.raw_data[:-4]


def longer(tensor: TensorProto) -> None:
    tensor.dims[0] = 9


def without_type(tensor: TensorProto) -> None:
    tensor.data_type = 0


@pytest.mark.parametrize("precision", ["fp16", "int8"])
@pytest.mark.parametrize("damage", [cut, longer, without_type], ids=lambda f: f.__name__)
def test_a_constant_that_does_not_fit_its_dims(damage: Callable, precision: str, tmp_path: Path) -> None:
    model = small_model()
    damage(model.graph.initializer[0])
    onnx.save(model, str(tmp_path / "m.onnx"))
    with pytest.raises(ModelError):
        build(tmp_path / "m.onnx", tmp_path / "a", BuildRequest(target="orin", backend="host", precision=precision))


@pytest.mark.parametrize("make", [domain_without_opset, function_named_like_an_operator], ids=lambda f: f.__name__)
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_models_on_which_shape_inference_raises_build_or_are_refused(
    make: Callable, precision: str, tmp_path: Path
) -> None:
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


def test_a_file_that_is_no_model_has_the_words_of_a_check(tmp_path: Path) -> None:
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
