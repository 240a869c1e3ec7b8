"""Sessions of ONNX Runtime: the resources that they use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from edgedla.builder.onnx_input import load_model  # noqa: E402
from edgedla.errors import ModelError  # noqa: E402
from edgedla.quantization.session import _lacks_operator, import_onnxruntime, open_session  # noqa: E402
from tests.frozen import changeable  # noqa: E402
from tests.models import node, onnx_model, value  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
THREADS = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from edgedla.quantization.session import open_session
before = len(os.listdir("/proc/self/task"))
session = open_session(open(sys.argv[1], "rb").read())
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or (os.cpu_count() or 1) < 2, reason="one core, or not Linux")
def test_a_session_has_as_many_threads_as_the_process_may_use_cores(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_model([node("Relu", "x", "y")]).SerializeToString())
    done = subprocess.run([sys.executable, "-c", THREADS, str(model)], cwd=ROOT, capture_output=True, text=True)
    # The process has its own core; ONNX Runtime needs no thread beside it.
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize(("operator", "domain"), [("EfficientNMS_TRT", "TRT"), ("VoxelGenerator", "")])
def test_an_operator_of_a_plugin_is_refused_with_an_alternative(operator: str, domain: str) -> None:
    """Exporters write TensorRT's plugins into a domain of their own, or among ONNX's operators."""
    model = onnx_model([node(operator, "x", "y", domain=domain)], opset=17)
    model.opset_import.add(domain="TRT", version=1)
    with pytest.raises(ModelError) as error:
        open_session(model.SerializeToString())
    assert operator in error.value.what
    assert "end the model in front of it" in error.value.hint


def split(*outputs: str) -> Any:
    return helper.make_node("Split", ["x"], list(outputs), name="s", axis=1)


def looped() -> Any:
    """A Loop of two rounds whose last value nothing reads."""
    kinds = [TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT]
    ends = [helper.make_tensor_value_info(name, kind, []) for name, kind in zip(("i", "c", "a"), kinds)]
    named = [helper.make_tensor_value_info(name, kind, []) for name, kind in zip(("co", "ao", "so"), (9, 1, 1))]
    same = [helper.make_node("Identity", [a], [b]) for a, b in (("c", "co"), ("a", "ao"), ("a", "so"))]
    body = helper.make_graph(same, "body", ends, named)
    return helper.make_node("Loop", ["rounds", "go", "zero"], ["", "scanned"], name="l", body=body)


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
def test_a_split_with_an_output_that_has_no_name_runs(place: str) -> None:
    nodes, more = [split("", "b"), node("Relu", "b", "y")], {}
    if place == "branch":
        other = [node("Relu", "x", "s/unread"), split("s", "b"), node("Relu", "b", "y")]
        parts = [helper.make_graph(n, "part", [], [value("y", None)]) for n in (nodes, other)]
        nodes = [helper.make_node("If", ["go"], ["y"], then_branch=parts[0], else_branch=parts[1])]
    elif place == "function":
        opsets = [helper.make_opsetid("", 13)]
        more["functions"] = [helper.make_function("own", "Half", ["x"], ["y"], nodes, opsets)]
        nodes = [helper.make_node("Half", ["x"], ["y"], domain="own")]
    constants = {"go": np.array(True)} if place == "branch" else {}
    model = onnx_model(nodes, {"x": (1, 4, 2, 2)}, {"y": None}, constants, **more)
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)
    (y,) = open_session(model.SerializeToString()).run(["y"], {"x": x})
    assert np.array_equal(y, x[:, 2:])


def test_a_loop_with_an_output_that_has_no_name_runs(tmp_path: Path) -> None:
    constants = {"rounds": np.array(2), "go": np.array(True), "zero": np.array(0, np.float32)}
    nodes = [looped(), node("ReduceSum", "scanned", "sum"), node("Add", "x sum", "y")]
    model = onnx_model(nodes, {"x": (1, 4, 2, 2)}, {"y": None}, constants)
    x = np.ones((1, 4, 2, 2), np.float32)
    assert np.array_equal(open_session(model.SerializeToString()).run(["y"], {"x": x})[0], x)
    onnx.save(model, str(tmp_path / "m.onnx"))
    assert all("" not in n.output for n in load_model(tmp_path / "m.onnx").graph.node)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Could not find an implementation for QuantizeLinear(23) node with name ''", "QuantizeLinear(23)"),
        (
            "ONNX Runtime only *guarantees* support for models stamped with official released onnx opset versions. Opset 24 is under "
            "development and support for this is limited. The operator schemas and or other functionality may change",
            "it knows operator set 24 in part",
        ),
    ],
)
def test_a_newer_operator_set_names_the_way_out(said: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime 1.23 runs operator set 23, but has no QuantizeLinear of it, and refuses 24."""

    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(import_onnxruntime(), "InferenceSession", refused)
    with pytest.raises(ModelError) as caught:
        open_session(onnx_model([node("Relu", "x", "y")]).SerializeToString())
    assert shown in str(caught.value)
    assert "--opset 17" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        # It knows the operator, and has it for other types.
        ("NOT_IMPLEMENTED : Could not find an implementation for Conv(11) node with name 'c'", False),
        ("NOT_IMPLEMENTED : Could not find an implementation for EfficientNMS_TRT(1) node with name 'n'", True),
        ("Fatal error: trt:Own is not a registered function/op", True),
        ("No Op registered for Own with domain_version of 17", True),
        ("Node (c) has input size 1 not in range", False),
    ],
)
def test_an_operator_that_is_missing_altogether_is_told_from_a_missing_type(said: str, lacks: bool) -> None:
    assert _lacks_operator(said) is lacks


def test_samples_and_features_are_not_changed_afterwards() -> None:
    assert changeable("quantization") == {"Histogram"}


def test_a_file_of_a_newer_format_runs_as_what_its_operator_set_says(tmp_path: Path) -> None:
    model = onnx_model([node("Relu", "x", "y")], {"x": (1, 3)}, {"y": (1, 3)})
    fed = {"x": np.array([[-1.0, 0.0, 2.0]], np.float32)}
    model.ir_version = 99
    assert open_session(model.SerializeToString()).run(None, fed)[0].tolist() == [[0.0, 0.0, 2.0]]
