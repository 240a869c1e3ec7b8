"""With a dynamic batch, TensorRT still computes the other dims at build time; so does the importer."""

from __future__ import annotations

import onnx
import pytest

from edgedla.importers import load_onnx

#: Nets whose flattening, attention or upsampling reads the batch from a Shape node.
NETS = ("tv_shufflenet_v2_x1_0", "timm_fastvit_t8", "timm_pit_ti_224", "yolo_yolov5s", "tv_googlenet")
WITH_DIMS = ("CONVOLUTION", "MATRIX_MULTIPLY", "POOLING", "CONCATENATION", "RESIZE")


def dims_of(graph):
    found = {}
    for layer in graph.layers:
        if layer.type in WITH_DIMS:
            found.setdefault((layer.onnx_node, layer.type), graph.tensors[layer.outputs[0]].dims)
    return found


@pytest.mark.parametrize("name", NETS)
def test_with_a_dynamic_batch_all_other_dims_stay_known(shared, name):
    proto = onnx.load(str(shared / "corpus" / "nets" / f"{name}.onnx"), load_external_data=False)
    static = dims_of(load_onnx(proto))
    initializers = {i.name for i in proto.graph.initializer}
    for value in proto.graph.input:
        if value.name not in initializers:
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
    dynamic = dims_of(load_onnx(proto))
    assert set(static) <= set(dynamic)
    for key, dims in static.items():
        found = dynamic[key]
        assert len(found) == len(dims)
        assert sum(d < 0 for d in found) <= 1
        assert all(d in (-1, s) for d, s in zip(found, dims))
