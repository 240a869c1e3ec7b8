"""Verdicts against the decisions of real TensorRT builds on single layers (rules/evidence/layers.yaml)."""

from __future__ import annotations

import pytest

from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.rules import Support, load_rules
from edgedla.targets import platform_for

pytestmark = pytest.mark.once

#: Where sources contradict a log, edgedla answers unknown: a guide allows this softmax, a profile shows it on the GPU.
UNKNOWN = [("S48", "SOFTMAX", "8.5.2")]


def records():
    return strict_yaml.load(rules_dir() / "evidence" / "layers.yaml")["layers"]


def one_layer_graph(row):
    tensors, reads, network = {}, [], []
    for i, entry in enumerate(row["inputs"]):
        constant = isinstance(entry, dict)
        name = f"in{i}"
        dims = tuple(entry["constant"] if constant else entry)
        tensors[name] = Tensor(name, dims, is_constant=constant, constant_of=name if constant else None)
        reads.append(name)
        network += [] if constant else [name]
    writes = [f"out{i}" for i in range(len(row["outputs"]))]
    tensors.update({n: Tensor(n, tuple(d)) for n, d in zip(writes, row["outputs"])})
    layers = [Layer(0, row["type"], "layer", "node", "", tuple(reads), tuple(writes), dict(row["params"]))]
    if "near" in row:
        tensors["after"] = Tensor("after", tuple(row["outputs"][0]))
        layers.append(Layer(1, row["near"], "near", "near", "", (writes[0],), ("after",), {}))
    return LayerGraph("one", tuple(layers), tensors, tuple(network), tuple(writes))


def answers(stage):
    rules = load_rules()
    for row in records():
        platform = platform_for(row["target"], trt=row["trt"])
        for precision in row["precision"]:
            yield row, rules.check(one_layer_graph(row), platform, precision, stage=stage)[0]


def test_recorded_dla_capability_agrees_with_the_rules():
    total, wrong = 0, []
    for row, verdict in answers("subgraph"):
        total += 1
        if verdict.support is not (Support.DLA if row["capable"] else Support.GPU):
            wrong.append((row["source"], row["type"], row["trt"], str(verdict.support)))
    assert total > 500
    assert len(wrong) / total <= 0.03
    assert wrong == [entry + ("unknown",) for entry in UNKNOWN], "a new disagreement with a real build"


def test_first_check_agrees_with_real_builds():
    total, wrong = 0, []
    for row, verdict in answers("layer"):
        if row["check"] is None:
            continue
        total += 1
        if verdict.support is not (Support.DLA if row["check"] == "pass" else Support.GPU):
            wrong.append((row["source"], row["type"], row["trt"], row["params"], [f.message for f in verdict.findings]))
    assert total > 500
    assert wrong == []


def test_convolutions_that_ran_are_not_refused_by_buffer_rules():
    """The rules of the convolution buffer must not swallow what real builds ran."""
    for row, verdict in answers("subgraph"):
        if row["type"] == "CONVOLUTION" and row["capable"]:
            assert not {"CONV009", "CONV010"} & {f.rule for f in verdict.findings}


@pytest.mark.parametrize(
    ("in_dims", "kernel", "groups", "precision", "support"),
    [
        ((1, 512, 80, 80), (3, 3), 1, "fp16", Support.DLA),  # the largest that ran, 13 banks
        ((1, 512, 80, 160), (3, 3), 1, "fp16", Support.GPU),  # refused, 20 banks
        ((1, 512, 80, 120), (3, 3), 1, "fp16", Support.GPU),  # 17 banks, the least that was refused
        ((1, 512, 7, 7), (7, 7), 1, "int8", Support.GPU),  # VGG-19 fc6
        ((1, 512, 80, 161), (3, 3), 1, "fp16", Support.GPU),  # published formula
        ((2, 512, 64, 128), (3, 3), 32, "fp16", Support.GPU),  # ResNeXt: refused, 5 + 12 banks
        ((2, 256, 64, 128), (3, 3), 32, "fp16", Support.DLA),  # the same at half of its channels: ran
        ((2, 256, 128, 256), (3, 3), 32, "fp16", Support.DLA),  # 3 + 12 banks, in the network that was refused
        ((1, 1152, 7, 7), (5, 5), 1152, "fp16", Support.DLA),  # EfficientNet-Lite
    ],
)
def test_convolution_buffer_limits_agree_with_recorded_builds(in_dims, kernel, groups, precision, support):
    pad = [k // 2 for k in kernel]
    maps = in_dims[1] if groups > 1 else 256
    out = (in_dims[0], maps) + in_dims[2:]
    params = {"nb_output_maps": maps, "kernel": list(kernel), "pre_padding": pad, "post_padding": pad, "groups": groups}
    row = {"inputs": [list(in_dims)], "outputs": [list(out)], "type": "CONVOLUTION", "params": params}
    verdict = load_rules().check(one_layer_graph(row), platform_for("orin", trt="8.5.2"), precision)[0]
    assert verdict.support is support, verdict.to_dict()
