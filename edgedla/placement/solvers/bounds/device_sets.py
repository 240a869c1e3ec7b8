"""Sets of devices that hold a tensor, as tables for arrays: all sets that include the tensor's source, at once."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class DeviceSets(NamedTuple):
    """The sets of devices as bits, by source: each has the same number of sets that include it, by rising bits.

    Attributes:
        sets: (sources, sets), bits.
        others: (sources, sets, devices): 1 for each device of a set but the source.
        members: (sources, sets, devices): the devices of a set; in the places left over, the source.
        beyond: (sources, sets, sets): the sets that include a set, by number; in the places left over, the set itself.
    """

    sets: np.ndarray
    others: np.ndarray
    members: np.ndarray
    beyond: np.ndarray

    def cheapest(self, term: np.ndarray) -> np.ndarray:
        """(sources, sets, weights): the least of a term (sources, devices, weights) over the devices of each set."""
        return _least(term, self.members)

    def best(self, rest: np.ndarray) -> np.ndarray:
        """(sources, sets, weights): the least over all sets that include a set."""
        return _least(rest, self.beyond)


def _least(of: np.ndarray, among: np.ndarray) -> np.ndarray:
    least: np.ndarray = of[np.arange(len(among))[:, None, None], among].min(axis=2)
    return least


@lru_cache(maxsize=None)
def device_sets(devices: int) -> DeviceSets:
    sets, others, members, beyond = [], [], [], []
    for source in range(devices):
        of = [s for s in range(1 << devices) if s >> source & 1]
        sets.append(of)
        others.append([[int(s >> d & 1 and d != source) for d in range(devices)] for s in of])
        members.append([[d if s >> d & 1 else source for d in range(devices)] for s in of])
        beyond.append([[b if of[b] & s == s else a for b in range(len(of))] for a, s in enumerate(of)])
    return DeviceSets(np.array(sets), np.array(others, float), np.array(members), np.array(beyond))
