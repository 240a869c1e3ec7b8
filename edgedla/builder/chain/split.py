"""Splits a network with a device per layer into the stages of a chain: one engine each, in the order of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Set, Tuple

from edgedla.errors import BuildError
from edgedla.graph import LayerGraph
from edgedla.vocabulary import GPU


@dataclass(frozen=True)
class StageLayers:
    """The layers of one engine, by index and in the network's order. `device`: its DLA core, or "GPU" without one."""

    device: str
    layers: Tuple[int, ...]


def split_stages(
    graph: LayerGraph, devices: Sequence[Optional[str]], together: Sequence[Sequence[int]] = ()
) -> Tuple[StageLayers, ...]:
    """Stages that each use at most one DLA core and read only tensors of their own or of earlier stages.

    Layers of one ONNX node, one placed region or one loop form a unit that is never cut. Levels alternate between the
    cores. A unit takes the first level of its core that is not before any unit p that it reads from:

        level(u) = min {l : l >= level(p) for all p that u reads, and core(l) = core(u)}

    Units on the GPU or without a device stay on the level of the units they read, since every engine can use the GPU.
    Units fed by constants alone join their first reader. Both cores are tried as the first one: fewer stages win, then
    fewer bytes between stages.

    Args:
        devices: per layer "GPU", "DLA0", "DLA1", or None for a layer that is folded away at build time.
        together: groups of layer indices that must stay in one stage.

    Raises:
        BuildError: a unit, or units that read from each other in a cycle, use both cores.
    """
    units = _Units(graph, devices, together)
    cores = sorted({d for d in devices if d is not None and d != GPU})
    best: Optional[Tuple[int, int, int, List[int]]] = None
    for start in range(max(len(cores), 1)):
        levels = units.levels(cores[start:] + cores[:start])
        candidate = (len(set(levels)), _border_bytes(graph, levels), start, levels)
        best = candidate if best is None or candidate[:3] < best[:3] else best
    if best is None or not graph.layers:
        return ()
    levels = best[3]
    stages = []
    for level in sorted(set(levels)):
        layers = tuple(i for i, at in enumerate(levels) if at == level)
        used = sorted({str(devices[i]) for i in layers if devices[i] not in (None, GPU)})
        stages.append(StageLayers(used[0] if used else GPU, layers))
    return tuple(stages)


def _border_bytes(graph: LayerGraph, levels: Sequence[int]) -> int:
    """Bytes that pass between stages; each tensor counts once."""
    crossing = {tensor for a, b, tensor in graph.edges() if levels[a] != levels[b]}
    return sum(graph.tensors[t].size_bytes() for t in crossing)


class _Units:
    """The units that no cut may part, and their order."""

    def __init__(self, graph: LayerGraph, devices: Sequence[Optional[str]], together: Sequence[Sequence[int]]) -> None:
        self.graph, self.devices = graph, devices
        edges = [(a, b) for a, b, _ in graph.edges()]
        first = _united(len(graph.layers), together)
        # Units that read from each other in a cycle (a loop, a node between two parts of another) become one unit.
        self.of = _components(first, edges)
        self.count = max(self.of, default=-1) + 1
        self.members: List[List[int]] = [[] for _ in range(self.count)]
        for layer, unit in enumerate(self.of):
            self.members[unit].append(layer)
        self.core: List[Optional[str]] = [self._core(layers, first) for layers in self.members]
        self.before: List[Set[int]] = [set() for _ in range(self.count)]
        self.after: List[Set[int]] = [set() for _ in range(self.count)]
        for a, b in edges:
            if self.of[a] != self.of[b]:
                self.before[self.of[b]].add(self.of[a])
                self.after[self.of[a]].add(self.of[b])
        self.order = self._sorted()
        inputs = set(graph.inputs)
        self.fed = [False] * self.count
        for unit in self.order:
            reads = any(t in inputs for i in self.members[unit] for t in graph.layers[i].inputs)
            self.fed[unit] = reads or any(self.fed[p] for p in self.before[unit])

    def _core(self, layers: Sequence[int], first: Sequence[int]) -> Optional[str]:
        by_core: Dict[str, str] = {}
        for i in layers:
            device = self.devices[i]
            if device is not None and device != GPU:
                by_core.setdefault(device, self.graph.layers[i].name)
        if len(by_core) > 1:
            cores = " and ".join(f"{name} on {core}" for core, name in sorted(by_core.items()))
            circle = len({first[i] for i in layers}) > 1
            why = "they read from each other in a circle" if circle else "one ONNX node or one region holds both"
            raise BuildError(
                f"the placement cannot be cut into engines of one core: {cores}, and {why}",
                where=self.graph.name,
                hint="pin them to one core: edgedla place --layer-device-types, or edgedla build --layer-devices",
            )
        return next(iter(by_core), None)

    def _sorted(self) -> List[int]:
        waits = [len(p) for p in self.before]
        ready = [u for u in range(self.count) if not waits[u]]
        order = []
        while ready:
            unit = ready.pop()
            order.append(unit)
            for n in self.after[unit]:
                waits[n] -= 1
                if not waits[n]:
                    ready.append(n)
        return order

    def levels(self, cores: Sequence[str]) -> List[int]:
        """Level by layer, where level k belongs to core k modulo their number."""
        level = [0] * self.count
        for unit in self.order:
            at = max((level[p] for p in self.before[unit]), default=0)
            core = self.core[unit]
            while core is not None and cores[at % len(cores)] != core:
                at += 1
            level[unit] = at
        for unit in reversed(self.order):
            if self.core[unit] is None and not self.fed[unit] and self.after[unit]:
                level[unit] = min(level[n] for n in self.after[unit])
        return [level[unit] for unit in self.of]


def _united(count: int, together: Sequence[Sequence[int]]) -> List[int]:
    """The group of each layer, named by the group's smallest layer index."""
    parent = list(range(count))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for group in together:
        for i in group[1:]:
            a, b = root(group[0]), root(i)
            parent[max(a, b)] = min(a, b)
    return [root(i) for i in range(count)]


def _components(group: Sequence[int], edges: Sequence[Tuple[int, int]]) -> List[int]:
    """Number of the strongly connected component of each layer's group (Tarjan, without recursion)."""
    after: Dict[int, Set[int]] = {g: set() for g in group}
    for a, b in edges:
        if group[a] != group[b]:
            after[group[a]].add(group[b])
    index: Dict[int, int] = {}
    low: Dict[int, int] = {}
    component: Dict[int, int] = {}
    path: List[int] = []
    done = 0
    for start in after:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        path.append(start)
        work = [(start, iter(sorted(after[start])))]
        while work:
            node, pending = work[-1]
            for n in pending:
                if n not in index:
                    index[n] = low[n] = len(index)
                    path.append(n)
                    work.append((n, iter(sorted(after[n]))))
                    break
                if n not in component:
                    low[node] = min(low[node], index[n])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    number = done
                    done += 1
                    while True:
                        member = path.pop()
                        component[member] = number
                        if member == node:
                            break
    return [component[g] for g in group]
