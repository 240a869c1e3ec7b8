"""Modules with scripted branches, as every detector of torchvision has: checked, adapted and trained."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any, Iterator, List

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")
import onnx  # noqa: E402
from torch import nn  # noqa: E402

import edgedla.torch  # noqa: E402
from edgedla.torch.exporting import to_onnx  # noqa: E402

TARGET = "orin-nx-16gb"


@torch.jit.script_if_tracing
def scaled(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        return x + 1.0
    return x * 2.0


class Thresholded(nn.Module):
    """Scores above a threshold, through a scripted branch that reads a value of the graph around it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return scaled(y[y > 0])


class Limited(nn.Module):
    """Sizes computed in the forward, so that PyTorch adds constants after the trace: they carry no number of ours."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = torch.tensor([x.shape[-1]])
        rows = x.flatten(1)
        count = torch.min(torch.cat((torch.tensor([5]), torch.tensor([rows.shape[1]]))))
        return rows.topk(int(count))[0] * torch.zeros(5) + size


def graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def assert_sound(model: Any) -> None:
    """No value is written twice, and each that is read is written; no number of a call is left in a name."""
    written: Counter = Counter()
    read: List[str] = []
    known = {"", *(i.name for i in model.graph.initializer)}
    for graph in graphs(model.graph):
        known |= {i.name for i in graph.input}
        written.update(o for node in graph.node for o in node.output)
        read += [i for node in graph.node for i in node.input] + [o.name for o in graph.output]
    known |= set(written)
    assert [name for name, count in written.items() if count > 1] == []
    assert [name for name in read if name not in known] == []
    assert not any("op@" in name for name in (*written, *read))
    onnx.checker.check_model(model)


@pytest.mark.parametrize("module", [Thresholded(), Limited()], ids=["branch", "sizes"])
def test_names_are_sound_in_the_bodies_of_branches_and_beside_constants(module: nn.Module) -> None:
    x = torch.rand(1, 3, 4, 4)
    model = to_onnx(module, x)
    assert_sound(model)
    plain = io.BytesIO()
    torch.onnx.export(module.eval(), (x,), plain, dynamo=False, opset_version=17)
    nodes = [node.op_type for node in onnx.load_from_string(plain.getvalue()).graph.node]
    assert [node.op_type for node in model.graph.node] == nodes
    assert edgedla.torch.check(module, x, target=TARGET).totals.layers_dla >= (1 if isinstance(module, Thresholded) else 0)


#: Constructor and the side of its picture.
DETECTORS = {
    "ssdlite320_mobilenet_v3_large": 320,
    "ssd300_vgg16": 300,
    "fasterrcnn_mobilenet_v3_large_320_fpn": 320,
    "retinanet_resnet50_fpn": 320,
    "fcos_resnet50_fpn": 320,
    "keypointrcnn_resnet50_fpn": 320,
}


def detector(name: str, side: int) -> nn.Module:
    detection = pytest.importorskip("torchvision").models.detection
    sizes = {} if "320" in name or "300" in name else {"min_size": side, "max_size": side}
    module: nn.Module = getattr(detection, name)(weights=None, weights_backbone=None, **sizes).eval()
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_of_torchvision_is_checked_and_adapted(name: str) -> None:
    side = DETECTORS[name]
    module, x = detector(name, side), torch.rand(1, 3, side, side)
    assert_sound(to_onnx(module, x))
    report = edgedla.torch.check(module, x, target=TARGET, precision="int8")
    assert report.totals.layers_dla > 50
    if "mobilenet" not in name:
        return  # minutes
    adapted = edgedla.torch.adapt(module, x, target=TARGET)
    assert adapted.after.totals.layers_gpu <= adapted.before.totals.layers_gpu


class Heads(nn.Module):
    """What a DLA runs of torchvision's detectors: pyramid and heads, or the region proposals' head, without anchors and decoding."""

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.backbone = detector.backbone
        self.head = detector.head if hasattr(detector, "head") else detector.rpn.head

    def forward(self, x: torch.Tensor) -> Any:
        found = self.head(list(self.backbone(x).values()))
        if isinstance(found, dict):
            return tuple(found[name] for name in sorted(found, reverse=True))
        return tuple(part for parts in found for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_without_its_decoding_trains_with_the_dlas_rounding(name: str) -> None:
    # Those that take any size are small here.
    side = DETECTORS[name] if "320" in name or "300" in name else 128
    x = torch.rand(1, 3, side, side)
    prepared = edgedla.torch.prepare_qat(Heads(detector(name, side)), x, TARGET, integer_sums=True).train()
    loss = sum(part.square().mean() for part in prepared(x))
    loss.backward()
    assert torch.isfinite(loss)
    assert float(prepared.shift.grad.abs().sum()) > 0
    prepared.eval()
    with torch.no_grad():
        pairs = list(zip(prepared(x), edgedla.torch.AsBuilt(prepared)(x)))
    if "fcos" in name or "ssdlite" in name:
        return  # Some convolutions stay on the GPU in FP32, where every device sums in an order of its own.
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.slow
def test_ssdlite_trains_with_the_dlas_rounding_and_torchvisions_loss(tmp_path: Any) -> None:
    whole = detector("ssdlite320_mobilenet_v3_large", 320)
    x = torch.rand(2, 3, 320, 320)
    prepared = edgedla.torch.prepare_qat(Heads(whole), x[:1], TARGET, calibration=[x]).train()
    targets = [{"boxes": torch.tensor([[20.0, 30, 200, 220]]), "labels": torch.tensor([1])} for _ in x]
    from torchvision.models.detection.image_list import ImageList

    with torch.no_grad():
        features = list(whole.backbone(x).values())
    anchors = whole.anchor_generator(ImageList(x, [(320, 320)] * 2), features)
    matches = [whole.proposal_matcher(_overlaps(t["boxes"], a)) for t, a in zip(targets, anchors)]
    logits, boxes = prepared(x)
    losses = whole.compute_loss(targets, {"cls_logits": logits, "bbox_regression": boxes}, anchors, matches)
    sum(losses.values()).backward()
    assert all(torch.isfinite(v) for v in losses.values())
    assert float(prepared.shift.grad.abs().sum()) > 0
    built = edgedla.torch.AsBuilt(prepared)(x[:1])
    assert [tuple(part.shape) for part in built] == [tuple(part[:1].shape) for part in (logits, boxes)]
    assert all(torch.isfinite(part).all() for part in built)


def _overlaps(boxes: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
    from torchvision.ops import box_iou

    overlaps: torch.Tensor = box_iou(boxes, anchors)
    return overlaps
