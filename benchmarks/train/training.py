"""Training that these benchmarks share: AdamW on a cosine, bf16 and CUDA graphs on a GPU, averaged weights, the best epoch."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import numpy as np
import torch
from tasks import DEVICE, Part, Task
from torch import nn
from torch.nn import functional as F

from captured import Step, optimizer_for, rise_and_fall, set_rate  # isort: skip
from keeping import Average, judgement  # isort: skip

from edgedla.accuracy.metrics import wilson  # isort: skip

BATCH = 256


def fit(
    module: nn.Module,
    task: Task,
    epochs: int,
    rate: float,
    decay: float,
    *,
    half: bool = False,
    teacher: Optional[nn.Module] = None,
    share: float = 0.5,
    average: float = 0.0,
    batch: int = BATCH,
    clip: float = 0.0,
    after: Optional[Callable[[int, Optional[Average]], None]] = None,
) -> None:
    """Trains on the task's pictures: the rate rises over a tenth of the steps and falls on a cosine.

    Args:
        half: forward in BF16 on a GPU. teacher: `share` of the loss is the distance to its scores.
        average: decay of the averaged parameters; 0 keeps none. after: called with the epoch's number and them.
        clip: longest gradient of all parameters together; 0 clips none.
    """
    x, y = task.train.x, task.train.y
    steps = max(len(x) // batch, 1)
    total = epochs * steps
    optimizer = optimizer_for(module, rate, decay)
    if clip:
        optimizer.register_step_pre_hook(lambda *_: (nn.utils.clip_grad_norm_(module.parameters(), clip), None)[1])

    def loss_of(picked: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        inputs = task.scaled(picked)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=half and DEVICE == "cuda", cache_enabled=False):
            scores = module(inputs).flatten(1).float()
        loss = F.cross_entropy(scores, classes)
        if teacher is None:
            return loss
        with torch.no_grad():
            wanted = teacher(inputs).flatten(1).softmax(1)
        return (1 - share) * loss + share * F.cross_entropy(scores, wanted)

    step = Step(loss_of, optimizer)
    averaged = Average(module, average) if average else None
    number = 0
    for epoch in range(epochs):
        module.train()
        torch.backends.cudnn.allow_tf32 = True
        order = torch.randperm(len(x), device=x.device)
        for i in range(steps):
            number += 1
            set_rate(optimizer, rate * rise_and_fall(number, total))
            picked = order[i * batch : (i + 1) * batch]
            step(x[picked], y[picked])
            if averaged is not None:
                averaged.update()
        if after is not None:
            after(epoch + 1, averaged)
    module.eval()


def scores_of(module: nn.Module, part: Part, task: Task) -> torch.Tensor:
    """FP32 scores in evaluation mode, on the CPU: (N, classes). TF32, which training may use, is off."""
    module.eval()
    torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        return torch.cat([module(task.scaled(p)).flatten(1).float().cpu() for p in part.x.split(500)])


def judged(module: nn.Module, part: Part, task: Task) -> np.ndarray:
    """(loss, right) of each picture: (2, N)."""
    return judgement(scores_of(module, part, task), part.y.cpu())


def figure(right: np.ndarray) -> Dict[str, Any]:
    """Top-1 with its 95 % Wilson interval."""
    low, high = wilson(int(right.sum()), len(right))
    return {"top1": round(float(right.mean()), 5), "low": round(low, 5), "high": round(high, 5), "n": len(right)}
