"""A network exported before training, on AGX Xavier and Xavier NX with TensorRT 8.5.2: the layers that its builds refused.

github.com/NADUNGVN/imavis-edge-seg, reports/edge: an encoder of depthwise and pointwise convolutions and a decoder of
bilinear resizes and sums, at four sizes and two widths. All biases are zeros, so that PyTorch writes one of each length and
hands it to the other convolutions through Identity nodes.
"""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from edgedla.importers import load_onnx
from edgedla.placement.check_cost import check
from edgedla.regions.check import check_graph
from edgedla.regions.report import CheckReport
from edgedla.targets import platform_for
from tests.models import constant, node, ones, onnx_model

WIDTHS = {"narrow": (32, 48, 64, 96), "wide": (96, 144, 192, 288)}
#: Share of the width, blocks a stage, height and width of the picture.
SIZES = {"tiny": (0.25, 2, 192, 384), "small": (0.5, 3, 256, 512), "medium": (0.75, 4, 384, 768), "large": (1, 6, 512, 1024)}
#: "Layer-level fallback mentions in the log", which name CAST and CONSTANT layers too.
MENTIONS = [
    ("narrow", "tiny", 41),
    ("narrow", "small", 52),
    ("narrow", "medium", 64),
    ("narrow", "large", 88),
    ("wide", "tiny", 40),
    ("wide", "small", 52),
    ("wide", "medium", 64),
    ("wide", "large", 88),
]


class _Net:
    """Every method adds layers and returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: List[Any] = []
        self.identities: List[Any] = []
        self.constants = [constant("scales", np.array([1, 1, 2, 2], np.float32))]
        self.first: Dict[int, str] = {}

    def conv(self, x: str, name: str, into: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        self.constants.append(ones(f"{name}.w", out, into // groups, kernel, kernel))
        if out in self.first:
            self.identities.append(node("Identity", self.first[out], f"{name}.b"))
        else:
            self.constants.append(ones(f"{name}.b", out))
            self.first[out] = f"{name}.b"
        steps = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups}
        self.nodes.append(node("Conv", f"{x} {name}.w {name}.b", name, **steps))
        return name

    def relu(self, x: str, name: str) -> str:
        self.nodes.append(node("Relu", x, name))
        return name

    def block(self, x: str, name: str, into: int, out: int, stride: int = 1) -> str:
        x = self.relu(self.conv(x, f"{name}/depthwise", into, into, 3, stride, into), f"{name}/act")
        return self.relu(self.conv(x, f"{name}/pointwise", into, out), f"{name}/act_1")

    def up(self, x: str) -> str:
        how = {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}
        self.nodes.append(node("Resize", x, f"{x}/up", **how))
        self.nodes[-1].input.extend(["", "scales"])
        return f"{x}/up"


def network(width: str, size: str) -> Any:
    share, depth, high, wide = SIZES[size]
    stem, *stages = (max(8, int(base * share + 4) // 8 * 8) for base in WIDTHS[width])
    net, into = _Net(), stem
    kept = [net.relu(net.conv("image", "stem", 3, stem, 3, 2), "stem/act")]
    for number, out in enumerate(stages, 1):
        x = kept[-1]
        for i in range(depth):
            x = net.block(x, f"stage{number}.{i}", into, out, 1 if i else 2)
            into = out
        kept.append(x)
    x = kept.pop()
    for level, out in ((3, stages[1]), (2, stages[0]), (1, stem)):
        x = net.up(net.relu(net.conv(x, f"reduce{level}", into, out), f"reduce{level}/act"))
        net.nodes.append(node("Add", f"{x} {kept.pop()}", f"sum{level}"))
        x, into = net.block(f"sum{level}", f"fuse{level - 1}", out, out), out
    net.conv(net.up(x), "classes", stem, 19)
    sizes = {"image": (1, 3, high, wide)}
    return onnx_model(net.identities + net.nodes, sizes, ("classes",), net.constants, opset=17)


def as_it_is(model: Any, trt: str = "8.5.2", target: str = "agx-xavier-32gb") -> CheckReport:
    return check_graph(load_onnx(model, trt=trt), platform_for(target, trt=trt), "fp16")


@pytest.mark.parametrize(("width", "size", "mentions"), MENTIONS)
def test_an_untrained_export_has_as_many_refused_layers_as_the_build_logs(width: str, size: str, mentions: int) -> None:
    model = network(width, size)
    handed_on = [n.input[0] for n in model.graph.node if n.op_type == "Identity"]
    refused = [x.name for x in as_it_is(model).layers if any(f.rule == "CONV015" for f in x.findings)]
    assert len(refused) == len(handed_on)
    # Each of those convolutions, its Identity (which logs call CAST), and each constant that is handed on.
    assert len(refused) + len(handed_on) + len(set(handed_on)) == mentions


def test_the_cap_drops_the_loadables_that_the_log_names() -> None:
    report = as_it_is(network("narrow", "tiny"))
    kept, dropped = ([r for r in report.regions if r.kept is which] for which in (True, False))
    assert len(kept) == 16
    # "DLA supports only 16 subgraphs per DLA core. Switching to GPU for layer /fuse2/act_1/Relu", then /fuse1/act/Relu.
    assert [r.name for r in dropped][:2] == ["{ForeignNode[fuse2/act_1]}", "{ForeignNode[fuse1/act]}"]


def test_check_of_an_untrained_export_is_for_the_trained_model_with_a_note() -> None:
    report = check(network("narrow", "tiny"), target="agx-xavier-32gb", trt="8.5.2")
    assert (report.totals.layers_gpu, report.totals.regions) == (0, 1)
    assert report.as_exported is not None
    assert report.as_exported.regions == 16
    assert "in 16 loadables (4 more dropped by their limit)" in report.notes[0]


def test_an_untrained_bias_is_unknown_with_tensorrt_10() -> None:
    totals = as_it_is(network("narrow", "tiny"), "10.3", "agx-orin-64gb").totals
    assert totals.layers_unknown == 19
