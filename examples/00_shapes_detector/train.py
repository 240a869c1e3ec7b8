"""Trains the shapes detector on synthetic frames with PyTorch and writes shapes_detector.onnx and training_log.json.

    python train.py --device cpu --steps 2500 --seed 7

The network is made for the DLA: 4-D tensors, ReLU, nearest upsampling by scales, and raw heads in the YOLOv8 form
(4 x REG_MAX box distributions followed by class logits, one tensor a scale), so that all of it is one DLA region.
"""

from __future__ import annotations

import argparse
import json
import math
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from shapes import CLASSES, sample
from torch import nn

SIZE = 256
STRIDES = (8, 16)
REG_MAX = 8
NC = len(CLASSES)
#: A box belongs to the stride whose range (longest side in pixels) holds it.
RANGES = ((0.0, 48.0), (32.0, 1e9))


def conv(cin: int, cout: int, k: int = 3, s: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Residual(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = conv(c, c // 2, 1), conv(c // 2, c, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.b(self.a(x))


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 24, 3, 2), Residual(24))
        self.p3 = nn.Sequential(conv(24, 48, 3, 2), Residual(48), Residual(48))
        self.p4 = nn.Sequential(conv(48, 64, 3, 2), Residual(64), Residual(64), Residual(64))
        self.lateral = conv(64, 32, 1)
        self.merge = conv(48 + 32, 48, 1)
        out = 4 * REG_MAX + NC
        self.heads = nn.ModuleList([nn.Sequential(conv(c, 48, 3), nn.Conv2d(48, out, 1)) for c in (48, 64)])
        for head in self.heads:
            nn.init.constant_(head[1].bias[4 * REG_MAX :], -4.0)

    def forward(self, x: torch.Tensor):
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        up = F.interpolate(self.lateral(p4), scale_factor=2.0, mode="nearest")
        return self.heads[0](self.merge(torch.cat([p3, up], 1))), self.heads[1](p4)


def targets(boxes: np.ndarray, classes: np.ndarray):
    """Per scale: class map (H, W) with -1 for background, and box distances (H, W, 4) in units of the stride."""
    result = []
    for stride, (low, high) in zip(STRIDES, RANGES):
        n = SIZE // stride
        cls = np.full((n, n), -1, np.int64)
        box = np.zeros((n, n, 4), np.float32)
        order = np.argsort([-(b[2] - b[0]) * (b[3] - b[1]) for b in boxes]) if len(boxes) else []
        for i in order:
            x1, y1, x2, y2 = boxes[i]
            if not low <= max(x2 - x1, y2 - y1) < high:
                continue
            cx, cy, r = (x1 + x2) / 2 / stride, (y1 + y2) / 2 / stride, 1.5
            gx = np.arange(n) + 0.5
            inside_x = (np.abs(gx - cx) < r) & (gx * stride > x1) & (gx * stride < x2)
            inside_y = (np.abs(gx - cy) < r) & (gx * stride > y1) & (gx * stride < y2)
            for gy_ in np.nonzero(inside_y)[0]:
                for gx_ in np.nonzero(inside_x)[0]:
                    px, py = (gx_ + 0.5) * stride, (gy_ + 0.5) * stride
                    cls[gy_, gx_] = classes[i]
                    box[gy_, gx_] = np.array([px - x1, py - y1, x2 - px, y2 - py]) / stride
        result.append((cls, np.clip(box, 0, REG_MAX - 1.01)))
    return result


class Frames(torch.utils.data.Dataset):
    def __init__(self, first: int, count: int) -> None:
        self.first, self.count = first, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int):
        frame, boxes, classes = sample(self.first + i, SIZE)
        x = torch.from_numpy(frame[..., ::-1].copy()).permute(2, 0, 1).float() / 255
        flat = []
        for cls, box in targets(boxes, classes):
            flat += [torch.from_numpy(cls), torch.from_numpy(box)]
        return (x, *flat)


