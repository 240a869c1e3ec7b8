"""Stands in for a board: `python board.py BUNDLE ARGUMENTS`, or `python board.py -m edgedla run ARTIFACT ARGUMENTS`.

A fake TensorRT and CUDA's memory on the host take the place of JetPack's; the network's outputs are zeros. Everything else is
what starts on a board, so that start-up time and memory can be compared.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Of the artifact whose engine the fake plays.
MANIFEST = "BOARD_MANIFEST"


class Memory:
    """Buffers and streams in the process's own memory."""

    shares_memory = True

    def push(self) -> None:
        pass

    def pop(self) -> None:
        pass

    def stream(self, non_blocking: bool = False) -> Any:
        return SimpleNamespace(handle=77, synchronize=lambda: None)

    def buffer(self, size_bytes: int, mapped: Any = None) -> Any:
        import numpy as np

        from edgedla.runtime.cuda.memory import DeviceArray

        host = np.zeros(size_bytes, np.uint8)

        def array() -> Any:
            shown = host.view(DeviceArray)
            shown.pointer, shown.mapped = host.ctypes.data, True
            return shown

        def nothing(*_: Any) -> None:
            pass

        return SimpleNamespace(host=host, pointer=host.ctypes.data, upload=nothing, download=nothing, free=nothing, array=array)


def install() -> None:
    with open(os.environ[MANIFEST], encoding="utf-8") as f:
        manifest = json.load(f)
    # Only for this import: the bundle must not take its modules from the checkout.
    sys.path.insert(0, str(ROOT))
    from tests.fake_tensorrt import fake

    sys.path.remove(str(ROOT))
    shapes = {True: {}, False: {}}  # type: Any
    for binding in manifest["bindings"]:
        shapes[binding["is_input"]][binding["name"]] = tuple(binding["shape_nchw"])
    script = fake.Script(layers=[], inputs=shapes[True], outputs=shapes[False])
    sys.modules["tensorrt"] = fake.make_module(manifest["software"]["tensorrt"], script)


def main() -> None:
    place = sys.argv[1]
    if place != "-m":
        sys.path.insert(0, place)
    import edgedla.runtime.cuda.driver as driver

    driver.DriverContext = Memory  # type: ignore[misc, assignment]
    # Behind edgedla, as on a board: the fake loads parts of the standard library that edgedla may leave out.
    install()
    if place == "-m":
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = sys.argv[1:]
        runpy.run_path(place, run_name="__main__")


if __name__ == "__main__":
    main()
