"""Why each item stands where it stands: forced, pinned, chosen, or kept to avoid a transition."""

from __future__ import annotations

from typing import Dict, List, Tuple

from edgedla.costs.cost import Cost, device_kind
from edgedla.placement.problem.evaluate import Evaluation, crossings_of
from edgedla.placement.problem.problem import Problem
from edgedla.vocabulary import GPU


def reasons(problem: Problem, evaluation: Evaluation, objective: str) -> Tuple[Tuple[str, str], ...]:
    """(why, sentence) by item; see placement.WHY. Compares with moving that item alone to the other kind of device.

    The number of loadables is not counted for the move; what tips the scale then is named without a number.
    """
    touching: Dict[int, List[int]] = {}
    for f, flow in enumerate(problem.flows):
        for i in {*flow.consumers, *(() if flow.producer is None else (flow.producer,))}:
            touching.setdefault(i, []).append(f)
    linked: Dict[int, List[int]] = {}
    for k, link in enumerate(problem.links):
        for i in (link.producer, link.consumer):
            linked.setdefault(i, []).append(k)
    unit = "mJ" if objective == "energy" else "us"
    devices = list(evaluation.assignment)

    def price(cost: Cost) -> float:
        return cost.energy_mj if objective == "energy" else cost.latency_us

    def around(i: int) -> float:
        crossings = sum(price(c.cost) for f in touching.get(i, ()) for c in crossings_of(problem, f, devices))
        for k in linked.get(i, ()):
            link = problem.links[k]
            if devices[link.producer] != devices[link.consumer]:
                crossings += price(link.cost(devices[link.consumer]))
        return crossings

    found = []
    for i, item in enumerate(problem.items):
        here = devices[i]
        others = [d for d in item.allowed if device_kind(d) != device_kind(here)]
        if item.why or not others:
            found.append((item.why or "forced", item.reason or f"only {here} may be used"))
            continue
        there = others[0]
        own = price(item.cost(there)) - price(item.cost(here))
        before = around(i)
        devices[i] = there
        borders = around(i) - before
        devices[i] = here
        if own >= 0:
            text = f"{own:.4g} {unit} cheaper than on {there}" if own > 0 else f"costs the same on {there}"
            found.append(("chosen", text))
        elif own + borders >= 0 and borders > 0:
            text = f"{there} would run it {-own:.4g} {unit} faster, its transitions would add {borders:.4g}"
            if objective == "energy":
                text = f"on {there} it would take {-own:.4g} mJ less, its transitions {borders:.4g} mJ more"
            found.append(("kept", text))
        elif objective in ("throughput", "makespan"):
            found.append(("chosen", "balances the load of the engines"))
        elif here == GPU:
            found.append(("kept", f"on {there} it would need a loadable of its own, or break a limit or the bound"))
        else:
            found.append(("kept", f"part of a region on {here} that pays only as a whole, or keeps the bound"))
    return tuple(found)
