"""A capture without a model: a test takes its frames."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.runtime.frames import Frame
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.slots import Share, Slots


class Taken(Capture):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._slots: Slots[Frame] = Slots({self.name: Share()})
        self.feed(self._slots)

    def take(self, timeout_s: float = 0.5) -> Optional[Frame]:
        """The newest frame; None if none came in time or the stream ended. Raises what the source failed with for good."""
        newest = self._slots.take(0.0 if self.over else timeout_s)
        if newest is None and self.failure is not None:
            raise self.failure
        return None if newest is None else newest[1]

    @property
    def ended(self) -> bool:
        """The stream ended, and its last frame was taken."""
        return self.over and self.failure is None and not self._slots.waiting(self.name)
