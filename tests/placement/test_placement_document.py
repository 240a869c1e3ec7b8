"""The placements of real models: documents survive a round trip, are reproducible, match their schema, and verify."""

from __future__ import annotations

import copy
import gzip
import json
import math
from pathlib import Path
from typing import Any, Dict, List, Tuple

import jsonschema
import pytest

from edgedla.errors import DocumentError, NoPlacement, UsageError
from edgedla.graph.document import from_document
from edgedla.io.documents import schema
from edgedla.placement.api import place
from edgedla.placement.problem.goal import GAPS
from edgedla.placement.result.document import read_placement
from edgedla.placement.result.export import cores_of, layer_device_types, trtexec_commands
from edgedla.placement.result.placement import Placement
from edgedla.placement.verify import verify
from tests.placement.placement_models import refused_model, small_model

TARGET: Dict[str, Any] = {"target": "agx-orin-64gb", "precision": "int8"}


@pytest.fixture(scope="module")
def model() -> bytes:
    content: bytes = small_model().SerializeToString()
    return content


@pytest.fixture(scope="module")
def placement(model: bytes) -> Placement:
    return place(model, objective="energy", **TARGET)


@pytest.mark.parametrize("objective", ["latency", "throughput", "energy", "makespan"])
def test_equal_requests_give_equal_documents_that_read_back(model: bytes, objective: str) -> None:
    models = [model, model] if objective == "makespan" else model
    first = place(models, objective=objective, **TARGET)
    second = place(models, objective=objective, **TARGET)
    assert first.to_json() == second.to_json()
    document = json.loads(first.to_json())
    jsonschema.Draft202012Validator(schema("edgedla.placement")).validate(document)
    assert read_placement(document).to_json() == first.to_json()
    assert first.proof.gap <= GAPS[objective] * 1.01


def test_latency_and_energy_share_a_spread_and_idle_loads_are_not_measured(model: bytes) -> None:
    figures = [place(model, target="agx-orin-64gb", precision="fp16").to_dict()["predicted"]]
    figures += place(model, **TARGET).to_dict()["baselines"]
    figures += place(refused_model().SerializeToString(), **TARGET).to_dict()["baselines"]
    spreads = [(f["latency"]["spread"], f["energy"]["spread"]) for f in figures]
    assert all(latency == energy for latency, energy in spreads), spreads
    idle = [load for f in figures for load in f["loads"].values() if load["latency_us"] == 0]
    assert idle
    assert {load["basis"] for load in idle} <= {"fitted", "guessed"}
    assert any(sum(load["latency_us"] > 0 for load in f["loads"].values()) > 1 for f in figures), "none falls back"


@pytest.mark.parametrize("wrong", [[[]], ["1"], [True], 7])
def test_a_non_number_in_a_list_of_latencies_is_refused(placement: Placement, wrong: object) -> None:
    document = json.loads(placement.to_json())
    for part in (document, document["predicted"]):
        if "frame_latency_us" in part:
            part["frame_latency_us"] = wrong
    with pytest.raises(DocumentError, match="frame_latency_us .*not of type"):
        read_placement(document)


def test_an_integer_beyond_a_double_is_refused(placement: Placement) -> None:
    document = json.loads(placement.to_json())
    document["proof"]["value"] = 10**400
    with pytest.raises(DocumentError, match="proof.value .*not of type float"):
        read_placement(document)


def test_energy_on_orin_puts_convolutions_on_the_dla_and_refused_layers_on_the_gpu(placement: Placement) -> None:
    (m,) = placement.models
    by_name = {x.name: x for x in m.layers}
    assert by_name["conv1"].device == "DLA0"
    assert (by_name["mean"].device, by_name["mean"].why) == ("GPU", "forced")
    assert "AVG" in by_name["mean"].reason
    assert cores_of(m) == ("DLA0",)


def test_costs_of_layers_regions_and_transitions_add_up_to_the_latency(placement: Placement) -> None:
    (m,) = placement.models
    on_dla = sum(r.cost.latency_us for r in m.regions)
    on_gpu = sum(x.costs["GPU"].latency_us for x in m.layers if x.device == "GPU" and x.costs)
    moved = sum(t.cost.latency_us for t in m.transitions)
    # The rest is what the engine costs by being called, once.
    rest = m.latency.latency_us - on_dla - on_gpu - moved
    assert 0 <= rest < 0.3 * m.latency.latency_us
    assert placement.figures.loads["DLA0"].latency_us == pytest.approx(on_dla, rel=0.5)


def test_trtexec_lists_the_unfolded_layers_that_are_not_on_its_core(placement: Placement) -> None:
    (m,) = placement.models
    named = [part.rpartition(":")[0] for part in layer_device_types(m, "DLA0").split(",")]
    assert named == [x.name for x in m.layers if x.why != "folded" and x.device != "DLA0"]
    (command,) = trtexec_commands(placement)
    assert "--useDLACore=0" in command
    assert "mean:GPU" in command


