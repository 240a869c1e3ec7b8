"""Models of one operator over element types and ranks, against what the libraries of TensorRT 8.5.2 and 8.6.0 themselves take."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Tuple

import pytest
from onnx import TensorProto

from edgedla.errors import ModelRefused
from edgedla.importers import load_onnx
from edgedla.importers.parser_releases import parser_of
from tests.contract.type_probes import TYPES, cases, model_of
from tests.importers.onnx_models import one

pytestmark = pytest.mark.once

LETTERS = dict(zip(TYPES, "FHDILSUB"))
FILE = Path(__file__).resolve().parent.parent / "data" / "tensorrt" / "layer_types.txt"
#: What 8.6.0, an early access, takes and the parser of 8.6.1 refuses: the importer follows the latter.
EARLY_ACCESS = ("InstanceNormalization",)


def answers() -> Dict[str, List[str]]:
    """Operator and operands -> the types taken by each of the two libraries."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines if not line.startswith("#")}


def taken(name: str, trt: Tuple[int, ...]) -> str:
    found = ""
    for kind, op, operands, attributes in cases():
        if f"{op}.{kind}" != name:
            continue
        for type_name in TYPES:
            try:
                load_onnx(model_of(op, operands, attributes, type_name), trt=trt)
                found += LETTERS[type_name]
            except ModelRefused:
                found += "-"
    return found


def test_the_libraries_were_asked_for_every_probe() -> None:
    assert set(answers()) == {f"{op}.{kind}" for kind, op, _, _ in cases()}


@pytest.mark.parametrize(("column", "trt"), [(0, (8, 5, 2)), (1, (8, 6, 1))], ids=["8.5.2", "8.6"])
@pytest.mark.parametrize("group", range(8))
def test_the_importer_takes_the_types_that_the_library_takes(group: int, column: int, trt: Tuple[int, ...]) -> None:
    wrong = {}
    for name, words in sorted(answers().items())[group::8]:
        if column and name.startswith(EARLY_ACCESS):
            continue
        found = taken(name, trt)
        if any(a != b for a, b in zip(words[column], found) if a != "!"):
            wrong[name] = (words[column], found)
    assert wrong == {}


@pytest.mark.parametrize(
    ("op", "dims", "attributes", "reason"),
    [
        ("ArgMax", (8,), {"axis": 0}, "at least 2 dimensions are required for input"),
        ("Softmax", (8,), {"axis": 0}, "at least 2 dimensions are required for input"),
        ("LRN", (1, 4, 8), {"size": 3}, "at least 4 dimensions are required for input"),
    ],
)
def test_a_rank_that_a_layer_lacks_is_refused_where_a_library_said_so(
    op: str, dims: Tuple[int, ...], attributes: Dict[str, int], reason: str
) -> None:
    model = one(op, attributes, dims, out_type=TensorProto.INT64 if op == "ArgMax" else TensorProto.FLOAT)
    for trt in ((8, 5, 2), (8, 6, 1)):
        with pytest.raises(ModelRefused, match=reason):
            load_onnx(model, trt=trt)
    # Nobody asked the libraries of these.
    for trt in ((8, 4), (10, 3)):
        assert not parser_of(trt).checks_layers
        load_onnx(model, trt=trt)
