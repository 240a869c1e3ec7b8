"""Errors for names that no layer or input of a network has, with the nearest name."""

from __future__ import annotations

from typing import Iterable, Optional

from edgedla.errors import UsageError
from edgedla.graph.layer_graph import LayerGraph
from edgedla.vocabulary import did_you_mean


def no_such_layer(graph: LayerGraph, name: str, where: str, nodes: bool = False) -> UsageError:
    """The error for a name that no layer has.

    Args:
        name: may hold `*`, for which there is no nearest name. where: the option or argument.
        nodes: whether names of ONNX nodes were allowed too.
    """
    names = [layer.name for layer in graph.layers] + ([n.name for n in graph.nodes] if nodes else [])
    near = None if "*" in name else did_you_mean(name, names)
    listed = "`edgedla layers MODEL` lists the layers"
    return UsageError(f"no layer of {graph.name} is called {name!r}", where=where, hint=f"{near} {listed}" if near else listed)


def require_borders(names: Iterable[str], border_names: Iterable[str], where: str) -> None:
    """Raises UsageError if one of `names` is not an input or output of the network."""
    border_names = tuple(border_names)
    for name in names:
        if name not in border_names:
            raise UsageError(
                f"{name!r} is not an input or output",
                where=where,
                allowed=", ".join(border_names),
                hint=did_you_mean(name, border_names),
            )


def no_such_input(name: str, inputs: Iterable[str], where: Optional[str] = None) -> UsageError:
    """The error for a name in --shapes that no input has."""
    names = sorted(inputs)
    return UsageError(
        f"--shapes names {name!r}, which is not an input of the model",
        where=where,
        allowed=", ".join(f'"{n}"' if "," in n else n for n in names) or "no inputs",
        hint=did_you_mean(name, names),
    )
