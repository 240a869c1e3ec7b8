"""One model in the order in which it runs: what has run, and what may run next."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.vocabulary import GPU

#: Where a model stands: in a segment of the GPU; in a loadable; in a segment of the GPU that took no time so far.
ON_GPU, ON_CORE, BETWEEN = 0, 1, 2

#: The call of the model's engine, which its first layer on the GPU pays: paid; not, with no loadable so far, with one, or with
#: more. Where no layer is on the GPU, the only loadable pays; of several, nobody is asked.
UNPAID, PAID, ONE_LOADABLE, LOADABLES = 0, 1, 2, 3

#: The item of the step behind the last one, and where no item was.
NO_ITEM = -1


class Moment(NamedTuple):
    """All that the past means for what may run next and what that costs. Sets of items and of tensors are bits.

    Attributes:
        done: items that have run.
        on_core: of them, those on the core whose outputs are still to be read.
        copied: tensors, still to be read, that were brought to the device other than their producer's.
        owed: outputs of the network that are on the core alone.
        engine: UNPAID, PAID, ONE_LOADABLE or LOADABLES.
        declined: items that could have run while the GPU ran and did not: they go to the core.
        stands: ON_GPU, ON_CORE or BETWEEN.
        last: in a loadable, the item that joined it last; items join in their order.
    """

    done: int
    on_core: int
    copied: int
    owed: int
    engine: int
    declined: int
    stands: int
    last: int


class Way(NamedTuple):
    """One item runs next.

    Attributes:
        gpu_us, core_us: what that takes, slowdown counted: of the GPU first, then of the core. In a loadable that has begun,
            the GPU's part lay in front of it.
        acquires: the GPU has to be free for it; else the model has it, or needs none.
    """

    moment: Moment
    item: int
    device: int
    gpu_us: float
    core_us: float
    acquires: bool


class Moments:
    """The placements of a model on the GPU and one core, item by item in the order in which `schedule.segments` runs them.

    On the GPU everything runs that can. In which of several loadables TensorRT puts an item, where there is a choice, is left
    open; so is whether a reformat lies in front of a loadable that has begun or parts two of them. Loadables that follow
    each other without work of the GPU are taken for one. So every placement is among these, or runs no earlier than one.

    Args:
        factors: slowdown of the GPU and of the core.
        ranks: by item, where it stands in the model's own order.
    """

    def __init__(self, frontier: Frontier, factors: Tuple[float, float], ranks: Sequence[int]) -> None:
        problem, core = frontier.problem, frontier.devices[1]
        self.frontier, self.items, self._ranks = frontier, len(problem.items), ranks
        on_gpu, on_core = factors
        self.all = (1 << self.items) - 1
        self.start = Moment(0, 0, 0, 0, UNPAID, 0, BETWEEN, NO_ITEM)
        self.gpu_us = [
            item.time_us(GPU) * on_gpu if 0 in a else 0.0 for item, a in zip(problem.items, frontier.allowed)
        ]
        self.core_us = [
            item.time_us(core) * on_core if 1 in a else 0.0 for item, a in zip(problem.items, frontier.allowed)
        ]
        self.to_core_us = [f.cost(GPU, core).latency_us * on_gpu for f in problem.flows]
        self.to_gpu_us = [f.cost(core, GPU).latency_us * on_gpu for f in problem.flows]
        self.loadable_us = frontier.loadable_us * on_core
        self.engine_us = frontier.engine_us * on_gpu, frontier.engine_us * on_core
        self.producer = [NO_ITEM if f.producer is None else f.producer for f in problem.flows]
        self.readers = [_bits(f.consumers) for f in problem.flows]
        self.layered = _bits(i for i, item in enumerate(problem.items) if item.layers)
        self.only_gpu = _bits(i for i, a in enumerate(frontier.allowed) if 1 not in a)
        self.only_core = _bits(i for i, a in enumerate(frontier.allowed) if 0 not in a)
        self._owes = [_bits(k for k in flows if problem.flows[k].is_output) for flows in frontier.out_of]
        self._links = [
            [(link.producer, link.cost(GPU).latency_us * on_gpu, link.cost(core).latency_us * on_core)
             for link in frontier.links.get(i, ())]
            for i in range(self.items)
        ]  # fmt: skip
        self._before = [_bits(problem.predecessors(i)) for i in range(self.items)]
        self._followers: List[List[int]] = [[] for _ in range(self.items)]
        #: By item, whom it reads or is linked to, and who reads it or is linked to it.
        self._sources: List[Tuple[int, ...]] = []
        self._read_by = [0] * self.items
        for i in range(self.items):
            producers = {self.producer[k] for k in frontier.into[i]} - {NO_ITEM}
            sources = {*problem.predecessors(i), *producers, *(p for p, _, _ in self._links[i])}
            self._sources.append(tuple(sources))
            for p in sources:
                self._read_by[p] |= 1 << i
            for p in problem.predecessors(i):
                self._followers[p].append(i)
        #: By items that have run, those whose inputs are there.
        self._ready: Dict[int, int] = {0: _bits(i for i in range(self.items) if not self._before[i])}
        #: By items that have run, (tensor, its readers that are still to run) of those that are there and still to be read.
        self.live: Dict[int, List[Tuple[int, int]]] = {
            0: [(k, readers) for k, readers in enumerate(self.readers) if readers and self.producer[k] < 0]
        }
        self.end = self.start._replace(done=1 << self.items)

    def ways(self, moment: Moment) -> List[Way]:
        """All that may run next; behind the last item, one way to the end."""
        if moment.done == self.all:
            us = sum(self.to_gpu_us[k] for k in positions(moment.owed))
            return [Way(self.end, NO_ITEM, 0, us, 0.0, us > 0 and moment.stands != ON_GPU)]
        if moment.done > self.all:
            return []
        ready = list(positions(self._ready[moment.done]))
        ways = [self._on_gpu(moment, i, declined) for i, declined in self._gpu_next(moment, ready)]
        if not moment.done:
            return ways + [self._begins(moment, i, ready) for i in ready if self._may_begin(i, ready)]
        on_core = moment.stands == ON_CORE
        if not on_core and self.only_gpu & _bits(ready):
            return ways
        # What could have run on the GPU and did not goes to the core.
        declined, late = moment.declined if on_core else _bits(ready), self._late(moment)
        for i in ready:
            if self.only_gpu >> i & 1:
                continue
            if on_core and i > moment.last:
                ways.append(self._on_core(moment, i, declined, False))
            opens = self._on_core(moment, i, declined, True)
            if opens.acquires or not on_core:
                ways.append(opens)
            if late >> i and not opens.acquires:
                ways.append(opens._replace(acquires=True))
        return ways

    def _late(self, moment: Moment) -> int:
        """Items that need a reformat and cannot run yet: it lies in front of their loadable, whatever that begins with.

        Where the model has the GPU, the reformats of its next loadable follow without a break.
        """
        late = 0
        if moment.stands != ON_GPU:
            for k, readers in self.live[moment.done]:
                producer = self.producer[k]
                on_core = producer >= 0 and moment.on_core >> producer & 1
                if not on_core and not moment.copied >> k & 1 and self.to_core_us[k] > 0:
                    late |= readers
        return late & ~self.only_gpu & ~self._ready[moment.done]

    def _gpu_next(self, moment: Moment, ready: List[int]) -> Iterator[Tuple[int, int]]:
        """(an item that may run on the GPU next, what is declined then): in their order, the items before it declined."""
        declined = moment.declined
        for i in ready:
            if declined >> i & 1:
                continue
            if not self.only_core >> i & 1:
                yield i, declined
            if self.only_gpu >> i & 1:
                return
            declined |= 1 << i

    def _may_begin(self, i: int, ready: List[int]) -> bool:
        """Whether a model may begin on the core, with item i the first of its loadable: what comes before is not for the GPU."""
        return not self.only_gpu >> i & 1 and not any(
            self.only_gpu >> j & 1 and self._ranks[j] < self._ranks[i] for j in ready
        )

    def _begins(self, moment: Moment, i: int, ready: List[int]) -> Way:
        """The model begins on the core: the device of the first item in the model's order runs first."""
        return self._on_core(moment, i, _bits(j for j in ready if self._ranks[j] < self._ranks[i]), True)

    def _on_gpu(self, moment: Moment, i: int, declined: int) -> Way:
        us, engine, copied, owed = self.gpu_us[i], moment.engine, moment.copied, moment.owed
        if engine != PAID and self.layered >> i & 1:
            us, engine = us + self.engine_us[0], PAID
        for k in self.frontier.into[i]:
            if self.producer[k] >= 0 and moment.on_core >> self.producer[k] & 1 and not copied >> k & 1:
                us += self.to_gpu_us[k]
                copied |= 1 << k
                owed &= ~(1 << k)
        us += sum(on_gpu for p, on_gpu, _ in self._links[i] if moment.on_core >> p & 1)
        has_gpu = moment.stands == ON_GPU or us > 0
        behind = self._behind(moment, i, moment.on_core, copied)
        return Way(
            Moment(*behind, owed, engine, declined & ~(1 << i), ON_GPU if has_gpu else BETWEEN, NO_ITEM), i, 0, us, 0.0,
            us > 0 and moment.stands != ON_GPU,
        )  # fmt: skip

    def _on_core(self, moment: Moment, i: int, declined: int, opens: bool) -> Way:
        us, before_us, engine, copied = self.core_us[i], 0.0, moment.engine, moment.copied
        for k in self.frontier.into[i]:
            on_core = self.producer[k] >= 0 and moment.on_core >> self.producer[k] & 1
            if not on_core and not copied >> k & 1:
                before_us += self.to_core_us[k]
                copied |= 1 << k
        us += sum(on_core for p, _, on_core in self._links[i] if not moment.on_core >> p & 1)
        if opens:
            us += self.loadable_us
            engine = {UNPAID: ONE_LOADABLE, PAID: PAID}.get(engine, LOADABLES)
        behind = self._behind(moment, i, moment.on_core | 1 << i, copied)
        if engine == ONE_LOADABLE and self.layered and not self.layered & ~behind[0]:
            us, engine = us + self.engine_us[1], PAID
        # One that a reformat parts from what ran may begin with the item that needs it, the first one with its first in rank.
        last = NO_ITEM if opens and moment.stands != ON_GPU else i
        return Way(
            Moment(*behind, moment.owed | self._owes[i], engine, declined & ~(1 << i), ON_CORE, last), i, 1, before_us, us,
            opens and moment.stands != ON_GPU and before_us > 0,
        )  # fmt: skip

    def _behind(self, moment: Moment, i: int, on_core: int, copied: int) -> Tuple[int, int, int]:
        """(what has run, what of it is on the core, what is copied) behind item i, without what is read no more."""
        done = moment.done | 1 << i
        if done not in self._ready:
            new = [j for j in self._followers[i] if not self._before[j] & ~done]
            self._ready[done] = self._ready[moment.done] & ~(1 << i) | _bits(new)
            self.live[done] = [(k, r & ~(1 << i)) for k, r in self.live[moment.done] if r != 1 << i] + [
                (k, self.readers[k]) for k in self.frontier.out_of[i] if self.readers[k]
            ]
        for p in (*self._sources[i], i):
            if not self._read_by[p] & ~done:
                on_core &= ~(1 << p)
        for k in self.frontier.into[i]:
            if not self.readers[k] & ~done:
                copied &= ~(1 << k)
        return done, on_core, copied


def _bits(members: Iterable[int]) -> int:
    bits = 0
    for i in members:
        bits |= 1 << i
    return bits


def positions(bits: int) -> Iterator[int]:
    """The bits that are set, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
