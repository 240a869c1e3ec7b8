"""The PyTorch function calls of a module's forward, each with its module path and the user's own line.

A call is recognised in other forwards, in training and in evaluation, by its key: the path of its module, the
function, and its number among the module's calls of this function in one forward. It can be recognised in an ONNX
file too: while TorchScript's exporter traces, each call opens a scope of its own, so that its nodes have the call's
number in their names ("/layer1/layer1.0/op@17/Add").
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

#: Folder of PyTorch's own files; frames from there, and from ours, lie between the user's code and the call.
_FRAMEWORK = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(__file__) + os.sep

Key = Tuple[str, str, int]


@dataclass(frozen=True)
class Call:
    """One call of a function on tensors.

    Attributes:
        key: (module path, function, number among such calls in one forward, from 0).
        reads: indices of the calls whose results it takes.
        file, line, function: the innermost place outside PyTorch; "", 0, "" if there is none.
    """

    key: Key
    reads: Tuple[int, ...] = ()
    file: str = ""
    line: int = 0
    function: str = ""

    @property
    def module(self) -> str:
        return self.key[0]

    def __str__(self) -> str:
        place = f" ({os.path.basename(self.file)}:{self.line})" if self.file else ""
        return f"{self.key[1]} in {self.key[0] or 'the top module'}{place}"


class Paths:
    """Tracks which module of a network is running, within the `with` block."""

    def __init__(self, module: nn.Module) -> None:
        self.stack: List[str] = []
        self._names = {id(child): name for name, child in module.named_modules() if name}
        self._handles: List[Any] = []

    @property
    def now(self) -> str:
        return self.stack[-1] if self.stack else ""

    def __enter__(self) -> Paths:
        # Global hooks, only during the block: hooks on each module would be copied with it.
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _enter(self, module: nn.Module, _args: Any) -> None:
        if id(module) in self._names:
            self.stack.append(self._names[id(module)])

    def _leave(self, module: nn.Module, _args: Any, _output: Any) -> None:
        if id(module) in self._names:
            self.stack.pop()


class CallMode(TorchFunctionMode):
    """Passes every function call on tensors in a forward to `on_call(key, func, args, kwargs)`.

    Queries of a tensor (shape, type) do not count. A function that becomes several ONNX nodes counts as several calls.
    """

    def __init__(self, paths: Paths) -> None:
        super().__init__()
        self.paths = paths
        self.counts: Dict[Tuple[str, str], int] = {}

    def on_call(self, key: Key, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    def __torch_function__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _QUERIES or not name:
            return func(*args, **(kwargs or {}))
        if name in PARTS:
            with self:
                return PARTS[name](*args, **(kwargs or {}))
        path = self.paths.now
        number = self.counts.get((path, name), 0)
        self.counts[path, name] = number + 1
        return self.on_call((path, name, number), func, args, kwargs or {})


#: Functions that query a tensor and compute nothing.
_QUERIES = frozenset(
    "__get__ __set__ dim size shape stride numel is_floating_point is_complex is_contiguous get_device type item tolist "
    "element_size data_ptr requires_grad_ is_cuda __len__ __bool__ __repr__ __format__ storage_offset is_same_size "
    "has_torch_function register_hook __hash__ _is_view untyped_storage".split()
)


def _silu(input: Any, inplace: bool = False) -> Any:
    return input * torch.sigmoid(input)


def _mish(input: Any, inplace: bool = False) -> Any:
    return input * torch.tanh(nn.functional.softplus(input))


def _gelu(input: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        inner = _GELU_SCALE * (input + 0.044715 * torch.pow(input, 3))
        return 0.5 * input * (1 + torch.tanh(inner))
    return input * (torch.erf(input / math.sqrt(2)) + 1) * 0.5


_GELU_SCALE = math.sqrt(2 / math.pi)


def _glu(input: Any, dim: int = -1) -> Any:
    first, second = torch.split(input, int(input.shape[dim]) // 2, dim)
    return first * torch.sigmoid(second)


def _normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


def _group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    shape = [int(n) for n in input.shape]
    groups = input.reshape(shape[0], num_groups, math.prod(shape[1:]) // num_groups)
    result = nn.functional.instance_norm(groups, eps=eps).reshape(shape)
    per_channel = [-1, *[1] * (len(shape) - 2)]
    result = result if weight is None else result * weight.reshape(per_channel)
    return result if bias is None else result + bias.reshape(per_channel)


#: Functions without a single DLA layer -> what they are computed from.
PARTS: Dict[str, Callable[..., Any]] = {
    "silu": _silu,
    "silu_": _silu,
    "mish": _mish,
    "mish_": _mish,
    "gelu": _gelu,
    "glu": _glu,
    "normalize": _normalize,
    "group_norm": _group_norm,
}


def tensors_in(values: Any) -> Iterator[Any]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, dict):
        for value in values.values():
            yield from tensors_in(value)


class Recorder(CallMode):
    """Records every call, and numbers it in the trace of TorchScript's exporter."""

    def __init__(self, paths: Paths) -> None:
        super().__init__(paths)
        self.calls: List[Call] = []
        #: Whether a call was made under autocast, which rounds to another type than the weights'.
        self.autocast = False

    def on_call(self, key: Key, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        reads = tuple(t.edgedla_call for t in tensors_in((args, kwargs)) if hasattr(t, "edgedla_call"))
        number = len(self.calls)
        self.autocast = self.autocast or torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
        self.calls.append(Call(key, reads, *user_place(sys._getframe(2))))
        with scope(number):
            result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            tensor.edgedla_call = number
        return result


class scope:
    """Within the `with` block, TorchScript's trace writes the call's number into the names of its nodes."""

    def __init__(self, number: int) -> None:
        self._name = f"edgedla::{MARK}{number}"
        self._state = torch._C._get_tracing_state()

    def __enter__(self) -> None:
        if self._state is not None:
            self._state.push_scope(self._name)

    def __exit__(self, *_: object) -> None:
        if self._state is not None:
            self._state.pop_scope()


MARK = "op@"


def user_place(frame: Optional[FrameType], within: str = "") -> Tuple[str, int, str]:
    """(file, line, function) of the innermost frame that is neither PyTorch's nor ours.

    Args:
        within: a file; frames that called a function of it do not count.
    """
    for caller in _callers(frame):
        file = caller.f_code.co_filename
        if file == within:
            break
        if not file.startswith((_FRAMEWORK, _OURS, "<")):
            return file, caller.f_lineno, caller.f_code.co_name
    return "", 0, ""


def _callers(frame: Optional[FrameType]) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
