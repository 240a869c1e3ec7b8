"""A small YOLO-like detector for the DLA, and its loss.

Strided convolutions instead of pooling with padding, ReLU, nearest upsampling by two, raw heads: 4 x BINS distances and the class
scores per place, one tensor per stride. Decoding boxes belongs to the CPU; on the DLA it would cost a loadable per operator.
"""

from __future__ import annotations

from typing import List, Tuple

import torch
from torch import nn
from torch.nn import functional as F

STRIDES = (8, 16, 32)
BINS = 16


def conv(cin: int, cout: int, k: int = 3, s: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Residual(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = conv(c, c // 2, 1), conv(c // 2, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.b(self.a(x))


class Detector(nn.Module):
    """Args:
    width: factor of all channels; 1.0 has 3.2 million parameters. Channels are multiples of 32, as INT8 on the DLA reads them.
    """

    def __init__(self, classes: int, width: float = 0.5) -> None:
        super().__init__()
        a, b, c, d = (max(32, round(n * width / 32) * 32) for n in (64, 128, 256, 384))
        self.classes = classes
        self.stem = nn.Sequential(conv(3, 32, 3, 2), conv(32, a, 3, 2), Residual(a))
        self.down = nn.ModuleList(
            [
                nn.Sequential(conv(a, b, 3, 2), Residual(b), Residual(b)),
                nn.Sequential(conv(b, c, 3, 2), Residual(c), Residual(c)),
                nn.Sequential(conv(c, d, 3, 2), Residual(d)),
            ]
        )
        self.up = nn.ModuleList([conv(d, b, 1), conv(c, b, 1)])
        self.merge = nn.ModuleList([conv(c + b, c, 1), conv(b + b, b, 1)])
        self.heads = nn.ModuleList(
            [nn.Sequential(conv(n, b), conv(b, b), nn.Conv2d(b, 4 * BINS + classes, 1)) for n in (b, c, d)]
        )
        for head in self.heads:
            nn.init.constant_(head[-1].bias[4 * BINS :], -4.6)

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        x = self.stem(x)
        p3 = self.down[0](x)
        p4 = self.down[1](p3)
        p5 = self.down[2](p4)
        p4 = self.merge[0](torch.cat([p4, F.interpolate(self.up[0](p5), scale_factor=2.0, mode="nearest")], 1))
        p3 = self.merge[1](torch.cat([p3, F.interpolate(self.up[1](p4), scale_factor=2.0, mode="nearest")], 1))
        return tuple(head(p) for head, p in zip(self.heads, (p3, p4, p5)))


def loss_of(outputs: Tuple[torch.Tensor, ...], boxes: torch.Tensor) -> torch.Tensor:
    """Focal class loss, distribution focal loss and IoU loss, per object.

    Each place within 1.5 strides of an object's middle is its own, at the strides that fit its size; of several the smallest.

    Args:
        boxes: (N, M, 5) class, x1, y1, x2, y2 in pixels; class -1 is padding.
    """
    device = outputs[0].device
    bins = torch.arange(BINS, device=device, dtype=torch.float32)
    found: List[Tuple[torch.Tensor, ...]] = []
    for out, stride, (low, high) in zip(outputs, STRIDES, ((0.0, 64.0), (40.0, 128.0), (96.0, 1e9))):
        height, width = out.shape[2:]
        y, x = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
        place = (torch.stack([x, y], -1).reshape(-1, 1, 2) + 0.5) * stride  # (P, 1, 2)
        corners = boxes[:, None, :, 1:]  # (N, 1, M, 4)
        distances = torch.cat([place - corners[..., :2], corners[..., 2:] - place], -1) / stride  # (N, P, M, 4)
        middle = (corners[..., :2] + corners[..., 2:]) / 2
        near = ((place - middle).abs() < 1.5 * stride).all(-1) & (distances.amin(-1) > 0)
        side = (boxes[..., 3:] - boxes[..., 1:3]).amax(-1)[:, None]
        near &= (boxes[..., 0] >= 0)[:, None] & (side >= low) & (side < high)
        area = torch.where(near, (corners[..., 2:] - corners[..., :2]).prod(-1), torch.inf)
        smallest, which = area.min(-1)  # (N, P)
        goal = distances.gather(2, which[..., None, None].expand(-1, -1, 1, 4))[:, :, 0]
        of = boxes[:, :, 0].gather(1, which)
        of = torch.where(smallest.isfinite(), of, -torch.ones_like(of))
        found.append((out.flatten(2).transpose(1, 2).float(), of, goal.clamp(0, BINS - 1.01)))
    flat, of, goal = (torch.cat(parts, 1) for parts in zip(*found))
    classes = flat.shape[-1] - 4 * BINS
    positive = of >= 0
    count = positive.sum().clamp(min=1)
    logits = flat[..., 4 * BINS :]
    want = F.one_hot(of.clamp(min=0).long(), classes).float() * positive[..., None]
    p = logits.sigmoid().detach()
    weight = torch.where(want > 0, 1 - p, p) ** 2 + 0.01
    total = (F.binary_cross_entropy_with_logits(logits, want, reduction="none") * weight).sum() / count
    chances = flat[..., : 4 * BINS][positive].reshape(-1, 4, BINS).log_softmax(-1)
    goal = goal[positive]
    left = goal.long()
    part = goal - left
    dfl = -(chances.gather(-1, left[..., None])[..., 0] * (1 - part) + chances.gather(-1, left[..., None] + 1)[..., 0] * part)
    got = (chances.exp() * bins).sum(-1)
    inner = torch.minimum(got, goal)
    both = (inner[:, 0] + inner[:, 2]) * (inner[:, 1] + inner[:, 3])
    of_each = [(d[:, 0] + d[:, 2]) * (d[:, 1] + d[:, 3]) for d in (got, goal)]
    iou = both / (of_each[0] + of_each[1] - both).clamp(min=1e-6)
    return total + (0.5 * dfl.mean(-1).sum() + 1.5 * (1 - iou).sum()) / count
