"""Modules that replace what the DLA does not run; each states what it equals."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import torch
from torch import nn
from torch.nn import functional as F


class GlobalAverageConv(nn.Module):
    """The mean over H x W as one depthwise convolution with weights 1/(HW): N x C x H x W to N x C x 1 x 1.

    In INT8 it has its own output scale, whereas a pooling shares its input's scale.
    """

    weight: torch.Tensor

    def __init__(self, channels: int, hw: Tuple[int, int]) -> None:
        super().__init__()
        value = torch.full((channels, 1, *hw), 1.0 / (hw[0] * hw[1]))
        self.register_buffer("weight", value, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, self.weight, groups=self.weight.shape[0])


class GlobalAveragePool(nn.Module):
    """The mean over H x W as a chain of average poolings, each within the DLA's window size."""

    def __init__(self, windows: Sequence[Tuple[int, int]]) -> None:
        super().__init__()
        self.windows = [tuple(w) for w in windows]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for window in self.windows:
            x = F.avg_pool2d(x, window, window)
        return x

    def extra_repr(self) -> str:
        return " then ".join(f"{h}x{w}" for h, w in self.windows)


class Affine(nn.BatchNorm2d):
    """a x + b as a constant BatchNormalization: in a strict build the DLA takes no constant operands."""

    def __init__(self, channels: int, slope: float, offset: float) -> None:
        # PyTorch rejects eps = 0; 1 + 1e-12 is 1 in FP32.
        super().__init__(channels, eps=1e-12, affine=False)
        # Buffers with the names that F.batch_norm reads; none of them belongs in a checkpoint.
        for name, value in (("weight", slope), ("bias", offset), ("running_mean", 0.0), ("running_var", 1.0)):
            delattr(self, name)
            self.register_buffer(name, torch.full((channels,), value), persistent=False)
        # Otherwise loading a checkpoint would require num_batches_tracked.
        self.track_running_stats = False
        self.num_batches_tracked = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class HardSigmoid(nn.Module):
    """clip(x / 6 + 0.5, 0, 1)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.affine = Affine(channels, 1 / 6, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self.affine(x), 0.0, 1.0)


class HardSwish(nn.Module):
    """x clip(x / 6 + 0.5, 0, 1)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = HardSigmoid(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)


class Enlarge(nn.Module):
    """A gate N x C x 1 x 1 copied to N x C x H x W by nearest Resizes: the DLA's elementwise layers need equal sizes."""

    def __init__(self, factors: Sequence[Tuple[int, int]]) -> None:
        super().__init__()
        self.factors = [(float(h), float(w)) for h, w in factors]

    def forward(self, gate: torch.Tensor) -> torch.Tensor:
        for factor in self.factors:
            gate = F.interpolate(gate, scale_factor=factor, mode="nearest")
        return gate

    def extra_repr(self) -> str:
        return " then ".join(f"{h:g}x{w:g}" for h, w in self.factors)


class ChannelSlice(nn.Module):
    """Channels [start, stop) by a Split: its pieces are a DLA layer, a Slice with INT64 numbers is not."""

    def __init__(self, channels: int, start: int, stop: int) -> None:
        super().__init__()
        sizes = [start, stop - start, channels - stop]
        self.sizes: List[int] = [s for s in sizes if s]
        self.piece = 1 if start else 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        piece: torch.Tensor = torch.split(x, self.sizes, 1)[self.piece]
        return piece


class DenseConv(nn.Conv2d):
    """A Linear as a convolution with a kernel as large as the map: N x C x H x W to N x K x 1 x 1, weights K x C x H x W.

    It loads the Linear's weights (K x CHW) unchanged. With `flat` the result is N x K.
    """

    def __init__(self, linear: nn.Linear, chw: Tuple[int, int, int], flat: bool) -> None:
        channels, height, width = chw
        super().__init__(channels, linear.out_features, (height, width), bias=linear.bias is not None)
        with torch.no_grad():
            self.weight.copy_(linear.weight.reshape(self.weight.shape))
            if linear.bias is not None and self.bias is not None:
                self.bias.copy_(linear.bias)
        self.flat = flat

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return torch.flatten(y, 1) if self.flat else y

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        weight = state_dict.get(prefix + "weight")
        if weight is not None and weight.dim() == 2:
            state_dict[prefix + "weight"] = weight.reshape(self.weight.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


class EndingAt(nn.Module):
    """A module that returns the results of some of its parts, in their order; the host computes the rest.

    The rest of forward still runs here, but an exporter leaves it out.
    """

    def __init__(self, module: nn.Module, paths: Sequence[str]) -> None:
        super().__init__()
        self.module, self.paths = module, list(paths)
        for path in self.paths:
            module.get_submodule(path)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        results = {}

        def keeper(path: str) -> Any:
            def keep(_module: nn.Module, _args: Any, output: Any) -> None:
                results[path] = output

            return keep

        handles = [self.module.get_submodule(path).register_forward_hook(keeper(path)) for path in self.paths]
        try:
            self.module(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
        return results[self.paths[0]] if len(self.paths) == 1 else tuple(results[path] for path in self.paths)
