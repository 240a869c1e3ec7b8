"""A placement improved by moves: stretches of items go to another device, one, two or three stretches at once."""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.streams.frontier import Frontier, State
from edgedla.placement.solvers.streams.rows import row_maxima

#: Lengths of the stretches that move.
LENGTHS: Tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17)

#: Moves combined in pairs, and pairs combined with a third move.
MOVES, PAIRS = 1_000, 500

#: If no move helps, so many random moves are made, in turn, from the 1 / CHEAP of the moves that add least to the sum of
#: the loads. The search continues from the result unless it is longer than the best by more than the factor LONGER.
SHAKEN, CHEAP, LONGER = (2, 3, 4), 2, 1.02

#: A placement shorter by less than this share is no improvement.
SHORTER = 1e-6


class Move(NamedTuple):
    """Moves the items from `first` to `last` (excluded) to a device, where allowed; from `end` on, states are as before.

    Attributes:
        delta: the change of each device's load. Deltas of moves add up if one ends before the next begins.
    """

    first: int
    last: int
    end: int
    device: int
    delta: Tuple[float, ...]


class _Seen(NamedTuple):
    """The moves that begin at an item, and what they depend on: the states and devices from there on."""

    states: Sequence[int]
    devices: Sequence[int]
    moves: List[Move]


