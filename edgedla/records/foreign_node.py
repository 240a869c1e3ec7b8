"""Names of DLA nodes in logs and engines: {ForeignNode[first...last]}, and {a,b,c} in TensorRT 7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from edgedla.text.printable import Fields

_OPEN = "{ForeignNode["


@dataclass(frozen=True)
class ForeignNode(Fields):
    """A DLA node, from its name.

    Attributes:
        name: the name as TensorRT writes it, braces included.
        first, last: its first and last layer in TensorRT's order; equal for a node of one layer.
        members: all layers if the name lists them (TensorRT 7, and nodes of one layer); otherwise None.
            A name of the form first...last does not tell which layers between the two belong to the node.
    """

    name: str
    first: str
    last: str
    members: Optional[Tuple[str, ...]] = None


def parse_foreign_node(name: str) -> Optional[ForeignNode]:
    """The node with a layer's name; None if the name is not of a DLA node's form.

    Myelin's nodes have the same form: where the name occurs tells whether it is a DLA node.
    """
    text = name.strip().rstrip(",")
    if text.startswith(_OPEN) and text.endswith("]}"):
        inner = text[len(_OPEN) : -2]
        first, dots, last = inner.partition("...")
        if dots and first and last:
            return ForeignNode(text, first, last)
        return ForeignNode(text, inner, inner, (inner,))
    if text.startswith("{") and text.endswith("}"):
        members = tuple(part.strip() for part in text[1:-1].split(",") if part.strip())
        if members:
            return ForeignNode(text, members[0], members[-1], members)
    return None


def names_in(name: str) -> Tuple[str, ...]:
    """The network layers in a fused layer's name: `a + b`, `PWN(a, PWN(b))`. Best effort: names are free text.

    `(Unnamed Layer* 5) [Shuffle]` is one name; `PWN(` and its closing bracket are removed.
    """
    parts = []
    for chunk in name.split(" + "):
        while chunk.startswith("PWN("):
            chunk = chunk[4:]
        for piece in chunk.split(", "):
            while piece.startswith("PWN("):
                piece = piece[4:]
            while piece.endswith(")") and piece.count(")") > piece.count("("):
                piece = piece[:-1]
            if piece:
                parts.append(piece)
    return tuple(dict.fromkeys(parts))
