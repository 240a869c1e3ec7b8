"""The three forms of Q/DQ for TensorRT 11 compute the same levels, and their scales come back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from edgedla.accuracy.plain.qdq_form import NOTES, quantised_model
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelError, UsageError
from edgedla.placement.check_cost import check
from edgedla.quantization.qdq import strip_qdq
from edgedla.quantization.samples import Samples
from edgedla.quantization.session import open_session
from edgedla.targets import platform_for
from edgedla.vocabulary import QDQ_FORMS
from tests.models import node, onnx_model

NEW = platform_for("agx-orin-64gb", trt="11.4.1")
ABSMAX = {"x": 3.0, "c": 4.0, "r": 4.0, "y": 6.0}


def net(opset: int = 17) -> Any:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)).astype("f") * 0.2, "v": rng.standard_normal((4, 8, 1, 1)).astype("f") * 0.3}
    nodes = [node("Conv", "x w", "c", name="first", pads=[1] * 4), node("Relu", "c", "r"), node("Conv", "r v", "y", name="last")]
    return onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 4, 8, 8)}, weights, opset=opset)


def feeds(count: int = 8) -> Any:
    rng = np.random.default_rng(1)
    return tuple({"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(count))


def run(model: Any) -> np.ndarray:
    return np.asarray(open_session(model.SerializeToString(), optimize=False).run(None, dict(feeds(1)[0]))[0])


def pairs(model: Any) -> Dict[str, int]:
    return Counter(n.op_type for n in model.graph.node)


@pytest.mark.parametrize("form", QDQ_FORMS)
def test_every_form_has_the_levels_of_the_first(form: str) -> None:
    first, made = (quantised_model(net(), ABSMAX, (), f, NEW) for f in ("int8", form))
    onnx.checker.check_model(made, full_check=True)
    # None on "c": TensorRT fuses the Relu that reads it.
    assert pairs(made)["QuantizeLinear"] == pairs(first)["QuantizeLinear"] == 3
    assert pairs(made)["DequantizeLinear"] == 5
    if form == "int8-fp16":
        # FLOAT16 rounds a value beside a border of two levels to the other one: no better or worse than the first form.
        by_onnx = np.asarray(ReferenceEvaluator(made).run(None, dict(feeds(1)[0]))[0])
        of_first, *of_made = (np.linalg.norm(y - run(net())) for y in (run(first), by_onnx, run(made)))
        assert max(of_made) <= 1.1 * of_first
        assert made.ir_version >= 9
    else:
        np.testing.assert_array_equal(run(made), run(first))
    types = {t.name: t.data_type for t in made.graph.initializer}
    scales = {types[n.input[1]] for n in made.graph.node if n.op_type == "QuantizeLinear"}
    zeros = {types[n.input[2]] for n in made.graph.node if n.op_type == "QuantizeLinear"}
    assert scales == {onnx.TensorProto.FLOAT16 if form == "int8-fp16" else onnx.TensorProto.FLOAT}
    assert zeros == {onnx.TensorProto.UINT8 if form == "uint8" else onnx.TensorProto.INT8}
    assert [v.type.tensor_type.elem_type for v in (*made.graph.input, *made.graph.output)] == [1, 1], "the ends stay FLOAT"


def test_the_scales_come_back() -> None:
    back = strip_qdq(quantised_model(net(), ABSMAX, (), "int8", NEW))
    assert {name: round(x, 4) for name, x in back.ranges.items()} == ABSMAX
    with pytest.raises(ModelError, match="zero point|UINT8"):
        strip_qdq(quantised_model(net(), ABSMAX, (), "uint8", NEW))


@pytest.mark.parametrize("form", QDQ_FORMS)
def test_no_pair_keeps_a_convolution_from_what_is_fused_into_it(form: str) -> None:
    constants: Dict[str, Any] = {"w": np.full((4, 3, 3, 3), 0.1, "f"), "sizes": np.array([1, 1, 2, 2], "f")}
    constants.update((name, np.full(4, value, "f")) for name, value in (("g", 1.0), ("b", 0.1), ("m", 0.0), ("s", 1.0)))
    nodes = [
        node("Conv", "x w", "c", name="conv", pads=[1] * 4),
        node("BatchNormalization", "c g b m s", "n"),
        node("Relu", "n", "r"),
        node("Resize", "r  sizes", "y", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]
    nodes[-1].input[:] = ["r", "", "sizes"]
    model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 4, 16, 16)}, constants, opset=17)
    result = quantize(model, Samples(feeds(16), False, "16 tests"), QuantizeRequest(trt="11.4.1", quick=True, qdq_form=form))
    assert result.model is not None
    made = onnx.load_from_string(result.model)
    maker = {o: n.op_type for n in made.graph.node for o in n.output}
    read = [n.input[0] for n in made.graph.node if n.op_type == "QuantizeLinear"]
    assert sorted(maker.get(name, "input") for name in read) in (["Relu", "Resize", "input"], ["Cast", "Relu", "Resize"])
    scales = {
        t.name: float(onnx.numpy_helper.to_array(t)) for t in made.graph.initializer if t.name.endswith("/scale") and not t.dims
    }
    assert len(set(scales.values())) == 2, "the resize reads and writes one scale"


def test_float16_scales_raise_the_operator_set_and_hold_what_stays_float() -> None:
    made = quantised_model(net(13), ABSMAX, ("last",), "int8-fp16", NEW)
    assert made.opset_import[0].version == 19
    last = next(n for n in made.graph.node if n.name == "last")
    assert last.input[1] == "v", "a node that stays in FP16 reads its weights without a pair"


def test_the_float_ends_of_a_float16_network_have_their_pairs_on_the_inner_side() -> None:
    """An input's own pair in FLOAT would make a second one: TensorRT reads the one behind the Cast."""
    made = quantised_model(net(), ABSMAX, (), "int8-fp16", NEW)
    maker = {o: n for n in made.graph.node for o in n.output}
    quantised = {n.input[0] for n in made.graph.node if n.op_type == "QuantizeLinear"}
    ends = {n.output[0] for n in made.graph.node if n.op_type == "Cast" and n.input[0] == "x"}
    assert ends & quantised
    assert all(maker[name].op_type != "Relu" or name in ABSMAX for name in quantised if name in maker)
    assert pairs(made)["QuantizeLinear"] == pairs(quantised_model(net(), ABSMAX, (), "int8", NEW))["QuantizeLinear"]


