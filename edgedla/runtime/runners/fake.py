"""Runners without a device, for users' own tests: they take the time they are told and give the outputs they are told."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact import Artifact, Binding
from edgedla.placement.placement import PlacedModel
from edgedla.runtime.runners.base import ThreadedRunner
from edgedla.runtime.runners.chain import ChainRunner

Compute = Callable[[Mapping[str, np.ndarray]], Dict[str, np.ndarray]]


class FakeRunner(ThreadedRunner):
    """Sleeps `latency_ms` and returns what `compute` makes of the inputs; zeros if there is no `compute`.

    Nothing of it is measured: `latency_ms` is usually the placement's prediction.
    """

    def __init__(
        self,
        bindings: Tuple[Binding, ...],
        latency_ms: float = 0.0,
        compute: Optional[Compute] = None,
        name: str = "fake",
    ) -> None:
        super().__init__(name, bindings, simulated=True)
        self._latency_s, self._compute = latency_ms / 1e3, compute
        self._free_at = 0.0

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        # Deadlines instead of bare sleeps: the sleeps' overshoot does not add up.
        started = time.monotonic()
        self._free_at = max(self._free_at, started - self._latency_s) + self._latency_s
        if self._free_at > started:
            time.sleep(self._free_at - started)
        if self._compute is not None:
            return self._compute(inputs)
        return {b.name: np.zeros(b.size_bytes, np.uint8) for b in self.bindings if not b.is_input}


def fake_chain(
    chain: Artifact, latencies_ms: Sequence[float], computes: Optional[Sequence[Optional[Compute]]] = None
) -> ChainRunner:
    """A chain whose stages take `latencies_ms`, usually `predicted_stage_ms`."""
    given = computes or [None] * len(chain.stages)
    return ChainRunner(
        chain,
        [
            FakeRunner(stage.artifact.bindings, ms, compute, stage.device)
            for stage, ms, compute in zip(chain.stages, latencies_ms, given)
        ],
    )


def predicted_stage_ms(chain: Artifact, model: PlacedModel) -> List[float]:
    """What a placement predicts for each stage of one frame alone, in milliseconds: layers, loadables and transitions.

    Not slowed down by the other engines, and without what the host does between two stages. A transition counts where the
    reader is; a stage without layers of the model counts 0.
    """
    by_layer = {layer.name: layer for layer in model.layers}
    stage_of: Dict[int, int] = {}
    for k, stage in enumerate(chain.stages):
        for name in stage.artifact.placement_predicted:
            if name in by_layer:
                stage_of[by_layer[name].index] = k
    total_us = [0.0] * len(chain.stages)
    for region in model.regions:
        inside = [stage_of[i] for i in region.layers if i in stage_of]
        if inside:
            total_us[inside[0]] += region.cost.latency_us
    for layer in model.layers:
        if layer.region is None and layer.index in stage_of and layer.device in layer.costs:
            total_us[stage_of[layer.index]] += layer.costs[layer.device].latency_us
    devices = [stage.device for stage in chain.stages]
    for transition in model.transitions:
        # From the GPU or to it: the stage on the other side does it; between two cores the reader waits.
        core = transition.target if transition.target != "GPU" else transition.source
        if core in devices:
            total_us[devices.index(core)] += transition.cost.latency_us
    return [us / 1e3 for us in total_us]
