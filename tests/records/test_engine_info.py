"""Engine inspector output: detailed and names only, ForeignNodes of the DLA and of Myelin, files of another form."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.errors import DocumentError
from edgedla.records.engine_info import read_engine_info, read_format
from tests.amounts import examples


def tensor(name, dims, text):
    return {"Name": name, "Location": "Device", "Dimensions": dims, "Format/Datatype": text}


DETAILED = {
    "Layers": [
        {
            "Name": "Reformatting CopyNode for Input Tensor 0 to {ForeignNode[/conv1/Conv.../relu_2/Relu]}",
            "LayerType": "Reformat",
            "Inputs": [tensor("input", [1, 3, 224, 224], "Row major linear FP32")],
            "Outputs": [tensor("x", [1, 3, 224, 224], "Four wide channel vectorized row major Int8 format")],
            "Metadata": "",
        },
        {
            "Name": "{ForeignNode[/conv1/Conv.../relu_2/Relu]}",
            "LayerType": "DLA",
            "Inputs": [tensor("x", [1, 3, 224, 224], "Four wide channel vectorized row major Int8 format")],
            "Outputs": [tensor("y", [1, 2048, 7, 7], "Thirty-two wide channel vectorized row major Int8 format")],
            "Metadata": "[ONNX Layer: /conv1/Conv]\x1e[ONNX Layer: /relu_2/Relu]",
        },
        {
            "Name": "{ForeignNode[/ln/LayerNormalization.../gelu/Mul_1]}",
            "LayerType": "Myelin",
            "Inputs": [tensor("y", [1, 2048, 7, 7], "Half")],
            "Outputs": [tensor("z", [1, 10], "Half")],
        },
        {"Name": "a + PWN(b, c) [profile 1]", "LayerType": "CaskConvolution", "Inputs": [], "Outputs": []},
    ],
    "Bindings": ["input", "logits"],
}


def test_detailed_layer_info_gives_each_layers_device():
    info = read_engine_info(json.dumps(DETAILED).encode())
    assert info.detailed
    assert [(layer.type, layer.device) for layer in info.layers] == [
        ("Reformat", "GPU"),
        ("DLA", "DLA"),
        ("Myelin", "GPU"),
        ("CaskConvolution", "GPU"),
    ]
    assert [layer.name for layer in info.dla_nodes] == ["{ForeignNode[/conv1/Conv.../relu_2/Relu]}"]
    assert info.undecided == ()
    assert len(info.reformats) == 1
    assert info.bindings == ("input", "logits")


def test_formats_names_and_onnx_nodes_of_layer_info_are_read():
    info = read_engine_info(DETAILED)
    dla = info.layers[1]
    assert (dla.inputs[0].format, dla.inputs[0].dtype, dla.inputs[0].dims) == ("CHW4", "INT8", (1, 3, 224, 224))
    assert (dla.outputs[0].format, dla.outputs[0].dtype) == ("CHW32", "INT8")
    assert dla.network_layers == ("/conv1/Conv", "/relu_2/Relu")
    assert dla.onnx_nodes == ("/conv1/Conv", "/relu_2/Relu")
    assert info.layers[3].name == "a + PWN(b, c)"
    assert info.layers[3].network_layers == ("a", "b", "c")


def test_layer_info_with_names_only_leaves_foreign_nodes_without_device(tmp_path):
    path = tmp_path / "layers.json"
    names = ["Reformatting CopyNode for Input Tensor 0 to {ForeignNode[a...b]}", "{ForeignNode[a...b]}", "conv + relu"]
    path.write_text(json.dumps({"Layers": names, "Bindings": ["x"]}))
    info = read_engine_info(path)
    assert not info.detailed
    assert [layer.device for layer in info.layers] == ["GPU", None, "GPU"]
    assert [layer.name for layer in info.undecided] == ["{ForeignNode[a...b]}"]
    assert info.layers[0].is_reformat


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Row major linear FP32", ("LINEAR", "FLOAT")),
        ("Sixteen wide channel vectorized row major FP16 format", ("CHW16", "HALF")),
        ("Channel major FP16 format where channel % 8 == 0", ("HWC8", "HALF")),
        ("Int8", ("", "INT8")),
        ("UInt8", ("", "UINT8")),
        ("BFloat16", ("", "BF16")),
        ("Int64", ("", "INT64")),
        ("N/A due to dynamic shapes", ("", "")),
        ("", ("", "")),
    ],
)
def test_tensor_formats_of_the_inspector_are_parsed(text, expected):
    assert read_format(text) == expected


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"Layers": 3}', b'{"Layers": [3]}', b'{"Layers": [{"LayerType": "DLA"}]}', b"[" * 100000],
)
def test_other_files_are_document_errors(data):
    with pytest.raises(DocumentError):
        read_engine_info(data)


def test_a_missing_file_is_a_document_error(tmp_path):
    with pytest.raises(DocumentError, match="cannot read"):
        read_engine_info(tmp_path / "none.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "Layers": st.lists(
                st.text(max_size=8)
                | st.fixed_dictionaries(
                    {"Name": st.text(max_size=8)},
                    optional={
                        "LayerType": json_values,
                        "Inputs": json_values,
                        "Outputs": json_values,
                        "Metadata": json_values,
                        "Format/Datatype": json_values,
                    },
                ),
                max_size=3,
            )
        },
        optional={"Bindings": json_values},
    )
)
def test_odd_values_in_layer_info_never_crash(document):
    with contextlib.suppress(DocumentError):
        json.dumps(read_engine_info(document).to_dict())
