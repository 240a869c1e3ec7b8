"""The layers of load_onnx against the recorded layers of NVIDIA's own parser."""

from __future__ import annotations

import collections
import gzip
import json
import re
from pathlib import Path

import onnx
import pytest

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from edgedla.importers.parser_releases import parser_of
from tests.importers.parser_probes import VERSIONS, classes, differences, model_of, networks, probes

pytestmark = pytest.mark.once

PROBES = probes()
CLASSES = [(row["name"], row["model"], v, answer) for row in classes() for v, answer in row["answers"].items()]
#: Classes that are answered otherwise on purpose: a custom operator may have a plugin, which the parser then takes.
ON_PURPOSE = {"z23_00185_contrib_MyOp"}
#: Models that the open parser takes and the library behind it refuses, as it itself said in 8.5.2 and 8.6.0: the record, made
#: with a stand-in for the library, cannot show it.
OVERRULED = {
    "argmax_1d",
    "test_div_uint8",
    "test_min_uint8",
    "test_reduce_max_bool_inputs",
    "test_range_float_type_positive_delta_expanded",
    "z7_00091_ArgMin",
    "z7_00123_ArgMax",
    "z7_03156_ArgMax",
}
#: Whole networks for the fast test: plain, depthwise, transformer with windows, detector, encoder-decoder.
NETS = ("tv_resnet18", "tv_mobilenet_v2", "tv_swin_t", "yolo_yolov8n", "seg_deeplabv3_mobilenet_v3_large", "timm_pit_ti_224")


def trt(version):
    return tuple(int(x) for x in version.split("."))


def overruled(name, version):
    """Whether the library refuses a model that the recorded parser took."""
    return name in OVERRULED and parser_of(trt(version)).checks_layers


@pytest.mark.parametrize("version", VERSIONS)
def test_the_carried_record_covers_the_operators_of_cnns_and_transformers(version):
    seen = {row[1] for probe in PROBES for row in probe[version] or ()}
    assert len(PROBES) > 200
    assert seen >= {"CONVOLUTION", "DECONVOLUTION", "POOLING", "ELEMENTWISE", "RESIZE", "QUANTIZE", "TOPK", "GATHER"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("probe", PROBES, ids=lambda p: p["name"])
def test_layers_equal_the_carried_record_of_each_release(probe, version):
    proto = model_of(probe["model"])
    if probe[version] is None or overruled(probe["name"], version):
        with pytest.raises(ModelError):
            load_onnx(proto, trt=trt(version))
        return
    assert differences(probe[version], load_onnx(proto, trt=trt(version))) == []


NETWORKS = networks()
#: Each network with one release, by turns; with all of them, and those that take seconds, where the long tests run.
CASES_OF_NETWORKS = [
    pytest.param(
        row,
        v,
        id=f"{row['name']}-{v}",
        marks=[] if v == VERSIONS[n % len(VERSIONS)] and len(row["10.3"]) < 1000 else [pytest.mark.slow],
    )
    for n, row in enumerate(NETWORKS)
    for v in VERSIONS
]


def test_a_few_dozen_networks_are_carried():
    assert len(NETWORKS) >= 30
    assert not [row["name"] for row in NETWORKS if "yolo" in row["name"]]
    assert max(len(row["10.3"]) for row in NETWORKS) > 300


@pytest.mark.parametrize(("network", "version"), CASES_OF_NETWORKS)
def test_layers_of_whole_networks_equal_the_carried_record(network, version):
    proto = model_of(network["model"])
    if network[version] is None:
        with pytest.raises(ModelError):
            load_onnx(proto, trt=trt(version))
        return
    assert differences(network[version], load_onnx(proto, trt=trt(version))) == []


WITH_OPERATION = {"ACTIVATION", "ELEMENTWISE", "FILL", "POOLING", "REDUCE", "TOPK", "UNARY"}


def counted(tokens):
    """Kinds of layers as the record writes them, "SHAPE" or "SLICEx3", with their number."""
    pairs = (re.fullmatch(r"([A-Z_0-9:]+?)(?:x(\d+))?", token) for token in tokens)
    return {m[1]: int(m[2] or 1) for m in pairs}


@pytest.mark.parametrize(("name", "form", "version", "answer"), CLASSES, ids=lambda v: v if isinstance(v, str) else "")
def test_recorded_differences_between_releases_are_reproduced(name, form, version, answer):
    if name in ON_PURPOSE:
        assert {layer.type for layer in load_onnx(model_of(form), trt=version).layers} == {"UNKNOWN"}
        return
    if answer["kinds"] is None or overruled(name, version):
        with pytest.raises(ModelError):
            load_onnx(model_of(form), trt=version)
        return
    made = collections.Counter(
        f"{x.type}:{x.params['op']}" if x.type in WITH_OPERATION else x.type
        for x in load_onnx(model_of(form), trt=version).layers
    )
    expected = counted(answer["kinds"])
    assert {k: made[k] for k in expected} == expected
    assert not answer["whole"] or set(made) == set(expected)


def recorded(shared: Path, version: str, name: str):
    with gzip.open(shared / "golden" / "parser" / version / f"{name}.jsonl.gz") as f:
        return [json.loads(line) for line in f]


def rows(answer):
    counted = {
        # What decides where a layer may run; the rest of the record is not compared.
        "CONVOLUTION": "nb_output_maps kernel stride dilation pre_padding post_padding padding_mode groups",
        "DECONVOLUTION": "nb_output_maps kernel stride dilation pre_padding post_padding padding_mode groups",
        "POOLING": "op window stride pre_padding post_padding padding_mode average_count_excludes_padding",
        "ACTIVATION": "op alpha beta",
        "ELEMENTWISE": "op",
        "UNARY": "op",
        "REDUCE": "op axes keep_dims",
        "SCALE": "mode channel_axis",
        "CONCATENATION": "axis",
        "SOFTMAX": "axes",
        "LRN": "window",
        "RESIZE": "mode scales coordinate_transformation selector rounding",
        "MATRIX_MULTIPLY": "op0 op1",
        "SLICE": "mode",
        "SHUFFLE": "first_transpose second_transpose",
        "GATHER": "mode axis",
        "TOPK": "op axes",
        "CAST": "to",
        "NORMALIZATION": "axes groups",
    }
    found = []
    for layer in answer["layers"]:
        names = counted.get(layer["type"], "").split()
        params = {n: layer["params"][n] for n in names if layer["params"].get(n) is not None}
        found.append([layer["onnx_node"], layer["type"], layer["outputs"][0]["dims"] if layer["outputs"] else [], params])
    return found


def folder_of(shared: Path, name: str) -> Path:
    if name == "light":
        return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return shared / "corpus" / ("nets" if name == "corpus" else name)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["extra", "light", "node_const", "corpus"])
def test_layers_equal_the_whole_external_record(shared, version, name):
    if name == "light" and version not in ("8.6", "10.3"):
        pytest.skip("that set was not recorded for this release")
    compared = 0
    wrong = {}
    for answer in recorded(shared, version, name):
        path = folder_of(shared, name) / f"{answer['model']}.onnx"
        if not path.exists() or (name == "corpus" and answer["model"] not in NETS):
            continue
        compared += 1
        try:
            graph = load_onnx(path, trt=trt(version))
        except ModelError as e:
            found = [str(e)] if answer["parsed"] and not overruled(answer["model"], version) else []
        else:
            refused = not answer["parsed"] or overruled(answer["model"], version)
            found = ["not refused"] if refused else differences(rows(answer), graph)
        if found:
            wrong[answer["model"]] = found[:3]
    assert compared >= 4
    assert wrong == {}
