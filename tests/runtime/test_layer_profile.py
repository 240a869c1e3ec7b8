"""Times of layers: from the fake TensorRT's profiler to a file, and from the file into a placement."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.artifact.store import save_artifact
from edgedla.builder.plan.plan import LayerPlan
from edgedla.cli.main import exit_code_of
from edgedla.costs.model import CostModel
from edgedla.costs.operators import operators_of
from edgedla.costs.profile import read_profile
from edgedla.costs.trt_profile import parse_times
from edgedla.errors import DocumentError, RunError, UsageError
from edgedla.importers import load_onnx
from edgedla.io.files import sha256_of
from edgedla.placement.api import place
from edgedla.runtime import runners as runners_module
from edgedla.runtime.measure import layer_profile
from edgedla.runtime.measure.layer_profile import EngineTimes, measure_layers, measured_profile, stage_names, trtexec_profile
from edgedla.runtime.measure.timing import BenchOptions, random_inputs
from edgedla.runtime.runners.layer_clock import LayerClock, LayerTimes
from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner
from edgedla.targets import platform_for
from edgedla.targets.board import known_mode
from tests.models import node, ones, onnx_model

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
GRAPH = load_onnx(str(MODEL), trt=(10, 3))
OPERATORS = [tuple(GRAPH.layers[i].name for i in o.layers) for o in operators_of(GRAPH)]
#: A DLA node over the first operators, the others one kernel each.
ON_DLA = 4
NODE = "{ForeignNode[" + OPERATORS[0][0] + "..." + OPERATORS[ON_DLA - 1][-1] + "]}"
KERNELS = [" + ".join(names) for names in OPERATORS[ON_DLA:]]
REFORMAT = f"Reformatting CopyNode for Input Tensor 0 to {NODE}"
MS = {REFORMAT: 0.01, NODE: 0.4, **{name: 0.05 + 0.001 * k for k, name in enumerate(KERNELS)}}
LAYERS = {
    "Layers": [
        {"Name": REFORMAT, "LayerType": "Reformat"},
        {"Name": NODE, "LayerType": "DLA"},
        *({"Name": name, "LayerType": "CaskConvolution"} for name in KERNELS),
    ],
    "Bindings": ["images", "raw_s8", "raw_s16"],
}
QUICK = ["--warmUp", "0", "--duration", "0", "--iterations", "5"]
FAST = BenchOptions(warm_up_ms=0, iterations=5, duration_s=0)


def engine_artifact(folder, version="10.3.0", layers=LAYERS, **changes):
    """What a build of MODEL with TensorRT leaves, as far as running it needs."""
    tensors = [GRAPH.tensors[n] for n in (*GRAPH.inputs, *GRAPH.outputs)]
    fields = {
        "kind": "hybrid",
        "backend": "tensorrt",
        "simulated": False,
        "precision": "fp16",
        "model": {"name": "shapes_detector", "sha256": sha256_of(MODEL), "external": {}},
        "platform": platform_for("agx-orin-64gb", trt=".".join(version.split(".")[:2])).to_dict(),
        "software": {"tensorrt": version},
        "placement_predicted": {OPERATORS[0][0]: "DLA0"},
        "bindings": tuple(
            Binding(t.name, t.name in GRAPH.inputs, tuple(t.dims), "FLOAT", "LINEAR", 4 * int(np.prod(t.dims))) for t in tensors
        ),
    }
    contents = {("engine", "model.engine"): b"engine"}
    if layers is not None:
        contents[("layers", "layers.json")] = json.dumps(layers).encode()
    return save_artifact(Artifact(**{**fields, **changes}), folder, contents)


@pytest.fixture
def jetson(tmp_path, monkeypatch):
    """Files of an AGX Orin 64GB in its mode MODE_30W; `jetson(path, text)` lays another."""
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))

    def lay(path, text):
        file = tmp_path / "root" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    lay("etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic")
    lay("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    lay("proc/meminfo", "MemTotal:       64000000 kB")
    lay("etc/nvpmodel.conf", "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=MODE_30W >\n")
    lay("var/lib/nvpmodel/status", "pmode:0002")
    return lay


@pytest.fixture
def tensorrt(fake_tensorrt, host_memory, monkeypatch):
    """A fake release whose engine reports MS; the first inference is ten times as slow."""
    monkeypatch.setattr(runners_module, "_open_one", lambda a, name: TensorRtRunner(a, name, host_memory))

    def install(version="10.3.0", **script):
        calls = []

        def profile():
            calls.append(1)
            return [(name, ms * (10 if len(calls) == 1 else 1)) for name, ms in MS.items()]

        shapes = {n: tuple(GRAPH.tensors[n].dims) for n in (*GRAPH.inputs, *GRAPH.outputs)}
        script = {
            "inputs": {n: shapes[n] for n in GRAPH.inputs},
            "outputs": {n: shapes[n] for n in GRAPH.outputs},
            "profile": profile,
            **script,
        }
        return fake_tensorrt(version, **script)

    return install


def bench(*arguments, code=0):
    assert exit_code_of(["bench", *[str(a) for a in arguments], *QUICK]) == code


def renamed(path):
    """The same network under other names."""
    model = onnx.load(str(MODEL))
    for renamed in model.graph.node:
        renamed.name = "other" + renamed.name
    onnx.save(model, str(path))
    return path


def measured_gpu(layers):
    return {x["name"]: x["costs"]["GPU"] for x in layers if x["costs"].get("GPU", {}).get("basis") == "measured"}


def test_a_measured_build_replaces_predictions_of_another_model(tensorrt, jetson, tmp_path, capsys):
    tensorrt()
    engine_artifact(tmp_path / "a")
    file = tmp_path / "p.json"
    bench(tmp_path / "a", "--exportProfile", file, "--onnx", MODEL)
    told = capsys.readouterr().out
    assert f"{file}: times of {len(MS)} engine layers over 5 inferences, assigned to {len(OPERATORS)} operators" in told
    profile = read_profile(file)
    assert (profile.target, profile.power_mode, profile.source) == ("agx-orin-64gb", "30W", "edgedla bench")
    assert [name for name, _ in profile.unresolved] == [REFORMAT]
    found = {m.layers: m for m in profile.measurements}
    assert {m.device for m in profile.measurements[:ON_DLA]} == {"DLA"}
    assert sum(found[o].latency_us for o in OPERATORS[:ON_DLA]) == pytest.approx(400, abs=0.01)
    for k, names in enumerate(OPERATORS[ON_DLA:]):
        # The ten times slower first inference is not in it.
        assert (found[names].device, found[names].latency_us) == ("GPU", pytest.approx(50 + k))
        assert found[names].spread == 0

    other = renamed(tmp_path / "other.onnx")
    arguments = ["place", str(other), "--power-mode", "30W", "--profile", str(file), "--format", "json"]
    assert exit_code_of(arguments) == 0
    measured = measured_gpu(json.loads(capsys.readouterr().out)["models"][0]["layers"])
    assert {f"other{names[0]}" for names in OPERATORS[ON_DLA:]} <= set(measured)
    # It stands once in the network, so that its time is its own and no mean.
    assert measured["other/Concat"]["latency_us"] == pytest.approx(1e3 * MS["/Concat"], abs=0.01)
    # Another power mode is another measurement.
    assert exit_code_of([*arguments[:2], "--power-mode", "50W", "--profile", str(file)]) == 2


def test_without_the_model_the_exported_profile_has_trtexecs_format(tensorrt, jetson, tmp_path, capsys):
    tensorrt()
    engine_artifact(tmp_path / "a")
    files = [tmp_path / "p.json", tmp_path / "l.json"]
    bench(tmp_path / "a", "--export-profile", files[0], "--export-layer-info", files[1], "--format", "json")
    assert json.loads(capsys.readouterr().out)["profile"] == {"file": str(files[0]), "inferences": 5, "engine_layers": len(MS)}
    count, *entries = json.loads(files[0].read_text())
    assert count == {"count": 5}
    assert [e["name"] for e in entries] == list(MS)
    assert set(entries[0]) == {"name", "timeMs", "averageMs", "medianMs", "percentage"}
    assert entries[1]["timeMs"] == pytest.approx(5 * MS[NODE])
    assert sum(e["percentage"] for e in entries) == pytest.approx(100, abs=0.01)
    assert json.loads(files[1].read_text()) == LAYERS
    arguments = ["place", str(MODEL), "--profile", str(files[0]), "--layer-info", str(files[1]), "--format", "json"]
    assert exit_code_of(arguments) == 0
    layers = json.loads(capsys.readouterr().out)["models"][0]["layers"]
    assert {names[0] for names in OPERATORS[ON_DLA:]} <= set(measured_gpu(layers))


@pytest.mark.parametrize("version", ["8.4.1", "8.5.2", "8.6.1", "10.3.0", "11.4.0.106"])
def test_the_profiler_is_attached_for_profiled_runs_only(tensorrt, jetson, tmp_path, host_memory, version):
    trt = tensorrt(version)
    runner = TensorRtRunner(engine_artifact(tmp_path / "a", version), "DLA0", host_memory)
    inputs = random_inputs(runner.artifact, 0)
    with runner:
        before = runner.wait(runner.submit(inputs))
        (found,) = measure_layers(runner, inputs, FAST)
        after = len(trt.world.calls)
        assert set(runner.wait(runner.submit(inputs))) == set(before)
    assert (found.device, found.stage, found.times.count) == ("DLA0", None, 5)
    assert found.times.times_ms == {name: (ms,) * 5 for name, ms in MS.items()}
    calls = trt.world.calls
    made = [i for i, c in enumerate(calls) if "create_execution_context" in c]
    (attached,) = (i for i, c in enumerate(calls) if c.startswith("IExecutionContext.profiler ="))
    assert len(made) == 3
    assert made[1] < attached < made[2] < after
    assert sum("execute_async" in c for c in calls[attached : made[2]]) == 1 + FAST.iterations
    assert not any("enqueue_emits_profile" in c for c in calls)


def test_a_failed_inference_ends_the_profile_and_leaves_the_runner_whole(tensorrt, jetson, tmp_path, host_memory):
    answers = iter([True, False, True])
    trt = tensorrt(run=lambda addresses: next(answers))
    runner = TensorRtRunner(engine_artifact(tmp_path / "a"), "DLA0", host_memory)
    inputs = random_inputs(runner.artifact, 0)
    with runner:
        with pytest.raises(RunError, match="cannot queue"):
            measure_layers(runner, inputs, FAST)
        runner.wait(runner.submit(inputs))
    assert sum("create_execution_context" in c for c in trt.world.calls) == 3


def test_an_engine_without_layer_times_is_an_error(tensorrt, jetson, tmp_path, capsys):
    tensorrt(profile=lambda: ())
    engine_artifact(tmp_path / "a")
    bench(tmp_path / "a", "--export-profile", tmp_path / "p.json", code=6)
    assert "TensorRT reports no layer times" in capsys.readouterr().err
    assert not (tmp_path / "p.json").exists()


def test_a_layer_that_runs_several_times_in_an_inference_has_their_sum():
    clock = LayerClock()
    clock.report("left by a failed one", 9.0)
    for extra in (0.25, 0.75):
        clock.begin()
        for name, ms in (("loop", 0.5), ("loop", extra), ("conv", 1.0)):
            clock.report(name, ms)
        clock.end()
    assert clock.times() == LayerTimes(2, {"loop": (0.75, 1.25), "conv": (1.0, 1.0)})
    clock.forget()
    assert clock.times() == LayerTimes(0, {})


@pytest.mark.parametrize(
    ("changes", "says", "hint"),
    [
        ({"backend": "host", "simulated": True}, "the artifact is simulated", "edgedla build --backend tensorrt"),
        ({"kind": "standalone"}, "cuDLA reports no layer times", "--mode hybrid"),
    ],
)
def test_artifacts_without_layer_times_are_refused_before_they_run(tmp_path, capsys, changes, says, hint):
    engine_artifact(tmp_path / "a", **changes)
    bench(tmp_path / "a", "--exportProfile", tmp_path / "p.json", code=2)
    told = capsys.readouterr().err
    assert says in told
    assert hint in told


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--onnx", str(MODEL)], 2, "only --export-profile uses it"),
        (["--export-profile", "P", "--batch", "2"], 2, "only --onnx uses it"),
        (["--export-profile", "P", "--device", "DLA0", "--device", "DLA1"], 2, "one artifact on one device"),
        (["--export-profile", "P", "--device", "DLA0=b"], 2, "one artifact on one device"),
        (["--export-profile", "P", "--onnx", "RENAMED"], 3, "stale: built from another version"),
        (["--export-profile", "P", "--onnx", str(MODEL), "--batch", "2"], 2, "allowed: 1x3x256x256, as it was built"),
        (["--export-profile", "P", "--onnx", str(MODEL), "--power-mode", "50W"], 2, "the board is in power mode 30W"),
    ],
)
def test_wrong_use_is_refused_before_anything_runs(tensorrt, jetson, tmp_path, capsys, arguments, code, says):
    trt = tensorrt()
    engine_artifact(tmp_path / "a")
    given = {"P": str(tmp_path / "p.json"), "RENAMED": str(renamed(tmp_path / "r.onnx"))}
    bench(tmp_path / "a", *[given.get(a, a) for a in arguments], code=code)
    assert says in capsys.readouterr().err
    assert not trt.world.calls


def test_missing_layer_information_is_reported(tmp_path, capsys):
    engine_artifact(tmp_path / "a", layers=None)
    bench(tmp_path / "a", "--exportLayerInfo", tmp_path / "l.json", code=3)
    assert "no engine inspector's output" in capsys.readouterr().err


def test_an_unreadable_power_mode_can_be_given(tensorrt, jetson, tmp_path, capsys):
    tensorrt()
    engine_artifact(tmp_path / "a")
    jetson("var/lib/nvpmodel/status", "pmode:0007")
    wanted = ["--export-profile", tmp_path / "p.json", "--onnx", MODEL]
    bench(tmp_path / "a", *wanted, code=4)
    assert "say which it is: --power-mode NAME" in capsys.readouterr().err
    bench(tmp_path / "a", *wanted, "--power-mode", "50W")
    assert read_profile(tmp_path / "p.json").power_mode == "50W"


def test_off_a_jetson_no_profile_of_a_module_is_written(tensorrt, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "none"))
    tensorrt()
    engine_artifact(tmp_path / "a")
    bench(tmp_path / "a", "--export-profile", tmp_path / "p.json", "--onnx", MODEL, code=4)
    assert "this is not a Jetson" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "mode"),
    [
        ("MAXN", "MAXN"),
        ("MODE_30W", "30W"),
        ("MODE_30W_ALL", "30W"),
        ("MODE_15W_2CORE", "15W"),
        ("MODE_7W", None),
        ("MODE_15W_DESKTOP", "15W_DESKTOP"),
        ("25W", None),
    ],
)
def test_nvpmodels_mode_names_map_to_power_modes(told, mode):
    assert known_mode(told, platform_for("agx-xavier-32gb").module.power_modes) == mode


def chain_of_placement(folder):
    """(chain of artifacts, as if TensorRT had built them, their engines' times): a millisecond an engine layer."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    pins = ["/stem*:DLA0", "/p4*:DLA1"]
    placed = place(str(MODEL), target="agx-orin-64gb", precision="fp16", objective="throughput", pins=pins)
    (folder / "p.json").write_text(placed.to_json())
    arguments = ["build", str(MODEL), "--precision", "fp16", "--placement", str(folder / "p.json")]
    assert exit_code_of([*arguments, "-o", str(folder / "chain")]) == 0
    chain = edgedla.load_artifact(folder / "chain")
    stages, engines = [], []
    for k, stage in enumerate(chain.stages):
        own = load_onnx_plan(stage.artifact)
        contents = {("plan", "plan.json"): stage.artifact.file("plan").read_bytes()}
        names = [x["name"] for x in own]
        contents[("layers", "layers.json")] = json.dumps(
            {"Layers": [{"Name": n, "LayerType": "CaskConvolution"} for n in names], "Bindings": []}
        ).encode()
        part = save_artifact(replace(stage.artifact, backend="tensorrt", simulated=False), folder / f"s{k}", contents)
        stages.append(replace(stage, artifact=part))
        engines.append(EngineTimes(stage.device, k, part, LayerTimes(2, {n: (1.0, 1.0) for n in names})))
    return replace(chain, backend="tensorrt", simulated=False, stages=tuple(stages)), engines


def load_onnx_plan(artifact):
    return json.loads(artifact.file("plan").read_text())["layers"]


def test_a_chains_stages_are_one_profile_of_the_whole_network(tmp_path, capsys):
    chain, engines = chain_of_placement(tmp_path)
    layer_profile.check_has_layers(chain)
    assert len(engines) > 1
    model = CostModel.load(platform_for("agx-orin-64gb", trt="10.3"), "fp16")
    profile = measured_profile(engines, GRAPH, model)
    # Every operator once, each of its layers a millisecond.
    assert sorted(m.layers for m in profile.measurements) == sorted(OPERATORS)
    assert all(m.latency_us == 1000 * len(m.layers) for m in profile.measurements)
    assert profile.unresolved == ()
    text = trtexec_profile(engines)
    entries = json.loads(text)[1:]
    assert [e["stage"] for e in entries] == sorted(e["stage"] for e in entries)
    with pytest.raises(DocumentError, match="each stage names its layers anew"):
        parse_times(json.loads(text))
    told = json.loads(layer_profile.layer_info(chain))
    assert len(told["Layers"]) == len(entries)
    assert told["Layers"][-1]["Stage"] == len(engines) - 1
    # A stage that matches nothing leaves the others' times.
    strange = replace(engines[0], times=LayerTimes(1, {"elsewhere": (1.0,)}))
    assert ("elsewhere", 1000.0) in measured_profile([strange, *engines[1:]], GRAPH, model).unresolved
    with pytest.raises(DocumentError, match="no layer of the profile"):
        measured_profile([strange], GRAPH, model)


def test_a_chain_of_other_runners_reports_no_layer_times():
    with pytest.raises(UsageError, match="it reports no layer times"):
        measure_layers(SimpleNamespace(name="host"), {}, FAST)


def softmaxes(nodes, given):
    """Convolutions ("c...") and Softmax of opset 11, which becomes layers without names of their own."""
    made, weights, at = [], [], given
    for name in nodes:
        if name.startswith("c"):
            weights.append(ones(f"w_{name}", 4, 4, 1, 1))
            made.append(node("Conv", f"{at} w_{name}", f"t_{name}", name))
        else:
            made.append(node("Softmax", at, f"t_{name}", name, axis=1))
        at = f"t_{name}"
    dims = (1, 4, 8, 8)
    return load_onnx(onnx_model(made, {given: dims}, {at: dims}, weights, opset=11), trt=(10, 3))


def test_unnamed_layers_are_matched_between_stage_and_network():
    whole, stage = softmaxes(["c1", "s1", "c2", "s2"], "x"), softmaxes(["c2", "s2"], "t_s1")
    layers = tuple(LayerPlan(x.name, x.type, "GPU", outputs=x.outputs, onnx_node=x.onnx_node) for x in stage.layers)
    names = stage_names(SimpleNamespace(layers=layers), whole)
    assert names == dict(zip([x.name for x in stage.layers], [x.name for x in whole.layers[-len(layers) :]]))
    # The very name of one of the stage's layers is another layer's in the whole network.
    shifted = {own for own, there in names.items() if own != there}
    assert shifted & {x.name for x in whole.layers}
    # A node of the same name that writes another tensor is another one.
    moved = tuple(replace(x, outputs=("elsewhere",)) for x in layers)
    assert stage_names(SimpleNamespace(layers=moved), whole) == {}


def test_python_gets_what_the_command_prints(tensorrt, jetson, tmp_path, capsys):
    tensorrt()
    engine_artifact(tmp_path / "a")
    report = edgedla.bench(tmp_path / "a", options=FAST, profile=True, onnx=MODEL)
    bench(tmp_path / "a", "--export-profile", tmp_path / "p.json", "--onnx", MODEL, "--format", "json")
    printed = json.loads(capsys.readouterr().out)
    assert printed["profile"].pop("file") == str(tmp_path / "p.json")
    assert report.to_dict()["profile"].keys() == printed["profile"].keys()
    assert [r.runner for r in report.results] == [r["runner"] for r in printed["results"]]
    report.write_profile(tmp_path / "q.json")
    assert read_profile(tmp_path / "q.json").measurements == read_profile(tmp_path / "p.json").measurements


def test_no_profile_is_written_unless_requested(tensorrt, tmp_path):
    tensorrt()
    engine_artifact(tmp_path / "a")
    report = edgedla.bench(tmp_path / "a", options=FAST)
    assert report.layers is None
    assert report.to_dict()["profile"] is None
    with pytest.raises(UsageError, match="no layer was timed"):
        report.write_profile(tmp_path / "q.json")
    assert not (tmp_path / "q.json").exists()


@pytest.mark.parametrize(
    ("asked", "says"),
    [({"onnx": MODEL}, "only --export-profile uses it"), ({"profile": True, "batch": 2}, "only --onnx uses it")],
)
def test_bench_request_fields_without_effect_are_refused(asked, says):
    with pytest.raises(UsageError, match=says):
        edgedla.BenchRequest(**asked)