def test_a_model_on_two_cores_is_no_single_trtexec_engine(model: bytes) -> None:
    both = place(model, devices=["DLA0", "DLA1", "GPU"], pins=["conv1:DLA0,conv3:DLA1"], objective="latency", **TARGET)
    assert cores_of(both.models[0]) == ("DLA0", "DLA1")
    with pytest.raises(UsageError, match="uses one core"):
        trtexec_commands(both)


def test_verify_accepts_a_placement_and_names_tampered_fields(model: bytes, placement: Placement) -> None:
    assert verify(placement, [model]) == ()
    document = placement.to_dict()
    moved = copy.deepcopy(document)
    next(x for x in moved["models"][0]["layers"] if x["name"] == "mean")["device"] = "DLA0"
    assert "dla-verdict" in [v.rule for v in verify(read_placement(moved), [model])]
    split = copy.deepcopy(document)
    region = split["models"][0]["regions"][0]
    split["models"][0]["regions"].append({**region, "id": 1, "layers": region["layers"][2:]})
    region["layers"] = region["layers"][:2]
    assert "regroup" in [v.rule for v in verify(read_placement(split), [model])]


def test_verify_knows_how_many_loadables_of_all_models_a_core_holds(model: bytes) -> None:
    """A document written before LOAD004 was a rule has the cap of one engine."""
    xavier = {"target": "agx-xavier", "precision": "int8"}
    three = place([model] * 3, trt="8.5", devices=["DLA0", "GPU"], pins=["mean:GPU,*:DLA0"] * 3, **xavier)
    document = three.to_dict()
    assert verify(three, [model] * 3) == ()
    document["platform"]["trt"] = "8.4"
    (violation,) = verify(read_placement(document), [model] * 3)
    assert (violation.rule, violation.message) == ("loadable-cap", "DLA0 would hold 6 loadables, limit 4")


def test_a_placement_of_another_model_is_refused(placement: Placement) -> None:
    other = small_model((64, 64)).SerializeToString()
    with pytest.raises(DocumentError, match="another model"):
        verify(placement, [other])
    with pytest.raises(DocumentError, match="1 models"):
        verify(placement, [])


def test_a_placement_holds_for_the_input_sizes_that_it_was_made_for(model: bytes, placement: Placement) -> None:
    with pytest.raises(DocumentError, match="other sizes") as e:
        verify(placement, [model], batch=2)
    assert "1x" in e.value.what
    assert "2x" in str(e.value.allowed)
    older = placement.to_dict()
    del older["models"][0]["inputs"]
    assert verify(read_placement(older), [model]) == ()


#: (path of keys, value) to put into a good document, and a word of the answer.
WRONG: List[Tuple[Tuple[Any, ...], Any, str]] = [
    (("document",), "other", "not edgedla's placement document"),
    (("schema_version",), 99, "version 99"),
    (("models", 0, "layers", 0, "device"), 7, r"models\[0\].layers\[0\].device"),
    (("models", 0, "layers"), {}, r"models\[0\].layers"),
    (("models", 0, "latency", "latency_us"), -1, "out of range"),
    (("models", 0, "latency", "basis"), "sworn", "out of range"),
    (("predicted", "regions", "DLA0"), "one", "predicted.regions.DLA0"),
    (("proof",), None, "proof"),
    (("use_unknown",), 1, "use_unknown"),
    (("devices",), [1], "devices"),
    (("models", 0, "inputs"), {"x": ["a"]}, "inputs"),
    (("limits", "max_regions"), {}, r"limits.max_regions"),
    (("models", 0, "layers", 0, "device"), "TPU", r"models\[0\].layers\[0\].device is 'TPU', not one of GPU"),
    (("devices",), ["GPU", "TPU"], "devices holds 'TPU'"),
    (("objective",), "beauty", "objective is 'beauty', not one of latency"),
    (("timeline", "kind"), "x", "timeline.kind"),
    (("timeline", "bars", 0, "model"), 1, r"timeline.bars\[0\].model is 1, and there are 1"),
    (("platform", "target"), None, "platform.target"),
    (("platform",), {}, "platform.target is missing"),
    (("costs", "clocks_mhz", "dla"), [None], r"costs.clocks_mhz.dla"),
    (("costs", "clocks_mhz", "gpu"), "fast", r"costs.clocks_mhz.gpu"),
    (("costs", "clocks_mhz"), 3, r"costs.clocks_mhz"),
    (("costs", "idle_power_w"), "some", r"costs.idle_power_w"),
    (("limits", "loadables_per_core"), 1.5, r"limits.loadables_per_core"),
    (("limits", "local_dram_bytes"), True, r"limits.local_dram_bytes"),
]


