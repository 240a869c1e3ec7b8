"""Which DLA core did the work, by the kernel's power counters."""

from __future__ import annotations

import logging
from typing import Optional

from edgedla.targets.device_files import core_active_ms

log = logging.getLogger("edgedla.runtime.runners")


class CoreProof:
    """Whether the core was seen to work.

    `proved` is True once the core was powered while our inferences ran, False if they ran and its counter did not move,
    None before that or without a counter (no Jetson, an unknown kernel). It cannot tell who else used the core.
    """

    def __init__(self, core: Optional[int], name: str) -> None:
        self._core, self._name = core, name
        self.proved: Optional[bool] = None
        self._started_ms: Optional[float] = None
        self._ran = False

    def start(self) -> None:
        self._started_ms = core_active_ms(self._core) if self._core is not None else None

    def ran(self) -> None:
        """To be called after each inference."""
        self._ran = True
        if self._started_ms is None or self.proved is not None or self._core is None:
            return
        now_ms = core_active_ms(self._core)
        # The counter has millisecond steps: a single short inference may not move it.
        if now_ms is not None and now_ms > self._started_ms:
            self.proved = True

    def stop(self) -> None:
        if self._started_ms is not None and self._ran and self.proved is None:
            self.proved = False
            log.warning("%s: the kernel's counters saw no work on this core", self._name)