class Mover:
    """Improves placements on a frontier's devices by reducing the load of the busiest one."""

    def __init__(self, frontier: Frontier, factors: np.ndarray) -> None:
        self.frontier, self.factors = frontier, factors
        #: By position, the states found so far, and the number of each.
        self._states: List[List[State]] = [[] for _ in range(len(frontier.allowed) + 1)]
        self._numbers: List[Dict[State, int]] = [{} for _ in self._states]
        self._known: List[Dict[Tuple[int, int], Tuple[int, Tuple[float, ...]]]] = [{} for _ in frontier.allowed]
        self._seen: List[Optional[_Seen]] = [None] * len(frontier.allowed)
        self._random, self._counts = np.random.default_rng(0), itertools.cycle(SHAKEN)
        #: The shortest period so far; the placement to move next; the placement that was last shaken.
        self._least = INFINITY
        self._at: List[int] = []
        self._still: List[int] = []

    def improved(self, devices: Sequence[str], rounds: int, until: Deadline = NEVER) -> Iterator[Tuple[str, ...]]:
        """Ever shorter placements, within this number of rounds. If no move shortens one, random moves shake it.

        A later call continues from where the last one ended, or from its own placement if that is shorter.
        """
        names = self.frontier.devices
        given = [names.index(d) for d in devices]
        loads, _ = self._ways(given)
        if self._period(loads) < self._least * (1 - SHORTER):
            self._least, self._at, self._still = self._period(loads), given, given
        for _ in range(rounds):
            if until.passed:
                return
            at = self._at
            loads, moves = self.moves(at)
            if not moves:
                return
            chosen = self._best(loads, moves)
            if not chosen:
                reached = self._period(loads)
                if reached < self._least * (1 - SHORTER):
                    self._least = reached
                    yield tuple(names[d] for d in at)
                if reached < self._least * LONGER:
                    self._still = at
                else:
                    at = self._still
                    _, moves = self.moves(at)
                delta = np.array([m.delta for m in moves])
                cheap = np.argsort(delta @ self.factors, kind="stable")[: len(moves) // CHEAP + 1]
                count = min(next(self._counts), len(cheap))
                chosen = tuple(self._random.choice(cheap, size=count, replace=False))
            self._at = self.moved(at, [moves[k] for k in chosen])

    def _period(self, loads: np.ndarray) -> float:
        return float((loads * self.factors).max())

    def moved(self, at: Sequence[int], moves: Sequence[Move]) -> List[int]:
        """The placement after these moves."""
        after = list(at)
        for move in moves:
            for i in range(move.first, move.last):
                if move.device in self.frontier.allowed[i]:
                    after[i] = move.device
        return after

    def _number(self, i: int, state: State) -> int:
        number = self._numbers[i].setdefault(state, len(self._states[i]))
        if number == len(self._states[i]):
            self._states[i].append(state)
        return number

    def _step(self, i: int, state: int, device: int) -> Tuple[int, Tuple[float, ...]]:
        key = state, device
        way = self._known[i].get(key)
        if way is None:
            behind, load = self.frontier.step(i, self._states[i][state], device)
            way = self._known[i][key] = self._number(i + 1, behind), tuple(load)
        return way

    def _ways(self, at: Sequence[int]) -> Tuple[np.ndarray, Tuple[List[int], List[Tuple[float, ...]]]]:
        """(loads of a placement, its states and the loads that each item adds)."""
        states = [self._number(0, self.frontier.start)]
        loads: List[Tuple[float, ...]] = []
        for i, d in enumerate(at):
            behind, load = self._step(i, states[i], d)
            states.append(behind)
            loads.append(load)
        return np.array(loads).sum(axis=0), (states, loads)

    def moves(self, at: Sequence[int]) -> Tuple[np.ndarray, List[Move]]:
        """(loads of a placement, its moves)."""
        total, (states, loads) = self._ways(at)
        moves: List[Move] = []
        for i in range(len(at)):
            seen = self._seen[i]
            if seen is None or (
                seen.states != states[i : i + len(seen.states)] or seen.devices != at[i : i + len(seen.devices)]
            ):
                begun = [
                    m for d in self.frontier.allowed[i] if d != at[i] for m in self._begun(i, d, at, states, loads)
                ]
                end = max((m.end for m in begun), default=i)
                seen = self._seen[i] = _Seen(states[i : end + 1], at[i:end], begun)
            moves += seen.moves
        return total, moves

    def _begun(
        self, first: int, d: int, at: Sequence[int], states: Sequence[int], loads: Sequence[Tuple[float, ...]]
    ) -> Iterator[Move]:
        """The moves to one device that begin at an item, by rising length."""
        state, total, k = states[first], [0.0] * len(self.frontier.devices), first
        for length in LENGTHS:
            if first + length > len(at):
                return
            while k < first + length:
                state, load = self._step(k, state, d if d in self.frontier.allowed[k] else at[k])
                total = [t + a - b for t, a, b in zip(total, load, loads[k])]
                k += 1
            behind, delta, end = state, total, k
            while end < len(at) and behind != states[end]:
                behind, load = self._step(end, behind, at[end])
                if load != loads[end]:
                    delta = [t + a - b for t, a, b in zip(delta, load, loads[end])]
                end += 1
            yield Move(first, k, end, d, tuple(delta))

    def _best(self, loads: np.ndarray, moves: Sequence[Move]) -> Tuple[int, ...]:
        """The best combination of one, two or three moves; () if none shortens the placement."""
        slowed = loads * self.factors
        limit = float(slowed.max()) * (1 - SHORTER)
        delta = np.array([m.delta for m in moves]) * self.factors
        # Moves that add little in sum are useful: they shift work between devices.
        order = np.argsort(delta.sum(axis=1), kind="stable")[:MOVES]
        delta = delta[order]
        first, end = (np.array([getattr(moves[k], name) for k in order]) for name in ("first", "end"))
        best: Tuple[int, ...] = ()
        value = row_maxima(slowed + delta)
        k = int(value.argmin())
        if value[k] < limit:
            limit, best = float(value[k]), (k,)
        apart = (end[:, None] <= first) | (end <= first[:, None])
        two = np.maximum.reduce([s + x[:, None] + x for s, x in zip(slowed, delta.T)])
        two[~apart] = INFINITY
        two[np.tril_indices(len(order))] = INFINITY
        count = min(PAIRS, two.size)
        a, b = np.unravel_index(np.argpartition(two, count - 1, axis=None)[:count], two.shape)
        a, b = a[two[a, b] < INFINITY], b[two[a, b] < INFINITY]
        if len(a):
            k = int(two[a, b].argmin())
            if two[a[k], b[k]] < limit:
                limit, best = float(two[a[k], b[k]]), (int(a[k]), int(b[k]))
            three = np.maximum.reduce([s + (x[a] + x[b])[:, None] + x for s, x in zip(slowed, delta.T)])
            three[~(apart[a] & apart[b])] = INFINITY
            row, c = np.unravel_index(int(three.argmin()), three.shape)
            if three[row, c] < limit:
                best = int(a[row]), int(b[row]), int(c)
        return tuple(int(order[k]) for k in best)
