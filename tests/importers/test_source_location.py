"""Where in the user's code a layer comes from, for both of PyTorch's exporters."""

from __future__ import annotations

import json

import pytest
from onnx import helper

from edgedla.graph.document import from_document, to_document
from edgedla.graph.source import SourceLocation
from edgedla.importers import load_onnx
from edgedla.importers.source_location import module_of_name, module_of_scopes, user_frame
from edgedla.placement.check_cost import check
from tests.importers.onnx_models import model, value

STACK = (
    'File "/nets/mobilenetv3.py", line 221, in forward\n    x = self.features(x)\n'
    'File "/usr/lib/python3.12/site-packages/torch/nn/modules/container.py", line 240, in forward\n'
    "    input = module(input)\n"
)


def dynamo_model():
    node = helper.make_node("Relu", ["x"], ["y"], name="node_relu")
    for key, text in (
        ("pkg.torch.onnx.name_scopes", "['', 'features', 'features.0', 'features.0.2', 'relu']"),
        ("pkg.torch.onnx.stack_trace", STACK),
    ):
        entry = node.metadata_props.add()
        entry.key, entry.value = key, text
    return model([node], [value("x", [1, 8, 4, 4])], ["y"])


@pytest.mark.skipif(not hasattr(helper.make_node("Relu", ["x"], ["y"]), "metadata_props"), reason="onnx before 1.16")
def test_the_dynamo_exporters_metadata_give_module_file_and_line():
    graph = load_onnx(dynamo_model())
    expected = SourceLocation("features.0.2", "/nets/mobilenetv3.py", 221, "forward")
    assert graph.layers[0].source == expected
    assert str(expected) == "features.0.2 (mobilenetv3.py:221)"
    (layer,) = check(dynamo_model(), target="orin").layers
    assert layer.source == expected
    assert layer.to_dict()["source"]["line"] == 221
    assert from_document(json.loads(json.dumps(to_document(graph)))).layers[0].source == expected


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("/features/features.0/features.0.2/Clip", "features.0.2"),
        ("/m/blocks/blocks.1/conv/conv.0/conv.0.1/Relu_1", "m.blocks.1.conv.0.1"),
        ("/Relu", ""),
        ("Relu_12", ""),
        ("", ""),
        ("net/block1/conv/Conv2D", "net.block1.conv"),
        (b"\xff/x", ""),
    ],
)
def test_the_older_exporters_names_give_the_module(name, module):
    assert module_of_name(name) == module


@pytest.mark.parametrize(
    ("text", "module"), [("", ""), ("['', 'add']", ""), ("['', 'a', '', 'add']", "a"), ('["", "a\'b", "add"]', "a'b")]
)
def test_the_source_is_the_innermost_module(text, module):
    assert module_of_scopes(text) == module


@pytest.mark.parametrize(
    ("stack", "frame"),
    [
        ("", ("", 0, "")),
        ("no frames", ("", 0, "")),
        (STACK, ("/nets/mobilenetv3.py", 221, "forward")),
        ('File "C:\\nets\\net.py", line 7, in forward', ("C:\\nets\\net.py", 7, "forward")),
        # Only PyTorch's own code is better than nothing.
        ('File "/x/torch/nn/modules/conv.py", line 5, in forward', ("/x/torch/nn/modules/conv.py", 5, "forward")),
        ('File "/x/torchvision/ops/misc.py", line 9', ("/x/torchvision/ops/misc.py", 9, "")),
    ],
)
def test_the_source_is_the_users_innermost_frame(stack, frame):
    assert user_frame(stack) == frame
    assert str(SourceLocation(file="C:\\nets\\net.py", line=7)) == "net.py:7"


def test_a_model_without_traces_has_no_source():
    graph = load_onnx(model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1, 8])], ["y"]))
    assert graph.layers[0].source is None
    assert "source" not in to_document(graph)["layers"][0]
