"""One forward of a module, recorded for rewrites: shapes, sources, and the DLA's refusal of each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch
from torch import nn

from edgedla.regions import CheckReport
from edgedla.regions.values import Placed
from edgedla.torch.calls import Call, Key, Paths, Recorder, tensors_in
from edgedla.torch.exporting import Exported, Inputs, evaluating, forward_inputs

Shape = Tuple[int, ...]


@dataclass(frozen=True)
class ObservedCall:
    """One call with its shapes.

    Attributes:
        args: the arguments, each tensor replaced by its shape. reads: calls that made the tensors, None for other tensors.
        result: shape of the result; None if it is not a single tensor. refused: why one of its layers is on the GPU.
    """

    call: Call
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    reads: Tuple[Optional[int], ...]
    result: Optional[Shape]
    refused: str = ""

    @property
    def key(self) -> Key:
        return self.call.key

    @property
    def function(self) -> str:
        return self.call.key[1]

    @property
    def shapes(self) -> List[Shape]:
        """Shapes of its tensor arguments, in order."""
        return [a for a in self.args if isinstance(a, torch.Size)]


class _Observer(Recorder):
    def __init__(self, paths: Paths) -> None:
        super().__init__(paths)
        self.seen: List[Tuple[Tuple[Any, ...], Dict[str, Any], Tuple[Optional[int], ...], Optional[Shape]]] = []

    def on_call(self, key: Key, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        reads = tuple(getattr(a, "edgedla_call", None) for a in args if isinstance(a, torch.Tensor))
        positional = tuple(a.shape if isinstance(a, torch.Tensor) else a for a in args)
        named = {k: v.shape if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
        result = super().on_call(key, func, args, kwargs)
        self.seen.append((positional, named, reads, tuple(result.shape) if isinstance(result, torch.Tensor) else None))
        return result


def observe(
    module: nn.Module, inputs: Inputs, exported: Exported, report: CheckReport
) -> Tuple[Tuple[ObservedCall, ...], Set[int]]:
    """(all calls of one forward, indices of those whose results are the module's outputs).

    Args:
        exported, report: of the same module; they tell which calls the DLA refuses.
    """
    args, _ = forward_inputs(module, inputs)
    with evaluating(module), torch.no_grad(), Paths(module) as paths, _Observer(paths) as observer:
        result = module(*args)
    outputs = {t.edgedla_call for t in tensors_in(result) if hasattr(t, "edgedla_call")}
    refused = _refused(exported, report)
    calls = tuple(
        ObservedCall(call, positional, named, reads, shape, refused.get(call.key, ""))
        for call, (positional, named, reads, shape) in zip(observer.calls, observer.seen)
    )
    return calls, outputs


def _refused(exported: Exported, report: CheckReport) -> Dict[Key, str]:
    """Call -> why one of its layers is on the GPU, if for a reason of its own."""
    reasons: Dict[Key, str] = {}
    for layer in report.layers:
        if layer.placed is not Placed.GPU or not layer.cause.is_root:
            continue
        for node in layer.onnx_nodes:
            if node in exported.call_of:
                reasons.setdefault(exported.calls[exported.call_of[node]].key, layer.reason or "not on the DLA")
    return reasons
