"""2:4 sparse weights, which Orin's DLA computes faster with at INT8: at each output and tap two of four input channels are zero."""

from __future__ import annotations

from typing import Dict

import torch
from torch import nn


def two_of_four(weight: torch.Tensor) -> torch.Tensor:
    """1 for the two largest weights of each four input channels, 0 for the others. Args: weight: (K, C, ...), C a multiple of 4."""
    groups = weight.detach().abs().unflatten(1, (-1, 4))
    kept = torch.zeros_like(groups).scatter_(2, groups.topk(2, 2).indices, 1.0)
    return kept.flatten(1, 2)


class Mask:
    """The weights of a module that stay zero: of its convolutions over all channels, if they are a multiple of four.

    Made from trained weights. Call `apply` after each step of the optimizer; averages of such weights are sparse too.
    """

    def __init__(self, module: nn.Module) -> None:
        self.convolutions: Dict[str, nn.Conv2d] = {
            name: part
            for name, part in module.named_modules()
            if isinstance(part, nn.Conv2d) and part.groups == 1 and part.in_channels % 4 == 0
        }
        self.kept = {name: two_of_four(part.weight) for name, part in self.convolutions.items()}
        self.apply()

    def apply(self) -> None:
        with torch.no_grad():
            for name, part in self.convolutions.items():
                part.weight.mul_(self.kept[name].to(part.weight.device))
