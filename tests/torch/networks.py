"""Networks as users write them, small enough for a test."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Gate(nn.Module):
    """Squeeze and excitation with a HardSigmoid, as in MobileNetV3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, 8, 1)
        self.expand = nn.Conv2d(8, channels, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.pool(x)
        scale = self.expand(F.relu(self.reduce(scale)))
        return x * self.gate(scale)


class Block(nn.Module):
    """A residual block whose one ReLU serves twice."""

    def __init__(self, channels: int, gate: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.gate = Gate(channels) if gate else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.gate(self.bn2(self.conv2(y)))
        y += x
        return self.relu(y)


class Small(nn.Module):
    """Conv, a gated residual block, pooling, a classifier behind a Dropout: 3 x 16 x 16 in, 10 scores out."""

    def __init__(self, gate: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.block = Block(16, gate)
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Sequential(nn.Dropout(0.1), nn.Linear(256, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._scores(self.pool(self.block(self.stem(x))))

    def _scores(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(x, 1))


def small() -> nn.Module:
    """A factory for `edgedla check package.module:factory`."""
    return Small()


def small_with_inputs() -> tuple:
    return Small(), torch.zeros(1, 3, 16, 16)


class Branches(nn.Module):
    """SiLU, depthwise, transposed convolution, concatenation, average pooling, split: 3 x 16 x 16 in, 6 x 8 x 8 out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.bn = nn.BatchNorm2d(8)
        self.down = nn.AvgPool2d(2)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2, bias=False)
        self.bn_up = nn.BatchNorm2d(8)
        self.head = nn.Conv2d(16, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = F.relu6(self.bn(self.depth(x)))
        y = self.bn_up(self.up(self.down(y)))
        first, second = torch.chunk(torch.cat([x, y], 1), 2, 1)
        return self.head(torch.cat([torch.tanh(first), second], 1))


class Normalized(nn.Module):
    """Functions of several layers, as in SSD300 (normalize) and FCOS (GroupNorm), and a GLU: 3 x 16 x 16 in, 4 x 8 x 8 out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8))
        self.weight = nn.Parameter(torch.full((8,), 20.0))
        self.group = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU())
        self.plain = nn.GroupNorm(2, 8, affine=False)
        self.head = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.normalize(self.stem(x)) * self.weight.view(1, -1, 1, 1)
        return F.glu(self.head(self.plain(self.group(x))), 1)


def settled(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module with random weights and statistics, as after some training."""
    torch.manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 2)
            nn.init.uniform_(part.weight, -1, 2)
            nn.init.normal_(part.bias, 0, 0.3)
    return module.eval()


class Slices(nn.Module):
    """Channel slices, a mean without kept dims, HardSwish behind two Linears: 3 x 16 x 16 in, 10 scores out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16))
        self.left = nn.Conv2d(6, 16, 3, padding=1)
        self.right = nn.Conv2d(10, 16, 3, padding=1)
        self.classifier = nn.Sequential(nn.Linear(16, 12), nn.Hardswish(), nn.Dropout(0.1), nn.Linear(12, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.hardswish(self.stem(x))
        x = self.left(x[:, :6]) + self.right(x[:, 6:])
        return self.classifier(x.mean([2, 3]))
