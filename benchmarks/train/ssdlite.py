"""mAP of torchvision's ssdlite320 with FP32, INT8 after training, INT8 training, on drawn shapes; own weights from scratch.

python examples/13_train_a_detector/data.py shapes --train 1600 --held-out 800 --size 320
python benchmarks/train/ssdlite.py shapes --epochs 40 --qat-epochs 6 --out ssdlite.json

The network is adapted before it is trained, as the guide says. `--as-it-is` leaves that out: its first convolution then stays on the GPU
in FP32 (the DLA does not take the HardSwish behind it), and sums in the device's own order, so that a few INT8 values per picture differ
between the evaluation on a GPU and the artifact.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from pathlib import Path
from typing import Any, List

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "train"), str(ROOT / "examples" / "13_train_a_detector")]

import data  # noqa: E402
from detectors import TARGET, Heads  # noqa: E402
from train import Average, Device  # noqa: E402

from edgedla.accuracy.scores.intervals import bootstrap  # noqa: E402
from edgedla.io.files import write_atomic  # noqa: E402
from edgedla.runtime.decode.accuracy import Truth, accuracy_of, matches  # noqa: E402
from edgedla.runtime.decode.detections import Detection  # noqa: E402
from edgedla.torch import AsBuilt, adapt, prepare_qat  # noqa: E402

SIDE = 320
#: The results of `Heads`, in their order.
HEADS = ("bbox_regression", "cls_logits")


class Task:
    def __init__(self, detector: Any, part: Device, held: Device) -> None:
        from torchvision.models.detection.image_list import ImageList

        self.detector, self.part, self.held = detector, part, held
        with torch.no_grad():
            features = list(detector.eval().backbone(part.inputs(part.x[:1])).values())
            self.anchors = detector.anchor_generator(ImageList(part.inputs(part.x[:1]), [(SIDE, SIDE)]), features)[0]

    def loss(self, outputs: Any, boxes: torch.Tensor) -> torch.Tensor:
        from torchvision.ops import box_iou

        wanted, matched = [], []
        for rows in boxes:
            rows = rows[rows[:, 0] >= 0]
            wanted.append({"boxes": rows[:, 1:], "labels": rows[:, 0].long() + 1})
            some = len(rows) > 0
            none = torch.full((len(self.anchors),), -1, dtype=torch.int64, device=boxes.device)
            matched.append(self.detector.proposal_matcher(box_iou(rows[:, 1:], self.anchors)) if some else none)
        heads = dict(zip(HEADS, outputs))
        parts = self.detector.compute_loss(wanted, heads, [self.anchors] * len(boxes), matched)
        total: torch.Tensor = sum(parts.values())  # type: ignore[assignment]
        return total

    def values(self, module: nn.Module, batch: int) -> List[Any]:
        module.eval()
        found = []
        truth = self.held.boxes.cpu().numpy()
        with torch.no_grad():
            for i in range(0, len(self.held.x), batch):
                x = self.held.inputs(self.held.x[i : i + batch])
                heads = dict(zip(HEADS, module(x)))
                sizes = [(SIDE, SIDE)] * len(x)
                for k, one in enumerate(self.detector.postprocess_detections(heads, [self.anchors] * len(x), sizes)):
                    columns = (one["boxes"].cpu().numpy(), one["scores"].tolist(), one["labels"].tolist())
                    detections = [Detection(tuple(b), s, c - 1) for b, s, c in zip(*columns)]
                    rows = truth[i + k][truth[i + k][:, 0] >= 0]
                    found.append(matches(detections, Truth(rows[:, 1:], rows[:, 0].astype(int))))
        return found


def trained(task: Task, module: nn.Module, epochs: int, rate: float, batch: int, what: str) -> nn.Module:
    average = Average(module)
    optimizer = torch.optim.AdamW(module.parameters(), rate, weight_decay=0.01 if what == "FP32" else 0.0)
    steps = max(1, epochs * (len(task.part.x) // batch))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1, pct_start=0.15)
    for epoch in range(epochs):
        start, total = time.perf_counter(), []
        module.train()
        for x, boxes in task.part.batches(epoch, batch):
            loss = task.loss(module(x), boxes)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 10.0)
            optimizer.step()
            schedule.step()
            average.update(module)
            total.append(loss.detach())
        mean = float(torch.stack(total).mean())
        print(f"{what} {epoch + 1}/{epochs}: loss {mean:.4f}, {time.perf_counter() - start:.1f} s", flush=True)
    return average.module


def told(values: List[Any], classes: int) -> Any:
    def figure(picked: Any) -> float:
        return accuracy_of([values[i] for i in picked], classes).map50_95

    low, high = bootstrap(figure, len(values), 40)
    return {"map": figure(range(len(values))), "interval_95": [low, high]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--qat-epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--as-it-is", action="store_true", help="without adapt")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    names = data.names_of(given.data)
    detector = ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=len(names) + 1, score_thresh=0.01, detections_per_img=100
    ).to(device)
    part, held = (Device(data.load(given.data, p, SIDE), device) for p in ("train", "val"))
    task = Task(detector, part, held)
    one = torch.zeros(1, 3, SIDE, SIDE, device=device)
    network: nn.Module = Heads(detector)
    if not given.as_it_is:
        network = adapt(network, one, target=TARGET).module
    heads = trained(task, network, given.epochs, 2e-3, given.batch, "FP32")
    result = {"command": sys.argv, "torch": torch.__version__, "held_out": len(held.x)}
    result["fp32"] = told(task.values(heads, 50), len(names))
    calibration = [part.inputs(part.x[i : i + 1]).cpu() for i in range(min(64, len(part.x)))]
    prepared = prepare_qat(heads, one, TARGET, calibration=calibration, integer_sums=True)
    result["int8_after_training"] = told(task.values(prepared, 50), len(names))
    qat = trained(task, copy.deepcopy(prepared), given.qat_epochs, 2e-4, given.batch, "INT8")
    ours, built = task.values(qat, 50), task.values(AsBuilt(qat), 1)
    result["int8_trained"] = told(built, len(names))
    result["equal_pictures"] = sum(
        np.array_equal(a.hits, b.hits) and np.array_equal(a.classes, b.classes) for a, b in zip(ours, built)
    )
    write_atomic(given.out, json.dumps(result, indent=1))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
