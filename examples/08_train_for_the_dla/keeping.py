"""Which weights INT8 training ends with: averaged ones, and those it began with unless others are better."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Average:
    """The moving average of a module's parameters over its steps: rounding makes the last ones jump to and fro.

    Args:
        decay: share of the average that a step keeps.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.parameters, self.decay = list(module.parameters()), decay
        self.values = [p.detach().clone() for p in self.parameters]

    def update(self) -> None:
        with torch.no_grad():
            torch._foreach_lerp_(self.values, [p.detach() for p in self.parameters], 1 - self.decay)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """The module has the averaged parameters while the block stands."""
        kept = [p.detach().clone() for p in self.parameters]
        _copy(self.parameters, self.values)
        try:
            yield
        finally:
            _copy(self.parameters, kept)

    def state_dict(self) -> Dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        _copy(self.values, state["values"])


def _copy(to: List[Any], values: List[torch.Tensor]) -> None:
    with torch.no_grad():
        for place, value in zip(to, values):
            place.copy_(value)


def digest(module: nn.Module) -> str:
    """SHA-256 of the module's parameters and buffers, in order."""
    found = hashlib.sha256()
    for name, value in module.state_dict().items():
        found.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def judgement(scores: torch.Tensor, classes: torch.Tensor) -> np.ndarray:
    """(loss, right) of each picture: (2, N), FP32."""
    loss = F.cross_entropy(scores, classes, reduction="none")
    return torch.stack([loss, (scores.argmax(1) == classes).float()]).cpu().numpy()


def gain(new: np.ndarray, old: np.ndarray) -> Tuple[float, float]:
    """(mean, standard error) of the differences, picture by picture."""
    difference = new.astype(np.float64) - old
    return float(difference.mean()), float(difference.std() / max(len(difference), 1) ** 0.5)


def better_by(new: np.ndarray, first: np.ndarray) -> float:
    """The share by which more pictures are right than at first; 0 where that may be chance, or where the loss is higher.

    Chance: less than two standard errors of the difference, picture by picture. So training that gains nothing gives back
    what it began with. The loss alone says too little: it falls where the network only becomes surer of what it knew.
    """
    more, error = gain(new[1], first[1])
    return more if more > 2 * error and new[0].mean() <= first[0].mean() else 0.0
