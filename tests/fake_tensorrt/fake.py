"""A fake `tensorrt` module: the surface of one release, a scripted network behind it, every call recorded."""

from __future__ import annotations

import contextlib
import json
import os
import types
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from tests.fake_tensorrt.surface import Member, load_surface, make_class, make_enum


@dataclass
class Script:
    """What the fake does.

    Attributes:
        layers: (name, LayerType, input tensors, output tensors) in network order.
        inputs, outputs: network tensors: name -> shape.
        cannot: layers for which can_run_on_DLA answers False.
        parse_errors: errors of the parser; with any, parsing fails.
        refused_nodes: (node, operator, reason) of ONNX nodes that the parser refuses for the DLA, if its flag and config ask it.
        log: (severity, message) that the builder logs while building.
        build: "ok", "none" (returns None), "raise", "die" (the process ends at once, as under kill -9).
        inspector: what the engine inspector answers.
        engine_formats: border formats of the built engine that are not LINEAR.
        engine_types: element types of the built engine's borders that are not FLOAT.
        reads: what `deserialize_cuda_engine` is given last; None before it.
        cores: number of DLA cores.
        run: called with {tensor name: address} for each inference; its answer says whether it could be queued.
        context: False: the engine makes no execution context.
        profile: what a profiler hears of each inference: (engine layer, milliseconds) in order.
        cannot_int8: layers for which can_run_on_DLA answers False once the INT8 scales are there.
        while_building: called between two steps of the build, as a signal or another thread would come in.
    """

    layers: List[Tuple[str, str, Tuple[str, ...], Tuple[str, ...]]]
    inputs: Dict[str, Tuple[int, ...]]
    outputs: Dict[str, Tuple[int, ...]]
    cannot: Tuple[str, ...] = ()
    parse_errors: Tuple[str, ...] = ()
    refused_nodes: Tuple[Tuple[str, str, str], ...] = ()
    log: Tuple[Tuple[str, str], ...] = ()
    build: str = "ok"
    inspector: Any = field(default_factory=lambda: {"Layers": [], "Bindings": []})
    engine_formats: Dict[str, str] = field(default_factory=dict)
    engine_types: Dict[str, str] = field(default_factory=dict)
    reads: Optional[bytes] = None
    cores: int = 2
    run: Callable[[Dict[str, int]], bool] = lambda addresses: True
    context: bool = True
    profile: Callable[[], Iterable[Tuple[str, float]]] = lambda: ()
    cannot_int8: Tuple[str, ...] = ()
    while_building: Callable[[], Any] = lambda: None


class World:
    """The record of all calls, as text; objects are shown by class and name."""

    def __init__(self) -> None:
        self.calls: List[str] = []

    def record(self, what: str, args: tuple, kwargs: Dict[str, Any]) -> None:
        parts = [self.show(a) for a in args] + [f"{k}={self.show(v)}" for k, v in sorted(kwargs.items())]
        self.calls.append(f"{what}({', '.join(parts)})" if not what.endswith("=") else f"{what} {parts[0]}")

    def show(self, value: Any) -> str:
        if isinstance(value, (Member, int, float, str)) or value is None:
            return repr(value) if not isinstance(value, str) else value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"<{len(value)} bytes>" if len(value) else "<empty>"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.show(v) for v in value) + "]"
        name = value.__dict__.get("_name") if hasattr(value, "__dict__") else None
        return f"<{type(value).__name__}{' ' + name if name else ''}>"


def make_module(version: str, script: Script) -> Any:
    """The module. `module.world.calls` has the calls; `module.script` may be changed between builds."""
    world = World()
    surface = load_surface(version)
    module: Any = types.ModuleType("tensorrt")
    module.__version__ = version
    module.world, module.script = world, script
    behaviour: Dict[str, Callable[..., Any]] = {}
    for name, entry in surface["classes"].items():
        if "members" in entry:
            setattr(module, name, make_enum(name, entry["members"]))
        else:
            setattr(module, name, make_class(name, entry, world, behaviour))
    if "ILogger" in surface["classes"]:
        severities = ["INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE"]
        severity = make_enum("Severity", {s: i for i, s in enumerate(severities)})
        for cls in (module.ILogger, module.Logger):
            cls.Severity = severity
            for s in severities:
                setattr(cls, s, getattr(severity, s))
    module.init_libnvinfer_plugins = lambda logger, namespace: world.calls.append("init_libnvinfer_plugins()") or True
    behaviour.update(_behaviour(module))
    return module


