"""Chains of real architectures with random weights compute what one engine with the same layers on a DLA does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional, Tuple

import numpy as np
import onnx
import pytest

from edgedla.builder import Artifact, load_artifact
from edgedla.builder.building import build
from edgedla.builder.chain.check_stage_layers import same_layers
from edgedla.builder.chain.extract import extract, node_groups
from edgedla.builder.chain.host_chain import HostChain
from edgedla.builder.chain.split import split_stages
from edgedla.builder.host.accuracy import TOLERANCE_REL_L2
from edgedla.builder.host.session import HostSession
from edgedla.builder.request import BuildRequest
from edgedla.errors import BuildError
from edgedla.importers import load_onnx
from tests.builder.chain_placements import TARGET, Devices, on_one_core, placed, runs

pytestmark = [pytest.mark.once, pytest.mark.long]

#: Skip connections, grouped convolutions with channel shuffles (5-D tensors, static shape arithmetic), and branches.
NETS = ("tv_resnet18", "tv_shufflenet_v2_x1_0", "tv_googlenet")
SHAPES = {
    "two": runs("DLA0", "DLA1"),
    "there-and-back": runs("DLA0", "GPU", "DLA1", "DLA0"),
    "by-turns": lambda i, n: ("DLA0", "DLA1", "GPU")[i // 9 % 3],
}


#: Attention with windows (many layers a node), detectors with shape arithmetic, unnamed nodes, loops of branches.
CUT = (
    "det_ssd300_vgg16",
    "timm_hrnet_w18_small",
    "timm_pit_ti_224",
    "tv_densenet121",
    "tv_swin_t",
    "yolo_yolo11n",
    "yolo_yolov3-tiny",
)


@pytest.mark.parametrize("trt", [(8, 6), (10, 3)], ids=["8.6", "10.3"])
@pytest.mark.parametrize("net", CUT)
def test_extracted_stages_of_corpus_networks_import_as_the_same_layers(net: str, trt: Tuple[int, ...]) -> None:
    """Without weights, and whatever the DLA can run: eleven stretches by turns."""
    path = Path(__file__).resolve().parents[3] / f"shared/corpus/nets/{net}.onnx"
    if not path.is_file():
        pytest.skip("the corpus ../shared does not stand beside this checkout")
    graph = load_onnx(path, trt=trt)
    model = onnx.load(str(path), load_external_data=False)
    groups = [g for g in node_groups(graph) if g]
    devices: List[Optional[str]] = ["GPU"] * len(graph.layers)
    for k, group in enumerate(groups):
        for i in group:
            devices[i] = ("DLA0", "DLA1", "GPU")[k * 11 // len(groups) % 3]
    stages = split_stages(graph, devices, groups)
    assert len(stages) > 2
    there = set(graph.inputs)
    for sizes_known in (True, False):
        made = extract(model, graph, [s.layers for s in stages], sizes_known=sizes_known)
        try:
            for stage, part in zip(stages, made):
                same_layers(graph, stage.layers, load_onnx(part.model, trt=trt))
        except BuildError:
            # The parser makes other layers of numbers that it knows, so the build hands the tensor over instead.
            assert sizes_known
            continue
        for part in made:
            assert set(part.inputs) <= there
            there |= set(part.outputs)
        assert set(graph.outputs) <= there
        return


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "shape", "precision"),
    [
        ("tv_resnet18", "two", "fp16"),
        ("tv_resnet18", "there-and-back", "int8"),
        ("tv_shufflenet_v2_x1_0", "there-and-back", "int8"),
        ("tv_shufflenet_v2_x1_0", "by-turns", "fp16"),
        ("tv_googlenet", "by-turns", "fp16"),
        ("tv_googlenet", "two", "int8"),
    ],
)
def test_chains_of_corpus_networks_give_the_outputs_of_one_engine(
    net: str, shape: str, precision: str, materialized: Path, tmp_path: Path
) -> None:
    path, devices = materialized / f"{net}.onnx", SHAPES[shape]

    def built(name: str, to: Devices) -> Any:
        file = placed(path, tmp_path / f"{name}.json", to, precision=precision, only_legal=True)
        request = BuildRequest(target=TARGET, trt="10.3", precision=precision, backend="host", placement=file)
        build(path, tmp_path / name, request)
        return load_artifact(tmp_path / name, model=path)

    chain, one = built("chain", devices), built("one", on_one_core(devices))
    assert len(chain.stages) >= 2
    assert chain.accuracy["within"], chain.accuracy["worst_rel_l2"]
    image = np.random.default_rng(99).standard_normal(chain.inputs[0].shape_nchw).astype(np.float32)
    output = chain.outputs[0].name
    found = HostChain([s.artifact for s in chain.stages]).run_arrays({chain.inputs[0].name: image})[output]
    want = HostSession(one).run_arrays({chain.inputs[0].name: image})[output].astype(np.float64)
    error = float(np.linalg.norm(found - want) / np.linalg.norm(want))
    # Both are within the tolerance of FP32. What the GPU hands to both DLA and GPU is rounded in the chain alone.
    assert error <= TOLERANCE_REL_L2[precision], error
    if shape == "two" and not parted_operators(path, chain):
        assert error <= 1e-6, error


def parted_operators(path: Path, chain: Artifact) -> List[str]:
    """Tensors between a convolution and its activation that pass from stage to stage: only there are they rounded."""
    nodes = onnx.load(str(path), load_external_data=False).graph.node
    convolutions = {o for node in nodes if node.op_type == "Conv" for o in node.output}
    activated = {name for node in nodes if node.op_type == "Relu" for name in node.input}
    passed = {b.name for stage in chain.stages[1:] for b in stage.artifact.inputs}
    return sorted(passed & convolutions & activated)
