"""Devices with their own artifacts, and running by a placement: if they differ, the error names the difference."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.artifact.store import save_artifact
from edgedla.errors import DocumentError, UsageError
from edgedla.placement.api import place
from edgedla.runtime import runners as runners_module
from edgedla.runtime.loadables_in_use import warn_of_loadables
from edgedla.runtime.pipeline import devices as devices_module
from edgedla.runtime.pipeline.devices import check_same_bindings, open_devices, placed_together, split_device
from edgedla.runtime.pipeline.pool import Pool
from tests.runtime.fake_runner import FakeRunner, predicted_stage_ms
from tests.runtime.runtime_chains import chain, straight

MODEL = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"

X = Binding("x", True, (1, 3, 8, 8), "INT8", "DLA_HWC4", 256, {"row": 32}, 0.5)
Y = Binding("y", False, (1, 4, 8, 8), "HALF", "CHW16", 2048, {"row": 256}, None)


def artifact(folder, bindings=(X, Y), devices=("DLA0",), backend="tensorrt", chip="orin"):
    made = Artifact(
        "hybrid",
        backend,
        False,
        {"name": "m", "sha256": "ab" * 32},
        {"chip": chip, "target": "agx-orin-64gb", "trt": "10.3.0"},
        {},
        "int8",
        bindings,
        {f"layer{i}": d for i, d in enumerate(devices)},
    )
    return save_artifact(made, folder, {("engine", "engine.plan"): str(folder).encode()})


@pytest.fixture
def opened(monkeypatch):
    """(device, artifact folder) of the runners that were opened."""
    log = []

    def open_one(artifact, wanted=()):
        log.append((wanted[0] if wanted else "", artifact.folder.name))
        return [FakeRunner(artifact.bindings, 0.0, lambda i: i, wanted[0] if wanted else "default")]

    monkeypatch.setattr(devices_module, "open_runners", open_one)
    return log


def test_each_device_gets_its_artifact_and_the_frames_are_shared(tmp_path, opened):
    main, _ = artifact(tmp_path / "dla"), artifact(tmp_path / "gpu", devices=("GPU",))
    runners = open_devices(main, ["DLA0", "DLA1", f"GPU={tmp_path / 'gpu'}"])
    assert opened == [("DLA0", "dla"), ("DLA1", "dla"), ("GPU", "gpu")]
    with contextlib.closing(Pool(runners)) as pool:
        for i in range(6):
            pool.submit({"x": np.zeros(1)}, tag=i)
            assert pool.collect(1.0).tag == i


def test_without_devices_the_artifacts_default_is_used(tmp_path, opened):
    assert [r.name for r in open_devices(artifact(tmp_path / "a"), [])] == ["default"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "LINEAR"}, "format of x is LINEAR.*DLA_HWC4"),
        ({"dtype": "HALF"}, "dtype of x is HALF.*INT8"),
        ({"scale": 0.25}, "scale of x is 0.25.*0.5"),
        ({"shape_nchw": (1, 3, 8, 16)}, "shape_nchw of x is"),
        ({"name": "z"}, "inputs and outputs are y, z.*x, y"),
        ({"is_input": False}, "is_input of x is False"),
    ],
)
def test_artifacts_whose_buffers_differ_are_refused_with_the_difference(tmp_path, opened, change, says):
    main = artifact(tmp_path / "dla")
    artifact(tmp_path / "gpu", (replace(X, **change), Y))
    with pytest.raises(UsageError, match=says) as refused:
        open_devices(main, ["DLA0", f"GPU={tmp_path / 'gpu'}"])
    assert not opened
    assert "--input-formats" in refused.value.hint


def test_an_artifact_for_another_chip_is_refused(tmp_path):
    with pytest.raises(UsageError, match="built for xavier"):
        check_same_bindings(artifact(tmp_path / "a"), artifact(tmp_path / "b", chip="xavier"))


def test_runners_opened_before_a_failing_one_are_closed(tmp_path, monkeypatch):
    made = []

    def open_one(artifact, wanted):
        if wanted == ["DLA1"]:
            raise UsageError("no")
        made.append(FakeRunner((), 0.0, None, wanted[0]))
        return [made[-1]]

    monkeypatch.setattr(devices_module, "open_runners", open_one)
    with pytest.raises(UsageError, match="no"):
        open_devices(artifact(tmp_path / "a"), ["DLA0", "DLA1"])
    assert made[0]._closed


@pytest.mark.parametrize(
    ("devices", "says"),
    [(["DLA0", "DLA0=x"], "given twice"), (["GPU="], "device 'GPU='"), (["=a"], "device '=a'"), ([""], "device ''")],
)
def test_incomplete_or_duplicate_devices_are_refused(tmp_path, devices, says):
    with pytest.raises(UsageError, match=says):
        open_devices(artifact(tmp_path / "a"), devices)


def planned(folder, regions, trt):
    platform = {"chip": "xavier", "target": "agx-xavier", "trt": trt}
    made = replace(artifact(folder), platform=platform, files=())
    contents = {("plan", "plan.json"): json.dumps({"regions": [["a", "b", 2]] * regions}).encode()} if regions else {}
    return save_artifact(made, folder, contents)


@pytest.mark.parametrize(
    ("trt", "each", "devices", "says"),
    [
        ("8.4.1", (2, 2), (("DLA0",), ("DLA0",)), []),
        ("8.4.1", (3, 2), (("DLA0",), ("DLA0",)), ["5 loadables in use on DLA0; TensorRT 8.4.1 takes 4", "explain LOAD004"]),
        ("8.4.1", (3, 2), (("DLA0",), ("DLA1",)), []),
        ("8.4.1", (3, 2), (("DLA0", "DLA1"), ("DLA1", "GPU=own")), ["5 loadables in use on DLA1"]),
        ("8.4.1", (3, 2), ((), ()), ["5 loadables in use on DLA0"]),
        ("8.5.2", (8, 8), (("DLA0",), ("DLA0",)), []),
        ("8.5.2", (8, 9), (("DLA0",), ("DLA0",)), ["17 loadables in use on DLA0; TensorRT 8.5.2 takes 16"]),
        ("8.4.1", (4, 0), (("DLA0",), ("DLA0",)), ["5 loadables in use on DLA0"]),
    ],
)
def test_more_loadables_in_use_than_the_release_takes_are_warned_of(tmp_path, caplog, trt, each, devices, says):
    models = [planned(tmp_path / str(i), n, trt) for i, n in enumerate(each)]
    warn_of_loadables(list(zip(models, devices)))
    assert len(caplog.messages) == bool(says)
    assert all(text in caplog.text for text in says)


def test_a_path_may_hold_an_equals_sign():
    assert split_device(" GPU = /a=b/c ") == ("GPU", "/a=b/c")


def test_a_path_without_an_artifact_is_named(tmp_path):
    with pytest.raises(DocumentError, match="nothing: no such file or folder"):
        open_devices(artifact(tmp_path / "a"), ["DLA0", f"GPU={tmp_path / 'nothing'}"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DocumentError, match="not an artifact"):
        open_devices(artifact(tmp_path / "a"), ["DLA0", f"GPU={tmp_path / 'empty'}"])


@pytest.fixture(scope="module")
def placement():
    return place(str(MODEL), target="agx-orin-64gb", objective="throughput", devices=("GPU", "DLA0"))


def built_from(placement, **changes):
    model = placement.models[0]
    devices = {x.name: x.device for x in model.layers}
    return Artifact(
        "hybrid",
        "tensorrt",
        False,
        {"name": model.name, "sha256": model.sha256},
        {"chip": "orin", "target": "agx-orin-64gb", "trt": "10.3.0"},
        {},
        "fp16",
        (X, Y),
        {**devices, **changes},
    )


def placed_on(placement, artifact):
    return placed_together(placement, [artifact])[0]


def moved(placement, devices):
    """The placement with its layers on `devices` in turn."""
    model = placement.models[0]
    layers = tuple(replace(x, device=devices[i % len(devices)], why="chosen") for i, x in enumerate(model.layers))
    return replace(placement, models=(replace(model, layers=layers),))


@pytest.mark.parametrize(
    ("devices", "runs_on"), [(["GPU"], "GPU"), (["GPU", "DLA0"], "DLA0"), (["DLA1"], "DLA1"), (["DLA1", "GPU"], "DLA1")]
)
def test_a_placement_names_the_core_of_its_engine(placement, devices, runs_on):
    document = moved(placement, devices)
    assert placed_on(document, built_from(document)) == (runs_on,)


def test_a_placement_over_both_cores_is_refused_with_what_to_do(placement):
    document = moved(placement, ["GPU", "DLA0", "DLA1"])
    with pytest.raises(UsageError, match="over DLA0 and DLA1: one engine uses one DLA core") as refused:
        placed_on(document, built_from(document))
    assert "devices: [DLA0, DLA1]" in refused.value.hint


def test_an_artifact_of_another_placement_is_refused_with_the_layer(placement):
    document = moved(placement, ["DLA0"])
    name = sorted(x.name for x in document.models[0].layers)[0]
    with pytest.raises(UsageError, match="on DLA0, the artifact was built with it on GPU"):
        placed_on(document, built_from(document, **{name: "GPU"}))


def test_a_placement_of_another_model_is_refused(placement):
    other = replace(built_from(placement), model={"name": "m", "sha256": "cd" * 32})
    with pytest.raises(UsageError, match="does not hold the artifact's model m"):
        placed_on(placement, other)


def test_a_placement_file_is_read(placement, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(moved(placement, ["DLA1"]).to_json())
    assert placed_on(str(path), built_from(moved(placement, ["DLA1"]))) == ("DLA1",)
    path.write_text("{}")
    with pytest.raises(DocumentError):
        placed_on(str(path), built_from(placement))


def chain_of(placement, *devices, **changes):
    """A chain of one stage a device, built from the placement."""
    model = placement.models[0]
    placed = {x.name: x.device for x in model.layers}
    names = ["x", *(f"t{k}" for k in range(1, len(devices))), "y"]
    built = chain(
        devices,
        [([a], [b]) for a, b in zip(names, names[1:])],
        model={"name": model.name, "sha256": model.sha256},
        placement_predicted={**placed, **changes},
    )
    return built


@pytest.mark.parametrize(
    ("placed", "stages", "runs_on"),
    [
        (["DLA0", "DLA1"], ["DLA0", "DLA1"], "DLA0+DLA1"),
        (["DLA1", "GPU", "DLA0"], ["DLA1", "DLA0"], "DLA1+DLA0"),
        (["GPU", "DLA0", "DLA1"], ["GPU", "DLA0", "DLA1", "DLA0"], "GPU+DLA0+DLA1+DLA0"),
    ],
)
def test_a_placement_over_both_cores_runs_as_the_chain_that_was_built_from_it(placement, placed, stages, runs_on):
    document = moved(placement, placed)
    assert placed_on(document, chain_of(document, *stages)) == (runs_on,)


def test_a_chain_whose_layer_the_placement_has_on_the_other_core_is_refused(placement):
    document = moved(placement, ["DLA0", "DLA1"])
    name = next(x.name for x in document.models[0].layers if x.device == "DLA1")
    with pytest.raises(UsageError, match="on DLA1, the artifact was built with it on DLA0"):
        placed_on(document, chain_of(document, "DLA0", "DLA1", **{name: "DLA0"}))


@pytest.mark.parametrize(("placed", "says"), [(["DLA0"], "on DLA0, the artifact is a chain"), (["GPU"], "on the GPU,")])
def test_a_placement_of_other_cores_than_the_chains_is_refused(placement, placed, says):
    document = moved(placement, placed)
    with pytest.raises(UsageError, match=says):
        placed_on(document, chain_of(document, "DLA0", "DLA1"))


@pytest.fixture(name="faked")
def _faked(monkeypatch):
    """Runners of engines are fake ones, so that chains open without a device."""
    monkeypatch.setattr(runners_module, "_open_one", lambda a, name: FakeRunner(a.bindings, name=name))


@pytest.mark.parametrize("devices", [[], ["DLA0+DLA1"], ["DLA0", "DLA1"], ["DLA1", "DLA0"]], ids=lambda d: "+".join(d) or "none")
def test_the_devices_of_a_chain_may_be_omitted_or_repeated(faked, devices):
    runners = open_devices(straight("DLA0", "DLA1"), devices)
    with contextlib.closing(Pool(runners)):
        assert [r.name for r in runners] == ["DLA0+DLA1"]


@pytest.mark.parametrize("devices", [["DLA0"], ["GPU"], ["DLA0", "DLA1", "GPU"], ["DLA0+GPU"], ["nonsense"]])
def test_devices_that_are_not_the_chains_are_refused(faked, devices):
    with pytest.raises(UsageError, match=r"a chain over DLA0\+DLA1: it cannot run on") as refused:
        open_devices(straight("DLA0", "DLA1"), devices)
    assert refused.value.allowed == "DLA0+DLA1"
    assert "leave the devices out" in refused.value.hint


@pytest.mark.parametrize("devices", [["DLA0+DLA1", "GPU={}"], ["GPU={}", "DLA0", "DLA1"]])
def test_a_chain_runs_beside_the_gpu(faked, tmp_path, devices):
    main = straight("DLA0", "DLA1")
    platform = {"chip": "orin", "target": "agx-orin-64gb", "trt": "10.3.0"}
    gpu = replace(main, kind="hybrid", stages=(), placement_predicted={"a": "GPU"}, platform=platform)
    save_artifact(gpu, tmp_path / "gpu", {("engine", "engine.plan"): b"gpu"})
    with contextlib.closing(Pool(open_devices(main, [d.format(tmp_path / "gpu") for d in devices]))) as pool:
        assert tuple(r["runner"] for r in pool.to_dict() if r["in_use"]) == ("DLA0+DLA1", "GPU")
        assert pool.capacity == 3
        for i in range(6):
            assert pool.submit({"x": np.zeros(8, np.uint8)}, tag=i)
            assert pool.collect(5.0).tag == i


def test_a_core_of_the_chain_takes_no_second_runner(faked, tmp_path):
    main = straight("DLA0", "DLA1")
    with pytest.raises(UsageError, match="a device is given twice"):
        open_devices(main, ["DLA0+DLA1", f"DLA0={tmp_path}"])


def test_a_single_engine_has_no_chains_name(tmp_path):
    with pytest.raises(UsageError, match=r"unknown device 'DLA0\+DLA1'"):
        open_devices(artifact(tmp_path / "a"), ["DLA0+DLA1"])


def test_a_placement_predicts_the_time_of_each_stage(placement):
    document = place(str(MODEL), target="agx-orin-64gb", objective="throughput", pins=["/stem*:DLA0", "/p4*:DLA1"])
    model = document.models[0]
    cores = sorted({r.device for r in model.regions})
    ms = predicted_stage_ms(chain_of(document, *cores), model)
    assert len(ms) == len(cores)
    assert all(t > 0 for t in ms)
    regions = {c: sum(r.cost.latency_us for r in model.regions if r.device == c) for c in cores}
    for core, t in zip(cores, ms):
        assert t * 1e3 >= regions[core]
    # What the document's latency has beyond that is the start of the GPU's engine, and GPU layers that no stage here names.
    assert sum(ms) * 1e3 <= model.latency.latency_us * (1 + 1e-9)
