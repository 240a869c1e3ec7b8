"""Prediction against reality: devices from logs and engines, differences with both reasons, and what stays unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedla.errors import DocumentError
from edgedla.inspection.comparison import Predicted, compare, predicted_of_check, predicted_of_mapping
from edgedla.records.build_log_reader import read_build_log
from edgedla.records.engine_info import read_engine_info
from edgedla.records.real_placement import real_of_engine, real_of_log, real_of_mapping

LOGS = Path(__file__).resolve().parents[1] / "data" / "build_logs"
RESNET = read_build_log(LOGS / "resnet50_trt10.3_verbose.log")
YOLO = read_build_log(LOGS / "yolo11l_trt8.5.log")
TRT7 = read_build_log(LOGS / "darknet_trt7.log")


def test_verbose_log_lists_the_members_of_each_node():
    names = [
        "/conv1/Conv",
        "/relu/Relu",
        "/layer4/layer4.2/relu_2/Relu",
        "/avgpool/GlobalAveragePool",
        "/Flatten",
        "/fc/Gemm",
        "(Unnamed Layer* 125) [ElementWise]",
    ]
    real = real_of_log(RESNET, names)
    assert real.devices == {
        "/conv1/Conv": "dla",
        "/layer4/layer4.2/relu_2/Relu": "dla",
        "/avgpool/GlobalAveragePool": "gpu",
        "/Flatten": "gpu",
        "/fc/Gemm": "dla",
        "(Unnamed Layer* 125) [ElementWise]": "dla",
    }
    assert real.inferred == {"/Flatten"}
    assert real.checked
    # The excerpt's member list leaves out relu; nothing else tells its device, so it stays open.
    assert "/relu/Relu" not in real.devices


def test_final_lists_fill_the_layers_between_first_and_last():
    names = [
        "/model.0/conv/Conv",
        "/model.0/act/Mul",
        "/model.10/m/m.0/attn/Reshape",
        "/model.10/m/m.0/attn/qkv/conv/Conv",
        "/model.10/Split",
        "/model.23/Add_2",
    ]
    real = real_of_log(YOLO, names)
    assert real.devices == {
        "/model.0/conv/Conv": "dla",
        "/model.0/act/Mul": "dla",
        "/model.10/m/m.0/attn/Reshape": "gpu",
        "/model.10/m/m.0/attn/qkv/conv/Conv": "dla",
        "/model.10/Split": "dla",
        "/model.23/Add_2": "gpu",
    }
    assert "/model.0/act/Mul" in real.inferred


def test_logs_of_trt7_give_the_device_of_every_listed_layer():
    real = real_of_log(TRT7, ["conv_1", "batch_norm_1", "conv_2", "conv_6", "conv1"])
    assert real.devices == {"conv_1": "dla", "batch_norm_1": "dla", "conv_2": "dla", "conv_6": "gpu", "conv1": "gpu"}


def test_lists_printed_before_the_cap_leave_dla_layers_unknown():
    log = read_build_log(
        [
            "[V] [TRT] ---------- Layers Running on DLA ----------",
            "[V] [TRT] [DlaLayer] a",
            "[V] [TRT] ---------- Layers Running on GPU ----------",
            "[V] [TRT] [GpuLayer] SHUFFLE: b",
        ]
    )
    real = real_of_log(log, ["a", "b"])
    assert real.devices == {"b": "gpu"}
    assert any("before TensorRT forms subgraphs" in note for note in real.notes)


def test_foreign_nodes_without_member_lists_give_only_their_end_layers():
    log = read_build_log(["[V] [TRT] {ForeignNode[a...c]} successfully offloaded to DLA."])
    real = real_of_log(log, ["a", "b", "c"])
    assert real.devices == {"a": "dla", "c": "dla"}
    assert any("unknown" in note for note in real.notes)


def test_engine_layers_are_assigned_by_metadata_or_range():
    info = read_engine_info(
        {
            "Layers": [
                {"Name": "{ForeignNode[a...c]}", "LayerType": "DLA", "Metadata": "[ONNX Layer: a]\x1e[ONNX Layer: c]"},
                {"Name": "{ForeignNode[e...g]}", "LayerType": "DLA"},
                {"Name": "b + d", "LayerType": "CaskConvolution"},
                {"Name": "f", "LayerType": "NoOp"},
            ]
        }
    )
    real = real_of_engine(info, list("abcdefg"))
    assert real.devices == {"a": "dla", "b": "gpu", "c": "dla", "d": "gpu", "e": "dla", "f": "gpu", "g": "dla"}


def test_layer_info_with_names_only_leaves_foreign_nodes_unknown():
    real = real_of_engine(read_engine_info({"Layers": ["{ForeignNode[a...c]}", "d"]}), list("abcd"))
    assert real.devices == {"d": "gpu"}
    assert any("unknown" in note for note in real.notes)


def predictions():
    return [
        Predicted("conv", "CONVOLUTION", "dla", "dla"),
        Predicted("pool", "REDUCE", "dla", "dla", "the rules know no limit"),
        Predicted("flat", "SHUFFLE", "folded", "gpu"),
        Predicted("mystery", "SELECT", "gpu", "unknown", "no rule is written"),
        Predicted("last", "CONVOLUTION", "dla", "dla"),
    ]


def the_log():
    return read_build_log(
        [
            "[W] [TRT] pool: DLA cores do not support AVG Reduce operation.",
            "[W] [TRT] Layer 'pool' (REDUCE): Unsupported on DLA. Switching this layer's device type to GPU.",
            "[W] [TRT] Layer 'flat' (SHUFFLE): Unsupported on DLA. Switching this layer's device type to GPU.",
            "[I] [TRT] ---------- Layers Running on DLA ----------",
            "[I] [TRT] [DlaLayer] {ForeignNode[conv]}",
            "[I] [TRT] ---------- Layers Running on GPU ----------",
            "[I] [TRT] [GpuLayer] POOLING: pool",
            "[I] [TRT] [GpuLayer] SELECT: mystery",
        ]
    )


def test_differences_hold_both_reasons_and_skip_unknown_verdicts():
    predicted = predictions()
    comparison = compare(predicted, real_of_log(the_log(), [p.name for p in predicted]), ["{ForeignNode[conv...last]}"])
    assert (comparison.agree, comparison.untold, comparison.layers) == (3, 1, 5)
    (placed,) = comparison.placement_differences
    assert (placed.layer, placed.predicted, placed.real) == ("pool", "dla", "gpu")
    assert placed.predicted_reason == "the rules know no limit"
    assert "AVG Reduce" in placed.real_reason
    (checked,) = comparison.check_differences
    assert (checked.layer, checked.predicted, checked.real) == ("pool", "dla", "gpu")
    assert (comparison.check_agree, comparison.check_unknown) == (3, 1)
    json.dumps(comparison.to_dict())


def test_drift_records_hold_platform_and_message():
    predicted = predictions()
    platform = {"target": "agx-orin-64gb", "trt": "10.3"}
    real = real_of_log(the_log(), [p.name for p in predicted])
    comparison = compare(predicted, real, platform=platform, precision="fp16")
    records = comparison.to_dict()["drift"]
    assert [(r["layer"], r["what"], r["tensorrt"]) for r in records] == [("pool", "placement", "gpu"), ("pool", "check", "gpu")]
    assert all(r["trt"] == "10.3" and r["precision"] == "fp16" for r in records)
    assert compare(predicted, real).to_dict()["drift"] == []


def test_comparing_a_log_of_another_model_notes_it():
    comparison = compare([Predicted("x", "CONVOLUTION", "dla", "dla")], real_of_log(the_log(), ["x"]))
    assert any("another model" in note for note in comparison.notes)


def test_a_strict_failure_leaves_the_other_layers_checks_unknown():
    log = read_build_log(["Layer 'b' is not supported on DLA but GPU fallback is not enabled"])
    assert compare(predictions(), real_of_log(log, ["conv"])).check_agree is None


def test_recorded_and_predicted_devices_of_an_artifact_are_compared():
    real = real_of_mapping({"a": "DLA0", "b": "GPU", "c": "DLA1"}, "artifact")
    assert real.devices == {"a": "dla", "b": "gpu", "c": "dla"}
    comparison = compare(predicted_of_mapping({"a": "DLA1", "b": "DLA0", "c": "GPU"}), real)
    assert [(d.layer, d.predicted, d.real) for d in comparison.differences] == [("b", "dla", "gpu"), ("c", "gpu", "dla")]


@pytest.mark.parametrize("document", [{}, {"document": "edgedla.check"}, {"document": "other", "layers": []}])
def test_predictions_from_other_documents_are_refused(document):
    with pytest.raises(DocumentError):
        predicted_of_check(document)
