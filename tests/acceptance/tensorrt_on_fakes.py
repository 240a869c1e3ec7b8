"""A `tensorrt` module for separate processes: the fake of one release, built from whatever model is parsed.

Its parser makes the layers that edgedla's importer makes; its answers are those of the rules but for FAKE_REFUSES. Engines hold
their model: they run in ONNX Runtime, and a profiler hears SLOWER times the predicted time of each node. Standalone builds are
loadables of the fake cuDLA. FAKE_TENSORRT=SEGFAULT or HANG does that in a build; FAKE_BUILD_S makes a build last.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

TESTS = Path(__file__).resolve().parents[1]
#: What a "measured" time is of a predicted one.
SLOWER = 1.5
TARGET = os.environ.get("FAKE_TARGET", "agx-orin-64gb")


sys.path.insert(0, str(TESTS.parent))
from tests.fake_tensorrt import fake  # noqa: E402

RELEASE = os.environ.get("FAKE_TENSORRT_RELEASE", "10.3.0")
module = fake.make_module(RELEASE, fake.Script(layers=[], inputs={}, outputs={}))
_fill, _build = module.OnnxParser.parse_from_file, module.Builder.build_serialized_network
_deserialize = module.Runtime.deserialize_cuda_engine
#: The model that was parsed last.
PARSED: Dict[str, Any] = {}


def parse_from_file(self: Any, model: str) -> bool:
    from edgedla.importers import load_onnx
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    graph = load_onnx(model, trt=RELEASE)
    platform = platform_for(TARGET, trt=RELEASE)
    report = check_graph(graph, platform, "fp16", "fallback")
    PARSED.update(graph=graph, platform=platform, data=Path(model).read_bytes())
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
    module.script.while_building = lambda: time.sleep(float(os.environ.get("FAKE_BUILD_S", "0")))
    memory = _build(self, network, config)
    if memory is None:
        return None
    if getattr(config.__dict__.get("_engine_capability"), "name", "") == "DLA_STANDALONE":
        memory._bytes = _loadable(network)
        return memory
    nodes = _nodes(network, config)
    layers = [{"Name": name, "LayerType": "DLA" if device == "DLA" else "CaskConvolution"} for name, device, _ in nodes]
    module.script.inspector = {"Layers": layers, "Bindings": [*module.script.inputs, *module.script.outputs]}
    module.script.engine_formats = _formats(network)
    engine = {
        "onnx": base64.b64encode(PARSED["data"]).decode("ascii"),
        "nodes": nodes,
        "inputs": module.script.inputs,
        "outputs": module.script.outputs,
        "formats": module.script.engine_formats,
        "inspector": module.script.inspector,
    }
    memory._bytes = json.dumps(engine).encode()
    return memory


def _loadable(network: Any) -> bytes:
    from edgedla.formats import TensorFormat, layout

    lines = ["FAKE"]
    for word, names in (("in", module.script.inputs), ("out", module.script.outputs)):
        for name, dims in names.items():
            tensor = network._tensors[name]
            form = TensorFormat(_format_of(tensor))
            size = layout(form, tensor._dtype.name, dims, chip="orin", gpu_fallback=False).size_bytes
            lines.append(f"{word} {name} {size} {' '.join(str(d) for d in dims[1:])}")
    return ("\n".join(lines) + "\n").encode()


def _format_of(tensor: Any) -> str:
    formats = {1 << int(m): name for name, m in module.TensorFormat.__members__.items()}
    return formats[tensor._allowed_formats]


def _formats(network: Any) -> Dict[str, str]:
    """Border tensors that are not LINEAR."""
    names = (*module.script.inputs, *module.script.outputs)
    formats = {n: _format_of(network._tensors[n]) for n in names if network._tensors[n].__dict__.get("_allowed_formats")}
    return {name: form for name, form in formats.items() if form != "LINEAR"}


def _nodes(network: Any, config: Any) -> List[Tuple[str, str, float]]:
    """(name, device, milliseconds) of the engine's layers: stretches on the DLA are one node."""
    from edgedla.costs.model import CostModel

    graph = PARSED["graph"]
    costs = CostModel.load(PARSED["platform"], "fp16", "MAXN").layer_costs(graph)
    index = {layer.name: layer.index for layer in graph.layers}
    nodes: List[Tuple[str, str, float]] = []
    stretch: List[str] = []

    def time_of(names: List[str], device: str) -> float:
        known = [costs[index[n], device].latency_us for n in names if (index[n], device) in costs]
        return SLOWER * sum(known) / 1000

    def end() -> None:
        if stretch:
            inner = stretch[0] if len(stretch) == 1 else f"{stretch[0]}...{stretch[-1]}"
            nodes.append((f"{{ForeignNode[{inner}]}}", "DLA", time_of(stretch, "DLA")))
            stretch.clear()

    for layer in network._layer_list:
        device = config._devices.get(layer, config.__dict__.get("_default_device_type"))
        if getattr(device, "name", "GPU") == "DLA":
            stretch.append(layer._name)
        else:
            end()
            nodes.append((layer._name, "GPU", time_of([layer._name], "GPU")))
    end()
    return nodes


def deserialize_cuda_engine(self: Any, serialized_engine: Any) -> Any:
    try:
        engine = json.loads(bytes(serialized_engine))
        script = module.script
        script.inputs = {k: tuple(v) for k, v in engine["inputs"].items()}
        script.outputs = {k: tuple(v) for k, v in engine["outputs"].items()}
        script.engine_formats, script.inspector = engine["formats"], engine["inspector"]
        # The fake wrote down the names of the tensors when it was made.
        NAMES[:] = [*script.inputs, *script.outputs]
        script.profile = lambda: [(name, ms) for name, _, ms in engine["nodes"]]
        script.run = _runner(engine)
    except (ValueError, KeyError):
        return None
    return _deserialize(self, serialized_engine)


def _runner(engine: Dict[str, Any]) -> Any:
    """Inferences over host memory by ONNX Runtime; borders in other formats than LINEAR FP32 are left alone."""
    if engine["formats"]:
        return lambda addresses: True
    import numpy as np

    from edgedla.quantization.session import open_session

    session = open_session(base64.b64decode(engine["onnx"]))

    def array(name: str, dims: Any, addresses: Dict[str, int]) -> Any:
        memory = (ctypes.c_float * int(np.prod(dims))).from_address(addresses[name])
        return np.frombuffer(memory, np.float32).reshape(dims)

    def run(addresses: Dict[str, int]) -> bool:
        given = {n: array(n, d, addresses) for n, d in engine["inputs"].items()}
        for name, value in zip(engine["outputs"], session.run(list(engine["outputs"]), given)):
            array(name, engine["outputs"][name], addresses)[...] = value
        return True

    return run


NAMES: List[str] = module.io_names
module.OnnxParser.parse_from_file = parse_from_file
module.Builder.build_serialized_network = build_serialized_network
module.Runtime.deserialize_cuda_engine = deserialize_cuda_engine
sys.modules["tensorrt"] = module
