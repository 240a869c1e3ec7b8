"""What the cache gives a scale, what the simulation rounds and what the script hands TensorRT are the same tensors.

For TensorRT 11 the Q/DQ of the model stand for cache and script.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Set, Tuple

import onnx
import pytest

from edgedla.accuracy.plain.qdq_form import quantised_model
from edgedla.accuracy.reference import Reference
from edgedla.accuracy.state import State
from edgedla.builder.host.node_modes import node_modes
from edgedla.builder.host.simulated_model import simulate
from edgedla.builder.onnx_input import with_static_inputs
from edgedla.builder.plan.make_plan import make_plan
from edgedla.builder.plan.plan import BuildPlan, Calibration
from edgedla.builder.trtexec.files import scripts_of
from edgedla.graph import LayerGraph
from edgedla.graph.open_sizes import TRTEXEC_BATCH
from edgedla.importers import load_onnx
from edgedla.quantization.calibration_cache import parse_cache
from edgedla.quantization.samples import Samples
from edgedla.regions import check_graph
from edgedla.targets import Platform, platform_for
from edgedla.vocabulary import GPU
from tests.accuracy.random_heads import KINDS, head
from tests.amounts import amount

SHAPES = Path(__file__).parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
NONE = Samples([], True, "none")
SCALED = ("FLOAT", "FLOAT16")


def measured_of(source: Any, platform: Platform) -> Tuple[Any, LayerGraph, Dict[str, float]]:
    """The model with static inputs, its graph, and a range of every float tensor."""
    model = onnx.load(str(source), load_external_data=False) if isinstance(source, Path) else source
    graph = load_onnx(source, trt=platform.release.trt, open_batch=TRTEXEC_BATCH)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            # The weights' values change no set of tensors.
            tensor.dims[:] = [1] * len(tensor.dims)
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.raw_data = bytes(4)
    model = with_static_inputs(model, {name: graph.tensors[name].dims for name in graph.inputs})
    made = {*(i.name for i in model.graph.input), *(o for n in model.graph.node for o in n.output)}
    measured = {n: 1.0 for n in made if n in graph.tensors and graph.tensors[n].dtype in SCALED}
    return model, graph, measured


def same_sets(source: Any, target: str, folder: Path) -> None:
    platform = platform_for(target, trt="10.3")
    model, graph, measured = measured_of(source, platform)
    report = check_graph(graph, platform, "int8", "fallback")
    plan = make_plan(graph, report, calibration=Calibration("data", measured, "test"))
    cache = set(plan.calibration.absmax)
    simulated = simulate(model, plan, adjustable=True)
    rounded = set(simulated.tensors)
    device = {x.name: x.device for x in plan.layers}
    on_dla = {t for x in graph.layers if device[x.name] != GPU for t in (*x.inputs, *x.outputs)}
    assert rounded <= cache, "a tensor is rounded without a scale"
    assert cache - on_dla <= {*graph.inputs, *graph.outputs}, "a scale lets TensorRT take INT8 on the GPU"
    # The DLA keeps what it fuses, and ONNX has no tensor between the layers that TensorRT makes of one node.
    inner = {t for t, state in simulated.states.items() if state == "inner"}
    onnx_names = {*(i.name for i in model.graph.input), *(o for n in model.graph.node for o in n.output)}
    modes = node_modes(model, plan)
    in_fp16 = {o for n, mode in zip(model.graph.node, modes) if mode != "int8" for o in n.output}
    assert (cache & on_dla & onnx_names) - rounded - inner <= in_fp16, "a scale of the DLA is not simulated"
    assert scripted(plan, folder) == cache


def same_typed_sets(source: Any) -> None:
    """Every third node in FP16, as where scales of both precisions meet."""
    platform = platform_for("agx-orin-64gb", trt="11.4")
    model, graph, measured = measured_of(source, platform)
    fp16 = {node.name for node in model.graph.node[::3] if node.name}
    state = State(
        model=model,
        reference=Reference(model),
        graph=graph,
        report=check_graph(graph, platform, "int8", "fallback"),
        judged=NONE,
        holdout=NONE,
        absmax=measured,
        source="data",
        detail="test",
        everywhere=True,
        precisions={x.name: "fp16" for x in graph.layers if x.onnx_node in fp16},
    )
    plan = state.plan()
    nodes = {x.onnx_node for x in graph.layers if x.name in state.precisions}
    made = quantised_model(model, plan.calibration.absmax, nodes, "int8", platform)
    paired = {n.output[0][: -len("/int8")] for n in made.graph.node if n.op_type == "QuantizeLinear"}
    assert set(simulate(model, plan, adjustable=True).tensors) == paired


def scripted(plan: BuildPlan, folder: Path) -> Set[str]:
    """The tensors of the cache that the script writes for trtexec."""
    scripts_of(plan, folder / "build.sh")
    found = re.search(r"calib\.cache\" <<'(\w+)'\n(.*?)\n\1\n", (folder / "build.sh").read_text(), re.DOTALL)
    return set(parse_cache(found[2]).absmax) if found else set()


@pytest.mark.parametrize("target", ["agx-orin-64gb", "xavier-nx-16gb"])
def test_a_carried_detector_has_one_set_of_scales(target: str, tmp_path: Path) -> None:
    same_sets(SHAPES, target, tmp_path)
    same_typed_sets(SHAPES)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_heads_have_one_set_of_scales(kind: int, tmp_path: Path) -> None:
    same_sets(head(kind).model, "agx-orin-64gb", tmp_path)
    same_typed_sets(head(kind).model)


def test_every_corpus_network_has_one_set_of_scales(shared: Path, tmp_path: Path) -> None:
    nets = sorted((shared / "corpus/nets").glob("*.onnx"))
    for path in nets[:: len(nets) // amount(6, len(nets))]:
        same_sets(path, "agx-orin-64gb", tmp_path)
        same_typed_sets(path)