def _behaviour(module: Any) -> Dict[str, Callable[..., Any]]:
    script: Script = module.script
    make = _quiet_maker(module)

    def create_network(self: Any, flags: int = 0) -> Any:
        tensors = {n: make("ITensor", name=n, shape=s) for n, s in script.inputs.items()}
        network = make("INetworkDefinition", name="net")
        network._flags, network._tensors, network._layer_list = flags, tensors, []
        network._logger = self._logger
        for tensor in tensors.values():
            tensor._network = network
        return network

    def parse(self: Any, model: Any, path: Optional[str] = None) -> bool:
        return fill(self._network)

    def parse_from_file(self: Any, model: str) -> bool:
        return fill(self._network)

    def fill(network: Any) -> bool:
        if script.parse_errors:
            return False
        tensors = network._tensors
        for name, kind, inputs, outputs in script.layers:
            for t in (*inputs, *outputs):
                tensors.setdefault(t, make("ITensor", name=t, shape=script.outputs.get(t, (1, 8, 8, 8))))
                tensors[t]._network = network
            # A layer type that a release does not know cannot be scripted for it.
            layer = make("ILayer", name=name, type=getattr(module.LayerType, kind))
            layer._in, layer._out = [tensors[t] for t in inputs], [tensors[t] for t in outputs]
            network._layer_list.append(layer)
        return True

    def new_parser(self: Any, network: Any, logger: Any) -> None:
        self.__dict__.update(_network=network, _errors=[("", "", text) for text in script.parse_errors], _asked=set())

    def supports(self: Any, model: bytes, path: Optional[str] = None) -> bool:
        """The whole model, behind the first error too."""
        if {"REPORT_CAPABILITY_DLA", "config"} <= self._asked:
            self._errors.extend(script.refused_nodes)
        return not self._errors

    def new_builder(self: Any, logger: Any) -> None:
        self.__dict__["_logger"] = logger

    def new_config(self: Any) -> Any:
        config = make("IBuilderConfig")
        config._flags, config._devices, config._pools = set(), {}, {}
        return config

    def parser_error(self: Any, index: int) -> Any:
        error = make("ParserError", name=f"error {index}")
        error._node, error._operator, error._text = self._errors[index]
        return error

    def build(self: Any, network: Any, config: Any) -> Any:
        monitor = config.__dict__.get("_progress_monitor")

        def to_monitor(method: str, *arguments: Any) -> Any:
            # The real builder's C++ side swallows whatever a monitor raises, KeyboardInterrupt too (seen with 10.3.0).
            with contextlib.suppress(BaseException):
                return None if monitor is None else getattr(monitor, method)(*arguments)

        to_monitor("phase_start", "Building Engine", None, 2)
        if to_monitor("step_complete", "Building Engine", 0) is False:
            return None
        script.while_building()
        if to_monitor("step_complete", "Building Engine", 1) is False:
            return None
        if refuses_borders(network, config):
            return None
        calibrator = config.__dict__.get("_int8_calibrator")
        if calibrator is not None:
            config._calibration = bytes(calibrator.read_calibration_cache())
        for severity, message in script.log:
            self._logger.log(getattr(module.ILogger, severity), message)
        to_monitor("phase_finish", "Building Engine")
        if script.build == "raise":
            raise RuntimeError("internal error in the DLA compiler")
        if script.build == "die":
            os._exit(137)
        if script.build == "none":
            return None
        placed = sorted((layer._name, device.name) for layer, device in config._devices.items())
        flags = sorted(f.name for f in config._flags)
        memory = make("IHostMemory")
        memory._bytes = json.dumps({"engine": placed, "flags": flags}).encode()
        return memory

    def timing_cache(self: Any, serialized: Any) -> Any:
        if bytes(serialized).startswith(b"damaged"):
            return None
        cache = make("ITimingCache")
        cache._bytes = bytes(serialized) + b"+"
        return cache

    def set_timings(self: Any, cache: Any, ignore_mismatch: bool) -> bool:
        if cache._bytes.startswith(b"foreign") and not ignore_mismatch:
            return False
        self._cache = cache
        return True

    def host_memory(data: bytes) -> Any:
        memory = make("IHostMemory")
        memory._bytes = data
        return memory

    def inspector(self: Any) -> Any:
        made = make("EngineInspector")
        # The bindings keep an engine alive for its inspector from 8.6.1 on; before, its destructor uses a dead engine.
        keeps = tuple(int(n) for n in module.__version__.split(".")[:3]) >= (8, 6, 1)
        made.__dict__["_engine"] = self if keeps else weakref.ref(self)
        return made

    def inspector_ends(self: Any) -> None:
        engine = self.__dict__.get("_engine")
        if isinstance(engine, weakref.ref) and engine() is None:
            module.world.calls.append("CRASH: the inspector outlives its engine")

    def has_qdq(network: Any) -> bool:
        return any(layer._type.name in ("QUANTIZE", "DEQUANTIZE") for layer in network._layer_list)

    def set_range(self: Any, *arguments: Any, **keywords: Any) -> bool:
        """As TensorRT answers ranges beside Q/DQ layers (text of onnxruntime issue 13071)."""
        if has_qdq(self._network):
            text = "Setting dynamic range is only allowed when there are no Q/DQ layers in the Network."
            self._network._logger.log(module.ILogger.ERROR, f"4: [network.cpp::setDynamicRange] Error Code 4: {text}")
            return False
        self._range = True
        return True

    def refuses_borders(network: Any, config: Any) -> bool:
        """As TensorRT answers INT8 borders without any scale (text of TensorRT issue 1973)."""
        if "INT8" not in {f.name for f in config._flags} or has_qdq(network):
            return False
        if config.__dict__.get("_int8_calibrator") is not None:
            return False
        for name in (*script.inputs, *script.outputs):
            tensor = network._tensors[name]
            kind = tensor.__dict__.get("_dtype")
            if getattr(kind, "name", "") == "INT8" and not tensor.__dict__.get("_range"):
                text = (
                    "input/output with DataType Int8 in network without Q/DQ layers must have dynamic range set when no "
                    "calibrator is used."
                )
                self_logger = network._logger
                self_logger.log(module.ILogger.ERROR, f"4: [network.cpp::validate] Error Code 4: {name}: {text}")
                return True
        return False

    def can_run(self: Any, layer: Any) -> bool:
        scaled = self.__dict__.get("_int8_calibrator") is not None
        return layer._name not in script.cannot and not (scaled and layer._name in script.cannot_int8)

    def deserialize(self: Any, serialized_engine: Any) -> Any:
        script.reads = bytes(serialized_engine)
        return make("ICudaEngine", name="engine") if bytes(serialized_engine) else None

    def execution_context(self: Any, **_: Any) -> Any:
        if not script.context:
            return None
        context = make("IExecutionContext")
        context._addresses = {}
        return context

    def set_address(self: Any, name: str, memory: int) -> bool:
        self._addresses[name] = memory
        return name in io_names

    def execute_v2(self: Any, bindings: List[int], stream_handle: int) -> bool:
        return executed(self, dict(zip(io_names, bindings)))

    def executed(self: Any, addresses: Dict[str, int]) -> bool:
        ran = script.run(addresses)
        # Of what was queued the layers' times are reported before the call returns, unless enqueue_emits_profile is off.
        if self.profiler is not None and self.enqueue_emits_profile is not False:
            for layer, ms in script.profile():
                self.profiler.report_layer_time(layer, ms)
        return ran

    # The module's own list: a test may change it with the script.
    io_names = module.io_names = [*script.inputs, *script.outputs]

    def engine_format(self: Any, name: str) -> Any:
        return module.TensorFormat.__members__[script.engine_formats.get(name, "LINEAR")]

    def engine_type(self: Any, name: str) -> Any:
        return module.DataType.__members__[script.engine_types.get(name, "FLOAT")]

    def engine_mode(self: Any, name: str) -> Any:
        return module.TensorIOMode.__members__["INPUT" if name in script.inputs else "OUTPUT"]

    def engine_shape(self: Any, name: str) -> Tuple[int, ...]:
        return {**script.inputs, **script.outputs}[name]

    def device_of(self: Any, layer: Any) -> Any:
        return self._devices.get(layer, self.__dict__.get("_default_device_type") or module.DeviceType.GPU)

    return {
        "Builder.__init__": new_builder,
        "Builder.num_DLA_cores": lambda self: script.cores,
        "Builder.create_network": create_network,
        "Builder.create_builder_config": new_config,
        "Builder.build_serialized_network": build,
        "OnnxParser.__init__": new_parser,
        "OnnxParser.parse": parse,
        "OnnxParser.parse_from_file": parse_from_file,
        "OnnxParser.num_errors": lambda self: len(self._errors),
        "OnnxParser.set_flag": lambda self, flag: self._asked.add(flag.name),
        "OnnxParser.set_builder_config": lambda self, builder_config: self._asked.add("config"),
        "OnnxParser.supports_model_v2": supports,
        "OnnxParser.get_error": parser_error,
        "ParserError.desc": lambda self: self._text,
        "ParserError.node": lambda self: 0,
        "ParserError.node_name": lambda self: self._node,
        "ParserError.node_operator": lambda self: self._operator,
        "ParserError.code": lambda self: 8,
        "INetworkDefinition.num_layers": lambda self: len(self._layer_list),
        "INetworkDefinition.num_inputs": lambda self: len(script.inputs),
        "INetworkDefinition.num_outputs": lambda self: len(script.outputs),
        "INetworkDefinition.get_layer": lambda self, index: self._layer_list[index],
        "INetworkDefinition.get_input": lambda self, index: self._tensors[list(script.inputs)[index]],
        "INetworkDefinition.get_output": lambda self, index: self._tensors[list(script.outputs)[index]],
        "ILayer.num_outputs": lambda self: len(self._out),
        "ILayer.num_inputs": lambda self: len(self._in),
        "ILayer.get_output": lambda self, index: self._out[index],
        "ILayer.get_input": lambda self, index: self._in[index],
        "ITensor.set_dynamic_range": set_range,
        "IBuilderConfig.set_flag": lambda self, flag: self._flags.add(flag),
        "IBuilderConfig.get_flag": lambda self, flag: flag in self._flags,
        "IBuilderConfig.can_run_on_DLA": can_run,
        "EngineInspector.__del__": inspector_ends,
        "IBuilderConfig.set_device_type": lambda self, layer, device_type: self._devices.update({layer: device_type}),
        "IBuilderConfig.get_device_type": device_of,
        "IBuilderConfig.create_timing_cache": timing_cache,
        "IBuilderConfig.set_timing_cache": set_timings,
        "IBuilderConfig.get_timing_cache": lambda self: self.__dict__.get("_cache"),
        "ITimingCache.serialize": lambda self: host_memory(self._bytes),
        "Runtime.deserialize_cuda_engine": deserialize,
        "Runtime.num_DLA_cores": lambda self: script.cores,
        "ICudaEngine.create_execution_context": execution_context,
        "ICudaEngine.num_bindings": lambda self: len(io_names),
        "ICudaEngine.get_binding_name": lambda self, index: io_names[index],
        "IExecutionContext.set_tensor_address": set_address,
        "IExecutionContext.execute_async_v3": lambda self, stream_handle: executed(self, self._addresses),
        "IExecutionContext.execute_async_v2": execute_v2,
        "ICudaEngine.create_engine_inspector": inspector,
        "ICudaEngine.num_io_tensors": lambda self: len(script.inputs) + len(script.outputs),
        "ICudaEngine.get_tensor_name": lambda self, index: [*script.inputs, *script.outputs][index],
        "ICudaEngine.get_tensor_format": engine_format,
        "ICudaEngine.get_tensor_dtype": engine_type,
        "ICudaEngine.get_tensor_mode": engine_mode,
        "ICudaEngine.get_tensor_shape": engine_shape,
        "ICudaEngine.binding_is_input": lambda self, index: io_names[index] in script.inputs,
        "ICudaEngine.get_binding_shape": lambda self, index: engine_shape(self, io_names[index]),
        "ICudaEngine.get_binding_dtype": lambda self, index: engine_type(self, io_names[index]),
        "ICudaEngine.get_binding_format": lambda self, index: engine_format(self, io_names[index]),
        "EngineInspector.get_engine_information": lambda self, format: json.dumps(script.inspector),
        "IHostMemory.nbytes": lambda self: len(self._bytes),
        "IHostMemory.__bytes__": lambda self: self._bytes,
    }


def _quiet_maker(module: Any) -> Callable[..., Any]:
    """Makes an object of a class that Python code cannot construct itself, without recording anything."""

    def make(cls: str, **values: Any) -> Any:
        target = getattr(module, cls)
        made = target.__new__(target)
        for key, value in values.items():
            made.__dict__["_" + key] = value
        return made

    return make
