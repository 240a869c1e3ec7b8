"""A small network of the MobileNetV3 kind, as a user writes it: HardSwish, gates, a global average, a Linear."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import nn


class Gate(nn.Module):
    """Squeeze and excitation: each channel is weighted by what it holds on average."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(channels // 4, 8)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.squeeze, self.expand = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)
        self.act, self.gate = nn.ReLU(), nn.Hardsigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(self.expand(self.act(self.squeeze(self.average(x)))))


class Block(nn.Module):
    """Expand, filter each channel, gate, project; with a shortcut where sizes allow."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int, act: type) -> None:
        super().__init__()
        wide = channels * expansion
        self.shortcut = stride == 1 and channels == out
        self.body = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            act(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            act(),
            Gate(wide),
            nn.Conv2d(wide, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.shortcut else self.body(x)


class Network(nn.Module):
    """3 x 32 x 32 in, `classes` scores out.

    Args:
        width: factor of all channel counts. depth: blocks in each of the three stages. act: activation of the blocks.
        dropout: share of the features that the classifier does not see in training.
    """

    def __init__(
        self,
        width: float = 0.5,
        depth: int = 2,
        classes: int = 24,
        act: type = nn.Hardswish,
        expansion: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        sizes: Tuple[int, ...] = tuple(max(8, int(c * width) // 8 * 8) for c in (16, 32, 64, 128))
        layers = [nn.Conv2d(3, sizes[0], 3, 1, 1, bias=False), nn.BatchNorm2d(sizes[0]), act()]
        channels = sizes[0]
        for out in sizes[1:]:
            for i in range(depth):
                layers.append(Block(channels, out, expansion, 2 if i == 0 else 1, act))
                channels = out
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


def made() -> Tuple[nn.Module, torch.Tensor]:
    """A factory for `edgedla check network:made`."""
    return Network(), torch.zeros(1, 3, 32, 32)
