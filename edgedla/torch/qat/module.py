"""QatModule: a module in training that computes as the DLA will."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional

import torch
from torch import nn

from edgedla.errors import UsageError
from edgedla.torch.calls import Paths
from edgedla.torch.qat.checkpointing import checkpoints_resumed
from edgedla.torch.qat.mode import Rounding, RoundingMode
from edgedla.torch.qat.places import Places, Stored
from edgedla.torch.qat.rounding import LEVELS, over, round_half, round_int8

#: Weight of a new batch in the moving average of observed ranges.
_MOMENTUM = 0.01
#: Called with (ONNX tensor, value before rounding, value after); returns the value that forward continues with.
Watch = Callable[[Stored, torch.Tensor, torch.Tensor], torch.Tensor]


class QatModule(nn.Module):
    """The user's module with INT8 and FP16 rounding where the DLA stores and reads values.

    In evaluation mode it computes what the host backend does with its export, always in FP32. It trains, saves, loads and works
    with DDP or Accelerate like any module; `module` is the user's own, with its own parameter names.

    Attributes:
        absmax: range of each tensor, (tensors,); buffer. shift: exponents per group of ranges, (groups,): a learned range is
            absmax 2^shift, so that weight decay pulls it to its start; None if ranges are observed.
        observing: in training mode, observed ranges follow the batches; set it to False for the last epochs.
        freeze_statistics: BatchNormalization keeps its initial statistics, so that training sees the exported network at
            any batch size and in any number of processes. Read when train() is called.
        integer_sums: evaluation sums INT8 products as integers, independent of a device's order, like a host artifact
            built with `--numerics int8-accumulation=int32`. Training sums in FP32.
    """

    absmax: torch.Tensor
    _group: torch.Tensor

    def __init__(
        self, module: nn.Module, places: Places, learned: bool = True, freeze_statistics: bool = True, integer_sums: bool = False
    ) -> None:
        super().__init__()
        self.module, self.places = module, places
        self.index: Mapping[str, int] = {name: i for i, name in enumerate(places.tensors)}
        self.register_buffer("absmax", torch.zeros(len(places.tensors)))
        self.register_buffer("_group", torch.tensor(places.groups, dtype=torch.int64), persistent=False)
        groups = max(places.groups, default=-1) + 1
        self.shift = nn.Parameter(torch.zeros(groups)) if learned else None
        self.observing = not learned
        self.freeze_statistics, self.integer_sums = freeze_statistics, integer_sums
        self.watch: Optional[Watch] = None
        self._compared = False

    def train(self, mode: bool = True) -> QatModule:
        super().train(mode)
        if self.freeze_statistics:
            for part in self.module.modules():
                if isinstance(part, nn.modules.batchnorm._BatchNorm):
                    part.eval()
        return self

    def group_ranges(self) -> torch.Tensor:
        """The range of each group of tensors that share one: the largest of theirs. (groups,), FP32."""
        count = int(max(self.places.groups, default=-1)) + 1
        top = torch.zeros(count, dtype=torch.float32, device=self.absmax.device)
        top = top.scatter_reduce(0, self._group, self.absmax, "amax")
        # In FP64: FP32 powers of two differ between CPU and GPU in the last place, but a scale must be one number.
        return top if self.shift is None else (top.double() * torch.exp2(self.shift.double())).float()

    def ranges(self) -> Dict[str, float]:
        """ONNX tensor -> range; scale = range / 127."""
        values = self.group_ranges().detach().cpu().tolist()
        return {name: values[group] for name, group in zip(self.places.tensors, self.places.groups)}

    def set_ranges(self, absmax: Mapping[str, float]) -> None:
        """Sets the initial ranges, for example those of `quantize`.

        Raises:
            UsageError: a tensor has no range.
        """
        missing = [name for name in self.places.tensors if not absmax.get(name, 0.0) > 0]
        if missing:
            raise UsageError(f"{len(missing)} tensors have no range, for example {missing[0]!r}")
        with torch.no_grad():
            self.absmax.copy_(torch.tensor([absmax[name] for name in self.places.tensors]))
            if self.shift is not None:
                self.shift.zero_()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        scales = over(self.group_ranges(), LEVELS)
        noticing = self.training and self.observing
        if noticing:
            scales = scales.detach()
        round_stored = self._rounding(scales, noticing)

        def again(own_graph: bool) -> Rounding:
            # Observed ranges have moved on since, and have no graph.
            fresh = own_graph and not noticing
            return self._rounding(over(self.group_ranges(), LEVELS) if fresh else scales, False)

        inputs = self._inputs(args, kwargs)
        # The first forward in training mode; evaluation mode is what the export traced.
        comparing = self.training and not self._compared
        # In FP32 even inside autocast: half precision would round the learned values.
        full = torch.autocast(self.absmax.device.type, enabled=False)
        paths = Paths(self.module)
        mode = RoundingMode(paths, self.module, self.places, round_stored, self.training, self._scale_of(scales), comparing)
        with full, paths, mode, checkpoints_resumed(mode.resumed(again)):
            result = self.module(*inputs, **kwargs)
        self._compared = self._compared or comparing
        return result

    def _rounding(self, scales: torch.Tensor, noticing: bool) -> Rounding:
        def round_stored(value: torch.Tensor, stored: Stored) -> torch.Tensor:
            if stored.state == "fp16":
                rounded = round_half(value)
            else:
                if noticing:
                    self._notice(stored.tensor, value)
                rounded = round_int8(value, scales[self._group_of(stored.tensor)], exact=not self.training)
            return rounded if self.watch is None else self.watch(stored, value, rounded)

        return round_stored

    def _scale_of(self, scales: torch.Tensor) -> Optional[Callable[[str], torch.Tensor]]:
        """Tensor -> scale if this forward sums integers; None otherwise."""
        if self.training or not self.integer_sums:
            return None
        return lambda tensor: scales[self._group_of(tensor)]

    def _group_of(self, tensor: str) -> int:
        return self.places.groups[self.index[tensor]]

    def _notice(self, tensor: str, value: torch.Tensor) -> None:
        with torch.no_grad():
            entry = self.absmax[self.index[tensor]]
            entry.lerp_(value.detach().abs().amax().float(), _MOMENTUM)

    def _inputs(self, args: Any, kwargs: Dict[str, Any]) -> List[Any]:
        """The inputs as views that record how they are stored; the user's own tensors stay unchanged."""
        names = iter(self.places.inputs.values())
        inputs = []
        for value in args:
            if isinstance(value, torch.Tensor):
                value = value.view_as(value)
                stored = next(names, None)
                if stored is not None:
                    value.edgedla_stored = stored  # type: ignore[attr-defined]
            inputs.append(value)
        for name, value in kwargs.items():
            if isinstance(value, torch.Tensor) and name in self.places.inputs:
                kwargs[name] = value.view_as(value)
                kwargs[name].edgedla_stored = self.places.inputs[name]
        return inputs
