"""Fewer channels, in multiples that the DLA computes whole, as few as a predicted time asks for: `pip install torch-pruning`."""

from __future__ import annotations

import copy
from typing import List, Tuple

import torch
from torch import nn

import edgedla
from edgedla.torch import to_onnx

#: INT8 channels are computed in groups of so many, the last group at the cost of a full one; FP16 in groups of 16.
MULTIPLE = 32


def predicted_us(module: nn.Module, one: torch.Tensor, target: str) -> float:
    """The predicted time of a frame at INT8, in microseconds."""
    report = edgedla.check(to_onnx(module, one), target=target, precision="int8", cost=True)
    return float(next(row["latency_us"] for row in report.cost or () if row["name"] == "tensorrt"))


def narrower(module: nn.Module, one: torch.Tensor, ratio: float, kept: List[nn.Module]) -> nn.Module:
    """A copy without the channels of least weight: about `ratio` of each convolution's, so that a multiple remains.

    Args:
        kept: layers whose channels stay, those of the network's outputs.
    """
    import torch_pruning

    made, ignored = copy.deepcopy((module.eval(), kept))
    remaining = {
        part: max(MULTIPLE, round(part.out_channels * (1 - ratio) / MULTIPLE) * MULTIPLE)
        for part in made.modules()
        if isinstance(part, nn.Conv2d) and part.out_channels > MULTIPLE and part not in ignored
    }
    torch_pruning.pruner.BasePruner(
        made,
        one,
        torch_pruning.importance.GroupMagnitudeImportance(p=2),
        ignored_layers=ignored,
        pruning_ratio=0.0,
        # Half a channel more, because the library rounds down.
        pruning_ratio_dict={part: 1 - (count + 0.5) / part.out_channels for part, count in remaining.items()},
    ).step()
    return made


def ratio_for(
    module: nn.Module, one: torch.Tensor, target: str, share: float, kept: List[nn.Module]
) -> List[Tuple[float, float]]:
    """(ratio, predicted microseconds) of networks ever narrower, until the time is at most `share` of the module's.

    The weights do not matter, so it can be asked before training; the trained module is then made `narrower` by the last ratio.
    """
    tried = [(0.0, predicted_us(module, one, target))]
    for ratio in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        tried.append((ratio, predicted_us(narrower(module, one, ratio, kept), one, target)))
        if tried[-1][1] <= share * tried[0][1]:
            return tried
    told = ", ".join(f"{ratio:.1f}: {us:.0f} us" for ratio, us in tried)
    raise SystemExit(f"no network has {share:.0%} of the predicted time. Share of channels taken away: {told}")
