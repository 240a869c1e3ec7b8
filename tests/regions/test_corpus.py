"""Every architecture of ../shared/corpus/nets on both generations and precisions: an answer with a reason for every layer."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from edgedla.regions import Cause, CheckReport, Placed, check_graph
from edgedla.rules.verdict import Support
from edgedla.targets import platform_for

pytest.importorskip("onnx")

NETS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "nets"
FILES: List[Path] = sorted(NETS.glob("*.onnx")) if NETS.is_dir() else []
PLATFORMS = (("agx-xavier-32gb", "8.5.2"), ("agx-orin-64gb", "10.3"))

#: The recorded parser of 8.5 refuses these too: two of the newer exporter, for it ignores what opset 18 moved to inputs,
#: and those with LayerNormalization, which it has no importer for.
REFUSED_BY_8 = ("timm_mobilenetv3_large_100_dynamo", "timm_pit_ti_224", "tv_convnext_tiny", "tv_resnet18_dynamo", "tv_swin_t")


def sound(report: CheckReport) -> None:
    """What must hold of any report."""
    region_of = {i: r for r in report.regions for i in r.layers}
    assert sum(len(r.layers) for r in report.regions) == len(region_of), "no layer stands in two regions"
    assert report.totals.regions == sum(r.kept for r in report.regions) <= 16
    for layer in report.layers:
        assert layer.reason, layer.name
        region = region_of.get(layer.index)
        assert (layer.placed is Placed.DLA) == (region is not None and region.kept), layer.name
        if layer.support is Support.UNKNOWN:
            assert layer.placed is not Placed.DLA, layer.name
            assert any(f.message for f in layer.findings), f"{layer.name} is unknown without a reason"
        if layer.cause in (Cause.FUSED, Cause.SUBGRAPH_LIMIT):
            assert layer.because_of, f"{layer.name} is a knock-on of nothing"
    for node in report.nodes:
        assert node.reason, node.name
    assert report.totals.macs_dla <= report.totals.macs


@pytest.mark.skipif(not FILES, reason="the facts folder ../shared does not stand beside this checkout")
@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_every_corpus_network_gets_a_prediction_with_reasons(path: Path) -> None:
    for target, trt in PLATFORMS:
        platform = platform_for(target, trt=trt)
        if trt == "8.5.2" and path.stem in REFUSED_BY_8:
            with pytest.raises(ModelError, match="refuses the model"):
                load_onnx(path, trt=platform.release.trt)
            continue
        graph = load_onnx(path, trt=platform.release.trt)
        for precision in ("fp16", "int8"):
            sound(check_graph(graph, platform, precision))
