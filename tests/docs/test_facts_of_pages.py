"""Tables on pages say what the rules say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, List, Set

import pytest

from edgedla.rules import load_rules

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
RELEASES = {"up to 8.3": (8, 2), "8.4": (8, 4), "8.5": (8, 5), "8.6 and newer": (10, 3)}


def test_the_table_of_tensor_formats_is_that_of_the_rules() -> None:
    text = (ROOT / "docs" / "howto" / "tensor-formats.md").read_text(encoding="utf-8")
    written: Dict[str, List[Set[str]]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in RELEASES:
            written[cells[0]] = [set(cell.split(", ")) for cell in cells[1:]]
    rules = {rule.id: rule for rule in load_rules().rules()}
    ruled = {
        row: [
            {
                name.partition(":")[2]
                for case in rules[rule].cases
                if (case.scope.trt.low or (0,)) <= release <= (case.scope.trt.high or (99,))
                for name in case.parameters["allowed"]
                if name.startswith(precision)
            }
            for rule in ("IOFM002", "IOFM003")
            for precision in ("fp16", "int8")
        ]
        for row, release in RELEASES.items()
    }
    assert written == ruled


def test_the_table_of_several_gpus_is_that_of_its_file() -> None:
    page = (ROOT / "docs" / "guide" / "train-for-the-dla.md").read_text(encoding="utf-8").partition("## Several GPUs")[2]
    _, _, *lines = (line for line in page.splitlines() if line.startswith("|"))
    rows = json.loads((ROOT / "benchmarks" / "results" / "train_several_h200.json").read_text(encoding="utf-8"))["rows"]
    measured = [[f"{r['one_gpu']:.0f}", f"{r['two_gpus']:.0f}", f"{r['efficiency']:.2f}"] for r in rows]
    assert [[cell.strip() for cell in line.split("|")][2:5] for line in lines] == measured
