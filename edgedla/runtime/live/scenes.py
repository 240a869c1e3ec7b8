"""The newest picture of each source with the results of all models, encoded only when a viewer asks."""

from __future__ import annotations

import threading
import time
from typing import Any, List, Optional, Tuple

from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.draw import draw_scene
from edgedla.runtime.outputs.pictures import Latest
from edgedla.runtime.sources.opencv import import_cv2

QUALITY = 80


class Scene(Latest):
    """One source; a viewer's thread draws and encodes each picture once, for all viewers."""

    def __init__(self, rate: float, width: int) -> None:
        super().__init__()
        self._rate, self._width = rate, width
        self._encoding = threading.Lock()
        self._encoded_number = 0
        self._encoded_s = -1e9
        self._jpeg = b""
        self.encoded = 0

    def jpeg(self, timeout_s: float) -> bytes:
        """The newest picture, at most `rate` per second for all viewers together; b"" before the first frame.

        Waits up to `timeout_s` for a new one, then returns the last one again.
        """
        with self._encoding:
            if not self.wait(self._encoded_number, timeout_s):
                return self._jpeg
            due_s = self._encoded_s + 1 / self._rate - time.monotonic()
            if due_s > 0:
                # Other viewers waiting for the lock get this picture too, because it is then the newest.
                time.sleep(min(due_s, timeout_s))
            results, number = self.results()
            self._jpeg = self._encode(results)
            self._encoded_number, self._encoded_s = number, time.monotonic()
            self.encoded += 1
            return self._jpeg

    def _encode(self, results: List[FrameResult]) -> bytes:
        cv2: Any = import_cv2()
        image = draw_scene(results, width=self._width)
        good, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        return bytes(data.tobytes()) if good else b""

    @property
    def objects(self) -> Optional[int]:
        """Number of results in the newest frame."""
        results, _ = self.results()
        return len(results[0].results) if results else None


class Scenes:
    """The output that holds the newest result of every source and model.

    Args:
        sources: names. rate: most pictures per second and source. width: larger pictures are scaled down.
    """

    def __init__(self, sources: Tuple[str, ...], rate: float = 10.0, width: int = 960) -> None:
        self._rate, self._width = rate, width
        self.by_source = {name: Scene(rate, width) for name in sources}

    def of(self, source: str) -> Scene:
        """The source's scene; sources may be added while the pipeline runs."""
        return self.by_source.get(source) or self.by_source.setdefault(source, Scene(self._rate, self._width))

    def write(self, result: FrameResult) -> None:
        self.of(result.source).put(result)

    def close(self) -> None:
        return None
