"""Sizes given to a model: an error that they cause names them; an error of the model itself does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelError, ModelTooLarge
from edgedla.importers import load_onnx
from tests.models import node, onnx_model, save


def flattened(to: int, batch: Any = 1) -> Any:
    """x (batch, 3, 8, 8) -> a convolution -> y (1, to), as an export of one batch writes it."""
    weights = {"w": np.ones((4, 3, 3, 3), np.float32), "t": np.array([1, to], np.int64)}
    nodes = [node("Conv", "x w", "c", name="conv", pads=[1, 1, 1, 1]), node("Reshape", "c t", "y", name="flat")]
    return onnx_model(nodes, {"x": (batch, 3, 8, 8)}, {"y": (1, to)}, weights, opset=17)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"batch": 2}, "--batch 2 breaks it: with its own sizes (x 1x3x8x8) the model is read"),
        ({"shapes": {"x": (1, 3, 16, 8)}}, "--shapes x:1x3x16x8 breaks it: with its own sizes (x 1x3x8x8)"),
        ({"shapes": {"": (2, 3, 8, 8)}}, "--shapes 2x3x8x8 breaks it"),
    ],
)
def test_sizes_that_break_a_model_are_named(given: Dict[str, Any], named: str) -> None:
    assert load_onnx(flattened(256)).layers
    with pytest.raises(ModelError, match="reshape changes volume") as caught:
        load_onnx(flattened(256), **given)
    assert str(caught.value.hint).startswith(named)
    assert "as seen in the parser of TensorRT" in str(caught.value.hint)
    assert "node 'flat' [Reshape]" in str(caught.value.where)


def test_a_batch_that_breaks_an_open_model_is_named() -> None:
    with pytest.raises(ModelError) as caught:
        load_onnx(flattened(256, "n"), batch=2)
    assert "--batch 2 breaks it: with its own sizes (x ?x3x8x8)" in str(caught.value.hint)


def test_a_model_refused_at_any_size_does_not_blame_the_given_one() -> None:
    with pytest.raises(ModelError) as alone:
        load_onnx(flattened(100))
    with pytest.raises(ModelError) as caught:
        load_onnx(flattened(100), batch=2)
    assert "breaks it" not in str(alone.value) + str(caught.value)
    assert caught.value.__cause__ is not caught.value, "who walks along the causes never arrives"


def test_a_size_limit_error_keeps_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.importers import onnx_model as module

    def too_large(*_: Any) -> None:
        raise ModelTooLarge("too many", where="x")

    monkeypatch.setattr(module, "_import", too_large)
    with pytest.raises(ModelTooLarge):
        load_onnx(flattened(256), batch=2)


@pytest.mark.parametrize("verb", ["check", "place", "layers", "build"])
def test_every_command_names_the_size_that_breaks_the_model(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(flattened(256), tmp_path / "m.onnx")
    given = [verb, str(tmp_path / "m.onnx"), "--batch", "2"]
    assert exit_code_of([*given, "-o", str(tmp_path / "out")] if verb == "build" else given) == 3
    assert "--batch 2 breaks it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_fix_names_the_check_command_that_explains_the_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx_ir")
    save(flattened(256), tmp_path / "m.onnx")
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--batch", "2", "--dry-run"]) == 3
    told = capsys.readouterr().err
    assert "--target agx-orin-64gb --trt 10.3.0 --batch 2` says where the parser stops, and why" in told


@pytest.fixture
def shapeless(tmp_path: Path) -> Path:
    """A model with an input of which it does not even say how many dims it has, as TensorFlow's exports may have."""
    model = onnx_model(
        [node("Conv", "x w", "y", name="conv")], {"x": (1, 3, 8, 8)}, {"y": None}, {"w": np.ones((4, 3, 3, 3), np.float32)}
    )
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return save(model, tmp_path / "open.onnx")


def test_check_and_place_ask_for_the_shape_of_an_input_without_one(shapeless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", str(shapeless), "--target", "agx-orin-64gb"]) == 1
    told = capsys.readouterr().out
    assert "input 'x' has no shape; give --shapes x:NxCxHxW" in told
    assert "sizes that are open: --shapes x:NxCxHxW" in " ".join(told.split()), "what to do next is something else"
    assert "1. Fix the input shapes" in told
    assert "No remedy is known" not in told
    assert exit_code_of(["place", str(shapeless), "--target", "agx-orin-64gb"]) == 2
    assert "has no shape: nothing can be placed before it is fixed; give --shapes x:NxCxHxW" in capsys.readouterr().err


def test_fix_asks_for_a_missing_shape_and_accepts_it(shapeless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx_ir", reason="onnx-ir is not installed")
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    out = shapeless.parent / "fixed.onnx"
    command = ["fix", str(shapeless), "--target", "agx-orin-64gb", "-o", str(out)]
    assert exit_code_of(command) == 3
    assert f"{shapeless}: input 'x' has no shape\n  give --shapes x:NxCxHxW" in capsys.readouterr().err
    assert not out.exists()
    assert exit_code_of([*command, "--shapes", "x:1x3x8x8"]) == 0
    assert out.exists()
