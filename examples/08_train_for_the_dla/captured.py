"""A training step whose kernels are recorded once and replayed: Python no longer holds the GPU up between them."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional

import torch

#: Steps before the recording, in which PyTorch allocates what it keeps and chooses its kernels.
WARM_UP = 3


class Step:
    """One step of one process: loss, gradients, weights. On the CPU it runs as written.

    Args:
        loss_of: batch of tensors -> loss; it must neither wait for the GPU nor branch on values.
        optimizer: made by `optimizer_for`, so that its rate is a tensor that the recording reads.
    """

    def __init__(self, loss_of: Callable[..., torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.loss_of, self.optimizer = loss_of, optimizer
        self.steps = 0
        self.graph: Optional[Any] = None
        self.batch: Any = ()
        self.loss = torch.zeros(())

    def __call__(self, *batch: torch.Tensor) -> torch.Tensor:
        """The loss of this batch, before its step. All batches have one size."""
        if not batch[0].is_cuda:
            return self.run(batch)
        if not self.batch:
            self.batch = tuple(t.clone() for t in batch)
        for place, tensor in zip(self.batch, batch):
            place.copy_(tensor)
        self.steps += 1
        if self.steps <= WARM_UP:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.loss = self.run(self.batch)
            torch.cuda.current_stream().wait_stream(side)
            return self.loss.clone()
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.loss = self.run(self.batch)
        self.graph.replay()
        return self.loss.clone()

    def run(self, batch: Any) -> torch.Tensor:
        """The step as written, without a recording."""
        # Without gradients from before, a replay writes them and does not add to them.
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(*batch)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def optimizer_for(module: torch.nn.Module, rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW, whose rate `set_rate` changes also under a recording."""
    on_gpu = next(module.parameters()).is_cuda
    settings: Dict[str, Any] = {"fused": True, "capturable": True} if on_gpu else {}
    first = torch.tensor(rate, device=next(module.parameters()).device) if on_gpu else rate
    return torch.optim.AdamW(module.parameters(), first, weight_decay=decay, **settings)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def rise_and_fall(number: int, total: int) -> float:
    """1 at a tenth of the steps, near 0 at the first and the last."""
    top = max(total // 10, 1)
    if number <= top:
        return number / top
    return 0.5 * (1 + math.cos(math.pi * min((number - top) / max(total - top, 1), 1.0)))
