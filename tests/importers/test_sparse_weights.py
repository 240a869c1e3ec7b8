"""2:4 sparse weights: found in the file, told by `check` and by a build that may use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgedla
from edgedla.builder.plan.make_plan import make_plan
from edgedla.builder.request import PlanOptions
from edgedla.graph import LayerGraph
from edgedla.graph.layer_graph import SPARSE
from edgedla.importers import load_onnx
from edgedla.importers.model_file.sparse_weights import sparse_weights
from edgedla.placement.check_cost import with_cost
from edgedla.regions import check_graph
from edgedla.targets import platform_for

ORIN = platform_for("agx-orin-64gb", trt="10.3")
WORDS = "2:4 sparse"


def pruned(weight: np.ndarray) -> np.ndarray:
    """Two of each four input channels are zero."""
    weight = weight.copy()
    weight[:, 0::4], weight[:, 3::4] = 0, 0
    return weight


def model(weight: np.ndarray, by: str = "") -> Any:
    """One convolution; `by`: an operator between the initializer and the convolution."""
    kernels, channels = weight.shape[:2]
    nodes, inits = [], [numpy_helper.from_array(weight, "w")]
    if by == "DequantizeLinear":
        inits += [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.int8(0), "z")]
        nodes.append(helper.make_node(by, ["w", "s", "z"], ["v"]))
    elif by == "Constant":
        # As export_qat writes weights that it has rounded.
        nodes.append(helper.make_node(by, [], ["v"], value=inits.pop()))
    elif by:
        nodes.append(helper.make_node(by, ["w"], ["v"]))
    nodes.append(helper.make_node("Conv", ["x", "v" if by else "w"], ["y"], name="conv", kernel_shape=[3, 3], pads=[1] * 4))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, kernels, 8, 8])
    graph = helper.make_graph(nodes, "g", [x], [y], inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(channels: int = 8, dtype: str = "f4", kernels: int = 4) -> np.ndarray:
    return np.random.default_rng(0).integers(1, 9, (kernels, channels, 3, 3)).astype(dtype)


def large() -> np.ndarray:
    """Nine megabytes: the file's reader leaves out payloads of more than half a megabyte."""
    return weights(channels=512, kernels=512)


def found(weight: np.ndarray) -> bool:
    made = model(weight)
    return sparse_weights(made.graph, made.SerializeToString()) == {"w"}


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
def test_two_of_four_input_channels_at_each_tap(dtype: str) -> None:
    assert found(pruned(weights(dtype=dtype)))
    assert not found(weights(dtype=dtype))


def test_boundaries() -> None:
    one_more = pruned(weights())
    one_more[3, 7, 2, 2] = 1
    assert not found(one_more), "three of the last four at the last tap"
    along_kernels = weights()
    along_kernels[0::4], along_kernels[3::4] = 0, 0
    assert not found(along_kernels), "zeros along the outputs are another pattern"
    assert found(pruned(weights(channels=6))), "two channels beyond a multiple of four need no zero"
    assert not found(pruned(weights(channels=7))[:, :7] + np.array([0, 0, 0, 0, 1, 1, 1], "f4").reshape(1, 7, 1, 1))
    assert not found(weights(channels=3)), "an image's channels"
    assert not found(weights(channels=1)), "depthwise"
    assert not found(np.zeros((4, 8, 3, 3), "f4")), "no weight at all is a placeholder"


def test_data_that_is_not_there_is_not_sparse() -> None:
    made = model(pruned(weights()))
    data = made.SerializeToString()
    made.graph.initializer[0].dims[0] = 5
    assert sparse_weights(made.graph, data) == frozenset()
    assert sparse_weights(made.graph, data[:40]) == frozenset()
    typed = model(pruned(weights()))
    typed.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [4, 8, 3, 3], weights().ravel()))
    assert sparse_weights(typed.graph, typed.SerializeToString()) == frozenset()


def layer_is_sparse(made: Any, tmp_path: Path) -> Tuple[bool, LayerGraph]:
    path = tmp_path / "model.onnx"
    onnx.save(made, str(path))
    graph = load_onnx(path, trt=(10, 3))
    (layer,) = (x for x in graph.layers if x.type == "CONVOLUTION")
    return layer.params.get(SPARSE, False), graph


@pytest.mark.parametrize("by", ["", "Identity", "DequantizeLinear", "Constant"])
def test_a_convolution_knows_its_weights(by: str, tmp_path: Path) -> None:
    dtype = "i1" if by == "DequantizeLinear" else "f4"
    assert layer_is_sparse(model(pruned(weights(dtype=dtype)), by), tmp_path)[0]
    assert not layer_is_sparse(model(weights(dtype=dtype), by), tmp_path)[0]


def test_weights_of_half_a_megabyte_and_more_are_looked_at(tmp_path: Path) -> None:
    assert layer_is_sparse(model(pruned(large())), tmp_path)[0]
    assert not layer_is_sparse(model(large()), tmp_path)[0]


def test_check_tells_the_share_and_the_gain(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model(pruned(large())).SerializeToString())

    def notes(target: str, precision: str) -> str:
        report = edgedla.check(path, target=target, precision=precision, cost=True)
        return " ".join(note for note in report.notes if WORDS in note)

    assert "1 of 1 convolutions on the DLA" in notes("agx-orin-64gb", "int8")
    assert "--sparsity enable` saves" in notes("agx-orin-64gb", "int8")
    assert "only Orin's DLA at int8" in notes("agx-orin-64gb", "fp16")
    assert "only Orin's DLA at int8" in notes("agx-xavier-32gb", "int8")
    path.write_bytes(model(large()).SerializeToString())
    assert notes("agx-orin-64gb", "int8") == ""


def test_the_gain_is_that_of_the_cost_model(tmp_path: Path) -> None:
    graph = layer_is_sparse(model(pruned(large())), tmp_path)[1]
    report = with_cost(check_graph(graph, ORIN, "int8"), graph)
    (note,) = (n for n in report.notes if WORDS in n)
    dense, sparse = (edgedla.predict(graph, target="agx-orin-64gb", precision="int8", sparsity=s) for s in (False, True))
    saved = dense.latency_us - sparse.latency_us
    assert saved > 0
    assert f"saves {saved / 1000:.2g} ms" in note


@pytest.mark.parametrize(
    ("weight", "precision", "word"),
    [
        (weights(), "int8", "gains nothing with dense weights"),
        (pruned(weights()), "int8", ""),
        (pruned(weights()), "fp16", "only Orin's at int8"),
    ],
)
def test_a_build_says_where_sparsity_gains_nothing(weight: Any, precision: str, word: str, tmp_path: Path) -> None:
    graph = layer_is_sparse(model(weight), tmp_path)[1]
    plan = make_plan(graph, check_graph(graph, ORIN, precision), options=PlanOptions(sparsity=True))
    said = [note for note in plan.notes if "sparsity" in note]
    assert bool(said) == bool(word)
    assert all(word in note for note in said)
