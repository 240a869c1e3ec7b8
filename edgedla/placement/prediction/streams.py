"""Streams side by side: latency and rate of each stream while other streams run on the same board.

Each stream has one frame in flight, like one execution context. Three things slow it down:

- It shares the GPU, in one of two ways.
  Streams in separate processes take turns by frames: kernels that another process has queued run first, and switching
  between processes takes the GPU time. Per visit of a part of own_us:
      wait = sum over parts of other streams of (part_us + switch_us) * meets
      meets = min(1, max(own_us + its wait, part_us + switch_us + its wait) / the other's frame)
  So a short visit waits for one whole frame of a stream that fills the GPU, and such a stream waits for every visit during
  its own frame.
  Streams of one process take turns by kernels, so nobody waits for a whole frame: while another stream works too, a part
  takes twice as long.
      wait = own_us * sum over other streams of the share of the time that they are on the GPU, working or waiting
  On Orin figures contradict each other: where both ways differ by UNDECIDED, the spread covers both (`Beside`).
- It shares a DLA core with the other streams on it. A core runs one loadable to its end before the next, so a part waits
  for theirs as for frames on the GPU, without a switch; no figures of streams that share a core are published.
- Shared memory: its transfers take longer by the factor of `CostModel.transfer_factor` for what all engines move.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from edgedla.costs.cost import Cost
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import segments
from edgedla.vocabulary import GPU

#: Time to switch the GPU to the kernels of another process, in microseconds: fitted to four measurements of two ResNet-50
#: side by side on AGX Orin (embedded-ai-quantization-guide, concurrent_power_summary.json).
GPU_SWITCH_US = 80.0

#: Relative standard deviation of a frame that other streams make twice as long or longer; proportionally less below.
BESIDE_SPREAD = 0.3

#: On Xavier figures exceed the factor by up to this share: GoogLeNet beside itself slows the GPU down 1.69 times and the DLA 1.28 times,
#: predicted 1.09 and 1.04; AlexNet beside six networks is within 0.1. What slows the GPU down there is not known.
XAVIER_SPREAD = 0.3

#: How much longer one way of taking turns makes a frame than the other before both are stated.
UNDECIDED = 0.3

#: Most rounds of the fixed point; it has converged when frames and waits change by less than SETTLED, as a share of the frame.
ROUNDS, SETTLED = 2_000, 1e-7

#: Minimum time of a frame: one without work would be halved each round until it is 0.
LEAST_US = 1e-9

#: STEP: share of the change that a round applies, because streams that wait for each other would oscillate. After SWINGING
#: rounds, each oscillation multiplies the share by SHORTER.
STEP, SWINGING, SHORTER = 0.5, 100, 0.8


class Lane(NamedTuple):
    """One frame of a stream: (device, time_us alone) of every segment in order, and its memory traffic.

    Attributes:
        transfer_us: by device, the memory-bound part of its time.
        traffic_bytes: by device, DRAM bytes per frame.
    """

    segments: Tuple[Tuple[str, float], ...]
    transfer_us: Mapping[str, float]
    traffic_bytes: Mapping[str, float]

    @property
    def alone_us(self) -> float:
        return sum(t for _, t in self.segments)

    @property
    def gpu_parts(self) -> Tuple[float, ...]:
        return tuple(t for d, t in self.segments if d == GPU)


def lanes_of(problem: Problem, evaluation: Evaluation) -> Tuple[Lane, ...]:
    """One lane per model."""
    return tuple(lane_of(problem, evaluation, m) for m in range(len(problem.models)))


def lane_of(problem: Problem, evaluation: Evaluation, m: int) -> Lane:
    """The lane of one model."""
    parts = tuple((s.device, s.time_us) for s in segments(problem, evaluation, m))
    transfer = {device: cost.transfer_us for (model, device), cost in evaluation.loads.items() if model == m}
    traffic: Dict[str, float] = {}
    for i in problem.items_of(m):
        item, device = problem.items[i], evaluation.assignment[i]
        traffic[device] = traffic.get(device, 0.0) + item.traffic(device)
    return Lane(parts, transfer, traffic)


class Pace(NamedTuple):
    """A stream beside others: time of one frame, and by device the share of time that it keeps it busy and its wait for it."""

    frame_us: float
    busy: Mapping[str, float]
    waiting_us: Mapping[str, float]


def beside_spread(stretch: float) -> float:
    """Spread of the factor by which other streams slow a frame down; 0 if nothing runs beside it."""
    return BESIDE_SPREAD * min(max(stretch - 1.0, 0.0), 1.0)


class Beside(NamedTuple):
    """Paces of streams side by side.

    Attributes:
        others: paces by the other way of taking turns on the GPU, where figures do not tell which one holds; () elsewhere.
        least: spread of the factor of any stream beside others.
    """

    paces: Tuple[Pace, ...]
    others: Tuple[Pace, ...] = ()
    least: float = 0.0

    def spread(self, m: int, stretch: float) -> float:
        """Spread of the factor of stream m; it covers the other way where both differ by UNDECIDED."""
        low, high = self.range_us(m)
        covered = max(high - self.paces[m].frame_us, self.paces[m].frame_us - low) / self.paces[m].frame_us
        return max(beside_spread(stretch), covered, self.least)

    def range_us(self, m: int) -> Tuple[float, float]:
        """Shortest and longest frame of stream m by both ways; twice the same where they differ by less than UNDECIDED."""
        frame_us = self.paces[m].frame_us
        other_us = self.others[m].frame_us if self.others else frame_us
        low, high = sorted((frame_us, other_us))
        return (low, high) if high > (1 + UNDECIDED) * low else (frame_us, frame_us)

    def together(self, m: int, alone: Cost) -> Cost:
        """Cost of one frame of stream m at its pace beside others."""
        stretch = self.paces[m].frame_us / alone.latency_us if alone.latency_us > 0 else 1.0
        return alone.stretched(stretch, self.spread(m, stretch))


def by_kernels(chip: str, one_process: bool) -> bool:
    """Whether streams take turns on the GPU by kernels, not by frames."""
    return one_process or chip == "xavier"


def beside(lanes: Sequence[Lane], contention: object, chip: str, one_process: bool) -> Beside:
    """Paces of streams side by side on a chip, by both ways of taking turns where figures do not tell which holds."""
    kernels = by_kernels(chip, one_process)
    paces = side_by_side(lanes, contention, GPU_SWITCH_US, kernels)
    if len(lanes) < 2:
        return Beside(paces)
    if kernels:
        return Beside(paces, least=XAVIER_SPREAD if chip == "xavier" else 0.0)
    return Beside(paces, side_by_side(lanes, contention, GPU_SWITCH_US, True))


def side_by_side(lanes: Sequence[Lane], contention: object, switch_us: float = 0.0, kernels: bool = False) -> Tuple[Pace, ...]:
    """The paces of streams that run side by side.

    Args:
        contention: CostModel.transfer_factor: (device, its GB/s while it works, GB/s of the others) -> factor on transfers.
        switch_us: time to switch the GPU from one process to another.
        kernels: the streams take turns on the GPU by kernels, not by frames.
    """
    frame = [max(lane.alone_us, LEAST_US) for lane in lanes]
    devices = _shared(lanes)
    waiting = [dict.fromkeys(devices, 0.0) for _ in lanes]
    step, last = STEP, [0.0] * len(lanes)
    for round_ in range(ROUNDS):
        slowed = [_stretched(k, lanes, frame, contention) for k in range(len(lanes))]
        new, waits = [], []
        for k in range(len(lanes)):
            wait = {}
            for device in devices:
                if device == GPU and kernels:
                    turns = _gpu_shared(k, slowed, frame, waiting)
                else:
                    turns = _queue(device, k, slowed, frame, waiting, switch_us if device == GPU else 0.0)
                wait[device] = (1 - step) * waiting[k][device] + step * turns
            waits.append(wait)
            frame_us = sum(t for _, t in slowed[k]) + sum(wait.values())
            new.append(max((1 - step) * frame[k] + step * frame_us, LEAST_US))
        moved = max(
            (
                max(abs(new[k] - frame[k]), *(abs(waits[k][d] - waiting[k][d]) for d in devices), 0.0) / frame[k]
                for k in range(len(lanes))
            ),
            default=0.0,
        )
        way = [a - b for a, b in zip(new, frame)]
        if round_ > SWINGING and sum(a * b for a, b in zip(way, last)) < 0:
            step *= SHORTER
        frame, waiting, last = new, waits, way
        # With a shorter step a small change proves less.
        if moved < SETTLED * step / STEP:
            break
    return tuple(Pace(frame[k], _busy(_stretched(k, lanes, frame, contention), frame[k]), waiting[k]) for k in range(len(lanes)))


def _shared(lanes: Sequence[Lane]) -> Tuple[str, ...]:
    """The devices that more than one stream uses."""
    used = [{device for device, _ in lane.segments} for lane in lanes]
    return tuple(sorted(d for d in set().union(*used) if sum(d in devices for devices in used) > 1))


def _gpu_shared(
    k: int, slowed: Sequence[Sequence[Tuple[str, float]]], frame: Sequence[float], waiting: Sequence[Mapping[str, float]]
) -> float:
    """Time that one frame of stream k loses to the kernels of other streams, which take turns with its own."""
    # A stream is on the GPU while it works there and while it waits there.
    shares = ((_on_gpu(parts) + waiting[j][GPU]) / frame[j] for j, parts in enumerate(slowed) if j != k)
    return _on_gpu(slowed[k]) * sum(min(share, 1.0) for share in shares)


def _on_gpu(parts: Sequence[Tuple[str, float]]) -> float:
    return sum(t for d, t in parts if d == GPU)


def _queue(
    device: str,
    k: int,
    slowed: Sequence[Sequence[Tuple[str, float]]],
    frame: Sequence[float],
    waiting: Sequence[Mapping[str, float]],
    switch_us: float,
) -> float:
    """Sum of the waits of one frame of stream k for a device. `waiting`: those of every stream in the last round."""
    visits = [sum(d == device for d, _ in parts) or 1 for parts in slowed]
    wait = 0.0
    for own_us in (t for d, t in slowed[k] if d == device):
        visit_us = own_us + waiting[k][device] / visits[k]
        for other, parts in enumerate(slowed):
            if other != k:
                for part_us in (t + switch_us for d, t in parts if d == device):
                    meets = max(visit_us, part_us + waiting[other][device] / visits[other]) / frame[other]
                    wait += part_us * min(meets, 1.0)
    return wait


def _stretched(k: int, lanes: Sequence[Lane], frame: Sequence[float], contention: object) -> List[Tuple[str, float]]:
    """The segments of a stream with transfers slowed down by the traffic of other streams."""
    lane = lanes[k]
    external = sum(sum(other.traffic_bytes.values()) / frame[j] / 1e3 for j, other in enumerate(lanes) if j != k)
    alone = _busy(lane.segments, 1.0)
    factor: Dict[str, float] = {}
    for device, time_us in alone.items():
        demand = lane.traffic_bytes.get(device, 0.0) / time_us / 1e3 if time_us > 0 else 0.0
        share = min(lane.transfer_us.get(device, 0.0) / time_us, 1.0) if time_us > 0 else 0.0
        slow = contention(device, demand, external)  # type: ignore[operator]
        factor[device] = 1.0 + share * (slow - 1.0)
    return [(d, t * factor[d]) for d, t in lane.segments]


def _busy(segments: Sequence[Tuple[str, float]], frame_us: float) -> Mapping[str, float]:
    busy: Dict[str, float] = {}
    for device, t in segments:
        busy[device] = busy.get(device, 0.0) + t / frame_us
    return busy
