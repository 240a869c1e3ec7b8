"""A runner without a device, for users' own tests: it takes the time it is told and gives the outputs it is told."""

from __future__ import annotations

import time
from typing import Callable, Dict, Mapping, Optional, Tuple

import numpy as np

from edgedla.builder.artifact import Binding
from edgedla.runtime.runners.base import ThreadedRunner

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
