"""Measured profiles: edgedla's own document and trtexec's files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgedla.costs.cost import total
from edgedla.costs.model import CostModel
from edgedla.costs.operators import operators_of
from edgedla.costs.profile import Measurement, Profile, operator_signature, parse_profile, positive, read_profile, write_profile
from edgedla.costs.trt_profile import LayerTime, assign, parse_times, with_measurements
from edgedla.errors import DocumentError, UsageError
from edgedla.io.documents import schema
from edgedla.placement.api import place
from edgedla.placement.prediction.predict import predict
from edgedla.placement.worth import costs_of
from edgedla.records.engine_info import parse_engine_info
from edgedla.regions.values import GivenCosts
from edgedla.targets import platform_for
from tests.costs.cost_graphs import Builder, residual_block

ORIN = platform_for("agx-orin-64gb")


def import_trtexec(profile, graph, model, layer_info=None) -> Profile:
    return with_measurements(model, profile, [graph], layer_info).profile


def index_of(graph) -> dict:
    return {layer.name: layer.index for layer in graph.layers}


def profile_of(graph, device: str = "DLA", latency_us: float = 500.0) -> Profile:
    leader = index_of(graph)["conv2"]
    operator = next(o for o in operators_of(graph) if o.leader == leader)
    return Profile(
        "agx-orin-64gb",
        "MAXN",
        "edgedla bench",
        (Measurement(operator_signature(graph, operator), "int8", device, latency_us, 0.02, ("conv2",)),),
    )


def test_a_measured_operator_replaces_the_prediction_of_all_its_layers() -> None:
    graph = residual_block()
    names = index_of(graph)
    costs = CostModel.load(ORIN, "int8", profile=profile_of(graph)).layer_costs(graph)
    measured = costs[names["conv2"], "DLA"]
    assert (measured.latency_us, measured.basis, measured.spread) == (500.0, "measured", 0.02)
    assert measured.energy_mj > 0
    assert costs[names["add"], "DLA"].latency_us == 0
    # conv1 has the same dims, but no Add behind it: another operator, still predicted. So is the other engine.
    assert costs[names["conv1"], "DLA"].basis == "fitted"
    assert costs[names["conv2"], "GPU"].basis == "fitted"


def test_measurements_match_by_layer_content_not_name() -> None:
    graph = residual_block()
    b = Builder()
    first = b.relu(b.conv("in", 64, name="other0"))
    again = b.graph(b.relu(b.plus(b.conv(first, 64, name="other1"), first)))
    costs = CostModel.load(ORIN, "int8", profile=profile_of(graph)).layer_costs(again)
    assert costs[index_of(again)["other1"], "DLA"].latency_us == 500.0


def test_measurements_of_another_precision_module_or_mode_do_not_apply() -> None:
    graph = residual_block()
    profile = profile_of(graph)
    costs = CostModel.load(ORIN, "fp16", profile=profile).layer_costs(graph)
    assert costs[index_of(graph)["conv2"], "DLA"].basis == "fitted"
    for platform, mode in ((ORIN, "15W"), (platform_for("orin-nx-16gb"), "MAXN")):
        with pytest.raises(UsageError, match="measured on agx-orin-64gb MAXN"):
            CostModel.load(platform, "int8", mode, profile=profile)


def test_a_written_profile_reads_back_equal(tmp_path) -> None:
    profile = profile_of(residual_block())
    write_profile(profile, tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == profile


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("document",), "other", "not edgedla's cost-profile document"),
        (("schema_version",), 2, "version"),
        (("target",), None, "target"),
        (("measurements",), {}, "list"),
        (("measurements", 0), "conv", "object"),
        (("measurements", 0, "latency_us"), -1, "latency_us"),
        (("measurements", 0, "latency_us"), float("inf"), "latency_us"),
        (("measurements", 0, "latency_us"), True, "latency_us"),
        (("measurements", 0, "precision"), "fp32", "precision"),
        (("measurements", 0, "device"), "DLA0", "device"),
        (("measurements", 0, "signature"), 3, "signature"),
    ],
)
def test_a_broken_document_is_named(path, value, message: str) -> None:
    document = json.loads(json.dumps(profile_of(residual_block()).to_dict()))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(DocumentError, match=message):
        parse_profile(document)


def trtexec_files(tmp_path, times, layers=None):
    profile = tmp_path / "profile.json"
    entries = [{"count": 100}]
    entries += [{"name": n, "timeMs": 100 * t, "averageMs": t, "medianMs": t, "percentage": 1.0} for n, t in times.items()]
    profile.write_text(json.dumps(entries), encoding="utf-8")
    if layers is None:
        return profile, None
    info = tmp_path / "layers.json"
    info.write_text(json.dumps({"Layers": layers, "Bindings": ["in"]}), encoding="utf-8")
    return profile, info


def described(name: str, kind: str) -> dict:
    return {"Name": name, "LayerType": kind, "Inputs": [], "Outputs": []}


def test_fused_names_of_gpu_layers_are_resolved(tmp_path) -> None:
    graph = residual_block()
    model = CostModel.load(ORIN, "int8")
    profile, _ = trtexec_files(tmp_path, {"conv0 + activation1": 0.03, "conv1 + bn1 + relu1": 0.02, "conv2 + add + relu2": 0.04})
    found = import_trtexec(profile, graph, model)
    assert [(m.device, m.latency_us) for m in found.measurements] == [("GPU", 30), ("GPU", 20), ("GPU", 40)]
    costs = CostModel.load(ORIN, "int8", profile=found).layer_costs(graph)
    whole = total(costs[i, "GPU"] for i in range(len(graph.layers)))
    assert whole.latency_us == pytest.approx(90)
    assert whole.basis == "measured"


def test_a_dla_node_is_split_in_proportion_to_the_prediction(tmp_path) -> None:
    graph = residual_block()
    model = CostModel.load(ORIN, "int8")
    node = "{ForeignNode[conv1...relu2]}"
    files = trtexec_files(
        tmp_path,
        {"conv0 + activation1": 0.03, "Reformatting CopyNode for Input Tensor 0 to " + node: 0.02, node: 0.6},
        [described("conv0 + activation1", "CaskConvolution"), described(node, "DLA")],
    )
    found = import_trtexec(files[0], graph, model, files[1])
    costs = CostModel.load(ORIN, "int8", profile=found).layer_costs(graph)
    names = index_of(graph)
    predicted = model.layer_costs(graph)
    shares = [costs[names[n], "DLA"].latency_us for n in ("conv1", "conv2")]
    assert sum(shares) == pytest.approx(600)
    assert shares[0] / shares[1] == pytest.approx(
        predicted[names["conv1"], "DLA"].latency_us
        / (predicted[names["conv2"], "DLA"].latency_us + predicted[names["add"], "DLA"].latency_us)
    )
    # The split rests on the prediction, and its spread says so.
    assert costs[names["conv1"], "DLA"].spread >= predicted[names["conv1"], "DLA"].spread
    assert [t for n, t in found.unresolved if n.startswith("Reformatting")] == [20]


def test_an_add_that_runs_with_the_other_convolution_takes_no_time_from_it(tmp_path) -> None:
    """TensorRT 8.5.3 runs the Add of ResNet-18's blocks with conv2, which is before the shortcut in the network."""
    b = Builder()
    conv, shortcut = b.conv("in", 64, name="conv2"), b.conv("in", 64, name="downsample")
    graph = b.graph(b.relu(b.plus(conv, shortcut, "add"), "relu"))
    assert [[graph.layers[i].name for i in o.layers] for o in operators_of(graph)] == [["conv2"], ["downsample", "add", "relu"]]
    times, _ = trtexec_files(tmp_path, {"downsample": 0.02, "conv2 + add + relu": 0.07})
    profile = import_trtexec(times, graph, CostModel.load(ORIN, "fp16"))
    measured = {m.layers[0]: (m.latency_us, m.spread) for m in profile.measurements}
    assert measured == {"conv2": (pytest.approx(70), 0.0), "downsample": (pytest.approx(20), 0.0)}