@pytest.mark.parametrize("form", QDQ_FORMS)
def test_quantize_writes_the_form_and_says_that_int8_is_not_known(form: str, tmp_path: Path) -> None:
    request = QuantizeRequest(trt="11.4.1", quick=True, qdq_form=form)
    result = quantize(net(), Samples(feeds(16), False, "16 tests"), request)
    assert any(NOTES[form] in note and "may compute it in FP16" in note for note in result.notes)
    result.save(tmp_path / "q")
    report = check(str(tmp_path / "q" / "model.onnx"), target="agx-orin-64gb", trt="11.4.1")
    assert report.totals.layers > 0
    data, model = tmp_path / "x.npz", tmp_path / "m.onnx"
    onnx.save(net(), model)
    np.savez(data, x=np.concatenate([f["x"] for f in feeds(16)]))
    line = ["quantize", str(model), "--data", str(data), "--quick", "--qdq-form", form, "-o", str(tmp_path / "p")]
    assert exit_code_of([*line, "--trt", "11.4.1"]) == 0
    assert exit_code_of(line) == (0 if form == "int8" else 2)


def test_a_cache_release_takes_no_form() -> None:
    with pytest.raises(UsageError, match="takes a calibration cache, no Q/DQ"):
        quantize(net(), Samples(feeds(16), False, "16"), QuantizeRequest(trt="10.3", qdq_form="uint8"))
    with pytest.raises(UsageError, match="unknown form of Q/DQ 'int4'"):
        QuantizeRequest(qdq_form="int4")
