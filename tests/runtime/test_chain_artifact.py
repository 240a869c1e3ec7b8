"""Built chains: on the host through every verb that runs one, and with the TensorRT fake, one core per stage."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgedla
from edgedla.accuracy.evaluate import open_network
from edgedla.builder.artifact.store import save_artifact
from edgedla.builder.chain.host_chain import open_host
from edgedla.builder.host.session import HostSession
from edgedla.errors import UsageError
from edgedla.placement.api import place
from edgedla.placement.result.document import read_placement
from edgedla.runtime import runners as runners_module
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.health.metrics import PipelineCollector
from edgedla.runtime.measure.timing import random_inputs
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.pipeline.devices import open_devices, placed_together
from edgedla.runtime.pipeline.open_pipeline import open_pipeline
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.pipeline.settings import PipelineConfig, SourceConfig
from edgedla.runtime.runners import open_runners, outputs_as_arrays
from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner
from tests.runtime.fake_runner import fake_chain, predicted_stage_ms
from tests.runtime.runtime_chains import SIZE, straight

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
WAIT_S = 60.0
pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def edgedla_verb(*arguments, code=0):
    done = subprocess.run([sys.executable, "-m", "edgedla", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(chain, placement file, the same model as one engine's artifact)."""
    folder = tmp_path_factory.mktemp("chain")
    # Pinned, so that it is a chain whatever the cost model says.
    pins = ["/stem*:DLA0", "/p4*:DLA1"]
    placed = place(str(MODEL), target="agx-orin-64gb", precision="fp16", objective="throughput", pins=pins)
    (folder / "p.json").write_text(placed.to_json())
    edgedla_verb("build", str(MODEL), "--precision", "fp16", "-o", str(folder / "one"))
    edgedla_verb("build", str(MODEL), "--precision", "fp16", "--placement", str(folder / "p.json"), "-o", str(folder / "chain"))
    return edgedla.load_artifact(folder / "chain"), folder / "p.json", edgedla.load_artifact(folder / "one")


def test_a_chain_equals_its_stages_in_turn_and_nearly_one_engine(built):
    chain, _, one = built
    sessions = [HostSession(stage.artifact) for stage in chain.stages]
    assert len(sessions) >= 2
    (runner,) = open_runners(chain)
    with runner, open_runners(one)[0] as single:
        assert runner.name == "+".join(s.device for s in chain.stages)
        given = [random_inputs(chain, seed) for seed in range(4)]
        tickets = [runner.submit(g) for g in given]
        for g, ticket in zip(given, tickets):
            found = runner.wait(ticket, WAIT_S)
            tensors = dict(g)
            for session in sessions:
                wanted = {b.name for b in session.artifact.inputs}
                tensors.update(session.run({n: t for n, t in tensors.items() if n in wanted}))
            assert set(found) == {b.name for b in chain.outputs}
            for name, array in found.items():
                assert np.array_equal(array, tensors[name])
            ours = outputs_as_arrays(chain, found)
            others = outputs_as_arrays(one, single.wait(single.submit(g), WAIT_S))
            for name, a in others.items():
                assert np.linalg.norm(ours[name] - a) <= 0.01 * np.linalg.norm(a)


def test_evaluate_scores_a_chain_as_the_runner_computes_it(built, tmp_path):
    chain, _, one = built
    images = np.random.default_rng(3).uniform(0, 1, (3, *chain.inputs[0].shape_nchw[1:])).astype(np.float32)
    np.savez(tmp_path / "samples.npz", images=images)
    done = edgedla_verb(
        "evaluate",
        str(chain.folder),
        "--data",
        str(tmp_path / "samples.npz"),
        "--metric",
        "cosine",
        "--against",
        str(one.folder),
        "--format",
        "json",
    )
    score = json.loads(done.stdout)["score"]
    assert (score["basis"], score["samples"]) == ("simulated", 3)
    assert 0.9999 < score["value"] <= 1
    network = open_network(chain.folder)
    assert network.outputs == tuple(b.name for b in chain.outputs)
    found = network.run({"images": images[:1]})
    (runner,) = open_runners(chain)
    with runner:
        ours = outputs_as_arrays(chain, runner.wait(runner.submit({"images": images[:1]}), WAIT_S))
    for name, array in ours.items():
        assert np.array_equal(found[name], array), name


def test_a_chain_names_the_inputs_that_it_takes(built):
    with pytest.raises(UsageError, match="images"):
        open_host(built[0]).run_arrays({"pictures": np.zeros(1, np.float32)})


def run_config(built, **changes):
    chain, _, _ = built
    return PipelineConfig(
        artifact=str(chain.folder),
        source=SourceConfig("synthetic://?frames=12&rate=0"),
        decode=DecodeOptions(kind="yolov8", reg_max=8),
        stop_after=Limits(frames=6),
        **changes,
    )


@pytest.mark.parametrize("how", ["alone", "placement", "beside"])
def test_a_pipeline_runs_the_chain(built, tmp_path, how):
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    chain, placement, _ = built
    changes = {}
    if how == "placement":
        changes["placement"] = str(placement)
    if how == "beside":
        edgedla_verb("build", str(MODEL), "--precision", "fp16", "--layer-devices", "*:GPU", "-o", str(tmp_path / "gpu"))
        changes["devices"] = ("+".join(s.device for s in chain.stages), f"GPU={tmp_path / 'gpu'}")
    seen = []
    with open_pipeline(run_config(built, **changes), on_result=lambda r: seen.append(r.frame.index)) as pipeline:
        assert pipeline.lanes[0].engine.pool.capacity == len(chain.stages) + (how == "beside")
        summary = pipeline.run()
        families = {f.name: f for f in PipelineCollector(pipeline.summary).collect()}
    assert seen == sorted(seen)
    assert summary["frames"]["results"] == 6
    json.dumps(summary)
    stages = summary["runners"][0]["stages"]
    assert [s["device"] for s in stages] == [s.device for s in chain.stages]
    assert all(s["simulated"] for s in stages)
    counted = {s.labels["device"]: s.value for s in families["edgedla_chain_stage_ms"].samples if "count" in s.name}
    assert counted == {s["device"]: s["inference"]["count"] for s in stages}


