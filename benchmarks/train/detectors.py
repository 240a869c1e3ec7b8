"""torchvision's detectors before training: what a DLA runs of them, whole and without their decoding, and what adapt gains.

Without decoding, `qat` is one step of INT8 training, and then evaluation beside the artifact.

python benchmarks/train/detectors.py --out detectors.json     some 3 CPU minutes; weights are random and do not matter
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from provenance import provenance, write_lines  # noqa: E402

from edgedla.errors import EdgedlaError  # noqa: E402
from edgedla.regions import CheckReport  # noqa: E402
from edgedla.torch import AsBuilt, adapt, check, prepare_qat  # noqa: E402

TARGET, SIDE = "orin-nx-16gb", 320
NETWORKS = (
    "ssdlite320_mobilenet_v3_large",
    "ssd300_vgg16",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "retinanet_resnet50_fpn",
    "fcos_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
)


class Heads(nn.Module):
    """Pyramid and heads, or the region proposals' head: anchors, loss and decoding stay with the detector.

    The results of a head that names them come in the order of their names: each head of torchvision has its own.
    """

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.backbone = detector.backbone
        self.head = detector.head if hasattr(detector, "head") else detector.rpn.head

    def forward(self, x: torch.Tensor) -> Any:
        found = self.head(list(self.backbone(x).values()))
        named = isinstance(found, dict)
        return tuple(found[k] for k in sorted(found)) if named else tuple(part for parts in found for part in parts)


def made(name: str) -> Any:
    from torchvision.models import detection

    torch.manual_seed(0)
    sizes = {} if "320" in name or "300" in name else {"min_size": SIDE, "max_size": SIDE}
    return getattr(detection, name)(weights=None, weights_backbone=None, **sizes).eval()


def counts(report: CheckReport) -> Dict[str, int]:
    return {"dla": report.totals.layers_dla, "gpu": report.totals.layers_gpu, "loadables": report.totals.regions}


def told(module: nn.Module, ask: Callable[[nn.Module], Dict[str, Any]]) -> Any:
    """The figures, or why there is no answer."""
    try:
        return ask(module)
    except EdgedlaError as e:
        return f"{e}"


def trained(module: nn.Module, x: torch.Tensor) -> Dict[str, Any]:
    """One step of INT8 training on squares of all results. Then, of evaluation and artifact: how many values differ, and by how
    much at most, as a share of the largest value."""
    prepared = prepare_qat(module, x, TARGET, integer_sums=True).train()
    loss = torch.stack([part.square().mean() for part in prepared(x)]).sum()
    loss.backward()
    assert prepared.shift is not None
    moved = int((prepared.shift.grad != 0).sum())
    torch.optim.SGD(prepared.parameters(), 1e-3).step()
    prepared.eval()
    with torch.no_grad():
        pairs = list(zip(prepared(x), AsBuilt(prepared)(x)))
    largest = max(float((a - b).abs().max()) / float(a.abs().max()) for a, b in pairs)
    return {
        "loss": float(loss),
        "ranges_that_learn": moved,
        "values": sum(a.numel() for a, _ in pairs),
        "values_that_differ": sum(int((a != b).sum()) for a, b in pairs),
        "largest_difference": largest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NETWORKS, action="append", help="these networks alone")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    x, rows = torch.rand(1, 3, SIDE, SIDE), []
    asks: Dict[str, Callable[[nn.Module], Dict[str, Any]]] = {
        "torchscript": lambda m: counts(check(m, x, target=TARGET, precision="int8")),
        "dynamo": lambda m: counts(check(m, x, target=TARGET, precision="int8", exporter="dynamo")),
        "adapted": lambda m: counts(adapt(m, x, target=TARGET).after),
    }
    for name in given.only or NETWORKS:
        detector = made(name)
        for what, module in (("whole", detector), ("without decoding", Heads(detector).eval())):
            row = {"network": name, "module": what, **{how: told(module, ask) for how, ask in asks.items()}}
            if module is not detector:
                row["qat"] = told(module, lambda m: trained(m, x))
                row["qat_adapted"] = told(module, lambda m: trained(adapt(m, x, target=TARGET).module, x))
            rows.append(row)
            print(json.dumps(row), flush=True)
    if given.out is not None:
        packages = ("torch", "torchvision", "onnx", "onnxscript")
        write_lines(given.out, {"provenance": provenance(packages), "target": TARGET}, rows)


if __name__ == "__main__":
    main()
