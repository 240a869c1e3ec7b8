"""Two devices, no budgets: the cheapest assignment is a minimum cut. Dinic's algorithm in plain Python."""

from __future__ import annotations

from collections import deque
from typing import List, Mapping, Tuple

from edgedla.placement.problem.problem import Problem
from edgedla.vocabulary import GPU

#: Larger than any sum of costs, so a minimum cut never includes it.
FORBIDDEN = 1e15


class Network:
    """A flow network: node 0 is the GPU side, node 1 the DLA side."""

    def __init__(self) -> None:
        self.heads: List[int] = []
        self.capacity: List[float] = []
        self.edges: List[List[int]] = [[], []]

    def node(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, a: int, b: int, capacity: float, back: float = 0.0) -> None:
        """Adds an edge: costs `capacity` if a is on the GPU side and b on the DLA side, `back` if reversed."""
        if capacity <= 0 and back <= 0:
            return
        for start, end, c in ((a, b, capacity), (b, a, back)):
            self.edges[start].append(len(self.heads))
            self.heads.append(end)
            self.capacity.append(c)

    def minimum_cut(self) -> Tuple[float, List[bool]]:
        """(value, for each node whether it is on the GPU side)."""
        flow, tolerance = 0.0, 1e-9
        while True:
            level = self._levels(tolerance)
            if level[1] < 0:
                return flow, [v >= 0 for v in level]
            position = [0] * len(self.edges)
            while True:
                pushed = self._augment(level, position, tolerance)
                if pushed <= 0:
                    break
                flow += pushed

    def _levels(self, tolerance: float) -> List[int]:
        level = [-1] * len(self.edges)
        level[0] = 0
        queue = deque([0])
        while queue:
            a = queue.popleft()
            for e in self.edges[a]:
                if self.capacity[e] > tolerance and level[self.heads[e]] < 0:
                    level[self.heads[e]] = level[a] + 1
                    queue.append(self.heads[e])
        return level

    def _augment(self, level: List[int], position: List[int], tolerance: float) -> float:
        """Pushes flow along one path; 0 if there is none. Iterative: networks are deeper than Python's stack."""
        path: List[int] = []
        a = 0
        while a != 1:
            advanced = False
            while position[a] < len(self.edges[a]):
                e = self.edges[a][position[a]]
                if self.capacity[e] > tolerance and level[self.heads[e]] == level[a] + 1:
                    path.append(e)
                    a = self.heads[e]
                    advanced = True
                    break
                position[a] += 1
            if not advanced:
                if not path:
                    return 0.0
                a = self.heads[path.pop() ^ 1]
                position[a] += 1
        pushed = min(self.capacity[e] for e in path)
        for e in path:
            self.capacity[e] -= pushed
            self.capacity[e ^ 1] += pushed
        return pushed


def cheapest(problem: Problem, core: str, weight: str, fixed: Mapping[int, str]) -> Tuple[float, Tuple[str, ...]]:
    """(minimum sum without loadable costs, an assignment with this sum) on the GPU and one core.

    Transitions count once per tensor and direction; torn operators cost what the problem states.

    Args:
        weight: "latency" (us) or "energy" (mJ).
        fixed: item -> the device that it must run on.
    """

    def price(cost: object) -> float:
        return float(getattr(cost, "latency_us" if weight == "latency" else "energy_mj"))

    network = Network()
    nodes = [network.node() for _ in problem.items]
    for i, item in enumerate(problem.items):
        allowed = (fixed[i],) if i in fixed else item.allowed
        # The edge from the GPU side is cut when the item is on the DLA side.
        network.edge(0, nodes[i], price(item.cost(core)) if core in allowed else FORBIDDEN)
        network.edge(nodes[i], 1, price(item.cost(GPU)) if GPU in allowed else FORBIDDEN)
    for flow in problem.flows:
        source = 0 if flow.producer is None else nodes[flow.producer]
        readers = [nodes[c] for c in flow.consumers]
        into = price(flow.cost(GPU, core))
        if readers and into > 0:
            # This node is on the DLA side if any reader is; it costs if the producer is on the GPU side.
            any_dla = network.node()
            network.edge(source, any_dla, into)
            for r in readers:
                network.edge(any_dla, r, FORBIDDEN)
        out = price(flow.cost(core, GPU))
        if out > 0 and source != 0:
            any_gpu = network.node()
            network.edge(any_gpu, source, out)
            for r in readers:
                network.edge(r, any_gpu, FORBIDDEN)
            if flow.is_output:
                network.edge(0, any_gpu, FORBIDDEN)
    for link in problem.links:
        producer, consumer = nodes[link.producer], nodes[link.consumer]
        network.edge(producer, consumer, price(link.cost(core)), price(link.cost(GPU)))
    value, gpu_side = network.minimum_cut()
    return value, tuple(GPU if gpu_side[n] else core for n in nodes)
