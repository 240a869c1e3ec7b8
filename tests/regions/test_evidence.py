"""The prediction against recorded builds in ../shared, node by node; skipped where that folder is absent."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Counter as Counts
from typing import Dict, List, Optional, Tuple

import pytest

from edgedla.placement.check_cost import check
from edgedla.regions import CheckReport

pytest.importorskip("onnx")

TARGETS = {"agx xavier": "agx-xavier-32gb", "xavier nx": "xavier-nx-8gb", "agx orin": "agx-orin-64gb", "orin nx": "orin-nx-16gb"}
#: Rows that do not name their file.
FILES = {"facebook/detr-resnet-50": "detr_orin_trt10.3.0_dla_fp16.onnx"}

Rows = Dict[Tuple[str, str, str, str], List[Dict[str, str]]]


def recorded(shared: Path) -> Rows:
    """Rows of nodes.csv by (model file, TensorRT, target, precision), for the models that are there."""
    groups: Rows = defaultdict(list)
    with (shared / "evidence" / "nodes.csv").open(newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            named = re.search(r"\(([^)]*\.onnx)\)", row["model"])
            file: Optional[str] = named.group(1) if named else FILES.get(row["model"].split()[0])
            target = next(t for k, t in TARGETS.items() if k in row["device"].lower())
            if file and (shared / "evidence" / "models" / file).is_file():
                trt = ".".join(row["trt"].split(".")[:3])
                groups[file, trt, target, "int8" if row["precision"] == "int8" else "fp16"].append(row)
    return groups


def model(shared: Path, name: str) -> Path:
    path = shared / "evidence" / "models" / name
    if not path.is_file():
        pytest.skip(f"{name} is not among the models of this checkout's facts folder")
    return path


def test_end_states_and_first_check_agree_with_recorded_builds(shared: Path) -> None:
    groups = recorded(shared)
    assert groups, "nodes.csv names no model that is there"
    total: Counts[str] = Counter()
    wrong = []
    for (file, trt, target, precision), rows in groups.items():
        report = check(shared / "evidence" / "models" / file, target=target, trt=trt, precision=precision)
        nodes = {n.name: n for n in report.nodes}
        for row in rows:
            node = nodes[row["onnx_node"]]
            want = "dla" if row["verdict"] == "dla" else "off"
            right = (str(node.placed) == "dla") == (want == "dla")
            total[want] += 1
            total[want + "_right"] += right
            if not right:
                wrong.append(f"{file} {trt} {target} {precision} {node.name}: {node.placed}, {node.reason}")
            if row["layer_check"] in ("pass", "fail") and str(node.support) in ("dla", "gpu"):
                total["check"] += 1
                total["check_right"] += (str(node.support) == "dla") == (row["layer_check"] == "pass")
    accuracy = (total["dla_right"] + total["off_right"]) / (total["dla"] + total["off"])
    balanced = (total["dla_right"] / total["dla"] + total["off_right"] / total["off"]) / 2
    assert accuracy >= 0.98, wrong
    assert balanced >= 0.97, wrong
    assert total["check_right"] >= 0.98 * total["check"]


def names(report: CheckReport) -> List[List[str]]:
    return [[report.layers[i].name for i in r.layers] for r in report.regions]


@pytest.mark.parametrize(("precision", "candidates"), [("fp16", 162), ("int8", 179)])
def test_detr_has_as_many_candidates_as_the_log_counts(shared: Path, precision: str, candidates: int) -> None:
    path = model(shared, "detr_orin_trt10.3.0_dla_fp16.onnx")
    report = check(path, target="agx-orin-64gb", trt="10.3", precision=precision)
    assert len(report.regions) == candidates
    kept = Counter(r.size for r in report.regions if r.kept)
    # FP16: backbone, eleven q-k-v groups, four pairs of scalings. INT8: backbone, seven q-k and eight scaling pairs.
    assert kept == ({120: 1, 3: 11, 2: 4} if precision == "fp16" else {120: 1, 2: 15})
    if precision == "int8":
        pairs = Counter(report.layers[r.layers[0]].type for r in report.regions if r.kept and r.size == 2)
        assert pairs == {"MATRIX_MULTIPLY": 7, "ELEMENTWISE": 8}


def test_yolo11_on_xavier_has_the_six_subgraphs_of_the_log(shared: Path) -> None:
    report = check(model(shared, "yolo11n_nc8_op16.onnx"), target="agx-xavier-32gb", trt="8.5.2")
    regions = names(report)
    assert len(regions) == 6
    assert ["/model.10/Split"] in regions
    assert regions[0][-1] == "/model.10/m/m.0/attn/qkv/conv/Conv"
    assert regions[-1][-1] == "/model.23/Concat_2"


#: Networks that NVIDIA publishes latencies for, built for one DLA without fallback (Deep-Learning-Accelerator-SW), and
#: GoogLeNet, whose profile shows one DLA node and `prob` on the GPU: file, precision, operators on the GPU.
WHOLE = [
    ("ssd_rn34_1200.onnx", "int8", []),
    ("ssd_mobilenetv1_300_b2.onnx", "int8", []),
    ("retinanet_rn34_1280x768_heads_approx.onnx", "int8", []),
    ("retinanet_resnext50_800.onnx", "int8", []),
    ("googlenet_caffe.onnx", "fp16", ["Softmax"]),
]


@pytest.mark.parametrize(("file", "precision", "on_gpu"), WHOLE, ids=[w[0] for w in WHOLE])
def test_networks_measured_in_one_loadable_are_predicted_in_one(
    shared: Path, file: str, precision: str, on_gpu: List[str]
) -> None:
    path = shared / "corpus" / "perf" / file
    if not path.is_file():
        pytest.skip(f"{file} is not in this checkout's facts folder")
    report = check(path, target="agx-orin-64gb", trt="8.5.2", precision=precision)
    assert [n.op for n in report.nodes if str(n.placed) == "gpu"] == on_gpu
    assert report.totals.regions == 1
