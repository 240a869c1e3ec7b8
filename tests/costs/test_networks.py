"""The layer tables behind the published figures."""

from __future__ import annotations

import pytest

from edgedla.costs.networks import from_table, network, networks_dir, to_table
from edgedla.costs.work import work_of
from edgedla.errors import DocumentError


def gmacs(name: str) -> float:
    graph = network(name)
    return sum(work_of(layer, graph, 1).macs for layer in graph.layers) / 1e9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rn34_backbone_1280x768", 71.8),
        ("retinanet_resnext50_800", 201.2),
        ("ssd_rn34_1200", 217.0),
        ("resnet50_b1", 4.09),
        ("ssd_mobilenetv1_300_b2", 2 * 1.237),
    ],
)
def test_network_tables_hold_the_published_gmacs(name: str, expected: float) -> None:
    assert gmacs(name) == pytest.approx(expected, rel=0.002)


def test_a_table_read_and_written_again_is_the_same() -> None:
    for path in sorted(networks_dir().glob("*.csv")):
        text = path.read_text(encoding="utf-8")
        assert to_table(from_table(text, path.stem), text.splitlines()[0][2:]) == text


def test_network_tables_equal_the_importers_output(shared) -> None:
    from edgedla.importers import load_onnx

    for name in ("resnet18", "googlenet_caffe", "ssd_mobilenetv1_300_b2"):
        text = (networks_dir() / f"{name}.csv").read_text(encoding="utf-8")
        graph = load_onnx(shared / "corpus" / "perf" / f"{name}.onnx")
        assert to_table(graph, text.splitlines()[0][2:]) == text


GOOD = "# t\n# inputs: 1x3x8x8\n# outputs: 0\nlayer,type,inputs,outputs,params\n0,ACTIVATION,@0,1x3x8x8,{}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# inputs: 1x3x8x8\n", ""),
        ("@0", "7"),
        ("outputs: 0", "outputs: 5"),
        ("1x3x8x8,{}", "1xa,{}"),
        ("{}", "{"),
        ("0,ACT", "3,ACT"),
        ("layer,type", "type,layer"),
    ],
)
def test_a_broken_table_is_a_document_error(old: str, new: str) -> None:
    assert len(from_table(GOOD, "net").layers) == 1
    with pytest.raises(DocumentError, match="layer table"):
        from_table(GOOD.replace(old, new), "net")


def test_an_unknown_network_is_a_document_error() -> None:
    with pytest.raises(DocumentError, match="layer table"):
        network("no-such-network")