@pytest.mark.parametrize(("path", "value", "word"), WRONG, ids=[".".join(map(str, w[0])) for w in WRONG])
def test_a_wrong_field_is_named(placement: Placement, path: Tuple[Any, ...], value: Any, word: str) -> None:
    document: Any = json.loads(placement.to_json())
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(DocumentError, match=word):
        read_placement(document)


def test_a_missing_field_and_a_file_that_is_no_json_are_named(placement: Placement, tmp_path: Path) -> None:
    document = placement.to_dict()
    del document["timeline"]["kind"]
    with pytest.raises(DocumentError, match="timeline.kind is missing"):
        read_placement(document)
    (tmp_path / "p.json").write_text("{", encoding="utf-8")
    with pytest.raises(DocumentError, match="invalid JSON"):
        read_placement(tmp_path / "p.json")
    with pytest.raises(DocumentError, match="cannot be read"):
        read_placement(tmp_path / "missing.json")


def test_a_pin_is_kept_and_named(model: bytes) -> None:
    pinned = place(model, objective="energy", pins=["conv1:GPU"], **TARGET)
    layer = next(x for x in pinned.models[0].layers if x.name == "conv1")
    assert (layer.device, layer.why) == ("GPU", "pinned")


def test_a_pin_pattern_applies_to_legal_layers_only(model: bytes) -> None:
    (m,) = place(model, objective="latency", pins=["*:DLA"], **TARGET).models
    assert {x.name: x.device for x in m.layers}["conv0"] == "DLA0"
    assert {x.name: x.device for x in m.layers}["mean"] == "GPU"


@pytest.mark.parametrize(
    ("pins", "word"), [(["mean:DLA"], "REDU"), (["conv1:DLA1"], "may not be used"), (["nothing:GPU"], "no layer")]
)
def test_a_pin_against_a_rule_is_refused_with_the_rule(model: bytes, pins: List[str], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        place(model, pins=pins, **TARGET)


def test_an_infeasible_latency_bound_names_the_least_latency(model: bytes) -> None:
    least = place(model, **TARGET).proof.value
    with pytest.raises(NoPlacement, match="within") as caught:
        place(model, objective="energy", latency_bound_us=least * 0.99, **TARGET)
    assert f"{least:.1f} us" in str(caught.value)
    assert caught.value.exit_code == 1
    assert place(model, objective="energy", latency_bound_us=least * 1.001, **TARGET).proof.optimal


def test_a_module_without_dla_is_placed_on_the_gpu(model: bytes) -> None:
    answer = place(model, target="orin-nano-8gb")
    assert answer.devices == ("GPU",)
    assert "no DLA" in answer.notes[0]
    with pytest.raises(UsageError, match="DLA0 cannot be used"):
        place(model, target="orin-nano-8gb", devices=["GPU", "DLA0"])


def test_a_model_without_a_dla_layer_is_noted_or_refused_without_gpu() -> None:
    refused = refused_model().SerializeToString()
    answer = place(refused, objective="throughput", **TARGET)
    assert any("no layer of" in note for note in answer.notes)
    with pytest.raises(NoPlacement, match="erf"):
        place(refused, devices=["DLA0"], **TARGET)


def test_a_placement_without_the_gpu_is_possible_where_every_layer_is_legal() -> None:
    whole = small_model(pool=False).SerializeToString()
    answer = place(whole, devices=["DLA0"], **TARGET)
    assert [r.device for r in answer.models[0].regions] == ["DLA0"]


@pytest.mark.parametrize(
    "changes", [{"latency_bound_us": x} for x in (0.0, -5.0, math.nan)] + [{"time_limit_s": x} for x in (-1.0, math.nan)]
)
def test_invalid_latency_bounds_and_time_limits_are_refused(model: bytes, changes: Dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a number >"):
        place(model, target="agx-orin-64gb", **changes)


@pytest.mark.parametrize("changes", [{"objective": "speed"}, {"precision": "fp8"}, {"rates": [1.0, 2.0]}, {"devices": []}])
def test_unknown_words_and_wrong_rates_are_refused(model: bytes, changes: Dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        place(model, **{**TARGET, **changes})


@pytest.mark.parametrize(("target", "precision"), [("agx-orin-64gb", "int8"), ("agx-xavier", "fp16")])
def test_real_networks_are_placed_with_proof_and_no_worse_than_any_legal_baseline(
    shared: Path, target: str, precision: str
) -> None:
    parser = {"agx-orin-64gb": "10.3", "agx-xavier": "8.5"}[target]
    with gzip.open(shared / "golden" / "parser" / parser / "corpus.jsonl.gz", "rt", encoding="utf-8") as f:
        graphs = [from_document(d) for d in map(json.loads, f) if d["parsed"]]
    assert len(graphs) >= 30
    for graph in graphs:
        answer = place(graph, target=target, precision=precision, time_limit_s=30)
        assert answer.proof.optimal, graph.name
        for b in answer.baselines:
            assert b.broken or answer.proof.value <= b.figures.latency.latency_us * (1 + 1e-9), (graph.name, b.name)
