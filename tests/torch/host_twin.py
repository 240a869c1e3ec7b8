"""The host backend beside a QatModule: both must store the same levels, except at rounding ties."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Tuple

import numpy as np
import onnx
import torch

import edgedla
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.quantization.session import open_session
from edgedla.torch import QatModule, export_qat
from edgedla.torch.qat.places import Stored

#: How near to the middle of two levels FP32 arithmetic in another order may decide otherwise, in levels.
TIE = 2e-3


def built(prepared: QatModule, folder: Path) -> Tuple[edgedla.Artifact, Path]:
    """The export of a QatModule as a host artifact, made from its files as a user makes it."""
    result = export_qat(prepared)
    result.save(folder)
    precisions = dict(pair.rpartition(":")[::2] for pair in result.precisions.split(",") if pair)
    request = BuildRequest(
        target="agx-orin-64gb",
        precision="int8",
        calib=folder / "calib.cache",
        backend="host",
        options=PlanOptions(precisions=precisions, numerics={"int8-accumulation": "int32"} if prepared.integer_sums else {}),
    )
    return edgedla.build(str(folder / "model.onnx"), folder / "artifact", request), folder


def compare(prepared: QatModule, inputs: torch.Tensor, folder: Path) -> Dict[str, float]:
    """Runs both on each input.

    Where a stored level differs, the value before rounding must lie at a tie, and the forward goes on with the host's.
    Returns how many tensors were compared, the share of ties, and the outputs' largest difference.
    """
    artifact, _ = built(prepared, folder)
    model = onnx.load(str(artifact.file("host_model")))
    outputs = [o.name for o in model.graph.output]
    written = {o for node in model.graph.node for o in node.output}
    names = [t for t in prepared.places.tensors if t in written]
    # A copy for a reader of another precision is edgedla/int8/TENSOR (edgedla/builder/host/simulated_model.py).
    copies = [o for o in written if o.startswith(("edgedla/int8/", "edgedla/fp16/"))]
    for name in [*names, *copies]:
        if name not in outputs:
            model.graph.output.add().name = name
    session = open_session(model.SerializeToString())
    counts = {"tensors": 0, "ties": 0.0, "elements": 0}
    worst = 0.0
    prepared.eval()
    for i in range(len(inputs)):
        feed = {session.get_inputs()[0].name: inputs[i : i + 1].numpy()}
        found = dict(zip([*names, *copies], session.run([*names, *copies], feed)))
        ranges = prepared.ranges()

        def watch(stored: Stored, value: torch.Tensor, rounded: torch.Tensor, found=found, ranges=ranges):  # type: ignore[no-untyped-def]
            # A copy for a reader of another precision has a name of its own.
            host = found.get(f"edgedla/{stored.state}/{stored.tensor}", found.get(stored.tensor))
            if stored.tensor in found and _stored_as(prepared, stored):
                host = found[stored.tensor]
            want = torch.from_numpy(np.array(host))
            counts["tensors"] += 1
            counts["elements"] += want.numel()
            off = (rounded - want).abs() > 1e-5 * want.abs().clamp(min=1.0)
            if stored.state == "int8" and off.any():
                levels = value[off] / (ranges[stored.tensor] / 127.0)
                middle = (levels - levels.floor() - 0.5).abs()
                assert float(middle.max()) < TIE, (stored, float(middle.max()))
            elif off.any():
                assert torch.allclose(rounded[off], want[off], rtol=2e-3), stored
            counts["ties"] += int(off.sum())
            return want

        prepared.watch = watch
        try:
            with torch.no_grad():
                result = prepared(inputs[i : i + 1])
        finally:
            prepared.watch = None
        host_output = session.run(outputs, feed)[0]
        worst = max(worst, float(np.abs(result.numpy() - host_output).max() / max(np.abs(host_output).max(), 1.0)))
    return {"tensors": counts["tensors"], "ties": counts["ties"] / max(counts["elements"], 1), "worst": worst}


def _stored_as(prepared: QatModule, stored: Stored) -> bool:
    """True where the tensor itself, not a copy of it, is stored in this state."""
    stores: List[Stored] = [s for place in prepared.places.by_call.values() for s in place.outputs]
    return any(s == stored for s in stores)
