"""`edgedla.predict`: given assignments without solving, streams in parallel, formats of inputs and outputs, memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Dict, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import edgedla
from edgedla.builder.request import BuildRequest, resolved
from edgedla.errors import ModelError, UsageError
from edgedla.graph import LayerGraph
from edgedla.placement.check_cost import check
from edgedla.placement.prediction.streams import Lane, side_by_side
from edgedla.placement.problem.model import Model, import_notes
from edgedla.targets import platform_for
from tests.importers import test_shared_parameters as shared_parameters
from tests.models import node, onnx_model
from tests.placement.placement_models import refused_model, small_model

ORIN = {"target": "agx-orin-64gb", "precision": "int8"}


def no_contention(device: str, demand: float, external: float) -> float:
    return 1.0


def test_predict_of_a_placement_equals_place() -> None:
    model = small_model()
    placement = edgedla.place(model, **ORIN)
    prediction = edgedla.predict(model, devices=placement, **ORIN)
    assert prediction.latency == placement.figures.latency
    assert len(prediction.streams[0].loadables) == sum(placement.figures.regions.values())
    gpu = edgedla.predict(model, devices="GPU", **ORIN)
    baseline = next(b for b in placement.baselines if b.name == "gpu")
    assert gpu.latency == baseline.figures.latency


def test_predict_accepts_a_placement_file(tmp_path) -> None:
    placement = edgedla.place(small_model(), **ORIN)
    path = tmp_path / "placement.json"
    path.write_text(placement.to_json(), encoding="utf-8")
    assert edgedla.predict(small_model(), devices=str(path), **ORIN).latency == placement.figures.latency


@pytest.mark.parametrize(
    ("trt", "devices", "broken"),
    [
        ("8.4", ["DLA0"], 0),
        ("8.4", ["DLA0", "DLA0"], 0),
        ("8.4", ["DLA0", "DLA0", "DLA0"], 3),
        ("8.4", ["DLA0", "DLA0", "DLA1"], 0),
        ("8.4", ["DLA0", "DLA0", "DLA0", "DLA1"], 3),
        ("8.5", ["DLA0", "DLA0", "DLA0"], 0),
    ],
)
def test_the_models_together_keep_to_the_loadables_in_use(trt: str, devices: List[str], broken: int) -> None:
    """Two loadables each; LOAD004: with 8.0 to 8.4 a core holds four at once."""
    p = edgedla.predict([small_model()] * len(devices), target="agx-xavier", trt=trt, precision="int8", devices=devices)
    says = [s.broken for s in p.streams if s.broken]
    assert says == [("DLA0 would hold 6 loadables, limit 4",)] * broken


@pytest.mark.parametrize(
    ("asked", "platform"),
    [
        ({}, ("orin-nx-16gb", "10.3.0", "int8")),
        ({"target": "orin-nx-16gb", "precision": "fp16"}, ("orin-nx-16gb", "10.3.0", "fp16")),
        ({"trt": "8.5"}, ("orin-nx-16gb", "8.5.2", "int8")),
        ({"target": "xavier-nx-8gb"}, ("xavier-nx-8gb", "8.5.2", "int8")),
    ],
)
def test_build_and_predict_take_the_same_platform_of_a_placement(asked: Dict[str, str], platform: Tuple[str, ...]) -> None:
    placement = edgedla.place(small_model(), target="orin-nx-16gb", precision="int8")
    built = resolved(BuildRequest(placement=placement, **{"target": "", "precision": "", **asked}))
    predicted = edgedla.predict(small_model(), devices=placement, **asked)
    release = platform_for(built.target, jetpack=built.jetpack, trt=built.trt).release
    assert (built.target, release.trt_text, built.precision) == platform
    made = predicted.platform
    assert (made["target"], made["trt"], predicted.precision) == platform


def test_predict_takes_platform_precision_and_mode_of_the_placement() -> None:
    placement = edgedla.place(small_model(), target="orin-nx-16gb", jetpack="6.1", precision="int8", power_mode="10W")
    prediction = edgedla.predict(small_model(), devices=placement)
    assert prediction.latency == placement.figures.latency
    assert (prediction.precision, prediction.costs["power_mode"]) == ("int8", "10W")
    assert prediction.platform == placement.platform
    assert not any("was made for" in note for note in prediction.notes)


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ({"precision": "fp16"}, "made for INT8; this prediction is for FP16"),
        ({"power_mode": "15W"}, "made for 10W; this prediction is for 15W"),
        ({"trt": "8.5"}, "made for TensorRT 10.3.0; this prediction is for TensorRT 8.5.2"),
        ({"clocks": {"gpu": 300.0}}, "made for clocks of "),
        ({"target": "orin-nx-8gb"}, "made for Jetson Orin NX 16GB, 10W; this prediction is for Jetson Orin NX 8GB, MAXN"),
    ],
)
def test_predict_notes_arguments_other_than_the_placements(asked, note: str) -> None:
    placement = edgedla.place(small_model(), target="orin-nx-16gb", precision="int8", power_mode="10W")
    notes = edgedla.predict(small_model(), devices=placement, **asked).notes
    assert sum(note in text for text in notes) == 1, notes


def test_without_a_placement_a_module_must_be_named() -> None:
    with pytest.raises(UsageError, match="no module is named"):
        edgedla.predict(small_model(), devices="GPU")
    assert edgedla.predict(small_model(), target="orin-nx-16gb").precision == "int8", "as `edgedla check` answers"


def test_pipelined_throughput_equals_place() -> None:
    placement = edgedla.place(small_model(), objective="throughput", **ORIN)
    prediction = edgedla.predict(small_model(), devices=placement, **ORIN)
    assert prediction.pipeline_fps == placement.figures.throughput_fps
    assert prediction.to_dict()["pipeline_fps"] == pytest.approx(placement.figures.throughput_fps, abs=1e-3)
    split = edgedla.predict(small_model(), devices="conv1:GPU,*:DLA", **ORIN)
    assert split.throughput_fps < split.pipeline_fps, "one frame is on one engine at a time"


def test_the_energy_of_a_period_is_that_of_all_devices() -> None:
    nodes = [node("MaxPool", "x", "a", kernel_shape=[2, 2], strides=[2, 2]), node("Erf", "a", "y")]
    model = onnx_model(nodes, {"x": (1, 16, 64, 64)}, {"y": (1, 16, 32, 32)})
    prediction = edgedla.predict(model, devices="DLA0", **ORIN)
    assert {s.parts.gpu_us > 0 < s.parts.dla_us for s in prediction.streams} == {True}
    assert prediction.period.latency_us < prediction.latency.latency_us
    assert prediction.period.energy_mj == pytest.approx(prediction.latency.energy_mj)
    figures = edgedla.place(model, objective="throughput", in_flight="one", **ORIN).figures
    assert figures.period.energy_mj == pytest.approx(figures.energy.energy_mj)


def test_pins_as_text_and_as_mapping_predict_the_same() -> None:
    text = edgedla.predict(small_model(), devices="conv1:GPU,*:DLA", **ORIN).streams[0]
    mapping = edgedla.predict(small_model(), devices={"conv1": "GPU", "*": "DLA0"}, **ORIN).streams[0]
    assert text.layers == mapping.layers
    assert text.layers["GPU"] > edgedla.predict(small_model(), devices="DLA0", **ORIN).streams[0].layers.get("GPU", 0)


@pytest.mark.parametrize("devices", ["TPU", "DLA7", ["GPU", "GPU"], "conv1:NPU", {"none": "GPU"}])
def test_an_unknown_assignment_is_wrong_use(devices) -> None:
    with pytest.raises(UsageError):
        edgedla.predict(small_model(), devices=devices, **ORIN)


def test_a_model_that_the_dla_refuses_is_predicted_on_the_gpu() -> None:
    stream = edgedla.predict(refused_model(), devices="DLA0", **ORIN).streams[0]
    assert set(stream.layers) == {"GPU"}
    assert not stream.loadables


def test_formats_of_the_dla_at_the_border_need_no_reformat() -> None:
    model = small_model(pool=False)
    linear = edgedla.predict(model, devices="DLA0", **ORIN)
    native = edgedla.predict(model, devices="DLA0", borders="dla", **ORIN)
    half = edgedla.predict(model, devices="DLA0", borders={"inputs": "int8:chw32"}, **ORIN)
    assert native.latency_us < half.latency_us < linear.latency_us
    assert native.streams[0].gpu_visits < linear.streams[0].gpu_visits
    with pytest.raises(UsageError, match="format"):
        edgedla.predict(model, devices="DLA0", borders="nhwc", **ORIN)


def test_fp16_outputs_of_an_int8_engine_cost_the_layers_that_write_them_in_fp16() -> None:
    """YOLOv5s took 3.82 ms with FP16 outputs and about 2.4 with INT8 ones (row p317 and p319): its three last convolutions."""
    clocks = {"dla": 1331.0, "gpu": 1275.0, "emc": 3199.0}

    def latency_us(channels: int, size: int, outputs: str) -> float:
        model = onnx_model(
            [node("Conv", "x w", "y", kernel_shape=[1, 1])],
            {"x": (1, channels, size, size)},
            {"y": (1, 255, size, size)},
            {"w": np.zeros((255, channels, 1, 1), np.float32)},
        )
        borders = {"inputs": "dla", "outputs": outputs}
        return edgedla.predict(model, devices="DLA0", borders=borders, clocks=clocks, trt="8.6", **ORIN).latency_us

    heads = [(128, 84), (256, 42), (512, 21)]
    int8, named, plain = (sum(latency_us(*head, text) for head in heads) for text in ("int8:chw32", "fp16:chw16", "FP16"))
    assert named == plain
    assert named - int8 == pytest.approx((3.82 - 2.4) * 1e3, rel=0.25)
    assert sum(latency_us(*head, "fp16:linear") for head in heads) == sum(latency_us(*head, "linear") for head in heads)


def test_lower_clocks_take_longer() -> None:
    top = edgedla.predict(small_model(), devices="DLA0", **ORIN)
    slow = edgedla.predict(small_model(), devices="DLA0", clocks={"dla": 400}, **ORIN)
    assert slow.latency_us > top.latency_us


def test_an_open_height_is_refused_with_the_option_that_fixes_it() -> None:
    model = small_model()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    for call in (edgedla.predict, edgedla.place):
        with pytest.raises(UsageError, match="leaves height open .* give --shapes "):
            call(model, **ORIN)


def test_a_size_that_depends_on_the_data_is_refused() -> None:
    model = small_model()
    output = model.graph.output[0].name
    model.graph.node.append(helper.make_node("NonZero", [output], ["where"], name="where"))
    model.graph.output[0].name = "where"
    model.graph.output[0].type.tensor_type.elem_type = 7
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for call in (edgedla.predict, edgedla.place):
        with pytest.raises(ModelError, match="depends on the data"):
            call(model, **ORIN)


def test_an_open_batch_costs_what_a_batch_of_one_costs() -> None:
    model = small_model()
    one = edgedla.predict(model, **ORIN).latency_us
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    assert edgedla.predict(model, **ORIN).latency_us == one
    assert edgedla.predict(model, batch=4, **ORIN).latency_us > one


def test_a_recurrent_network_is_predicted_as_one_gpu_segment() -> None:
    zeros = lambda name, *dims: numpy_helper.from_array(np.zeros(dims, np.float32), name)  # noqa: E731
    model = onnx_model(
        [node("LSTM", "x w r", "y", "lstm", hidden_size=8)],
        {"x": (5, 1, 4)},
        {"y": (5, 1, 1, 8)},
        [zeros("w", 1, 32, 4), zeros("r", 1, 32, 8)],
        name="recurrent",
    )
    assert isinstance(model, onnx.ModelProto)
    for objective in ("latency", "throughput", "energy"):
        placement = edgedla.place(model, objective=objective, **ORIN)
        assert {x.device for x in placement.models[0].layers} == {"GPU"}
        assert placement.proof.optimal
    assert edgedla.predict(model, **ORIN).streams[0].layers.keys() == {"GPU"}


def test_streams_on_separate_engines_keep_their_frame_time() -> None:
    lanes = [Lane((("DLA0", 100.0),), {}, {}), Lane((("DLA1", 50.0),), {}, {})]
    assert [p.frame_us for p in side_by_side(lanes, no_contention)] == pytest.approx([100.0, 50.0])


@pytest.mark.parametrize("one_process", [False, True])
def test_streams_on_one_core_take_turns_by_loadables(one_process: bool) -> None:
    whole = [Lane((("DLA0", us),), {}, {}) for us in (100.0, 50.0)]
    frames = [p.frame_us for p in side_by_side(whole, no_contention, kernels=one_process)]
    assert frames == pytest.approx([150.0, 150.0], rel=1e-4)
    parts = [Lane((("GPU", 10.0), ("DLA0", 60.0), ("GPU", 10.0)), {}, {})] * 3
    paces = side_by_side(parts, no_contention, kernels=one_process)
    assert sum(p.busy["DLA0"] for p in paces) <= 1.0


def test_streams_do_not_use_more_than_all_of_a_devices_time() -> None:
    models = [small_model()] * 3
    for one_process in (False, True):
        prediction = edgedla.predict(models, devices="DLA0", one_process=one_process, **ORIN)
        assert sum(s.busy["DLA0"] for s in prediction.streams) <= 1.0
        assert prediction.throughput_fps <= 3 * prediction.pipeline_fps


@pytest.mark.parametrize("one_process", [False, True])
def test_a_stream_without_work_takes_no_time_and_delays_no_other(one_process: bool) -> None:
    busy = Lane((("GPU", 50.0),), {}, {})
    for lanes in ([Lane((), {}, {})], [Lane((("GPU", 0.0),), {}, {})], [Lane((), {}, {}), busy]):
        paces = side_by_side(lanes, no_contention, kernels=one_process)
        assert [p.frame_us for p in paces] == pytest.approx([0.0, 50.0][: len(lanes)], abs=1e-6)


def test_each_gpu_segment_waits_for_one_frame_of_a_saturating_stream() -> None:
    lanes = [Lane((("GPU", 1000.0),), {}, {}), Lane((("GPU", 1.0), ("DLA0", 800.0), ("GPU", 1.0)), {}, {})]
    gpu, dla = side_by_side(lanes, no_contention)
    assert gpu.frame_us == pytest.approx(1000.0, rel=0.01)
    assert dla.frame_us == pytest.approx(802.0 + 2 * 1000.0, rel=0.01)


def test_memory_traffic_of_others_slows_transfers_only() -> None:
    def twice(device: str, demand: float, external: float) -> float:
        return 2.0 if external > 0 else 1.0

    lanes = [Lane((("DLA0", 100.0),), {"DLA0": 40.0}, {"DLA0": 1e6}), Lane((("DLA1", 100.0),), {"DLA1": 0.0}, {"DLA1": 1e6})]
    assert [p.frame_us for p in side_by_side(lanes, twice)] == pytest.approx([140.0, 100.0])


def test_the_document_says_where_its_numbers_come_from() -> None:
    prediction = edgedla.predict([small_model(), small_model()], devices=["GPU", "DLA0"], **ORIN)
    document = json.loads(prediction.to_json())
    assert document["concurrent"]
    assert [s["devices"] for s in document["streams"]] == ["GPU", "DLA0"]
    for stream in document["streams"]:
        assert stream["latency"]["basis"] in ("fitted", "guessed")
        assert stream["together"]["latency_us"] >= stream["latency"]["latency_us"] - 0.001
        assert stream["weight_bytes"] > 0


def test_a_loadable_above_a_memory_pool_names_the_pool() -> None:
    from edgedla.placement.prediction.memory import loadable_memory
    from edgedla.placement.problem.problem import Limits

    graph = edgedla.load_onnx(small_model())
    layers = [layer.index for layer in graph.layers]
    memory = loadable_memory(graph, layers, "int8", Limits(global_dram_bytes=1, local_dram_bytes=1), 1 << 20)
    assert memory.over == ("dlaGlobalDRAM", "dlaLocalDRAM")
    assert memory.intermediate_bytes >= 256 * 56 * 56


def test_engine_sets_of_resnet50_are_predicted_in_measured_order() -> None:
    """Measured on AGX Orin, frames per second: two DLA cores 1352, all three engines 1197, GPU and one core 1069."""
    from edgedla.costs.networks import network

    graph = network("resnet50_b1")

    def together(*devices: str) -> float:
        prediction = edgedla.predict([graph] * len(devices), devices=list(devices), trt="10.3", **ORIN)
        return prediction.throughput_fps

    two, three, one = together("DLA0", "DLA1"), together("GPU", "DLA0", "DLA1"), together("GPU", "DLA0")
    assert two > three > one
    assert [two, three, one] == pytest.approx([1352, 1197, 1069], rel=0.15)


def test_traffic_slows_an_engine_down_on_its_transfers_alone() -> None:
    from edgedla.costs.cost import Cost
    from edgedla.costs.model import CostModel
    from edgedla.placement.problem.inputs import _slowdown
    from edgedla.placement.problem.problem import Item
    from edgedla.targets import platform_for

    costs = CostModel.load(platform_for("agx-xavier-32gb"), "fp16")

    def item(transfer_us: float) -> Item:
        each = Cost(100.0, 1.0, "fitted", 0.1, 0.1, transfer_us)
        moved = {"GPU": 75e5, "DLA0": 75e5}  # 75 GB/s each: more than the memory gives both
        return Item("x", 0, (0,), ("GPU", "DLA0"), {"GPU": each, "DLA0": each}, traffic_bytes=moved)

    both = frozenset(("GPU", "DLA0"))
    bound, free = (_slowdown([item(t)], ("GPU", "DLA0"), costs)[both] for t in (100.0, 0.0))
    assert min(bound.values()) > 1.3
    assert free == {"GPU": 1.0, "DLA0": 1.0}


def test_streams_of_one_process_take_turns_by_kernels() -> None:
    """No visit waits for a frame; who shares the GPU all the time takes twice as long."""
    lanes = [Lane((("GPU", 1000.0),), {}, {}), Lane((("GPU", 1.0), ("DLA0", 800.0), ("GPU", 1.0)), {}, {})]
    gpu, dla = side_by_side(lanes, no_contention, 80.0, kernels=True)
    assert gpu.frame_us == pytest.approx(1000.0, rel=0.01)
    assert dla.frame_us == pytest.approx(804.0, rel=0.01)
    twice = [Lane((("GPU", 100.0),), {}, {})] * 2
    assert [p.frame_us for p in side_by_side(twice, no_contention, kernels=True)] == pytest.approx([200.0] * 2)


def test_alexnet_on_the_dla_slows_down_as_measured_next_to_a_gpu_network() -> None:
    """On AGX Xavier, HaX-CoNN: 4.41 ms alone on the DLA, 5.71 to 6.25 ms beside six networks on the GPU: 1.30 to 1.42."""
    from edgedla.costs.networks import network

    beside = edgedla.predict(
        [replace(network(name), lowering="8.5") for name in ("alexnet_caffe", "resnet50_b1")],
        devices=["DLA0", "GPU"],
        target="agx-xavier-32gb",
        precision="fp16",
        one_process=True,
    )
    alexnet = beside.streams[0]
    assert 1.25 < alexnet.together.latency_us / alexnet.latency.latency_us < 1.5


def test_notes_of_several_models_are_prefixed_with_their_names():
    def model(name, *notes):
        return Model(LayerGraph(name, (), {}, (), (), notes=notes), ())

    a, b = model("a", "weights are missing"), model("b", "weights are missing", "batch ? taken as 1")
    assert import_notes([a]) == ["weights are missing"]
    assert import_notes([a, b]) == ["a: weights are missing", "b: weights are missing", "b: batch ? taken as 1"]


def test_the_format_of_a_tensor_that_is_no_border_is_refused() -> None:
    with pytest.raises(UsageError, match="borders: 'xx' is not an input or output") as caught:
        edgedla.predict(onnx_model([node("Relu", "x", "y")], outputs={"y": (1, 3, 8, 8)}), target="orin", borders={"xx": "dla"})
    assert caught.value.allowed == "x, y, inputs, outputs"


def test_an_untrained_export_is_answered_as_the_trained_model_and_the_file_is_named() -> None:
    """As `check` answers; what trtexec makes of the file, whose convolutions with shared parameters stay on the GPU, is a note."""
    untrained, trained = (shared_parameters.network(trained=t, blocks=4) for t in (False, True))
    said = next(n for n in check(untrained, **ORIN).notes if "the trained model" in n)
    placed, of_trained = (edgedla.place(m, **ORIN) for m in (untrained, trained))
    assert placed.proof.value == pytest.approx(of_trained.proof.value)
    assert said in placed.notes
    assert edgedla.verify(placed, [untrained]) == ()
    for devices in ("tensorrt", "DLA0", "GPU", placed):
        one = edgedla.predict(untrained, devices=devices, **ORIN)
        other = edgedla.predict(trained, devices="DLA0" if devices is placed else devices, **ORIN)
        assert said in one.notes
        assert said not in other.notes
        assert devices is placed or one.latency_us == pytest.approx(other.latency_us)
