"""A plan as calls on TensorRT's network and builder config. Imports no tensorrt: the module is handed in as `trt`.

The naming rule of builder/tensorrt/api.py holds here too.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, List, Mapping

from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.tensorrt.drift import Drift
from edgedla.errors import BuildError
from edgedla.graph.layer_graph import QUANTIZING
from edgedla.quantization.calibration_cache import write_cache
from edgedla.vocabulary import GPU

_CHOSEN_TYPES = frozenset({"FLOAT", "HALF", "INT8"})
_PRECISIONS = {"fp16": "HALF", "int8": "INT8"}


def network_flags(trt: ModuleType, plan: BuildPlan) -> int:
    flags = 0
    # Before 10 a network without this flag has an implicit batch, which the ONNX parser refuses.
    if plan.trt < (10,) and hasattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH"):
        flags |= 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    if plan.strongly_typed and hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED"):
        flags |= 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    return flags


def set_flags(trt: ModuleType, config: Any, plan: BuildPlan) -> None:
    if not plan.strongly_typed:
        implicit_flags(trt, config, plan)
    if plan.gpu_fallback and plan.dla_core is not None:
        config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
    if plan.direct_io:
        config.set_flag(trt.BuilderFlag.DIRECT_IO)
    if plan.sparsity:
        config.set_flag(trt.BuilderFlag.SPARSE_WEIGHTS)
    if plan.mode == "standalone":
        config.engine_capability = trt.EngineCapability.DLA_STANDALONE
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if plan.dla_core is not None:
        config.DLA_core = plan.dla_core


def set_pools(trt: ModuleType, config: Any, plan: BuildPlan) -> None:
    pools = plan.pools
    if pools.workspace_bytes is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, pools.workspace_bytes)
    if plan.dla_core is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.DLA_MANAGED_SRAM, pools.dla_sram_bytes)
        config.set_memory_pool_limit(trt.MemoryPoolType.DLA_LOCAL_DRAM, pools.dla_local_dram_bytes)
        config.set_memory_pool_limit(trt.MemoryPoolType.DLA_GLOBAL_DRAM, pools.dla_global_dram_bytes)


def set_io(trt: ModuleType, network: Any, plan: BuildPlan) -> None:
    planned = {io.name: io for io in plan.io}
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    outputs = [network.get_output(i) for i in range(network.num_outputs)]
    names = {tensor.name for tensor in (*inputs, *outputs)}
    if names != set(planned):
        raise BuildError(
            f"the network's inputs and outputs are not the planned ones: {sorted(names ^ set(planned))}",
            hint="the plan was made from another model: plan again",
        )
    for tensor in inputs:
        # The DLA takes static sizes only (developer guide, DLA restrictions), so they are fixed here.
        if tuple(tensor.shape) != planned[tensor.name].shape_nchw:
            tensor.shape = planned[tensor.name].shape_nchw
    for tensor in (*inputs, *outputs):
        io = planned[tensor.name]
        if not plan.strongly_typed:
            implicit_type(trt, tensor, io.dtype)
        tensor.allowed_formats = 1 << int(trt.TensorFormat.__members__[io.format])


def set_devices(trt: ModuleType, config: Any, layers: Mapping[str, List[Any]], plan: BuildPlan, drift: Drift) -> None:
    if plan.mode == "standalone":
        # The capability accepts no other device, for constants neither.
        config.default_device_type = trt.DeviceType.DLA
        return
    config.default_device_type = trt.DeviceType.GPU
    moved = set(drift.refused)
    for planned in plan.layers:
        on_gpu = planned.device == GPU or planned.name in moved
        for layer in layers.get(planned.name, ()):
            config.set_device_type(layer, trt.DeviceType.GPU if on_gpu else trt.DeviceType.DLA)


def implicit_flags(trt: ModuleType, config: Any, plan: BuildPlan) -> None:
    config.set_flag(trt.BuilderFlag.FP16)
    if plan.precision == "int8":
        config.set_flag(trt.BuilderFlag.INT8)
    if any(planned.precision for planned in plan.layers):
        if plan.obey_precision:
            config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        else:
            config.set_flag(trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS)


def implicit_type(trt: ModuleType, tensor: Any, dtype: str) -> None:
    # From 11 on the property is read-only and the model's own types hold. Types that the plan does not choose, such as
    # the INT64 of an index output, stay as the parser made them: not every release has them.
    if dtype in _CHOSEN_TYPES:
        tensor.dtype = trt.DataType.__members__[dtype]


def implicit_precisions(
    trt: ModuleType, config: Any, network: Any, layers: Mapping[str, List[Any]], plan: BuildPlan
) -> List[str]:
    """Precisions of layers, and the INT8 scales; returns log lines about what was left out."""
    for planned in plan.layers:
        for layer in layers.get(planned.name, ()):
            if planned.precision is not None:
                layer.precision = trt.DataType.__members__[_PRECISIONS[planned.precision]]
    if plan.precision != "int8":
        return []
    every_layer = [layer for group in layers.values() for layer in group]
    if any(layer.type.name in QUANTIZING for layer in every_layer):
        # TensorRT refuses ranges in such a network and ignores a calibrator: its scales stand in the Q/DQ nodes.
        given = "; those of the calibration are not used" if plan.calibration.absmax else ""
        return [f"[W] edgedla: the network has Q/DQ layers, whose scales hold{given}"]
    with_calibrator = plan.calibration.apply != "ranges"
    if with_calibrator:
        config.int8_calibrator = implicit_calibrator(trt, plan)
    borders = [network.get_input(i) for i in range(network.num_inputs)]
    borders += [network.get_output(i) for i in range(network.num_outputs)]
    int8_borders = {io.name for io in plan.io if io.dtype == "INT8"}
    tensors = [tensor for tensor in borders if tensor.name in int8_borders or not with_calibrator]
    if not with_calibrator:
        tensors += [layer.get_output(i) for layer in every_layer for i in range(layer.num_outputs)]
    # INT8 borders get theirs beside the calibrator too, as in trtexec (samples/common/sampleEngines.cpp of 8.4 to 10.7,
    # setTensorScalesFromCalibration), where it works around a check of the network.
    refused: List[str] = []
    for name, tensor in {tensor.name: tensor for tensor in tensors}.items():
        absmax = plan.calibration.absmax.get(name)
        if absmax is not None and not tensor.set_dynamic_range(-absmax, absmax):
            refused.append(name)
    return [f"[W] edgedla: TensorRT refuses the dynamic range of {', '.join(refused)}"] if refused else []


def implicit_calibrator(trt: Any, plan: BuildPlan) -> Any:
    # TensorRT compares the cache's version with its own.
    version = tuple(int(n) for n in str(trt.__version__).split(".")[:3])
    text = write_cache(plan.calibration.absmax, version).encode("utf-8")

    class FromCache(trt.IInt8EntropyCalibrator2):
        """Hands TensorRT the planned scales; calibration itself cannot run on the DLA, so there are no batches."""

        def __init__(self) -> None:
            trt.IInt8EntropyCalibrator2.__init__(self)

        def get_batch_size(self) -> int:
            return 1

        def get_batch(self, names: List[str]) -> None:
            return None

        def read_calibration_cache(self) -> bytes:
            return text

        def write_calibration_cache(self, cache: Any) -> None:
            return None

    return FromCache()
