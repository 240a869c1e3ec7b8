"""What a built engine holds, read back from it.

The naming rule of builder/tensorrt/api.py holds here too.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.tensorrt.log_tail import log_tail
from edgedla.errors import BuildError
from edgedla.records.json_text import parse_json


def inspect_engine(
    trt: ModuleType, logger: object, plan: BuildPlan, data: bytes, lines: List[str]
) -> Tuple[Optional[Mapping[str, Any]], Dict[str, str]]:
    """What the built engine holds: the inspector's JSON, and the border formats where named tensors exist (8.5 on)."""
    runtime = trt.Runtime(logger)
    if plan.dla_core is not None:
        # Before the engine is read: without it every engine goes to core 0, whatever it was built for.
        runtime.DLA_core = plan.dla_core
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        raise BuildError("TensorRT cannot read back the engine that it built", hint=log_tail(lines))
    inspector = engine.create_engine_inspector()
    try:
        text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    finally:
        # Before its engine: the bindings of 8.4 and 8.5 do not keep the engine alive for it, and locals die in the order
        # of their first assignment.
        del inspector
    formats: Dict[str, str] = {}
    if hasattr(engine, "num_io_tensors"):
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            formats[name] = engine.get_tensor_format(name).name
    try:
        document = parse_json(str(text).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None, formats
    return (document if isinstance(document, dict) else None), formats
