"""Runners without a device, with given times and outputs."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.placement.result.placement import PlacedModel
from edgedla.runtime.runners.base import ThreadedRunner
from edgedla.runtime.runners.chain import ChainRunner

Compute = Callable[[Mapping[str, np.ndarray]], Dict[str, np.ndarray]]


class FakeRunner(ThreadedRunner):
    """Sleeps `latency_ms` and returns what `compute` makes of the inputs; zeros without `compute`.

    Nothing is measured: `latency_ms` is usually the placement's prediction.
    """

    def __init__(
        self, bindings: Tuple[Binding, ...], latency_ms: float = 0.0, compute: Optional[Compute] = None, name: str = "fake"
    ) -> None:
        super().__init__(name, bindings, simulated=True)
        self._latency_s, self._compute = latency_ms / 1e3, compute
        self._late_s = 0.0

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        # The last sleep's excess is subtracted from this one, so that the mean is right; after a long pause of the machine only in
        # part, or a fake inference would take no time at all.
        started, wanted_s = time.monotonic(), max(0.0, self._latency_s - self._late_s)
        if wanted_s:
            time.sleep(wanted_s)
        if self._compute is not None:
            outputs = self._compute(inputs)
        else:
            outputs = {b.name: np.zeros(b.size_bytes, np.uint8) for b in self.bindings if not b.is_input}
        self._late_s = min(self._latency_s / 4, max(0.0, time.monotonic() - started - wanted_s))
        return outputs


def fake_chain(
    chain: Artifact, latencies_ms: Sequence[float], computes: Optional[Sequence[Optional[Compute]]] = None
) -> ChainRunner:
    """A chain whose stages take `latencies_ms`, usually those of `predicted_stage_ms`."""
    given = computes or [None] * len(chain.stages)
    return ChainRunner(
        chain,
        [
            FakeRunner(stage.artifact.bindings, ms, compute, stage.device)
            for stage, ms, compute in zip(chain.stages, latencies_ms, given)
        ],
    )


def predicted_stage_ms(chain: Artifact, model: PlacedModel) -> List[float]:
    """A placement's prediction for each stage of a single frame, in milliseconds: loadables, GPU layers and transitions.

    Without slowdown by other engines, the start of an engine, and the host's work between stages. A transition counts in the
    stage of its DLA side, and between two cores in the reader's. A GPU layer whose name no stage knows is left out.
    """
    stage_of = {layer.index: _stage_of(chain, layer.name, layer.device) for layer in model.layers}
    total_us = [0.0] * len(chain.stages)

    def charge(stage: Optional[int], us: float) -> None:
        if stage is not None:
            total_us[stage] += us

    for region in model.regions:
        charge(stage_of[region.layers[0]], region.cost.latency_us)
    for layer in model.layers:
        if layer.region is None and layer.device in layer.costs:
            charge(stage_of[layer.index], layer.costs[layer.device].latency_us)
    for transition in model.transitions:
        core = transition.source if transition.target == "GPU" else transition.target
        charge(_stage_of(chain, transition.tensor, core), transition.cost.latency_us)
    return [us / 1e3 for us in total_us]


def _stage_of(chain: Artifact, name: str, device: str) -> Optional[int]:
    """The stage of a layer or border tensor: the only one on its core, or the one that knows its name."""
    on = [k for k, stage in enumerate(chain.stages) if stage.device == device]
    if device != "GPU" and len(on) == 1:
        return on[0]
    candidates = range(len(chain.stages)) if device == "GPU" else on
    for k in candidates:
        built = chain.stages[k].artifact
        if name in built.placement_predicted or name in {b.name for b in built.bindings}:
            return k
    return on[0] if on else None
