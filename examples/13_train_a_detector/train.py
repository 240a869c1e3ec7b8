"""A detector for the DLA: predicted time, FP32, INT8 after training, INT8 training, artifact.

    python data.py shapes --train 1600 --held-out 400
    python train.py shapes --out run --epochs 30 --qat-epochs 5

On the CPU minutes at `--size 128 --width 0.25`; on a GPU pictures and labels stay on the device.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import data
import numpy as np
import torch
from network import BINS, STRIDES, Detector, loss_of
from pruning import narrower, predicted_us, ratio_for
from torch import nn

from edgedla.accuracy.metrics import Metric
from edgedla.runtime.decode.map_metric import map_metric, map_options
from edgedla.torch import AsBuilt, NonFinite, assert_dla, export_qat, prepare_qat

NAMES = [f"raw_s{stride}" for stride in STRIDES]


class Device:
    """A part of the data on the device, UINT8, and its batches."""

    def __init__(self, part: data.Data, device: str) -> None:
        self.x, self.boxes = (torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in part)

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 3, 1, 2).float() / 255

    def batches(self, epoch: int, batch: int) -> Any:
        """Shuffled by the epoch's number, flipped, moved and recoloured."""
        generator = torch.Generator().manual_seed(epoch)
        order = torch.randperm(len(self.x), generator=generator).to(self.x.device)
        for i in range(max(1, len(order) // batch)):
            mine = order[i * batch : (i + 1) * batch]
            yield augmented(self.inputs(self.x[mine]), self.boxes[mine].clone(), generator)


def augmented(x: torch.Tensor, boxes: torch.Tensor, generator: torch.Generator) -> Tuple[torch.Tensor, torch.Tensor]:
    """Mirrors pictures, moves them by up to an eighth, changes brightness and colour; boxes that leave count no more."""
    n, _, height, width = x.shape
    draw = torch.rand(n, 6, generator=generator).to(x.device)
    real = boxes[..., 0] >= 0
    mirrored = (draw[:, 0] < 0.5)[:, None]
    x = torch.where(mirrored[..., None, None], x.flip(3), x)
    boxes[..., 1], boxes[..., 3] = (
        torch.where(mirrored, width - boxes[..., 3], boxes[..., 1]),
        torch.where(mirrored, width - boxes[..., 1], boxes[..., 3]),
    )
    gain = 0.6 + 0.8 * draw[:, 1:4]
    x = (x * gain[..., None, None] + 0.2 * (draw[:, 4] - 0.5)[:, None, None, None]).clamp(0, 1)
    move = ((torch.rand(2, generator=generator) - 0.5) * torch.tensor([width, height]) / 4).round().int().tolist()
    x = torch.roll(x, (move[1], move[0]), (2, 3))
    # What rolled in from the other side is grey, as the padding of a letterbox.
    edges = (
        slice(0, move[1]) if move[1] >= 0 else slice(move[1], None),
        slice(0, move[0]) if move[0] >= 0 else slice(move[0], None),
    )
    x[:, :, edges[0]], x[:, :, :, edges[1]] = 114 / 255, 114 / 255
    before = (boxes[..., 3:] - boxes[..., 1:3]).clamp(min=0).prod(-1)
    corners = boxes[..., 1:] + torch.tensor([*move, *move], device=x.device)
    corners[..., 0::2], corners[..., 1::2] = corners[..., 0::2].clamp(0, width), corners[..., 1::2].clamp(0, height)
    visible = (corners[..., 2:] - corners[..., :2]).clamp(min=0).prod(-1) > 0.4 * before
    of = torch.where(real & visible, boxes[..., 0], -torch.ones_like(before))
    return x, torch.cat([of[..., None], corners], -1)


class Average:
    """The exponential moving average of a network's weights and statistics (EMA)."""

    def __init__(self, module: nn.Module, decay: float = 0.998) -> None:
        self.module, self.decay, self.steps = copy.deepcopy(module).eval(), decay, 0

    def update(self, module: nn.Module) -> None:
        self.steps += 1
        keep = min(self.decay, self.steps / (self.steps + 10))
        with torch.no_grad():
            for mine, new in zip(self.module.state_dict().values(), module.state_dict().values()):
                if mine.is_floating_point():
                    mine.lerp_(new, 1 - keep)
                else:
                    mine.copy_(new)


class Accuracy:
    """mAP over the held-out pictures by edgedla's decoder, the one that `evaluate` and `run` use."""

    def __init__(self, held: Device, size: int) -> None:
        self.held = held
        self.metric: Metric = map_metric(map_options("yolov8", BINS), NAMES, (1, 3, size, size))
        self.labels = held.boxes.cpu().numpy()

    def values(self, module: nn.Module, batch: int = 50) -> List[Any]:
        module.eval()
        found = []
        with torch.no_grad():
            for i in range(0, len(self.held.x), batch):
                outputs = [o.float().cpu().numpy() for o in module(self.held.inputs(self.held.x[i : i + batch]))]
                for k in range(len(outputs[0])):
                    arrays = {name: o[k : k + 1] for name, o in zip(NAMES, outputs)}
                    found.append(self.metric.of_sample(arrays, self.labels[i + k], None))
        return found

    def told(self, values: List[Any]) -> Dict[str, Any]:
        return {"map": self.metric.figure(values), "interval_95": list(self.metric.interval(values))}


def train(module: nn.Module, part: Device, accuracy: Accuracy, epochs: int, rate: float, given: Any, what: str) -> nn.Module:
    """The averaged module of the epoch with the best mAP; with 0 epochs the module that came."""
    average = Average(module)
    best, kept = -1.0, copy.deepcopy(average.module.state_dict())
    optimizer = torch.optim.AdamW(module.parameters(), rate, weight_decay=0.02 if what == "FP32" else 0.0)
    steps = max(1, epochs * max(1, len(part.x) // given.batch))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1, pct_start=0.15)
    for epoch in range(epochs):
        module.train()
        start, losses = time.perf_counter(), []
        for x, boxes in part.batches(epoch, given.batch):
            loss = loss_of(module(x), boxes)
            if given.detect_nan and not torch.isfinite(loss):
                with NonFinite(module) as found:
                    loss_of(module(x), boxes).backward()
                raise SystemExit(f"{what} {epoch + 1}: the loss is not finite\n{found.report()}")
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 10.0)
            optimizer.step()
            schedule.step()
            average.update(module)
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if not np.isfinite(mean):
            raise SystemExit(f"{what} {epoch + 1}: the loss is not finite; --detect-nan finds the place")
        value = accuracy.metric.figure(accuracy.values(average.module))
        seconds = time.perf_counter() - start
        print(f"{what} {epoch + 1}/{epochs}: loss {mean:.4f}, mAP {value:.4f}, {seconds:.1f} s", flush=True)
        if value > best:
            best, kept = value, copy.deepcopy(average.module.state_dict())
    average.module.load_state_dict(kept)
    return average.module


def main() -> None:
    given = arguments()
    torch.manual_seed(given.seed)
    classes = data.names_of(given.data)
    module = Detector(len(classes), given.width)
    one = torch.zeros(1, 3, given.size, given.size)
    report = assert_dla(module, one, target=given.target, precision="int8", max_loadables=1)
    time_us = predicted_us(module, one, given.target)
    print(f"{report.totals.layers_dla} layers on the DLA in {report.totals.regions} loadable; predicted {time_us} us per frame")
    if given.prune < 1:
        tried = ratio_for(module, one, given.target, given.prune, ends(module))
        print("predicted by share of channels taken away: " + ", ".join(f"{r:.1f}: {us:.0f} us" for r, us in tried))
    part, held = (Device(data.load(given.data, name, given.size), given.device) for name in ("train", "val"))
    accuracy = Accuracy(held, given.size)
    result: Dict[str, Any] = {"pictures": len(part.x), "held_out": len(held.x), "predicted_us": time_us, "seed": given.seed}
    trained = train(module.to(given.device), part, accuracy, given.epochs, given.rate, given, "FP32")
    result["fp32"] = accuracy.told(accuracy.values(trained))
    if given.prune < 1:
        narrow = narrower(trained.cpu(), one, tried[-1][0], ends(trained))
        trained = train(narrow.to(given.device), part, accuracy, given.epochs, given.rate, given, "pruned")
        result["pruned"] = {"predicted_us": tried[-1][1], **accuracy.told(accuracy.values(trained))}
    calibration = [part.inputs(part.x[i : i + 1]).cpu() for i in range(min(len(part.x), 64))]
    prepared = prepare_qat(trained, one.to(given.device), given.target, calibration=calibration, integer_sums=True)
    before = accuracy.values(prepared)
    result["int8_after_training"] = accuracy.told(before)
    qat = train(prepared, part, accuracy, given.qat_epochs, given.qat_rate, given, "INT8")
    ours = accuracy.values(qat)
    # The artifact's own numbers, on the CPU.
    built = accuracy.values(AsBuilt(qat), batch=1)
    result["int8_trained"] = accuracy.told(built)
    result["equal_pictures"] = sum(_same(a, b) for a, b in zip(ours, built))
    result["gain_interval_95"] = list(accuracy.metric.difference_interval(built, before))
    given.out.mkdir(parents=True, exist_ok=True)
    export_qat(qat).save(given.out)
    np.savez(given.out / "held_out.npz", x=held.inputs(held.x).cpu().numpy(), labels=accuracy.labels)
    (given.out / "names.txt").write_text("\n".join(classes) + "\n")
    (given.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    for name in ("fp32", *(["pruned"] if given.prune < 1 else []), "int8_after_training", "int8_trained"):
        low, high = result[name]["interval_95"]
        print(f"{name:20} mAP {result[name]['map']:.4f} ({low:.4f} to {high:.4f})")


def ends(module: Any) -> List[nn.Module]:
    """The layers that write the outputs."""
    return [head[-1] for head in module.heads]


def _same(a: Any, b: Any) -> bool:
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("classes", "hits", "objects"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a YOLO folder with data.yaml")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="orin-nx-16gb")
    parser.add_argument("--size", type=int, default=256, help="side of the network's input, a multiple of 32")
    parser.add_argument("--width", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--qat-epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--qat-rate", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--prune", type=float, default=1, help="take channels away until the predicted time is this share, and train on"
    )
    parser.add_argument("--detect-nan", action="store_true", help="stop at the first loss that is not finite, with its place")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
