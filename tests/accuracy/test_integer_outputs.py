"""Networks that return classes without scores: the error is measured before the ArgMax, and metrics use the classes."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgedla.accuracy.metrics import METRICS, Metric
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.errors import ModelError
from edgedla.quantization.samples import Samples
from tests.models import node, onnx_model, value

Data = Tuple[Samples, Samples]


@pytest.fixture
def segmenter(network: Any) -> Any:
    """The network behind an ArgMax: one class for each of 4 x 4 places, and no float output."""
    model = onnx.ModelProto.FromString(network.SerializeToString())
    model.graph.node.append(helper.make_node("ArgMax", ["y"], ["mask"], name="argmax", axis=1, keepdims=0))
    model.graph.output[0].CopyFrom(value("mask", (1, 4, 4), TensorProto.INT64))
    return model


def test_the_error_of_an_argmax_output_is_measured_on_its_scores(network: Any, segmenter: Any, data: Data) -> None:
    scores, classes = (quantize(m, data[0], QuantizeRequest(), holdout=data[1]) for m in (network, segmenter))
    assert classes.sqnr_db == pytest.approx(scores.sqnr_db, abs=0.1)
    assert {e.tensor for e in classes.errors} == {e.tensor for e in scores.errors}
    assert any("no output is a float: errors are measured on y" in note for note in classes.notes)
    assert not any("no output is a float" in note for note in scores.notes)


def test_a_metric_gets_the_class_indices_of_an_argmax_output(segmenter: Any, data: Data) -> None:
    seen = set()

    def share(outputs: Mapping[str, np.ndarray], label: Any, _: Any) -> float:
        seen.update((name, array.dtype) for name, array in outputs.items())
        return float((outputs["mask"] == label).mean())

    masks = [np.zeros((4, 4), np.int64) for _ in data[1].feeds]
    labelled = Samples(data[1].feeds, False, "labelled", masks)
    for metric in (Metric("share", share), METRICS["miou"]):
        result = quantize(segmenter, data[0], QuantizeRequest(metric=metric, max_drop=1.0), holdout=labelled)
        assert [s.network for s in result.scores] == ["FP32", "INT8"]
    assert seen == {("mask", np.dtype(np.int64))}


def test_outputs_without_a_float_dependency_are_refused(data: Data) -> None:
    model = onnx_model([node("Shape", "x", "size")], {"x": (1, 3, 16, 16)}, {"size": (4,)}, opset=17, kind=TensorProto.INT64)
    with pytest.raises(ModelError, match="no output depends on a float"):
        quantize(model, data[0], QuantizeRequest(), holdout=data[1])
