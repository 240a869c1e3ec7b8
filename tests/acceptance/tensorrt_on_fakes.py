"""A `tensorrt` module for the processes of an acceptance run: the fake of one release, over whatever model is parsed.

Its parser makes the layers that edgedla's importer makes, its answers are those of the rules but for FAKE_REFUSES, and its
standalone builds are loadables of the fake cuDLA. FAKE_TENSORRT=SEGFAULT or HANG does that in a build.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]


def load(name: str, file: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, TESTS / "fake_tensorrt" / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


load("fake_surface", "surface.py")
FAKE = load("fake_tensorrt", "fake.py")
RELEASE = os.environ.get("FAKE_TENSORRT_RELEASE", "10.3.0")
module = FAKE.make_module(RELEASE, FAKE.Script(layers=[], inputs={}, outputs={}))
_fill, _build = module.OnnxParser.parse_from_file, module.Builder.build_serialized_network


def parse_from_file(self: Any, model: str) -> bool:
    from edgedla.importers import load_onnx
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    graph = load_onnx(model, trt=RELEASE)
    report = check_graph(graph, platform_for("agx-orin-64gb", trt=RELEASE), "fp16", "fallback")
    script = module.script
    script.inputs = {name: tuple(graph.tensors[name].dims) for name in graph.inputs}
    script.outputs = {name: tuple(graph.tensors[name].dims) for name in graph.outputs}
    script.layers = [(x.name, x.type, tuple(x.inputs), tuple(x.outputs)) for x in graph.layers]
    refuses = os.environ.get("FAKE_REFUSES", "").split(",")
    script.cannot = tuple(v.name for v in report.layers if str(v.support) != "dla" or v.name in refuses)
    builder = module.Builder.__new__(module.Builder)
    builder.__dict__["_logger"] = self._network._logger
    self._network.__dict__.update(module.Builder.create_network(builder, 0).__dict__)
    for tensor in self._network._tensors.values():
        tensor._network = self._network
    return bool(_fill(self, model))


def build_serialized_network(self: Any, network: Any, config: Any) -> Any:
    kind = os.environ.get("FAKE_TENSORRT")
    if kind == "SEGFAULT":
        os.kill(os.getpid(), 11)
    if kind == "HANG":
        time.sleep(600)
    memory = _build(self, network, config)
    capability = config.__dict__.get("_engine_capability")
    if memory is not None and getattr(capability, "name", "") == "DLA_STANDALONE":
        from edgedla.formats import TensorFormat, layout

        formats = {1 << int(m): name for name, m in module.TensorFormat.__members__.items()}
        lines = ["FAKE"]
        for word, names in (("in", module.script.inputs), ("out", module.script.outputs)):
            for name, dims in names.items():
                tensor = network._tensors[name]
                form = TensorFormat(formats[tensor._allowed_formats])
                size = layout(form, tensor._dtype.name, dims, chip="orin", gpu_fallback=False).size_bytes
                lines.append(f"{word} {name} {size} {' '.join(str(d) for d in dims[1:])}")
        memory._bytes = ("\n".join(lines) + "\n").encode()
    return memory


module.OnnxParser.parse_from_file = parse_from_file
module.Builder.build_serialized_network = build_serialized_network
sys.modules["tensorrt"] = module