def test_run_and_bench_report_the_stages_of_a_chain(built):
    chain, placement, _ = built
    name = "+".join(s.device for s in chain.stages)
    text = edgedla_verb(
        "run", str(chain.folder), "--source", "synthetic://", "--placement", str(placement), "--frames", "4"
    ).stdout
    assert f"runner {name}: 4 inferences" in text
    for k, stage in enumerate(chain.stages):
        assert f"  stage {k} {stage.device}: p50 " in text
    assert "copied through host memory" not in text, "simulated stages have no other memory"
    quick = ("--warmUp=0", "--duration=0", "--iterations=3")
    text = edgedla_verb("bench", str(chain.folder), *quick).stdout
    assert f"{name}, one frame at a time: " in text
    assert f"{name}, {len(chain.stages)} frames in flight: " in text
    assert f"  stage 0 {chain.stages[0].device}: p50 " in text
    assert "SIMULATED" in text
    (result,) = json.loads(edgedla_verb("bench", str(chain.folder), *quick, "--format", "json").stdout)["results"]
    assert (result["simulated"], result["in_flight"], result["count"]) == (True, 1, 3)
    assert result["pipelined"]["in_flight"] == len(chain.stages)
    assert [s["inference"]["count"] for s in result["stages"]] == [3] * len(chain.stages)


@pytest.mark.parametrize("verb", [("run", "--source", "synthetic://"), ("bench",)])
def test_devices_that_are_not_the_chains_end_with_exit_code_2(built, verb):
    chain, _, _ = built
    done = edgedla_verb(verb[0], str(chain.folder), *verb[1:], "--device", "GPU", code=2)
    assert "the artifact is a chain over" in done.stderr
    assert "leave the devices out" in done.stderr


def test_a_placement_file_of_other_devices_is_refused(built):
    chain, placement, one = built
    document = read_placement(placement)
    assert placed_together(document, [chain])[0] == ("+".join(s.device for s in chain.stages),)
    swap = {"DLA0": "DLA1", "DLA1": "DLA0", "GPU": "GPU"}
    model = document.models[0]
    layers = tuple(replace(x, device=swap[x.device]) for x in model.layers)
    with pytest.raises(UsageError, match=r"it places .* on DLA\d, the artifact was built with it on DLA\d"):
        placed_together(replace(document, models=(replace(model, layers=layers),)), [chain])
    with pytest.raises(UsageError, match="one engine uses one DLA core") as refused:
        placed_together(document, [one])
    assert "edgedla build --placement" in refused.value.hint


def test_a_pipeline_file_lists_a_chain_and_another_device(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\nartifact: c\nsource: synthetic://\ndevices: [DLA0+DLA1, GPU=gpu]\n")
    assert load_config(str(path)).devices == ("DLA0+DLA1", f"GPU={tmp_path / 'gpu'}")


def test_the_placement_predicts_each_stage_and_a_fake_chain_takes_that_time(built):
    chain, placement, _ = built
    model = read_placement(placement).models[0]
    ms = predicted_stage_ms(chain, model)
    assert all(t > 0 for t in ms)
    assert 0.8 * model.latency.latency_us <= sum(ms) * 1e3 <= model.latency.latency_us * (1 + 1e-9)
    with fake_chain(chain, ms) as runner:
        found = runner.wait(runner.submit(random_inputs(chain, 0)), WAIT_S)
        assert {n: a.nbytes for n, a in found.items()} == {b.name: b.size_bytes for b in chain.outputs}


def plus_one(source, target):
    def run(addresses):
        a, b = (np.ctypeslib.as_array((ctypes.c_uint8 * SIZE).from_address(addresses[n])) for n in (source, target))
        b[:] = a + 1
        return True

    return run


def test_with_tensorrt_each_stage_chooses_its_core(fake_tensorrt, host_memory, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))
    names, shape = ("x", "t1", "y"), (1, SIZE)
    modules = [
        fake_tensorrt("10.3.0", inputs={a: shape}, outputs={b: shape}, run=plus_one(a, b)) for a, b in zip(names, names[1:])
    ]
    chain = straight("DLA1", "DLA0")
    stages = []
    for k, stage in enumerate(chain.stages):
        part = replace(
            stage.artifact, software={"tensorrt": "10.3.0"}, platform={"chip": "orin", "target": "agx-orin-64gb", "trt": "10.3.0"}
        )
        stages.append(replace(stage, artifact=save_artifact(part, tmp_path / f"s{k}", {("engine", "engine.plan"): b"engine"})))
    chain = replace(chain, stages=tuple(stages))
    given = iter(modules)
    monkeypatch.setattr("edgedla.runtime.runners.tensorrt_engine.import_tensorrt", lambda: next(given))
    monkeypatch.setattr(runners_module, "_open_one", lambda a, name: TensorRtRunner(a, name, host_memory))
    (runner,) = open_devices(chain, [])
    with runner:
        for i in range(8):
            assert runner.wait(runner.submit({"x": np.full(SIZE, i, np.uint8)}), WAIT_S)["y"][0] == i + 2
        assert [s["hands_over"] for s in runner.stages()] == [{"t1": "device"}, {}]
    for module, core in zip(modules, (1, 0)):
        assert f"Runtime.DLA_core = {core}" in module.world.calls
        assert sum("execute_async_v3" in c for c in module.world.calls) == 8
