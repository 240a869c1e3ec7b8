"""What the cache gives a scale, what the simulation rounds and what the script hands TensorRT are the same tensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Set, Tuple

import onnx
import pytest

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
from edgedla.regions import check_graph
from edgedla.targets import platform_for
from edgedla.vocabulary import GPU
from tests.accuracy.random_heads import KINDS, head
from tests.amounts import amount

SHAPES = Path(__file__).parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
SCALED = ("FLOAT", "FLOAT16")


def planned(source: Any, target: str) -> Tuple[Any, LayerGraph, BuildPlan]:
    """The model with static inputs, its graph, and the INT8 plan in which every float tensor was measured."""
    platform = platform_for(target, trt="10.3")
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
    report = check_graph(graph, platform, "int8", "fallback")
    return model, graph, make_plan(graph, report, calibration=Calibration("data", measured, "test"))


def same_sets(source: Any, target: str, folder: Path) -> None:
    model, graph, plan = planned(source, target)
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


def scripted(plan: BuildPlan, folder: Path) -> Set[str]:
    """The tensors of the cache that the script writes for trtexec."""
    scripts_of(plan, folder / "build.sh")
    found = re.search(r"calib\.cache\" <<'(\w+)'\n(.*?)\n\1\n", (folder / "build.sh").read_text(), re.DOTALL)
    return set(parse_cache(found[2]).absmax) if found else set()


@pytest.mark.parametrize("target", ["agx-orin-64gb", "xavier-nx-16gb"])
def test_a_carried_detector_has_one_set_of_scales(target: str, tmp_path: Path) -> None:
    same_sets(SHAPES, target, tmp_path)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_heads_have_one_set_of_scales(kind: int, tmp_path: Path) -> None:
    same_sets(head(kind).model, "agx-orin-64gb", tmp_path)


def test_every_corpus_network_has_one_set_of_scales(shared: Path, tmp_path: Path) -> None:
    nets = sorted((shared / "corpus/nets").glob("*.onnx"))
    for path in nets[:: len(nets) // amount(6, len(nets))]:
        same_sets(path, "agx-orin-64gb", tmp_path)
