"""Accuracy in training and in the host backend, on networks trained elsewhere, if present."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")
models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")

import host_twin  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from torch import nn  # noqa: E402

from edgedla.torch import prepare_qat  # noqa: E402

TRAINED = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "trained"


def resnet() -> nn.Module:
    module = models.ResNet(models.resnet.BasicBlock, [1] * 4)
    module.layer4, module.fc, module.conv1.stride = nn.Identity(), nn.Linear(256, 10), (1, 1)
    return module


def whole(module: nn.Module) -> nn.Module:
    """The first convolution without its stride: the pictures are 64 x 64."""
    module.features[0][0].stride = (1, 1)  # type: ignore[index, union-attr]
    return module


NETWORKS: Dict[str, Any] = {
    "rn": resnet,
    "m2": lambda: whole(models.mobilenet_v2(width_mult=0.5, num_classes=10)),
    "m3": lambda: whole(models.mobilenet_v3_small(num_classes=10)),
}


def trained(name: str) -> nn.Module:
    """The network with the weights of its ONNX file, where each BatchNormalization stands in its convolution already."""
    proto = onnx.load(str(TRAINED / f"{name}.onnx"))
    constants = {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Identity":
            constants[node.output[0]] = constants[node.input[0]]
    module = NETWORKS[name]()
    for part in list(module.modules()):
        for key, child in part.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(part, key, nn.Identity())
    order: List[Any] = []
    layers = [m for m in module.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    handles = [m.register_forward_pre_hook(lambda m, _: order.append(m)) for m in layers]
    module.eval()(torch.zeros(1, 3, 64, 64))
    for handle in handles:
        handle.remove()
    nodes = [n for n in proto.graph.node if n.op_type in ("Conv", "Gemm")]
    assert len(nodes) == len(order)
    for node, layer in zip(nodes, order):
        layer.weight = nn.Parameter(torch.from_numpy(constants[node.input[1]].copy()))
        layer.bias = nn.Parameter(torch.from_numpy(constants[node.input[2]].copy()))
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_int8_levels_of_trained_networks_equal_the_host_backends(name: str, tmp_path: Path) -> None:
    if not TRAINED.is_dir():
        pytest.skip("the trained networks are not at hand")
    generator = torch.Generator().manual_seed(0)
    # Smooth pictures: noise of single pixels is nothing that these networks saw.
    pictures = nn.functional.interpolate(torch.randn(10, 3, 8, 8, generator=generator), (64, 64), mode="bilinear")
    prepared = prepare_qat(trained(name), pictures[:1], "agx-orin-64gb", calibration=[pictures[:8]])
    found = host_twin.compare(prepared, pictures[8:], tmp_path)
    assert found["tensors"] > 30
    assert found["worst"] < 1e-5
    assert found["ties"] < 1e-4
