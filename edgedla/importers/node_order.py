"""The order in which a graph's nodes are walked."""

from __future__ import annotations

from typing import Any, List

from edgedla.importers.refuse import Refused


def topological(nodes: Any) -> List[Any]:
    """The nodes sorted so that each comes after the nodes that write its inputs; unchanged where they already are.

    Raises:
        Refused: the graph has a cycle.
    """
    listed = list(nodes)
    seen = set()
    outside = set()  # Names read before any node wrote them: inputs and initializers, unless a later node writes them.
    for node in listed:
        for name in node.input:
            if name and name not in seen:
                outside.add(name)
        for name in node.output:
            if name in outside:
                return _sorted(listed)
            seen.add(name)
    return listed


def _sorted(listed: List[Any]) -> List[Any]:
    """Depth-first from each node, inputs first."""
    written = {name: i for i, node in enumerate(listed) for name in node.output}
    state = [0] * len(listed)
    out: List[Any] = []
    for root in range(len(listed)):
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(list(listed[root].input)))]
        while stack:
            index, pending = stack[-1]
            for name in pending:
                source = written.get(name, -1) if name else -1
                if source < 0 or state[source] == 2:
                    continue
                if state[source] == 1:
                    raise Refused("Failed to sort the model topologically: the graph has a cycle.")
                state[source] = 1
                stack.append((source, iter(list(listed[source].input))))
                break
            else:
                state[index] = 2
                out.append(listed[index])
                stack.pop()
    return out
