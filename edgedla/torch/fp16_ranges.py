"""Finds values beyond FP16's range while a module trains, and penalises them.

The DLA computes in FP16 wherever it does not use INT8: values above 65504 become infinite there, which training in FP32
or BF16 never shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import nn

from edgedla.accuracy.fp16_care import FP16_MAX
from edgedla.torch.calls import Call, CallMode, Key, Paths, tensors_in, user_place


@dataclass(frozen=True)
class Range:
    """The largest magnitude in a call's results. `share`: of FP16's largest number, 65504; above 1 it overflows."""

    call: Call
    absmax: float

    @property
    def share(self) -> float:
        return self.absmax / FP16_MAX

    def __str__(self) -> str:
        state = "overflows FP16" if self.share > 1 else f"{self.share:.1%} of FP16's range"
        return f"{self.call}: {self.absmax:.6g}, {state}"


class Fp16Ranges:
    """Watches every call of a module's forward within the `with` block, in training or evaluation.

        with Fp16Ranges(model, limit=0.25) as ranges:
            loss = criterion(model(x), y) + 1e-3 * ranges.penalty()
            loss.backward()
        text = ranges.report()

    Args:
        limit: share of 65504 above which the penalty applies; the rest is room for inputs not seen in training.
    """

    def __init__(self, module: nn.Module, limit: float = 0.25) -> None:
        self.module, self.limit = module, limit
        self._calls: Dict[Key, Call] = {}
        self._absmax: Dict[Key, torch.Tensor] = {}
        self._excess: List[torch.Tensor] = []
        self._handles: List[Any] = []
        self._open: List[Tuple[Paths, _Watching]] = []

    def __enter__(self) -> Fp16Ranges:
        self._handles = [
            self.module.register_forward_pre_hook(self._enter),
            self.module.register_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def penalty(self) -> torch.Tensor:
        """sum over calls of (max |y| / (65504 limit) - 1)^2 if max |y| exceeds 65504 limit, for all forwards since the last call.

        Zero, without a gradient, if no call exceeds the limit.
        """
        device = next((p.device for p in self.module.parameters()), torch.device("cpu"))
        total = sum(self._excess, torch.zeros((), device=device))
        self._excess = []
        return total

    def ranges(self) -> Tuple[Range, ...]:
        """The largest magnitude of each call, largest first."""
        values = [Range(self._calls[key], float(value)) for key, value in self._absmax.items()]
        return tuple(sorted(values, key=lambda r: -r.absmax))

    def overflows(self) -> Tuple[Range, ...]:
        """The calls with values beyond FP16's range."""
        return tuple(r for r in self.ranges() if not r.absmax <= FP16_MAX)

    def report(self, most: int = 10) -> str:
        """The calls closest to the end of FP16's range, one per line."""
        return "\n".join(str(r) for r in self.ranges()[:most])

    def _enter(self, module: nn.Module, _args: Any) -> None:
        paths = Paths(module)
        mode = _Watching(paths, self._notice)
        paths.__enter__()
        mode.__enter__()
        self._open.append((paths, mode))

    def _leave(self, _module: nn.Module, _args: Any, _output: Any) -> None:
        paths, mode = self._open.pop()
        mode.__exit__(None, None, None)
        paths.__exit__(None, None, None)

    def _notice(self, key: Key, value: torch.Tensor) -> None:
        if key not in self._calls:
            import sys

            self._calls[key] = Call(key, (), *user_place(sys._getframe(1)))
        top = value.abs().amax().float()
        before = self._absmax.get(key)
        now = top.detach()
        self._absmax[key] = now if before is None else torch.maximum(before, now)
        if top.requires_grad:
            self._excess.append(torch.relu(top / (FP16_MAX * self.limit) - 1) ** 2)


class _Watching(CallMode):
    def __init__(self, paths: Paths, notice: Callable[[Key, torch.Tensor], None]) -> None:
        super().__init__(paths)
        self.notice = notice

    def on_call(self, key: Key, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            if tensor.is_floating_point() and tensor.numel():
                self.notice(key, tensor)
        return result