def test_a_foreign_node_of_unknown_device_stays_unresolved(tmp_path) -> None:
    graph = residual_block()
    profile, _ = trtexec_files(tmp_path, {"{ForeignNode[conv1...relu2]}": 0.6, "conv0": 0.1})
    found = import_trtexec(profile, graph, CostModel.load(ORIN, "int8"))
    assert [n for n, _ in found.unresolved] == ["{ForeignNode[conv1...relu2]}"]
    assert [m.layers for m in found.measurements] == [("conv0", "activation1")]


def test_a_profile_of_another_network_is_refused(tmp_path) -> None:
    profile, _ = trtexec_files(tmp_path, {"backbone.0 + relu": 0.6})
    with pytest.raises(DocumentError, match="no layer of the profile"):
        import_trtexec(profile, residual_block(), CostModel.load(ORIN, "int8"))


def test_an_engine_of_a_stage_is_matched_by_mapped_layer_names() -> None:
    graph = residual_block()
    model = CostModel.load(ORIN, "int8")
    info = parse_engine_info({"Layers": [described("{ForeignNode[first...last]}", "DLA")]})
    # Its first layer is what the network calls conv1; of the operators of conv1 and conv2 it has a part only.
    names = {"first": "conv1", "conv2": "relu1", "last": "conv2"}
    times = (LayerTime("{ForeignNode[first...last]}", 0.6), LayerTime("bn1", 0.1), LayerTime("conv0", 0.1))
    with pytest.raises(DocumentError, match="no layer of the profile"):
        assign(times, graph, model, info, names=names)
    # Now conv1's is whole. "bn1" and "conv0" are no names of this engine's.
    names["scale"] = "bn1"
    found = assign(times, graph, model, info, names=names)
    assert [(m.layers, m.device) for m in found.measurements] == [(("conv1", "bn1", "relu1"), "DLA")]
    lost = dict(found.unresolved)
    assert set(lost) == {"{ForeignNode[first...last]}: conv2", "conv0", "bn1"}
    assert found.measurements[0].latency_us + lost["{ForeignNode[first...last]}: conv2"] == pytest.approx(600)
    # What another engine holds in between has no share.
    names = {"first": "conv0", "a": "activation1", "conv2": "conv2", "add": "add", "last": "relu2"}
    found = assign(times[:1], graph, model, info, names=names)
    assert [m.layers[0] for m in found.measurements] == ["conv0", "conv2"]
    assert sum(m.latency_us for m in found.measurements) == pytest.approx(600)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a profile: it is not valid JSON"),
        ("{}", "not a list"),
        ("[]", "no layer"),
        ('[{"count": 3}]', "no layer"),
        ('[{"count": 3}, 5]', "object"),
        ('[{"averageMs": 1}]', "name"),
        ('[{"name": "conv0"}]', "averageMs"),
        ('[{"name": "conv0", "averageMs": "fast"}]', "averageMs"),
        ('[{"name": "conv0", "averageMs": -1}]', "averageMs"),
        ('[{"name": "conv0", "averageMs": NaN}]', "averageMs"),
    ],
)
def test_a_broken_profile_file_is_a_document_error(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        import_trtexec(path, residual_block(), CostModel.load(ORIN, "int8"))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"document": "edgedla.placement", "schema_version": 1}, "edgedla's placement document, which `edgedla place"),
        ({"document": "edgedla.check", "schema_version": 1}, "edgedla's check document, which `edgedla check"),
        ({"Layers": [], "Bindings": []}, "the engine inspector's output, for --layer-info"),
    ],
)
def test_another_document_in_place_of_a_profile_is_named(tmp_path, document: dict, said: str) -> None:
    path, times = tmp_path / "p.json", tmp_path / "times.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    times.write_text('[{"count": 3}, {"name": "conv0", "averageMs": 1}]', encoding="utf-8")
    costs = CostModel.load(ORIN, "int8")
    with pytest.raises(DocumentError, match="not a profile: it is ") as caught:
        with_measurements(costs, path, [residual_block()])
    assert said in caught.value.what
    assert "--exportProfile=FILE" in str(caught.value)
    if "document" in document:
        with pytest.raises(DocumentError, match="not the output of TensorRT's engine inspector: it is ") as caught:
            with_measurements(costs, times, [residual_block()], path)
        assert said in caught.value.what


