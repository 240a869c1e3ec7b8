"""Streams side by side: how long a frame takes, and how often one comes, while other streams run on the same board.

Each stream runs on its own, one frame in flight, as one execution context does. Two things slow it down:

- It shares the GPU, in one of two ways.
  Streams in processes of their own take turns by frames: kernels that another process has queued run first, and the GPU
  takes a while to turn from one to another. Per visit of a part of own_us:
      wait = sum over parts of other streams of (part_us + switch_us) * meets
      meets = min(1, max(own_us + its wait, part_us + switch_us + its wait) / the other's frame)
  So a short visit waits for one whole frame of a stream that fills the GPU, and such a stream for every visit that
  comes during its own frame.
  Streams of one process take turns by kernels, so that nobody waits for a frame: while another works too, a part takes
  twice as long.
      wait = own_us * sum over other streams of the share of the time that they are on the GPU, working or waiting
- Shared memory: its transfers take longer by the factor of `CostModel.transfer_factor` for what all engines move.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from edgedla.costs.cost import Cost
from edgedla.vocabulary import GPU

#: What the GPU loses when it turns to the kernels of another process, in microseconds: fitted to the four ways in which
#: ResNet-50 was measured beside itself on AGX Orin (embedded-ai-quantization-guide, concurrent_power_summary.json).
GPU_SWITCH_US = 80.0

#: Relative standard deviation of a frame that other streams make twice as long or longer; less in proportion below.
BESIDE_SPREAD = 0.3

#: Rounds of the fixed point, and the change of all frames and waits, as a share of the frame, at which it has settled.
ROUNDS, SETTLED = 2_000, 1e-7

#: A frame takes no less: one without work would be halved each round until it is 0.
LEAST_US = 1e-9

#: Share of the way to the next times that a round goes: streams that wait for each other would swing. For those that still do
#: after so many rounds, the share falls by this factor at each swing.
STEP, SWINGING, SHORTER = 0.5, 100, 0.8


class Lane(NamedTuple):
    """One stream as its frame runs: (device, time_us alone) of every segment in order, and what it moves.

    Attributes:
        transfer_us: by device, the part of its time that is bound by memory.
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


class Pace(NamedTuple):
    """A stream among others: time of one frame, and the share of time that it keeps each device busy."""

    frame_us: float
    busy: Mapping[str, float]
    waiting_us: float


def beside_spread(stretch: float) -> float:
    """Spread of a factor by which other streams stretch a frame: none where nothing runs beside it."""
    return BESIDE_SPREAD * min(max(stretch - 1.0, 0.0), 1.0)


def together(alone: Cost, pace: Pace) -> Cost:
    """One frame at the pace that the stream has among others."""
    stretch = pace.frame_us / alone.latency_us if alone.latency_us > 0 else 1.0
    return alone.stretched(stretch, beside_spread(stretch))


def side_by_side(
    lanes: Sequence[Lane], contention: object, switch_us: float = 0.0, one_process: bool = False
) -> Tuple[Pace, ...]:
    """The paces at which the streams settle.

    Args:
        contention: CostModel.transfer_factor: (device, its GB/s while it works, GB/s of the others) -> factor on transfers.
        switch_us: what the GPU loses when it turns from one process to another.
        one_process: the streams take turns on the GPU by kernels, not by frames.
    """
    frame = [max(lane.alone_us, LEAST_US) for lane in lanes]
    waiting = [0.0] * len(lanes)
    step, last = STEP, [0.0] * len(lanes)
    for round_ in range(ROUNDS):
        slowed = [_stretched(k, lanes, frame, contention) for k in range(len(lanes))]
        new, waits = [], []
        for k in range(len(lanes)):
            shared = (
                _gpu_shared(k, slowed, frame, waiting)
                if one_process
                else _gpu_wait(k, slowed, frame, waiting, switch_us)
            )
            wait = (1 - step) * waiting[k] + step * shared
            waits.append(wait)
            new.append(max((1 - step) * frame[k] + step * (sum(t for _, t in slowed[k]) + wait), LEAST_US))
        moved = max((max(abs(a - b), abs(c - d)) / b for a, b, c, d in zip(new, frame, waits, waiting)), default=0.0)
        way = [a - b for a, b in zip(new, frame)]
        if round_ > SWINGING and sum(a * b for a, b in zip(way, last)) < 0:
            step *= SHORTER
        frame, waiting, last = new, waits, way
        # A shorter step says as much less.
        if moved < SETTLED * step / STEP:
            break
    return tuple(
        Pace(frame[k], _busy(_stretched(k, lanes, frame, contention), frame[k]), waiting[k]) for k in range(len(lanes))
    )


def _gpu_shared(
    k: int, slowed: Sequence[Sequence[Tuple[str, float]]], frame: Sequence[float], waiting: Sequence[float]
) -> float:
    """What one frame of stream k loses to the kernels of the others, which take turns with its own."""
    # A stream is on the GPU while it works there and while it waits there.
    shares = ((_on_gpu(parts) + waiting[j]) / frame[j] for j, parts in enumerate(slowed) if j != k)
    return _on_gpu(slowed[k]) * sum(min(share, 1.0) for share in shares)


def _on_gpu(parts: Sequence[Tuple[str, float]]) -> float:
    return sum(t for d, t in parts if d == GPU)


def _gpu_wait(
    k: int,
    slowed: Sequence[Sequence[Tuple[str, float]]],
    frame: Sequence[float],
    waiting: Sequence[float],
    switch_us: float,
) -> float:
    """All waits of one frame of stream k; `waiting` holds those of every stream in the round before."""
    visits = [sum(d == GPU for d, _ in parts) or 1 for parts in slowed]
    wait = 0.0
    for own_us in (t for d, t in slowed[k] if d == GPU):
        visit_us = own_us + waiting[k] / visits[k]
        for other, parts in enumerate(slowed):
            if other != k:
                for part_us in (t + switch_us for d, t in parts if d == GPU):
                    meets = max(visit_us, part_us + waiting[other] / visits[other]) / frame[other]
                    wait += part_us * min(meets, 1.0)
    return wait


def _stretched(k: int, lanes: Sequence[Lane], frame: Sequence[float], contention: object) -> List[Tuple[str, float]]:
    """The segments of a stream with their transfers slowed down by what the others move."""
    lane = lanes[k]
    external = sum(sum(other.traffic_bytes.values()) / frame[j] / 1e3 for j, other in enumerate(lanes) if j != k)
    alone: Dict[str, float] = {}
    for device, t in lane.segments:
        alone[device] = alone.get(device, 0.0) + t
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