def loss_of(outputs, flat) -> torch.Tensor:
    total = torch.zeros((), device=outputs[0].device)
    project = torch.arange(REG_MAX, device=outputs[0].device, dtype=torch.float32)
    positives = sum((flat[2 * i] >= 0).sum() for i in range(len(outputs))).clamp(min=1)
    for i, out in enumerate(outputs):
        cls, box = flat[2 * i], flat[2 * i + 1]
        logits = out[:, 4 * REG_MAX :].permute(0, 2, 3, 1)
        want = F.one_hot(cls.clamp(min=0), NC).float() * (cls >= 0)[..., None]
        p = logits.sigmoid()
        weight = torch.where(want > 0, 1 - p, 0.75 * p).detach() ** 2 + 0.02
        total = total + (F.binary_cross_entropy_with_logits(logits, want, reduction="none") * weight).sum() / positives
        pos = cls >= 0
        if pos.any():
            dist = out[:, : 4 * REG_MAX].permute(0, 2, 3, 1)[pos].view(-1, 4, REG_MAX)
            goal = box[pos]
            left = goal.long()
            frac = goal - left
            logp = dist.log_softmax(-1)
            dfl = -(logp.gather(-1, left[..., None])[..., 0] * (1 - frac) + logp.gather(-1, left[..., None] + 1)[..., 0] * frac)
            got = (dist.softmax(-1) * project).sum(-1)
            inter = (torch.minimum(got, goal)[:, :2] + torch.minimum(got, goal)[:, 2:]).prod(-1)
            area = lambda d: (d[:, 0] + d[:, 2]) * (d[:, 1] + d[:, 3])  # noqa: E731
            iou = inter / (area(got) + area(goal) - inter + 1e-6)
            total = total + (dfl.mean(-1).sum() * 0.5 + (1 - iou).sum() * 1.5) / positives
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--out", default="shapes_detector.onnx")
    parser.add_argument("--log", default="training_log.json")
    a = parser.parse_args()
    torch.manual_seed(a.seed)
    model = Detector().to(a.device)
    parameters = sum(p.numel() for p in model.parameters())
    # Seeds from one million on are training frames; held-out frames are below (see evaluate.py).
    data = torch.utils.data.DataLoader(Frames(1_000_000, a.steps * a.batch), a.batch, num_workers=a.workers)
    opt = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=a.steps, pct_start=0.1)
    started, losses, history = time.time(), [], []
    for step, (x, *flat) in enumerate(data):
        loss = loss_of(model(x.to(a.device)), [t.to(a.device) for t in flat])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        opt.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise SystemExit(f"the loss is {losses[-1]} at step {step}")
        if (step + 1) % 100 == 0:
            history.append({"step": step + 1, "loss": round(float(np.mean(losses[-100:])), 4)})
            print(f"step {step + 1} loss {history[-1]['loss']} {time.time() - started:.0f} s", flush=True)
    model.eval().cpu()
    names = ["raw_s8", "raw_s16"]
    torch.onnx.export(
        model, torch.zeros(1, 3, SIZE, SIZE), a.out, input_names=["images"], output_names=names, opset_version=13, dynamo=False
    )
    # Ultralytics' form: `edgedla run` names the boxes by it.
    made = onnx.load(a.out)
    made.metadata_props.add(key="names", value=str(dict(enumerate(CLASSES))))
    onnx.save(made, a.out)
    log = {
        "command": f"python train.py --device {a.device} --steps {a.steps} --batch {a.batch} --seed {a.seed}",
        "torch": torch.__version__,
        "device": a.device,
        "threads": torch.get_num_threads(),
        "parameters": parameters,
        "frames": a.steps * a.batch,
        "seconds": round(time.time() - started, 1),
        "classes": CLASSES,
        "strides": STRIDES,
        "reg_max": REG_MAX,
        "input": [1, 3, SIZE, SIZE],
        "loss": history,
    }
    with open(a.log, "w", encoding="utf-8") as f:
        json.dump(log, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
