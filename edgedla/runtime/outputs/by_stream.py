"""One output per source, and per model if there are several, so that pictures of different cameras do not mix."""

from __future__ import annotations

import os
from typing import Callable, Dict, Iterable, Tuple

from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.sinks import Sink


def stream_path(path: str, source: str, model: str = "") -> str:
    """`path` for one stream: {source} and {model} are replaced; without them the names go before the ending.

    "out.mp4" for gate and objects becomes "out-gate-objects.mp4"; a folder "frames" becomes "frames/gate/objects".
    """
    if "{source}" in path:
        return path.replace("{source}", source).replace("{model}", model)
    names = [name for name in (source, model) if name]
    stem, ending = os.path.splitext(path)
    return "-".join([stem, *names]) + ending if ending else os.path.join(path, *names)


class ByStream:
    """One output per stream; a new stream gets its own with its first result.

    Args:
        make: (source, model) -> output. models: False if streams differ by source alone.
        streams: the known ones, so that an output that cannot be written fails before a camera opens.
    """

    def __init__(self, make: Callable[[str, str], Sink], models: bool, streams: Iterable[Tuple[str, str]] = ()) -> None:
        self._make, self._models = make, models
        self._sinks: Dict[Tuple[str, str], Sink] = {}
        try:
            for key in streams:
                self._sinks[key] = make(*key)
        except BaseException:
            self.close()
            raise

    def write(self, result: FrameResult) -> None:
        key = (result.source, result.model if self._models else "")
        if key not in self._sinks:
            self._sinks[key] = self._make(*key)
        self._sinks[key].write(result)

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()
