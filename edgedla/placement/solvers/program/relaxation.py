"""The placement problem as a linear model that never overestimates. Costs of TensorRT's grouping are added as cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.program.highs import Linear, LinearModel, add
from edgedla.vocabulary import GPU


@dataclass
class Relaxation:
    """Columns of a model of one problem on a set of engines.

    Attributes:
        engines: devices that may run layers; reshapes without layers and reformats run on the GPU in any case.
        x: (item, device) -> the item's 0/1 expression; missing pairs are 0.
        count: (model, core) -> number of its loadables, at least as many as on any path (see `_count_rows`).
        latency: (model, device) -> its time without slowdown.
        energy: model -> its energy.
        entering, leaving: device -> its transitions in and out.
    """

    problem: Problem
    engines: Tuple[str, ...]
    model: LinearModel
    x: Dict[Tuple[int, str], Linear]
    count: Dict[Tuple[int, str], int]
    latency: Dict[Tuple[int, str], Linear]
    energy: Dict[int, Linear]
    entering: Dict[str, Linear]
    leaving: Dict[str, Linear]

    def on(self, item: int, device: str) -> Linear:
        return self.x.get((item, device), {})

    def assignment(self, values: Sequence[float]) -> Tuple[str, ...]:
        """The device of each item in a solution."""

        def value(item: int, device: str) -> float:
            e = self.on(item, device)
            return sum(v if c is None else v * values[c] for c, v in e.items())

        return tuple(max(self.devices, key=lambda d: value(i, d)) for i in range(len(self.problem.items)))

    @property
    def devices(self) -> Tuple[str, ...]:
        return tuple(dict.fromkeys((GPU, *self.engines)))


def relax(problem: Problem, engines: Tuple[str, ...]) -> Relaxation:
    """Items, transitions, torn operators and a lower bound of the loadable count, without objective and bounds."""
    model = LinearModel()
    r = Relaxation(problem, engines, model, {}, {}, {}, {}, {}, {})
    for i, item in enumerate(problem.items):
        allowed = [d for d in r.devices if d in item.allowed and (d in engines or not item.layers)]
        if not allowed:
            model.at_least({None: 0.0}, 1.0)  # no device is left: infeasible
        elif len(allowed) == 1:
            r.x[i, allowed[0]] = {None: 1.0}
        elif len(allowed) == 2:
            column = model.column(upper=1.0, integer=True)
            r.x[i, allowed[0]] = {None: 1.0, column: -1.0}
            r.x[i, allowed[1]] = {column: 1.0}
        else:
            for d in allowed:
                r.x[i, d] = {model.column(upper=1.0, integer=True): 1.0}
            model.equal(_sum(r.x[i, d] for d in allowed), 1.0)
        for d in allowed:
            _charge(r, item.model, d, r.x[i, d], item.time_us(d), item.energy_mj(d))
    _engines(r)
    _transitions(r)
    _separations(r)
    _counts(r)
    _ask_for_pools(r)
    _ask_for_size(r)
    return r


def _engines(r: Relaxation) -> None:
    """The call of a model's engine: on the GPU if any item of the model runs there, otherwise on its last item's core.

    e >= x[item, GPU] for every item of the model; e <= sum of these x; on core c: e[c] >= x[last, c] - e; and
    e + sum over c of e[c] >= 1.
    """
    cost = r.problem.engine
    if cost.latency_us <= 0 and cost.energy_mj <= 0:
        return
    for m in range(len(r.problem.models)):
        on_gpu = [r.on(i, GPU) for i in r.problem.items_of(m) if r.problem.items[i].layers]
        if any(x == {None: 1.0} for x in on_gpu):
            _charge(r, m, GPU, {None: 1.0}, cost.latency_us, cost.energy_mj)
        elif on_gpu:
            e = r.model.column(upper=1.0)
            _charge(r, m, GPU, {e: 1.0}, cost.latency_us, cost.energy_mj)
            for x in on_gpu:
                r.model.at_least(add({e: 1.0}, x, -1.0))
            last = max(i for i in r.problem.items_of(m) if r.problem.items[i].layers)
            total: Linear = {e: 1.0}
            for core in (d for d in r.engines if d != GPU and r.on(last, d)):
                on_core = r.model.column(upper=1.0)
                _charge(r, m, core, {on_core: 1.0}, cost.latency_us, cost.energy_mj)
                r.model.at_least(add(add({e: 1.0}, {on_core: 1.0}), r.on(last, core), -1.0))
                add(total, {on_core: 1.0})
            r.model.at_least(total, 1.0)
            r.model.at_least(add(_sum(on_gpu), {e: 1.0}, -1.0))


def _sum(expressions: object) -> Linear:
    result: Linear = {}
    for e in expressions:  # type: ignore[attr-defined]
        add(result, e)
    return result


def _charge(r: Relaxation, model: int, device: str, amount: Mapping[Optional[int], float], us: float, mj: float) -> None:
    add(r.latency.setdefault((model, device), {}), amount, us)
    add(r.energy.setdefault(model, {}), amount, mj)


def _excess(r: Relaxation, of: Linear, over: Linear) -> Linear:
    """of - over, or {} if it can never be positive."""
    difference = add(dict(of), over, -1.0)
    highest = sum(v if c is None else max(v, 0.0) for c, v in difference.items())
    return difference if highest > 1e-9 else {}


def _transitions(r: Relaxation) -> None:
    """z[a, b] >= 0, z[a, b] <= x[producer, a], sum over a of z[a, b] >= x[consumer, b] - x[producer, b]."""
    host: Linear = {None: 1.0}
    for flow in r.problem.flows:
        p = flow.producer
        at = {d: (host if d == GPU else {}) if p is None else r.on(p, d) for d in r.devices}
        for b in r.devices:
            needs = [_excess(r, r.on(c, b), at[b]) for c in flow.consumers]
            if flow.is_output and b == GPU:
                needs.append(_excess(r, host, at[b]))
            needs = [n for n in needs if n]
            sources = [a for a in r.devices if a != b and at[a]]
            if not needs or not sources:
                continue
            z = {}
            for a in sources:
                cost = flow.cost(a, b)
                z[a] = r.model.column()
                add(r.entering.setdefault(b, {}), {z[a]: 1.0})
                add(r.leaving.setdefault(a, {}), {z[a]: 1.0})
                engine = GPU if GPU in (a, b) else b
                _charge(r, flow.model, engine, {z[a]: 1.0}, cost.latency_us, cost.energy_mj)
                if len(sources) > 1:
                    r.model.at_most(add({z[a]: 1.0}, at[a], -1.0))
            for need in {tuple(sorted(n.items(), key=str)): n for n in needs}.values():
                r.model.at_least(add({z[a]: 1.0 for a in sources}, need, -1.0))


def _separations(r: Relaxation) -> None:
    for link in r.problem.links:
        model = r.problem.items[link.consumer].model
        for b in r.devices:
            need = _excess(r, r.on(link.consumer, b), r.on(link.producer, b))
            if not need:
                continue
            cost = link.cost(b)
            if cost.latency_us > 0 or cost.energy_mj > 0:
                y = r.model.column()
                r.model.at_least(add({y: 1.0}, need, -1.0))
                _charge(r, model, b, {y: 1.0}, cost.latency_us, cost.energy_mj)


def _counts(r: Relaxation) -> None:
    """Number of loadables of a model on a core >= number of times that any path enters the core.

    Loadables are convex: no path between two of its items leaves the loadable. So separate stretches of one path on the
    core belong to different loadables:
        level[v] >= level[u] + x[v] - x[u] for every edge u -> v, level >= x, count >= level.
    """
    for core in (d for d in r.engines if d != GPU):
        for m in range(len(r.problem.models)):
            possible = [i for i in r.problem.items_of(m) if (i, core) in r.x]
            if not possible:
                continue
            count = r.model.column()
            r.count[m, core] = count
            _charge(r, m, core, {count: 1.0}, r.problem.loadable.latency_us, r.problem.loadable.energy_mj)
            _count_rows(r, core, possible, count)
    for core in (d for d in r.engines if d != GPU):
        counts = [c for (_, at), c in r.count.items() if at == core]
        if counts:
            r.model.at_most({c: 1.0 for c in counts}, float(r.problem.limits.loadables_per_core))
    if r.problem.limits.max_regions is not None and r.count:
        r.model.at_most({c: 1.0 for c in r.count.values()}, float(r.problem.limits.max_regions))


def _count_rows(r: Relaxation, core: str, possible: Sequence[int], count: int) -> None:
    problem = r.problem
    window = [i for i in problem.items_of(problem.items[possible[0]].model) if possible[0] <= i <= possible[-1]]
    # Only items between two possible ones can separate them.
    before: Set[int] = set()
    for i in window:
        if (i, core) in r.x or any(p in before for p in problem.predecessors(i)):
            before.add(i)
    after: Set[int] = set()
    successors = _successors(problem, window)
    for i in reversed(window):
        if (i, core) in r.x or any(s in after for s in successors.get(i, ())):
            after.add(i)
    level: Dict[int, Linear] = {}
    for i in window:
        if i not in before or i not in after:
            continue
        on_core = r.on(i, core)
        inputs = [p for p in problem.predecessors(i) if p in level]
        if not on_core and len(inputs) == 1:
            level[i] = level[inputs[0]]
            continue
        if on_core and not inputs:
            level[i] = dict(on_core)
        else:
            v = r.model.column()
            level[i] = {v: 1.0}
            for p in inputs:
                r.model.at_least(add(add(add({v: 1.0}, level[p], -1.0), on_core, -1.0), r.on(p, core)))
                r.model.at_least(add({v: 1.0}, level[p], -1.0))
            if on_core:
                r.model.at_least(add({v: 1.0}, on_core, -1.0))
        if not any(s in after and s in before for s in successors.get(i, ())):
            r.model.at_least(add({count: 1.0}, level[i], -1.0))


def use_every_engine(r: Relaxation) -> None:
    """Requires a layer on every engine of the set, and on every core a loadable with a transition in and out.

    Smaller sets of engines are solved separately, because their slowdown differs. The last item on a core, in
    topological order, passes its output to another device or to the network's output. That fails for outputs that
    nothing reads, so the row is added only if every item is read.
    """
    read = {f.producer for f in r.problem.flows if f.consumers or f.is_output}
    fed = {c for f in r.problem.flows for c in f.consumers}
    everything = set(range(len(r.problem.items)))
    for engine in r.engines:
        r.model.at_least(_sum(r.on(i, engine) for i, item in enumerate(r.problem.items) if item.layers), 1.0)
    for core in (d for d in r.engines if d != GPU):
        r.model.at_least({c: 1.0 for (_, at), c in r.count.items() if at == core}, 1.0)
        if everything <= fed:
            r.model.at_least(r.entering.get(core, {}), 1.0)
        if everything <= read:
            r.model.at_least(r.leaving.get(core, {}), 1.0)


def _ask_for_pools(r: Relaxation) -> None:
    """Weights on a core <= number of its loadables * pool; an item that alone exceeds a pool is kept off the core."""
    problem, limits = r.problem, r.problem.limits
    for (m, core), count in r.count.items():
        possible = [i for i in problem.items_of(m) if (i, core) in r.x]
        if sum(problem.items[i].weight_bytes for i in possible) > limits.global_dram_bytes:
            weights = _sum({c: v * problem.items[i].weight_bytes for c, v in r.on(i, core).items()} for i in possible)
            share = {c: v / max(limits.global_dram_bytes, 1) for c, v in weights.items()}
            r.model.at_least(add({count: 1.0}, share, -1.0))
        for i in possible:
            item = problem.items[i]
            if item.weight_bytes > limits.global_dram_bytes or item.activation_bytes > limits.local_dram_bytes:
                r.model.at_most(r.on(i, core), 0.0)


def _ask_for_size(r: Relaxation) -> None:
    """min_region: an item on a core needs enough other items there that could share its loadable.

        sum over w in company(v) of units[w] * x[w] >= (min_region_layers - units[v]) * x[v]

    company(v) excludes items of another batch size, and items connected to v by a path through an item that cannot run
    on the core, because loadables are convex.
    """
    problem, smallest = r.problem, r.problem.limits.min_region_layers
    if smallest <= 1:
        return
    for core in (d for d in r.engines if d != GPU):
        for m in range(len(problem.models)):
            possible = [i for i in problem.items_of(m) if (i, core) in r.x]
            apart = _apart(problem, m, set(possible))
            for v in possible:
                item = problem.items[v]
                company: Linear = {}
                for w in possible:
                    if w != v and problem.items[w].batch == item.batch and w not in apart[v] and v not in apart[w]:
                        add(company, r.on(w, core), float(problem.items[w].units))
                r.model.at_least(add(company, r.on(v, core), -float(smallest - item.units)))


def _apart(problem: Problem, model: int, possible: Set[int]) -> Dict[int, Set[int]]:
    """For each possible item, the items reached from it through an item that is not possible."""
    items = problem.items_of(model)
    successors = _successors(problem, items)
    behind: Dict[int, Set[int]] = {}
    apart: Dict[int, Set[int]] = {}
    for i in reversed(items):
        behind[i] = set()
        apart[i] = set()
        for s in successors.get(i, ()):
            behind[i] |= behind[s] | {s}
            apart[i] |= behind[s] if s not in possible else apart[s]
    return apart


def _successors(problem: Problem, items: Sequence[int]) -> Dict[int, List[int]]:
    """By item, those of `items` that read it."""
    successors: Dict[int, List[int]] = {}
    for i in items:
        for p in problem.predecessors(i):
            successors.setdefault(p, []).append(i)
    return successors
