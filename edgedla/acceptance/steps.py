"""The steps of an acceptance run. To add one: its function in a module of this room, and a row here."""

from __future__ import annotations

import importlib
from typing import Callable, List, Mapping, NamedTuple

from edgedla.acceptance.values import Finding


class Context(NamedTuple):
    """The context of a step. `work`: a folder common to all steps; `files`: for raw files; `quick`: the run of three minutes;
    `lock_clocks`: also measure with jetson_clocks."""

    work: str
    files: str
    quick: bool
    container: str
    lock_clocks: bool = False


class Step(NamedTuple):
    """One step. `limit_s`, `quick_limit_s`: seconds after which its process is ended; 0: not in a quick run."""

    id: str
    title: str
    function: str
    limit_s: float
    quick_limit_s: float

    def call(self, context: Context) -> List[Finding]:
        module, _, name = self.function.partition(":")
        run: Callable[[Context], List[Finding]] = getattr(importlib.import_module(module), name)
        return run(context)


#: The limits add up to 22 minutes, in a quick run to 8. Each step is a process that loads TensorRT anew: 7 s for a builder on an
#: idle server (8.5.3), 20 s on a busy one; a board reads the libraries from slower storage.
STEPS: Mapping[str, Step] = {
    row.id: row
    for row in (
        Step("P1", "environment: release, module, packages, modes, rails", "edgedla.acceptance.environment:environment", 45, 20),
        Step("P2", "libraries: TensorRT, cuDLA, CUDA", "edgedla.acceptance.environment:libraries", 60, 60),
        Step("P3", "rules without building: TensorRT's first check of single layers", "edgedla.acceptance.builds:rules", 90, 60),
        Step("P4", "builds: hybrid and standalone, FP16 and INT8", "edgedla.acceptance.builds:builds", 400, 180),
        Step(
            "P5", "outputs of each artifact against ONNX Runtime and the simulation", "edgedla.acceptance.outputs:outputs", 75, 45
        ),
        Step("P6", "cuDLA: descriptors, mapped against copied memory, two cores", "edgedla.acceptance.loadables:cudla", 75, 30),
        Step("P7", "faults: a broken loadable, a killed run, Ctrl-C in a build", "edgedla.acceptance.faults:faults", 90, 0),
        Step("P8", "times of each artifact against the prediction", "edgedla.acceptance.measure.times:times", 150, 60),
        Step("P9", "power: idle and busy", "edgedla.acceptance.measure.power:power", 50, 0),
        Step("P10", "media: GStreamer's elements and pipelines", "edgedla.acceptance.surroundings:media", 40, 5),
        Step("P11", "trtexec: the script that edgedla writes", "edgedla.acceptance.builds:trtexec", 60, 0),
        Step("P12", "service: the unit's sandbox", "edgedla.acceptance.surroundings:service", 25, 0),
        Step(
            "P13", "container: libraries, builds and cuDLA inside of an image", "edgedla.acceptance.surroundings:container", 40, 0
        ),
        Step("P14", "arithmetic: FP16, INT8 and UINT8 Q/DQ, built and timed", "edgedla.acceptance.arithmetic:arithmetic", 120, 0),
    )
}
