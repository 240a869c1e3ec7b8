"""One model in execution order: what has run, and what may run next."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.vocabulary import GPU

#: What a model is in: a GPU segment; a loadable; a GPU segment that has taken no time so far.
ON_GPU, ON_CORE, BETWEEN = 0, 1, 2

#: The call of the model's engine: paid by the first layer on the GPU; or not yet paid, with no loadable so far, with one, or
#: with more. A model without a layer on the GPU pays with its only loadable; with several loadables the call is left out.
UNPAID, PAID, ONE_LOADABLE, LOADABLES = 0, 1, 2, 3

#: The item of the final step, and the producer of a network input.
NO_ITEM = -1


class Moment(NamedTuple):
    """All that the past means for what may run next and its cost. Sets of items and of tensors are bits.

    Attributes:
        done: items that have run.
        on_core: those of them on the core whose outputs are still to be read.
        copied: tensors still to be read that were copied to the device that did not produce them.
        owed: network outputs that so far exist only on the core.
        engine: UNPAID, PAID, ONE_LOADABLE or LOADABLES.
        declined: items that could have run in the GPU segment and did not: they go to the core.
        stands: ON_GPU, ON_CORE or BETWEEN.
        last: in a loadable, the item that joined it last; items join in ascending order.
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
    """A way to continue: one item that runs next.

    Attributes:
        gpu_us, core_us: the time it takes, with slowdown: first of the GPU, then of the core. In a loadable that has already
            begun, the GPU's part lies before the loadable.
        acquires: it must wait for the GPU; otherwise the model already has it, or does not need it.
    """

    moment: Moment
    item: int
    device: int
    gpu_us: float
    core_us: float
    acquires: bool


class Moments:
    """The placements of a model on the GPU and one core, item by item in the execution order of `schedule.segments`.

    A GPU segment runs everything it can. Two choices are left open: which of several possible loadables TensorRT puts an
    item in, and whether a reformat lies before a loadable that has begun or separates two. Loadables without GPU work
    between them count as one. So every placement is covered, or runs no earlier than one that is.

    Args:
        factors: slowdown of the GPU and of the core.
        ranks: per item, its position in the model's own order.
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
        #: Per item, the items it reads from or is linked to, and the items that read it or are linked to it.
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
        #: By set of items that have run, the items whose inputs are available.
        self._ready: Dict[int, int] = {0: _bits(i for i in range(self.items) if not self._before[i])}
        #: By set of items that have run: (tensor, its readers that have not run) of each available tensor still to be read.
        self.live: Dict[int, List[Tuple[int, int]]] = {
            0: [(k, readers) for k, readers in enumerate(self.readers) if readers and self.producer[k] < 0]
        }
        self.end = self.start._replace(done=1 << self.items)

    def ways(self, moment: Moment) -> List[Way]:
        """All ways to continue; after the last item, the one way to the end."""
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
        # Items that could have run on the GPU and did not go to the core.
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
        """Items that need a reformat and cannot run yet: the reformat lies before their loadable, whatever that begins with.

        None if the model has the GPU: then the reformats of its next loadable follow immediately.
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
        """(an item that may run on the GPU next, the items declined then): each choice declines the ready items before it."""
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
        """Whether a model may begin on the core with item i first in its loadable: no earlier ready item is for the GPU only."""
        return not self.only_gpu >> i & 1 and not any(
            self.only_gpu >> j & 1 and self._ranks[j] < self._ranks[i] for j in ready
        )

    def _begins(self, moment: Moment, i: int, ready: List[int]) -> Way:
        """The model begins on the core: the device of the first item in the model's own order runs first."""
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
        # A loadable separated by a reformat may begin with the item that needs it, whatever the rank of its other items.
        last = NO_ITEM if opens and moment.stands != ON_GPU else i
        return Way(
            Moment(*behind, moment.owed | self._owes[i], engine, declined & ~(1 << i), ON_CORE, last), i, 1, before_us, us,
            opens and moment.stands != ON_GPU and before_us > 0,
        )  # fmt: skip

    def _behind(self, moment: Moment, i: int, on_core: int, copied: int) -> Tuple[int, int, int]:
        """(done, on_core, copied) after item i, without what is no longer read."""
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
    """The positions of the set bits, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
