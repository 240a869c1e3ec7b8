"""Models with plugins of TensorRT, which ONNX Runtime cannot run: scales of the part in front of them, or one clear message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import helper

import edgedla
from edgedla.accuracy.evaluate import onnx_network
from edgedla.accuracy.metrics import metric_of
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.errors import ModelError, UsageError
from edgedla.importers.model_file.plugins import part_in_front
from tests.models import node, onnx_model

DIMS = (1, 8, 16, 16)
RNG = np.random.default_rng(0)
SAMPLES = RNG.standard_normal((12, *DIMS[1:])).astype("f4")


def model(domain: str = "vendor", **more: Any) -> onnx.ModelProto:
    """Conv, Relu, plugin, Conv; a Sigmoid beside the plugin is an output of its own."""
    weights = {"w": (RNG.standard_normal((8, 8, 3, 3)) / 9).astype("f4")}
    own = node("EfficientNMS_TRT" if not domain else "Own_TRT", "r", "p", name="plugin")
    own.domain = domain
    nodes = [
        node("Conv", "x w", "c", name="first", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r", name="relu"),
        own,
        node("Conv", "p w", "y", name="behind", pads=[1, 1, 1, 1]),
        node("Sigmoid", "c", "z", name="beside"),
    ]
    made = onnx_model(nodes, {"x": DIMS}, {"y": DIMS, "z": DIMS}, weights, **more)
    if domain:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    return made


def run(network: onnx.ModelProto, **more: Any) -> Any:
    return quantize(network, {"x": SAMPLES}, QuantizeRequest(target="orin", **more))


@pytest.mark.parametrize("domain", ["", "vendor"])
def test_scales_are_of_the_part_in_front_of_a_plugin(domain: str) -> None:
    whole = model(domain)
    result = run(whole)
    assert set(result.absmax) == {"x", "c", "r", "z"}
    assert result.sqnr_db > 20
    assert result.model is None
    note = next(n for n in result.notes if "part in front" in n)
    assert "up to r." in note
    assert "2 nodes from there on get no scale" in note


def test_the_scales_of_a_part_fit_a_build_of_the_whole_model(tmp_path: Path) -> None:
    onnx.save(model(), str(tmp_path / "m.onnx"))
    quantize(tmp_path / "m.onnx", {"x": SAMPLES}, QuantizeRequest(target="orin")).save(tmp_path / "scales")
    command = "build m.onnx --target orin --precision int8 --calib scales --backend trtexec -o b.sh"
    done = subprocess.run([sys.executable, "-m", "edgedla", *command.split()], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "b.sh").exists()


def test_a_release_without_caches_gets_the_whole_model_with_pairs_in_front_of_the_plugin() -> None:
    written = onnx.load_model_from_string(run(model(), trt="11.1").model)
    operators = [n.op_type for n in written.graph.node]
    assert "Own_TRT" in operators
    assert "QuantizeLinear" in operators
    behind = next(n for n in written.graph.node if n.name == "behind")
    assert behind.input[0] == "p"


def test_a_plugin_in_a_branch_or_a_function_is_one() -> None:
    whole = model()
    plugin = whole.graph.node[2]
    inside = helper.make_function("own", "Wrapped", ["r"], ["p"], [plugin], [helper.make_opsetid("vendor", 1)])
    called = model(functions=[inside])
    called.graph.node[2].CopyFrom(node("Wrapped", "r", "p", name="call"))
    called.graph.node[2].domain = "own"
    branch = helper.make_graph([plugin], "b", [], [helper.make_tensor_value_info("p", 1, DIMS)])
    chosen = model()
    chosen.graph.node[2].CopyFrom(node("If", "t", "p", name="if", then_branch=branch, else_branch=branch))
    chosen.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "t"))
    for holder in (called, chosen):
        front = part_in_front(holder)
        assert front is not None
        assert front.plugins == ("Own_TRT",)
        assert front.handed_over == ("r",)
        assert [n.name for n in front.model.graph.node] == ["first", "relu", "beside"]


def test_what_cannot_be_done_in_front_of_a_plugin_is_refused_in_one_message() -> None:
    with pytest.raises(UsageError, match="equalize: the model holds Own_TRT"):
        run(model(), equalize=True)
    with pytest.raises(UsageError, match="nothing here computes the outputs that l2 judges"):
        run(model(), metric=metric_of("l2"), max_drop=0.01)
    first: List[Any] = [node("Identity", "x", "y", name="plugin")]
    alone = onnx_model(first, {"x": DIMS}, {"y": DIMS})
    alone.graph.node[0].op_type, alone.graph.node[0].domain = "Own_TRT", "vendor"
    alone.opset_import.append(helper.make_opsetid("vendor", 1))
    with pytest.raises(ModelError, match="nothing comes before Own_TRT"):
        run(alone)


def test_half_precision_in_front_of_a_plugin_is_refused_with_the_way_out() -> None:
    weights = {"w": np.ones((8, 8, 1, 1), "f2")}
    half = onnx_model([node("Conv", "x w", "c", name="first"), node("Relu", "c", "y")], {"x": DIMS}, {"y": DIMS}, weights)
    half.graph.node[1].op_type, half.graph.node[1].domain = "Own_TRT", "vendor"
    half.opset_import.append(helper.make_opsetid("vendor", 1))
    for end in (half.graph.input[0], half.graph.output[0]):
        end.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    with pytest.raises(ModelError, match=r"lacks, and \d of 2 nodes compute in FLOAT16") as caught:
        run(half)
    assert "edgedla fix MODEL --precision int8" in str(caught.value)


def test_evaluate_names_the_plugin_and_the_way_out() -> None:
    with pytest.raises(ModelError, match="ONNX Runtime lacks Own_TRT, so nothing here computes the model's outputs"):
        onnx_network(model(), "m")


def test_deploy_goes_on_with_the_part_in_front_of_a_plugin_and_says_so(tmp_path: Path) -> None:
    onnx.save(model(), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "s.npz", x=SAMPLES)
    said: List[str] = []
    request = {"target": "orin", "data": tmp_path / "s.npz", "place": "dla", "max_drop": 0.2}
    deployed = edgedla.deploy(tmp_path / "m.onnx", tmp_path / "out", say=said.append, **request)
    text = "ONNX Runtime lacks Own_TRT: deployed is the part in front of it, whose outputs are z, r"
    assert said[0] == text
    assert deployed.notes[0].startswith(text)
    assert [b.name for b in deployed.artifact.outputs] == ["z", "r"]
    assert deployed.best.precision == "int8"
    # The cache names tensors, so it fits the whole model; the folder is for the part.
    last = deployed.commands[-1].replace("MODEL", "m.onnx").replace("edgedla", "-m edgedla") + " --backend trtexec"
    done = subprocess.run([sys.executable, *last.split()], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
