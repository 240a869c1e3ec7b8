"""Which operators NVIDIA's ONNX parser has an importer for, release by release: rules/parser_operators.yaml."""

from __future__ import annotations

from functools import lru_cache
from typing import Dict, NamedTuple, Optional, Tuple

from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir

Version = Tuple[int, ...]


class OperatorTable(NamedTuple):
    """Operator -> the first release with an importer; and the first without one again. What stands in neither never changed."""

    since: Dict[str, Version]
    until: Dict[str, Version]


@lru_cache(maxsize=None)
def operator_table() -> OperatorTable:
    root = strict_yaml.load(rules_dir() / "parser_operators.yaml").only(("since", "until"))
    columns = []
    for key in OperatorTable._fields:
        column: Dict[str, Version] = {}
        for row in root.tables(key):
            release = row.only(("trt", "sources", "operators")).version("trt")
            for operator in row.texts("operators"):
                if operator in column:
                    raise row.error(f"{operator!r} stands in two rows", "operators")
                column[operator] = release or ()
        columns.append(column)
    return OperatorTable(*columns)


def imports(op: str, trt: Version) -> Optional[bool]:
    """Whether a release's parser has an importer for an operator; None for one of which the table says nothing."""
    since, until = operator_table()
    if op not in since:
        return None
    return since[op] <= trt and (op not in until or trt < until[op])


def releases_that_import(op: str) -> str:
    """A hint: from which release on, or up to which one, the parser imports an operator; "" where neither is known."""
    since, until = ({name: ".".join(map(str, release)) for name, release in column.items()} for column in operator_table())
    if op in until:
        return f"TensorRT before {until[op]} imports {op}"
    return f"TensorRT {since[op]} is the first that imports {op}" if op in since else ""
