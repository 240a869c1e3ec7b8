"""The tasks of these benchmarks: pictures to train on, to choose by, and to judge by, from sources that share nothing.

digits: handwriting of other people in each part (digits 0 to 1,146 train, 1,147 to 1,296 choose, the rest judge), on
photographs, 64 x 64. hard: 24 classes of drawn shapes, 32 x 32, each part with a seed of its own.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent), str(ROOT / "examples" / "08_train_for_the_dla")]

import digits  # noqa: E402
import network  # noqa: E402
import pictures  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LAST = torch.channels_last if DEVICE == "cuda" else torch.contiguous_format


@dataclass(frozen=True)
class Part:
    """Pictures UINT8 (N, H, W, 3) and their classes, on the device."""

    x: torch.Tensor
    y: torch.Tensor


@dataclass(frozen=True)
class Task:
    """`scaled`: UINT8 pictures to the network's inputs, FP32 (N, 3, H, W)."""

    train: Part
    validation: Part
    held_out: Part
    scaled: Callable[[torch.Tensor], torch.Tensor]
    side: int


def task(kind: str, train: int, validation: int, held_out: int, cache: Path) -> Task:
    """The task "digits" or "hard"; its pictures are kept in `cache`, a folder."""
    file = cache / f"{kind}-{train}-{validation}-{held_out}.npz"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        if kind == "hard":
            made = [pictures.make(train, 1), pictures.make(validation, 3), pictures.make(held_out, 2)]
        else:
            made = [digits.make(train, 1, 0, 1147), digits.make(validation, 3, 1147, 1297), digits.make(held_out, 2, 1297, 1797)]
        np.savez(file, **{f"{key}{i}": a for i, pair in enumerate(made) for key, a in zip("xy", pair)})
    data = np.load(file)
    parts = [Part(*(torch.from_numpy(data[f"{key}{i}"]).to(DEVICE) for key in "xy")) for i in range(3)]
    if kind == "hard":
        return Task(*parts, lambda p: _nchw((p.permute(0, 3, 1, 2).float() - pictures.MEAN) / pictures.DEVIATION), 32)
    return Task(*parts, lambda p: _nchw(digits.scaled(p)), 64)


def _nchw(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=LAST)


def network_of(name: str, width: float = 0.5) -> nn.Module:
    """An untrained network by its name: rn, m2, m3, ef, or hard of a width."""
    return network.Network(width) if name == "hard" else digits.NETWORKS[name]()


def spread(module: nn.Module, most: float, seed: int = 0) -> None:
    """Scales the channels between the two convolutions of each residual block; the function stays."""
    generator = torch.Generator().manual_seed(seed)
    for block in module.modules():
        if hasattr(block, "conv1") and hasattr(block, "conv2"):
            factor = torch.exp2((2 * torch.rand(block.bn1.num_features, generator=generator) - 1) * most)
            with torch.no_grad():
                factor = factor.to(block.bn1.weight.device)
                block.bn1.weight.mul_(factor)
                block.bn1.bias.mul_(factor)
                block.conv2.weight.div_(factor.reshape(1, -1, 1, 1))


def kind_of(name: str) -> str:
    return "hard" if name.startswith("hard") else "digits"


SIZES: Dict[str, Any] = {"train": 40000, "validation": 5000, "held_out": 3000}
