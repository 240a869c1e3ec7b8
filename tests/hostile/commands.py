"""One or more command lines per verb, for the tests of hard conditions here."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.hostile.nasty_models import model

#: A build log as TensorRT writes it.
LOG = (
    "&&&& RUNNING TensorRT.trtexec [TensorRT v100300] # trtexec --onnx=m.onnx --useDLACore=0\n"
    "[01/02/2024-10:00:00] [W] [TRT] Layer 'a' (Softmax): Unsupported on DLA. Switching this layer's device type to GPU.\n"
)

#: verb -> argument lists; {m} is a model, {d} an empty folder for results, {art} a host artifact of the model, {log} a
#: build log, {npz} samples. A new verb gets a row here.
COMMANDS: Dict[str, Tuple[Tuple[str, ...], ...]] = {
    "check": (
        ("{m}", "--target", "orin"),
        ("{m}", "--target", "xavier", "-o", "{d}/c.html", "-o", "{d}/c.json", "-o", "{d}/c.sarif", "-o", "{d}/c.xml"),
    ),
    "place": (("{m}", "--target", "orin", "-o", "{d}/p.json", "-o", "{d}/p.html"),),
    "fix": (("{m}", "--target", "orin", "-o", "{d}/fixed.onnx"),),
    "quantize": (("{m}", "--target", "orin", "--data", "{npz}", "-o", "{d}/scales"),),
    "evaluate": (("{art}", "--data", "{npz}", "--metric", "cosine", "--against", "{m}"),),
    "sweep": (("{m}", "--target", "orin", "-o", "{d}/sweep.jsonl"),),
    "layers": (("{m}", "--target", "orin", "--format", "json"),),
    "rules": (("list",),),
    "targets": ((),),
    "build": (
        ("{m}", "--target", "orin", "--backend", "host", "-o", "{d}/a"),
        ("{m}", "--target", "orin", "--precision", "int8", "--backend", "host", "--calib-data", "{npz}", "-o", "{d}/q"),
        ("{m}", "--target", "orin", "--backend", "trtexec", "-o", "{d}/build.sh"),
        ("{m}", "--target", "orin", "--plan"),
    ),
    # What it loads runs in a process of its own, with a framework that no test installs.
    "convert": (("--help",),),
    "deploy": (("{m}", "--target", "orin", "--level", "0", "--backend", "host", "-o", "{d}/deployed"),),
    "bundle": (("{art}", "-o", "{d}/bundled"),),
    "run": (("{art}", "--source", "synthetic://?rate=20", "--seconds", "{seconds}"),),
    "export": (("onnxruntime", "{art}", "-o", "{d}/e"),),
    # The other commands of `board` open the connection that they are asked for.
    "board": (("list",), ("report", "--help")),
    # Both read what a board has measured, which no test has.
    "costs": (("fit", "--help"),),
    "acceptance": (("show", "--help"), ("ingest", "--help")),
    "bench": (("{art}", "--duration", "1"),),
    "inspect": (("{art}",), ("{m}",), ("{log}",)),
    "monitor": (("--count", "1"),),
    "sources": ((),),
    "doctor": ((),),
    "completion": (("bash",),),
    "hub": (("list",), ("get", "resnet18")),
    # Without --skill it answers until its client goes.
    "mcp": (("--skill",),),
    "explain": (("{log}",),),
}


def small_model() -> onnx.ModelProto:
    """A convolution, an activation and a layer that the DLA lacks."""
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Erf", ["r"], ["y"], name="erf"),
    ]
    return model(nodes, dims=(1, 3, 16, 16), constants=[numpy_helper.from_array(weights, "w")])


class Scene:
    """The files that the command lines name, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        onnx.save(small_model(), str(folder / "m.onnx"))
        np.savez(str(folder / "s.npz"), x=np.random.default_rng(1).standard_normal((4, 3, 16, 16)).astype(np.float32))
        (folder / "build.log").write_text(LOG)

    def build_artifact(self) -> None:
        import edgedla
        from edgedla.builder.request import BuildRequest

        edgedla.build(self.folder / "m.onnx", self.folder / "art", BuildRequest(target="orin", backend="host"))

    def arguments(self, verb: str, results: Path, seconds: str = "1") -> List[Sequence[str]]:
        places = {
            "m": self.folder / "m.onnx",
            "d": results,
            "art": self.folder / "art",
            "log": self.folder / "build.log",
            "npz": self.folder / "s.npz",
            "seconds": seconds,
        }
        return [[verb, *(a.format(**places) for a in args)] for args in COMMANDS[verb]]
