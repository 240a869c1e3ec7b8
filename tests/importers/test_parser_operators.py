"""Which operators each release's parser imports, against what eight tags of its sources say of all 171."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Dict, Set, Tuple

import pytest

from edgedla.errors import ModelRefused
from edgedla.importers import load_onnx
from edgedla.importers.known_ops import REFUSED, way_out
from edgedla.importers.ops import OPERATORS
from edgedla.importers.parser_operators import imports, operator_table
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from tests.importers.onnx_models import one

FILE = Path(__file__).resolve().parent.parent / "data" / "parser_operators.csv"


def recorded() -> Dict[str, Dict[Tuple[int, ...], bool]]:
    """Operator -> release -> whether its sources have an importer."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    return {row.pop("operator"): {release(k): v == "1" for k, v in row.items()} for row in rows}


def release(text: str) -> Tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_all_operators_of_the_sources_are_imported_by_the_releases_that_the_sources_say() -> None:
    rows = recorded()
    assert len(rows) == 171
    wrong = [
        (op, trt) for op, by_release in rows.items() for trt, has in by_release.items() if (imports(op, trt) is not False) != has
    ]
    assert wrong == []


def test_every_operator_of_the_sources_is_lowered_or_named_as_one_whose_layers_nobody_saw() -> None:
    assert {op for op in recorded() if op not in OPERATORS} == {op for op in operator_table().since if op.startswith("TRT_")} - {
        *OPERATORS,
        "TRT_Attention",
        "TRT_MoE",
    }
    newer: Set[str] = set(OPERATORS) - set(recorded())
    assert {op for op in newer if imports(op, (10, 1)) is not False} == set()


def test_an_operator_that_some_release_lacks_stands_in_the_table() -> None:
    assert set(OPERATORS) & REFUSED - set(operator_table().since) == set()


def test_every_row_names_sources_that_exist() -> None:
    known = {row["id"] for row in strict_yaml.load(rules_dir() / "sources.yaml")["sources"]}
    root = strict_yaml.load(rules_dir() / "parser_operators.yaml")
    assert {source for key in root for row in root[key] for source in row["sources"]} <= known


@pytest.mark.parametrize(
    ("op", "first"), [("RandomNormalLike", "8.5"), ("HardSwish", "8.4"), ("Celu", "8.0"), ("LpPool", "8.0"), ("Hardmax", "9.2")]
)
def test_a_release_without_an_importer_refuses_and_names_the_first_that_has_one(op: str, first: str) -> None:
    older = (7, 1) if first == "8.0" else (8, 2) if first == "8.4" else (8, 4)
    model = one(op, {"kernel_shape": [2, 2]} if op == "LpPool" else {})
    with pytest.raises(ModelRefused, match=f"no importer for the operator {op}") as refused:
        load_onnx(model, trt=older)
    assert f"TensorRT {first} is the first that imports {op}" in str(refused.value.hint)
    load_onnx(model, trt=release(first))


def test_an_operator_that_newer_parsers_dropped_is_known_up_to_the_last_that_has_it() -> None:
    assert imports("TRT_RNNv2", (8, 6))
    assert imports("TRT_RNNv2", (10, 0)) is False
    assert way_out("TRT_RNNv2") == "TensorRT before 10.0 imports TRT_RNNv2"
    [layer] = load_onnx(one("TRT_Conv"), trt=(8, 5)).layers
    assert layer.type == "UNKNOWN"
