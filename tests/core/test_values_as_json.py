"""A value's document is its fields, as JSON holds them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Tuple

import pytest

from edgedla.text.printable import Fields, Word, as_json

pytestmark = pytest.mark.once


class Side(Word):
    LEFT = "left"


class Named(NamedTuple):
    """It has a document of its own."""

    x: int

    def to_dict(self) -> Mapping[str, int]:
        return {"from": self.x}


@dataclass(frozen=True)
class Plain:
    sizes: Tuple[int, ...]


@dataclass(frozen=True)
class Whole(Fields):
    side: Side
    path: Path
    parts: Tuple[Plain, ...]
    named: Named
    missing: Optional[Plain] = None
    table: Mapping[str, Tuple[float, ...]] = field(default_factory=dict)


def test_a_document_has_a_key_for_each_field_and_reads_back_as_it_was_written() -> None:
    document = Whole(Side.LEFT, Path("a/b"), (Plain((1, 2)),), Named(3), None, {"t": (0.5,)}).to_dict()
    assert list(document) == ["side", "path", "parts", "named", "missing", "table"]
    assert document == {
        "side": "left",
        "path": "a/b",
        "parts": [{"sizes": [1, 2]}],
        "named": {"from": 3},
        "missing": None,
        "table": {"t": [0.5]},
    }
    assert type(document["side"]) is str
    assert f"{Side.LEFT}" == str(Side.LEFT) == "left"
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "text", b"bytes"])
def test_what_json_holds_or_what_nothing_is_known_of_stays(value: object) -> None:
    assert as_json(value) is value
