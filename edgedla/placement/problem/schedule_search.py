"""The shortest schedule of jobs on devices that run one segment at a time: branch and bound over active schedules."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

from edgedla.placement.deadline import NEVER, Deadline

INFINITY = float("inf")

#: Most nodes of a search; then it returns its best schedule with a lower bound.
SEARCH_NODES = 20_000


class _Node(NamedTuple):
    """A partial schedule: segments done by job, when each job and device is free, remaining time by device."""

    done: Tuple[int, ...]
    job_free: Tuple[float, ...]
    device_free: Dict[str, float]
    rest: Dict[str, float]


class ScheduleSearch:
    """Jobs are segments in a fixed order, each on one device, without preemption; all may start at time 0.

    After `run`: `starts` by job and segment, `length_us`, and `bound_us`, a lower bound of every schedule.

    Args:
        devices, times_us: by job, device and time of each segment.
        deadline: the first schedule is completed even after it.
    """

    def __init__(self, devices: Sequence[Sequence[str]], times_us: Sequence[Sequence[float]], deadline: Deadline = NEVER) -> None:
        self.devices, self.times, self.deadline = devices, times_us, deadline
        #: By job, the time from each segment to the job's end.
        self.left = [[0.0] * (len(t) + 1) for t in times_us]
        self.work: Dict[str, float] = {}
        for j, job in enumerate(times_us):
            for k in reversed(range(len(job))):
                self.left[j][k] = self.left[j][k + 1] + job[k]
            for device, time_us in zip(devices[j], job):
                self.work[device] = self.work.get(device, 0.0) + time_us
        self.length_us = INFINITY
        self.starts = [[0.0] * len(t) for t in times_us]
        self._current = [[0.0] * len(t) for t in times_us]
        self._nodes, self._stopped = 0, False

    @property
    def bound_us(self) -> float:
        """Lower bound of every schedule: the longest job, the busiest device, or the length itself if the search finished."""
        if not self._stopped:
            return self.length_us
        return max([*(x[0] for x in self.left), *self.work.values()], default=0.0)

    def run(self) -> None:
        """Searches depth first, without recursion, because a job may have thousands of segments."""
        jobs = len(self.times)
        stack: List[Tuple[_Node, Iterator[int]]] = []
        self._enter(_Node((0,) * jobs, (0.0,) * jobs, {d: 0.0 for d in self.work}, dict(self.work)), stack)
        while stack:
            node, rivals = stack[-1]
            j = next(rivals, None)
            if j is None:
                stack.pop()
            elif self.length_us < INFINITY and self._over():
                self._stopped = True
                stack.pop()
            else:
                self._enter(self._after(node, j), stack)

    def _over(self) -> bool:
        late = self._nodes % 64 == 0 and self.deadline.passed
        return late or self._nodes > SEARCH_NODES

    def _earliest(self, node: _Node, j: int) -> float:
        return max(node.job_free[j], node.device_free[self.devices[j][node.done[j]]])

    def _after(self, node: _Node, j: int) -> _Node:
        """The node with the next segment of job `j` at its earliest."""
        k, start = node.done[j], self._earliest(node, j)
        time_us, device = self.times[j][k], self.devices[j][k]
        self._current[j][k] = start
        return _Node(
            (*node.done[:j], k + 1, *node.done[j + 1 :]),
            (*node.job_free[:j], start + time_us, *node.job_free[j + 1 :]),
            {**node.device_free, device: start + time_us},
            {**node.rest, device: node.rest[device] - time_us},
        )

    def _enter(self, node: _Node, stack: List[Tuple[_Node, Iterator[int]]]) -> None:
        """Handles a node: drops it, records a complete schedule, or pushes it with its next segments."""
        self._nodes += 1
        jobs = range(len(self.times))
        lower = max(
            [node.job_free[j] + self.left[j][node.done[j]] for j in jobs]
            + [node.device_free[d] + node.rest[d] for d in node.rest],
            default=0.0,
        )
        if lower >= self.length_us * (1 - 1e-12):
            return
        waiting = [j for j in jobs if node.done[j] < len(self.times[j])]
        if not waiting:
            self.length_us, self.starts = lower, [list(s) for s in self._current]
            return
        ends = {j: self._earliest(node, j) + self.times[j][node.done[j]] for j in waiting}
        first = min(waiting, key=lambda j: (ends[j], j))
        device = self.devices[first][node.done[first]]
        rivals = [
            j
            for j in waiting
            if j == first or (self.devices[j][node.done[j]] == device and self._earliest(node, j) < ends[first])
        ]
        stack.append((node, iter(sorted(rivals, key=lambda j: (-self.left[j][node.done[j]], j)))))
