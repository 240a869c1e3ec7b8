"""Graphs in a node's attributes: the branches of an If, the bodies of a Loop or Scan."""

from __future__ import annotations

from typing import Any, List

from edgedla.fixes.site import Node


def subgraphs(node: Node) -> List[Any]:
    """The onnx_ir.Graphs that an onnx_ir node holds; a function's reference to one of its attributes holds none."""
    found: List[Any] = []
    for entry in node.attributes.values():
        if entry.is_ref():
            continue
        if entry.type.name == "GRAPH":
            found.append(entry.value)
        elif entry.type.name == "GRAPHS":
            found.extend(entry.value)
    return found
