"""One output for each source, and for each model where there are several: pictures of different cameras do not mix."""

from __future__ import annotations

import os
from typing import Callable, Dict, Iterable, Tuple

from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.sinks import Sink


def stream_path(path: str, source: str, model: str = "") -> str:
    """`path` for one stream: {source} and {model} are filled in; without them the names go before the ending.

    "out.mp4" of gate and objects is "out-gate-objects.mp4"; a folder "frames" becomes "frames/gate/objects".
    """
    if "{source}" in path:
        return path.replace("{source}", source).replace("{model}", model)
    names = [name for name in (source, model) if name]
    stem, ending = os.path.splitext(path)
    return "-".join([stem, *names]) + ending if ending else os.path.join(path, *names)


class ByStream:
    """An output a stream; one that was not known at the start gets its own with its first result.

    Args:
        make: (source, model) -> output. models: False where the model's name need not tell streams apart.
        streams: that are known: what cannot be written is said before a camera opens.
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
