"""A QatModule evaluated by its artifact: the published figures, bit for bit, while training runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, List, Tuple, Union

import torch
from torch import nn

from edgedla.builder.building import build
from edgedla.builder.host.session import HostSession
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.errors import UsageError
from edgedla.quantization.numerics import INT8_ACCUMULATION
from edgedla.torch.qat.module import QatModule
from edgedla.torch.qat.prepare import export_qat

Outputs = Union[torch.Tensor, Tuple[torch.Tensor, ...]]


class AsBuilt(nn.Module):
    """The present weights and ranges of a QatModule, run by the host backend: one implementation, so one set of numbers.

    QatModule computes the same in PyTorch, also on a GPU, but sums in another order. If a value lies within FP32's rounding of
    the middle between two INT8 levels, it may store the neighbouring level, and one picture in thousands changes its class.
    This module runs on the CPU without gradients. Inputs and outputs are tensors on the caller's device, with any multiple of
    the export's batch.

    Raises:
        ModelError: the module's forward makes other calls than when it was prepared.
    """

    def __init__(self, prepared: QatModule) -> None:
        super().__init__()
        platform = prepared.places.platform
        result = export_qat(prepared)
        with tempfile.TemporaryDirectory(prefix="edgedla-") as folder:
            paths = {path.name: path for path in result.save(folder)}
            request = BuildRequest(
                target=platform.module.id,
                trt=platform.release.trt_text,
                precision="int8",
                backend="host",
                calib=paths.get("calib.cache"),
                options=PlanOptions(
                    precisions={name: "fp16" for name in result.fp16_layers},
                    numerics={INT8_ACCUMULATION: "int32"} if prepared.integer_sums else {},
                ),
            )
            artifact = build(str(paths["model.onnx"]), Path(folder) / "artifact", request)
            self._session = HostSession(artifact)
        self._inputs = [(b.name, tuple(b.shape_nchw)) for b in artifact.inputs]
        self._outputs = [b.name for b in artifact.outputs]

    def forward(self, *inputs: torch.Tensor) -> Outputs:
        """Args:
            inputs: in the module's order, (k batch, ...) each; batch is the export's.

        Returns:
            The output, or a tuple of outputs in the export's order, FP32.

        Raises:
            UsageError: another number of inputs, or another shape.
        """
        if len(inputs) != len(self._inputs):
            names = ", ".join(name for name, _ in self._inputs)
            raise UsageError(f"{len(inputs)} inputs", allowed=f"{len(self._inputs)}: {names}")
        for (name, shape), value in zip(self._inputs, inputs):
            if tuple(value.shape[1:]) != shape[1:] or not len(value) or len(value) % shape[0]:
                allowed = f"a multiple of {shape[0]}, then {list(shape[1:])}"
                raise UsageError(f"shape {list(value.shape)}", where=name, allowed=allowed)
        arrays = [value.detach().float().cpu().contiguous().numpy() for value in inputs]
        batch = self._inputs[0][1][0]
        parts: List[Any] = []
        for i in range(len(arrays[0]) // batch):
            feed = {name: array[i * batch : (i + 1) * batch] for (name, _), array in zip(self._inputs, arrays)}
            parts.append(self._session.run_arrays(feed))
        outputs = tuple(
            torch.cat([torch.from_numpy(part[name]) for part in parts]).to(inputs[0].device) for name in self._outputs
        )
        return outputs[0] if len(outputs) == 1 else outputs
