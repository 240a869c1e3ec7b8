"""From ONNX to the final state of each node, against the logs of real builds (tests/data/regions)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
import yaml

from edgedla.placement.check_cost import check

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

from tests.models import onnx_model  # noqa: E402

DATA = Path(__file__).resolve().parent.parent / "data" / "regions" / "observed.yaml"
OBSERVED: Dict[str, Any] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
RUNS = [
    pytest.param(case, run, id=f"{case['name']}, {run['target']} {run['trt']} {run['precision']}")
    for case in OBSERVED["cases"]
    for run in case["runs"]
]


def constant(text: str, name: str) -> Any:
    if text[0] == "s":
        return numpy_helper.from_array(np.array(float(text[1:]), np.float32), name)
    if text[0] == "i":
        return numpy_helper.from_array(np.array([int(v) for v in text[1:].split(",")], np.int64), name)
    return numpy_helper.from_array(np.zeros([int(d) for d in text[1:].split("x")], np.float32), name)


def model_of(case: Dict[str, Any]) -> Any:
    """The case's nodes as a ModelProto of opset 17."""
    names = {line[1] for line in case["nodes"]}
    nodes, weights, read = [], {}, set()  # type: Tuple[List[Any], Dict[str, Any], set]
    for op, name, inputs, attributes, _ in case["nodes"]:
        tensors = []
        for i, text in enumerate(inputs):
            source, _, output = text.partition(":")
            if source in names:
                tensors.append(f"{source}.{output or 0}")
                read.add(tensors[-1])
            elif text == "x":
                tensors.append(text)
            else:
                shared, _, value = text.rpartition("=")
                tensor = shared or f"{name}.w{i}"
                weights.setdefault(tensor, constant(value, tensor))
                tensors.append(tensor)
        attributes = dict(attributes)
        outputs = [f"{name}.{k}" for k in range(attributes.pop("outputs", 1))]
        nodes.append(helper.make_node(op, tensors, outputs, name=name, **attributes))
    ends = [o for node in nodes for o in node.output if o not in read]
    return onnx_model(nodes, {"x": case["x"]}, {o: None for o in ends}, list(weights.values()), opset=17)


@pytest.mark.parametrize(("case", "run"), RUNS)
def test_predicted_placement_of_every_node_equals_the_build_log(case: Dict[str, Any], run: Dict[str, str]) -> None:
    assert case["source"] in OBSERVED["sources"]
    report = check(model_of(case), **run)
    predicted = {n.name: n for n in report.nodes}
    wrong = {
        name: f"logged {answer}, predicted {predicted[name].placed}: {predicted[name].reason}"
        for _, name, _, _, answer in case["nodes"]
        if (str(predicted[name].placed) == "dla") != (answer == "dla")
    }
    assert not wrong
    assert report.totals.regions == case["regions"]
