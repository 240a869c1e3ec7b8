"""Opens a model without its weights, however large its file is: enough to match rewrites and predict their gain."""

from __future__ import annotations

from typing import Any

from edgedla.errors import ModelError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.load import left_out
from edgedla.fixes.network.model_file import open_model
from edgedla.fixes.network.network import MISSING_DATA
from edgedla.importers.model_file.onnx_file import read


def open_weightless(model: Any) -> Any:
    """An onnx_ir.Model. Large tensors inside the file are marked as missing; small external ones are read.

    Args:
        model: path, bytes, onnx.ModelProto or importers' OnnxFile.

    Raises:
        ModelError: the model cannot be read, or not completely.
        EnvironmentMissing: onnx-ir is missing, or Python is too old.
    """
    ir = onnx_ir()
    source = read(model)
    proto = type(source.model)()
    proto.CopyFrom(source.model)
    for tensor in left_out(proto):
        tensor.data_location = tensor.EXTERNAL
        tensor.external_data.add(key="location", value=MISSING_DATA)
    try:
        opened = ir.from_proto(proto)
    except Exception as e:
        # onnx-ir raises unrelated classes here.
        raise ModelError(f"the model cannot be read: {str(e)[:200]}", where=source.where) from e
    if source.folder is not None:
        ir.external_data.set_base_dir(opened.graph, source.folder)
    return open_model(opened)