def test_layer_info_without_a_profile_is_refused(tmp_path) -> None:
    path = tmp_path / "layers.json"
    path.write_text('{"Layers": []}', encoding="utf-8")
    graph = residual_block()
    for ask in (
        lambda: costs_of(graph, ORIN, "int8", GivenCosts(layer_info=path)),
        lambda: predict(graph, target="agx-orin-64gb", layer_info=path),
        lambda: place(graph, target="agx-orin-64gb", layer_info=path),
    ):
        with pytest.raises(UsageError, match="without their times") as caught:
            ask()
        assert (caught.value.where, caught.value.allowed) == ("--layer-info", "with --profile")


def test_a_missing_file_is_a_document_error(tmp_path) -> None:
    with pytest.raises(DocumentError, match="cannot read"):
        import_trtexec(tmp_path / "none.json", residual_block(), CostModel.load(ORIN, "int8"))


def test_the_median_of_a_trtexec_profile_is_preferred() -> None:
    new, old = parse_times([{"count": 1}, {"name": "a", "averageMs": 2.0, "medianMs": 1.0}, {"name": "b", "averageMs": 2.0}])
    assert (new.time_us, new.spread) == (1000, 1.0)
    assert (old.time_us, old.spread) == (2000, 0.0)


def test_trtexec_and_edgedla_profiles_both_give_measured_costs(tmp_path) -> None:
    graph = residual_block()
    model = CostModel.load(ORIN, "int8")
    other = Builder((1, 3, 8, 8))
    other.conv("in", 8, name="elsewhere")
    own = tmp_path / "own.json"
    write_profile(profile_of(graph), own)
    trtexec, _ = trtexec_files(tmp_path, {"conv2 + add + relu2": 0.04})
    for path, device, expected in ((own, "DLA", 500), (trtexec, "GPU", 40)):
        costs = with_measurements(model, path, [other.graph(), graph]).layer_costs(graph)
        assert costs[index_of(graph)["conv2"], device].latency_us == expected
    with pytest.raises(DocumentError, match="no layer of the profile"):
        with_measurements(model, trtexec, [other.graph()])


@pytest.mark.parametrize(
    ("trt", "source", "said"), [("11.4.1", "trtexec", 1), ("11.4.1", "edgedla bench", 0), ("10.3", "trtexec", 0)]
)
def test_times_of_trtexec_11_come_with_what_it_leaves_out(trt: str, source: str, said: int) -> None:
    model = CostModel.load(platform_for("agx-orin-64gb", trt=trt), "fp16")
    notes = model.with_profile(replace(profile_of(residual_block()), source=source)).notes
    assert sum("--noSpinWait" in note for note in notes) == said


def test_the_document_keeps_to_its_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(json.dumps(profile_of(residual_block()).to_dict()))
    jsonschema.validate(document, schema("edgedla.profile"))
    del document["target"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema("edgedla.profile"))


@pytest.mark.parametrize("value", [10**400, -1, float("nan"), float("inf"), True, None, "3"])
def test_a_time_is_a_number_that_is_not_negative(value: object) -> None:
    with pytest.raises(DocumentError, match="'averageMs' is .*allowed: a number that is not negative"):
        positive(value, "averageMs", "profile.json")
