"""TFLite models with only integer weights ("dynamic range"): the same model with these weights as floats."""

from __future__ import annotations

import copy
from typing import Any, Optional, Tuple

#: Operators that interpret integer constants by their own rule.
_OWN_RULE = ("DEQUANTIZE", "QUANTIZE", "CAST")


def with_float_weights(data: bytes) -> Tuple[Optional[bytes], int]:
    """(the model with float instead of integer weights in operators that compute in floats, their number); (None, 0) if none.

    Such an operator rounds its activations at run time, by their largest value in the run: the file has no scales for them.
    """
    import flatbuffers
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    codes = {value: name for name, value in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    count = 0
    for graph in model.subgraphs:
        made = {}
        for operator in graph.operators:
            code = model.operatorCodes[operator.opcodeIndex]
            name = codes.get(max(code.builtinCode, code.deprecatedBuiltinCode))
            computes = [graph.tensors[i].type for i in operator.outputs if i >= 0] == [schema.TensorType.FLOAT32]
            if name in _OWN_RULE or not computes:
                continue
            operator.inputs = [int(index) for index in operator.inputs]
            for slot, index in enumerate(operator.inputs):
                values = None if index < 0 else floats(graph.tensors[index], model, schema)
                if values is None:
                    continue
                if index not in made:
                    made[index] = len(graph.tensors)
                    graph.tensors.append(as_float(graph.tensors[index], values, model, schema))
                    count += 1
                operator.inputs[slot] = made[index]
                if hasattr(operator.builtinOptions, "asymmetricQuantizeInputs"):
                    operator.builtinOptions.asymmetricQuantizeInputs = False
    if not count:
        return None, 0
    builder = flatbuffers.Builder(len(data) * 2)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()), count


def floats(tensor: Any, model: Any, schema: Any) -> Any:
    """The real numbers of a constant's integers; None if it is not a quantised constant."""
    import numpy as np

    buffer, quantised = model.buffers[tensor.buffer].data, tensor.quantization
    kinds = {schema.TensorType.INT8: np.int8, schema.TensorType.UINT8: np.uint8, schema.TensorType.INT16: np.int16}
    if tensor.type not in kinds or buffer is None or not len(buffer) or quantised is None or quantised.scale is None:
        return None
    levels = np.frombuffer(np.asarray(buffer, np.uint8).tobytes(), kinds[tensor.type]).reshape(tensor.shape)
    shape = [1] * levels.ndim
    scale = np.asarray(quantised.scale, np.float32)
    if scale.size > 1:
        shape[quantised.quantizedDimension] = -1
    zero = np.zeros(scale.size) if quantised.zeroPoint is None else np.asarray(quantised.zeroPoint)
    return (levels.astype(np.float32) - zero.astype(np.float32).reshape(shape)) * scale.reshape(shape)


def as_float(tensor: Any, values: Any, model: Any, schema: Any) -> Any:
    """A new tensor of these values, added to the model."""
    import numpy as np

    made = copy.copy(tensor)
    made.type, made.quantization, made.sparsity = schema.TensorType.FLOAT32, None, None
    made.name = tensor.name + b"_float"
    made.buffer = len(model.buffers)
    data = schema.BufferT()
    data.data = np.frombuffer(np.ascontiguousarray(values, np.float32).tobytes(), np.uint8)
    model.buffers.append(data)
    return made
