"""Which of two ways to run networks is faster: every published comparison whose networks are in the repository."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional, Tuple

import pytest

import edgedla
from edgedla.costs.networks import network
from edgedla.placement.prediction.prediction import Prediction

GUIDE = "yyshin-katech/embedded-ai-quantization-guide@c042cb1"
HAXCONN = "ismetdagli/HaX-CoNN@87f5f25"

#: Parser whose layers the carried networks are taken for, by target: the carried ones hold what both releases agree on.
PARSER = {"agx-xavier-32gb": "8.5", "agx-orin-32gb": "10.3", "agx-orin-64gb": "10.3"}


@dataclass(frozen=True)
class Run:
    """Networks side by side, a device each, and what was measured (ms)."""

    devices: Tuple[str, ...]
    measured_ms: float
    measure: str = "longest"


@dataclass(frozen=True)
class Comparison:
    """Runs by measured time, the fastest first, as the source states them."""

    source: str
    target: str
    precision: str
    networks: Tuple[str, ...]
    runs: Tuple[Run, ...]
    power_mode: Optional[str] = None

    def __str__(self) -> str:
        return f"{'+'.join(self.networks)} {self.precision} {self.target} {self.power_mode or ''}".strip()


def per_frame(*devices: str, fps: float) -> Run:
    return Run(devices, 1e3 / fps, "per frame")


RESNET50 = ("resnet50_b1",)
COMPARISONS = (
    Comparison(
        GUIDE,
        "agx-orin-64gb",
        "int8",
        RESNET50,
        (
            per_frame("DLA0", "DLA1", fps=1351.53),
            per_frame("GPU", "DLA0", "DLA1", fps=1197.17),
            per_frame("GPU", "DLA0", fps=1069.48),
        ),
    ),
    Comparison(GUIDE, "agx-orin-64gb", "fp16", RESNET50, (Run(("GPU",), 1.0293), Run(("DLA0",), 17.7344))),
    Comparison(
        HAXCONN,
        "agx-xavier-32gb",
        "fp16",
        ("alexnet_caffe", "resnet101"),
        (Run(("GPU", "DLA0"), 10.4), Run(("GPU", "GPU"), 13.4, "sum")),
    ),
)

#: Measured 8 % apart, less than the predictions' spread: the order is not told, and is predicted the other way round.
CLOSE = Comparison(GUIDE, "agx-orin-64gb", "int8", RESNET50, (Run(("DLA0",), 1.31665), Run(("GPU",), 1.43555)), "50W")

#: On one GPU, GoogLeNet and ResNet-101 took 1.3 times as long as one after the other, AlexNet and ResNet-101 twice: the small
#: kernels of GoogLeNet run beside others. The model lets the GPU run one kernel at a time. Nothing else that is published says
#: how much overlaps: the sum of 8.1 ms leaves each network about as long as ResNet-101 alone. Two engines in one process with a
#: common start, and the time of every frame of both, would settle it.
OVERLAPPING = (
    Comparison(
        HAXCONN,
        "agx-xavier-32gb",
        "fp16",
        ("googlenet_caffe", "resnet101"),
        (Run(("GPU", "GPU"), 8.1, "sum"), Run(("GPU", "DLA0"), 10.2)),
    ),
    Comparison(
        HAXCONN,
        "agx-orin-32gb",
        "int8",
        ("googlenet_caffe", "resnet101"),
        (Run(("GPU", "GPU"), 2.42, "sum"), Run(("GPU", "DLA0"), 2.99, "sum")),
    ),
)


def predicted_ms(c: Comparison, run: Run) -> float:
    prediction = predicted(c, run)
    if run.measure == "per frame":
        return 1e3 / prediction.throughput_fps
    times = [s.together.latency_us / 1e3 for s in prediction.streams]
    return sum(times) if run.measure == "sum" else max(times)


def predicted(c: Comparison, run: Run) -> Prediction:
    names = c.networks * (len(run.devices) if len(c.networks) == 1 else 1)
    return edgedla.predict(
        [replace(network(name), lowering=PARSER[c.target]) for name in names],
        devices=list(run.devices),
        target=c.target,
        precision=c.precision,
        power_mode=c.power_mode,
        one_process=c.source == HAXCONN,
    )


@pytest.mark.parametrize("comparison", COMPARISONS, ids=str)
def test_published_orders_of_placements_are_predicted(comparison: Comparison) -> None:
    measured = [run.measured_ms for run in comparison.runs]
    assert measured == sorted(measured)
    times = [predicted_ms(comparison, run) for run in comparison.runs]
    assert times == sorted(times)
    assert times == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize("comparison", OVERLAPPING, ids=str)
@pytest.mark.xfail(strict=True, reason="small kernels of two networks overlap on the GPU, which the model does not know")
def test_the_order_of_networks_whose_kernels_overlap_is_not_predicted_yet(comparison: Comparison) -> None:
    times = [predicted_ms(comparison, run) for run in comparison.runs]
    assert times == sorted(times)


def test_one_network_per_engine_is_predicted_closely_though_the_order_is_wrong() -> None:
    xavier = OVERLAPPING[0]
    assert predicted_ms(xavier, xavier.runs[1]) == pytest.approx(10.2, rel=0.15)


def test_measured_times_of_two_close_engines_lie_within_the_spread() -> None:
    latencies = [predicted(CLOSE, run).streams[0].latency for run in CLOSE.runs]
    spread = max(cost.spread for cost in latencies)
    for cost, run in zip(latencies, CLOSE.runs):
        assert cost.latency_us / 1e3 == pytest.approx(run.measured_ms, rel=spread)
        assert cost.latency_us == pytest.approx(latencies[0].latency_us, rel=spread)
