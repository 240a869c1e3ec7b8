"""An engine's inputs, outputs and layers as TensorRT reports them, 8.4 to 11.4.1.

The naming rule of builder/tensorrt/api.py applies: a variable with a TensorRT object is named after its class.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from edgedla.builder.tensorrt.callbacks import process_logger, receiving
from edgedla.errors import EnvironmentMissing, RunError

#: (name, is_input, dims, TensorRT's data type, TensorRT's format)
Tensor = Tuple[str, bool, Tuple[int, ...], str, str]


@dataclass(frozen=True)
class EngineFacts:
    """`layers`: the engine inspector's JSON text. `version`: the TensorRT that read it."""

    tensors: Tuple[Tensor, ...]
    layers: str
    version: str


def import_tensorrt(where: Optional[str] = None) -> Any:
    try:
        return importlib.import_module("tensorrt")
    except (ImportError, OSError) as e:
        raise EnvironmentMissing(
            f"TensorRT cannot be imported: {e}",
            where=where,
            hint="it comes with JetPack (apt install python3-libnvinfer); a venv needs --system-site-packages",
        ) from e


def read_with_tensorrt(trt: Any, data: bytes, core: Optional[int], where: str, written: str) -> EngineFacts:
    """Deserialises an engine, queries it, and releases it.

    Args:
        core: DLA core to read it for; None: TensorRT's own choice.
        written: a text on who wrote it, for the message.

    Raises:
        RunError: TensorRT refuses it.
    """
    logger = process_logger(trt)
    trt.init_libnvinfer_plugins(logger, "")
    runtime = trt.Runtime(logger)
    if core is not None:
        runtime.DLA_core = core
    lines: List[str] = []
    with receiving(logger, lambda severity, text: lines.append(text)):
        engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        raise RunError(
            f"TensorRT {trt.__version__} refuses the engine" + (f": {lines[-1]}" if lines else ""),
            where=where,
            hint=f"{written}; an engine runs under the release and on the module that built it: build it here",
        )
    inspector = engine.create_engine_inspector()
    try:
        layers = str(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    finally:
        # Before its engine: in 8.4 and 8.5 the inspector does not keep the engine alive.
        del inspector
    return EngineFacts(tuple(_tensors(engine)), layers, str(trt.__version__))


def _tensors(engine: Any) -> List[Tensor]:
    """Inputs and outputs. TensorRT 8.4 numbers them, later releases name them."""
    if hasattr(engine, "num_io_tensors"):
        return [
            (
                name,
                engine.get_tensor_mode(name).name == "INPUT",
                tuple(engine.get_tensor_shape(name)),
                engine.get_tensor_dtype(name).name,
                engine.get_tensor_format(name).name,
            )
            for name in map(engine.get_tensor_name, range(engine.num_io_tensors))
        ]
    return [
        (
            engine.get_binding_name(i),
            bool(engine.binding_is_input(i)),
            tuple(engine.get_binding_shape(i)),
            engine.get_binding_dtype(i).name,
            engine.get_binding_format(i).name,
        )
        for i in range(engine.num_bindings)
    ]
