"""The summary of every corpus network fits one screen: 60 lines of 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgedla
from edgedla.placement.check_cost import with_cost
from edgedla.regions import check_graph
from edgedla.reports import render_check
from edgedla.targets import platform_for
from tests.models import node, onnx_model

LINES, COLUMNS = 60, 80
NETS = sorted((Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nets").glob("*.onnx"))


@pytest.mark.slow
@pytest.mark.skipif(not NETS, reason="the corpus ../shared/corpus/nets is not here")
@pytest.mark.parametrize("target", ["orin-nx-16gb", "agx-xavier-32gb"])
def test_checks_of_corpus_networks_fit_one_screen(target: str) -> None:
    from edgedla.errors import ModelError
    from edgedla.importers import load_onnx

    platform = platform_for(target)
    for net in NETS:
        try:
            graph = load_onnx(net, trt=platform.release.trt)
        except ModelError:
            continue  # this release's parser refuses it
        report = check_graph(graph, platform, "int8")
        if len(graph.layers) <= 500:
            report = with_cost(report, graph)
        text = render_check([report], "text", files=[f"models/exported/{net.name}"])
        # A command is copied: it stays on one line however long its model's path is.
        lines = [line for line in text.splitlines() if not line.startswith("  edgedla ")]
        wide = [line for line in lines if len(line) > COLUMNS and " " in line.strip()]
        assert not wide, (net.stem, wide[:2])
        # A terminal breaks the command: what counts are the rows that it shows.
        rows = sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())
        assert rows <= LINES, (net.stem, rows)


def test_notes_do_not_repeat_figures_and_equal_findings_are_grouped() -> None:
    report = edgedla.check(
        onnx_model(
            [node("Mul", "x g", "a"), node("Relu", "a", "y"), node("Relu", "a", "z")],
            {"x": (1, 8, 16, 16), "g": (1, 8, 1, 1)},
            {"y": (1, 8, 16, 16), "z": (1, 8, 16, 16)},
        ),
        target="orin-nx-16gb",
        precision="int8",
        mode="strict",
    )
    assert report.totals.layers_unknown == 1
    assert any("unknown support" in note for note in report.notes)
    text = render_check([report], "text")
    assert "unknown: 1" in text
    assert "unknown support" not in text
    assert report.strict is not None
    formats = [finding for finding in report.strict.findings if finding.rule == "IOFM001"]
    assert len(formats) == 4
    assert text.count("IOFM001") == 1
    assert "(and 3 more like it)" in " ".join(text.split())
