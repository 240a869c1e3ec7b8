"""Finds where a value or a gradient first stops being finite."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import nn

from edgedla.torch.calls import Call, CallMode, Key, Paths, tensors_in, user_place


class NonFinite:
    """Watches each call of the module's forward, and the gradients behind it, within the `with` block.

        with NonFinite(model) as found:
            criterion(model(x), y).backward()
        if found:
            text = found.report()

    Every call waits for the device, so run one step with it again after a loss was not finite, not a whole training.

    Attributes:
        value: the first call whose result holds NaN or infinity although what it took did not; None if there is none.
        gradient: the call behind which the backward pass first met such a gradient.
        parameters: names of the parameters that held such numbers before the step.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.value: Optional[Call] = None
        self.gradient: Optional[Call] = None
        self.parameters: List[str] = []
        self._shapes: Dict[str, str] = {}
        self._paths = Paths(module)
        self._mode = _Finding(self._paths, self)

    def __enter__(self) -> NonFinite:
        self.parameters = [name for name, value in self.module.named_parameters() if not _finite(value)]
        self._paths.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)
        self._paths.__exit__(*error)

    def __bool__(self) -> bool:
        return bool(self.value or self.gradient or self.parameters)

    def report(self) -> str:
        """What was found, a line each, in the order to look at: parameters, value, gradient."""
        lines = [f"parameter {name} is not finite before the step" for name in self.parameters[:8]]
        for what, call in (("value", self.value), ("gradient", self.gradient)):
            if call is not None:
                lines.append(f"first {what} that is not finite: {call}, {self._shapes[what]}")
        return "\n".join(lines) or "every value and gradient is finite"


class _Finding(CallMode):
    def __init__(self, paths: Paths, found: NonFinite) -> None:
        super().__init__(paths)
        self.found = found

    def on_call(self, key: Key, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if key[1] == "backward":
            return result
        place = Call(key, (), *user_place(sys._getframe(2)))
        for tensor in tensors_in(result):
            if not tensor.is_floating_point():
                continue
            if self.found.value is None and not _finite(tensor) and all(_finite(t) for t in tensors_in((args, kwargs))):
                self._note("value", place, tensor)
            if tensor.requires_grad:
                tensor.register_hook(lambda grad, call=place: self._gradient(grad, call))
        return result

    def _gradient(self, grad: torch.Tensor, call: Call) -> None:
        if self.found.gradient is None and not _finite(grad):
            self._note("gradient", call, grad)

    def _note(self, what: str, call: Call, tensor: torch.Tensor) -> None:
        nan, infinite = int(torch.isnan(tensor).sum()), int(torch.isinf(tensor).sum())
        self.found._shapes[what] = f"{nan} NaN and {infinite} infinite of {tensor.numel()} in {list(tensor.shape)}"
        setattr(self.found, what, call)


def _finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor.detach()).all())
