"""How streams in separate processes share the GPU: by kernels on Xavier, undecided on Orin."""

from __future__ import annotations

from dataclasses import replace

import pytest

import edgedla
from edgedla.costs.networks import network
from edgedla.placement.prediction.prediction import Prediction
from edgedla.reports.page.numbers import significant
from edgedla.reports.prediction import render_prediction

#: AlexNet on the DLA in a process of its own: the network on the GPU beside it -> its time in ms (HaX-CoNN, z3_overhead.txt;
#: mean of two runs). The other four of its six networks are not carried.
BESIDE_ALEXNET = {"resnet50_b1": 6.30, "resnet101": 5.86}


def side_by_side(names, devices, target: str, trt: str, precision: str, **options) -> Prediction:
    graphs = [replace(network(name), lowering=trt) for name in names]
    return edgedla.predict(graphs, devices=devices, target=target, trt=trt, precision=precision, **options)


@pytest.mark.parametrize("beside", BESIDE_ALEXNET)
def test_on_xavier_a_frame_waits_for_kernels_not_for_frames_of_another_process(beside: str) -> None:
    prediction = side_by_side(("alexnet_caffe", beside), ["DLA0", "GPU"], "agx-xavier-32gb", "8.5", "fp16")
    alexnet, _ = prediction.streams
    assert alexnet.together.latency_us / 1e3 == pytest.approx(BESIDE_ALEXNET[beside], rel=0.3)
    assert not alexnet.open_turns
    one_process = side_by_side(("alexnet_caffe", beside), ["DLA0", "GPU"], "agx-xavier-32gb", "8.5", "fp16", one_process=True)
    assert one_process.streams[0].together.latency_us == pytest.approx(alexnet.together.latency_us)


def test_on_orin_both_ways_are_stated_where_they_differ() -> None:
    """JetPack 5 measured 2.99 ms for the sum of both frames, as by kernels; two ResNet-50 with JetPack 6 take turns by frames."""
    nets, devices = ("googlenet_caffe", "resnet101"), ["GPU", "DLA0"]
    prediction = side_by_side(nets, devices, "agx-orin-32gb", "8.5", "int8")
    low, high = (sum(s.beside_us[end] for s in prediction.streams) / 1e3 for end in (0, 1))
    assert low < 1.3 * 2.99
    assert high > 1.3 * low
    (resnet,) = (s for s in prediction.streams if s.open_turns)
    assert resnet.together.spread > 0.3
    assert any(f"{resnet.name}: beside the others" in note for note in prediction.notes)
    ends = [significant(us / 1e3) for us in resnet.beside_us]
    assert f"  {ends[0]} to {ends[1]}  " in render_prediction(prediction, "text")
    kernels = side_by_side(nets, devices, "agx-orin-32gb", "8.5", "int8", one_process=True)
    assert not any(s.open_turns for s in kernels.streams)
    assert kernels.streams[1].together.latency_us == pytest.approx(resnet.beside_us[0], rel=1e-3)


@pytest.mark.parametrize("target", ["agx-xavier-32gb", "agx-orin-64gb"])
def test_place_paces_streams_as_predict_does(target: str) -> None:
    graphs = [replace(network(name), lowering="8.5") for name in ("resnet18", "resnet34")]
    placed = edgedla.place(graphs, target=target, trt="8.5", objective="throughput", in_flight="one", time_limit_s=1)
    prediction = edgedla.predict(graphs, devices=placed, target=target, trt="8.5", precision=placed.precision)
    frames = [s.together.latency_us for s in prediction.streams]
    assert placed.frame_latency_us == pytest.approx(frames, rel=1e-3)
