"""Graphs inside graphs of an onnx.ModelProto, and names of values there: which a node reads, and how they are changed."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Mapping, Set


def bodies_of(node: Any) -> List[Any]:
    """The graphs in a node's attributes, as of an If, a Loop or a Scan. To look at a graph that is not there would make one."""
    return [body for a in node.attribute for body in (*([a.g] if a.HasField("g") else ()), *a.graphs)]


def graphs_in(graph: Any) -> Iterator[Any]:
    """The graph or function, then the bodies of its If, Loop and Scan nodes, at any depth."""
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from graphs_in(body)


def last_name(renamed: Mapping[str, str], name: str) -> str:
    while name in renamed:
        name = renamed[name]
    return name


def rename(nodes: Iterable[Any], renamed: Mapping[str, str]) -> None:
    """Renames what nodes read, also in subgraphs, which read outer values by name."""
    for node in nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = last_name(renamed, name)
        for body in bodies_of(node):
            rename(body.node, renamed)
            for value in body.output:
                value.name = last_name(renamed, value.name)


def read_names(node: Any) -> Set[str]:
    """Names that a node reads, also in its subgraphs."""
    names = {name for name in node.input if name}
    for body in bodies_of(node):
        inside = {v.name for v in (*body.input, *body.initializer)} | {o for n in body.node for o in n.output}
        body_reads = {name for n in body.node for name in read_names(n)} | {o.name for o in body.output}
        names |= body_reads - inside
    return names
