"""Why each item is on its device: forced, pinned, chosen, or kept to avoid a transition."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from edgedla.costs.cost import Cost, device_kind
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.problem import Problem
from edgedla.text.printable import short
from edgedla.vocabulary import GPU


def reasons(problem: Problem, evaluation: Evaluation, objective: str) -> Tuple[Tuple[str, str], ...]:
    """(why, sentence) by item; see placement.WHY. Compares with a move of only this item to the other kind of device.

    The comparison leaves out the number of loadables; a reason that depends on it is given without a number.
    """
    borders_of = Borders(problem, evaluation.assignment, objective)
    unit = "mJ" if objective == "energy" else "us"
    less = "of the GPU less" if objective == "gpu-time" else "cheaper"
    sentences = []
    for i, item in enumerate(problem.items):
        device = evaluation.assignment[i]
        others = [d for d in item.allowed if device_kind(d) != device_kind(device)]
        if item.why or not others:
            sentences.append((item.why or "forced", item.reason or f"only {device} may be used"))
            continue
        other = others[0]
        saved = borders_of.price(item.cost(other), other) - borders_of.price(item.cost(device), device)
        borders = borders_of.added(i, other)
        if saved >= 0:
            text = f"{short(saved)} {unit} {less} than on {other}" if saved > 0 else f"as cheap on {other}"
            sentences.append(("chosen", text))
        elif saved + borders >= 0 and borders > 0:
            text = f"{other} would run it {short(-saved)} {unit} faster, its transitions would add {short(borders)}"
            if objective == "gpu-time":
                text = f"on {other} it would free {short(-saved)} us of the GPU, its transitions would take {short(borders)}"
            if objective == "energy":
                text = f"on {other} it would take {short(-saved)} mJ less, its transitions {short(borders)} mJ more"
            sentences.append(("kept", text))
        elif objective in ("throughput", "makespan"):
            sentences.append(("chosen", "balances the load of the engines"))
        elif device == GPU:
            sentences.append(("kept", f"on {other} it would need a loadable of its own, or break a limit or the bound"))
        else:
            sentences.append(("kept", f"part of a region on {device} that pays only as a whole, or keeps the bound"))
    return tuple(sentences)


class Borders:
    """Cost of the transitions around one item, now and if only this item moved.

    Counts each tensor's readers by device once, because a tensor may have thousands of readers.
    """

    def __init__(self, problem: Problem, devices: Sequence[str], objective: str) -> None:
        self.problem, self.devices, self.objective = problem, devices, objective
        self.read: Dict[int, Dict[int, int]] = {}
        self.written: Dict[int, List[int]] = {}
        self.readers: List[Dict[str, int]] = []
        for f, flow in enumerate(problem.flows):
            readers: Dict[str, int] = {}
            for i in flow.consumers:
                readers[devices[i]] = readers.get(devices[i], 0) + 1
                reads = self.read.setdefault(i, {})
                reads[f] = reads.get(f, 0) + 1
            self.readers.append(readers)
            if flow.producer is not None:
                self.written.setdefault(flow.producer, []).append(f)
        self.linked: Dict[int, List[int]] = {}
        for k, link in enumerate(problem.links):
            for i in {link.producer, link.consumer}:
                self.linked.setdefault(i, []).append(k)

    def price(self, cost: Cost, device: str) -> float:
        """What a cost on a device adds to the objective."""
        if self.objective == "gpu-time" and device != GPU:
            return 0.0
        return cost.energy_mj if self.objective == "energy" else cost.latency_us

    def added(self, i: int, device: str) -> float:
        """What a move of only item `i` adds to the cost of transitions and links."""
        read = self.read.get(i, {})
        flows = [(f, read.get(f, 0)) for f in sorted({*read, *self.written.get(i, ())})]
        return self._around(i, device, flows) - self._around(i, self.devices[i], flows)

    def _around(self, i: int, device: str, flows: Sequence[Tuple[int, int]]) -> float:
        total = sum((self._flow(f, i, device, reads) for f, reads in flows), 0.0)
        for k in self.linked.get(i, ()):
            link = self.problem.links[k]
            producer, consumer = (device if x == i else self.devices[x] for x in (link.producer, link.consumer))
            if producer != consumer:
                total += self.price(link.cost(consumer), consumer)
        return total

    def _flow(self, f: int, i: int, device: str, reads: int) -> float:
        """Cost of the transitions of one tensor, which item `i` reads `reads` times, with the item on `device`."""
        flow, here = self.problem.flows[f], self.devices[i]
        source = GPU if flow.producer is None else device if flow.producer == i else self.devices[flow.producer]
        targets = {d for d, count in self.readers[f].items() if count > (reads if d == here else 0)}
        if flow.is_output:
            targets.add(GPU)
        if reads:
            targets.add(device)
        targets.discard(source)
        return sum([self.price(flow.cost(source, t), GPU if GPU in (source, t) else t) for t in sorted(targets)])
