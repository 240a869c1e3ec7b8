"""Chains end to end: the stages' common result, the tensors between them, resuming, and the files in the folder."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List

import jsonschema
import numpy as np
import onnx
import pytest

from edgedla.builder import Artifact, Stage, load_artifact
from edgedla.builder.building import build, plan_build, plan_stages, write_scripts
from edgedla.builder.chain.host_chain import HostChain
from edgedla.builder.chain.plan import engines_that_share_sram
from edgedla.builder.chain.split import StageLayers
from edgedla.builder.host.session import HostSession
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.errors import BuildError, DocumentError, ModelError, UsageError
from edgedla.formats import parse_io_formats
from edgedla.importers import load_onnx
from edgedla.inspection.inspect_file import diff, inspect
from edgedla.placement.result.document import read_placement
from edgedla.targets import platform_for
from tests.builder.chain_placements import TARGET, Devices, on_one_core, placed, runs
from tests.models import node, onnx_model, save

ROOT = Path(__file__).resolve().parents[2]
DETECTOR = ROOT / "examples/00_shapes_detector/shapes_detector.onnx"
MANIFEST_SCHEMA = json.loads((ROOT / "edgedla/schemas/artifact.schema.json").read_text(encoding="utf-8"))
LIST_SCHEMA = json.loads((ROOT / "edgedla/schemas/plan-list.schema.json").read_text(encoding="utf-8"))


def request(placement: Path, **changes: Any) -> BuildRequest:
    return replace(BuildRequest(target=TARGET, trt="10.3", backend="host", placement=placement), **changes)


def by_turns(i: int, n: int) -> str:
    """Short stretches on all three, so that branches and skips cross the borders."""
    return ("DLA0", "DLA1", "GPU")[i // 7 % 3]


SHAPES: Dict[str, Devices] = {
    "two": runs("DLA0", "DLA1"),
    "other-way-round": runs("DLA1", "DLA0"),
    "there-and-back": runs("DLA0", "GPU", "DLA1", "DLA0"),
    "gpu-at-both-ends": runs("GPU", "DLA0", "DLA1", "GPU"),
    "by-turns": by_turns,
}
#: Relative L2 difference of a chain from one engine with the same layers on a DLA. What is equal up to the last bit is
#: rounded at the same places. By turns, INT8 tensors of the GPU are handed over in INT8, which one engine need not do.
DIFFERENCE = {("by-turns", "int8"): 0.05}
#: Of the others. In INT8 a sum halfway between two steps goes either way: other graphs add in another order on some processors.
OTHERWISE = {"fp16": 1e-6, "int8": 2e-3}


@pytest.mark.parametrize("precision", ["fp16", "int8"])
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_chain_gives_the_outputs_of_one_engine(name: str, precision: str, tmp_path: Path) -> None:
    devices, options = SHAPES[name], {"precision": precision, "only_legal": True}
    to_chain = request(placed(DETECTOR, tmp_path / "chain.json", devices, **options), precision=precision)
    to_one = request(placed(DETECTOR, tmp_path / "one.json", on_one_core(devices), **options), precision=precision)
    made = build(DETECTOR, tmp_path / "chain", to_chain)
    one = build(DETECTOR, tmp_path / "one", to_one)
    loaded = load_artifact(tmp_path / "chain", model=DETECTOR)
    assert loaded == made
    assert (made.kind, one.kind) == ("chain", "hybrid")
    assert made.bindings == one.bindings
    assert made.accuracy is not None
    assert made.accuracy["within"]
    jsonschema.validate(made.to_dict(), MANIFEST_SCHEMA)
    image = np.random.default_rng(9).uniform(0, 1, made.inputs[0].shape_nchw).astype(np.float32)
    want = HostSession(one).run_arrays({"images": image})
    outputs = HostChain([s.artifact for s in loaded.stages]).run_arrays({"images": image})
    for output, value in want.items():
        error = np.linalg.norm(outputs[output].astype(np.float64) - value) / np.linalg.norm(value)
        assert error <= DIFFERENCE.get((name, precision), OTHERWISE[precision]), output


def test_tensors_between_dla_stages_have_dla_formats(tmp_path: Path) -> None:
    for precision, dtype, form in (("fp16", "HALF", "CHW16"), ("int8", "INT8", "CHW32")):
        file = placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1"), precision=precision)
        made = build(DETECTOR, tmp_path / precision, request(file, precision=precision))
        first, second = (s.artifact for s in made.stages)
        handed = {b.name: b for b in first.outputs}
        assert [s.device for s in made.stages] == ["DLA0", "DLA1"]
        assert {b.name for b in second.inputs} == set(handed)
        for b in second.inputs:
            assert replace(b, is_input=False) == handed[b.name]
            assert (b.dtype, b.format, b.scale is None) == (dtype, form, precision == "fp16")
        assert {b.name for b in second.outputs} == {"raw_s8", "raw_s16"}
        assert {s.artifact.kind for s in made.stages} == {"hybrid"}


def test_stages_keep_the_networks_layer_names_and_their_core(tmp_path: Path) -> None:
    made = build(DETECTOR, tmp_path / "out", request(placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1"))))
    graph = load_onnx(DETECTOR)
    assert list(made.placement_predicted) == [layer.name for layer in graph.layers]
    for stage in made.stages:
        plan = json.loads(stage.artifact.file("plan").read_text())
        assert isinstance(stage, Stage)
        assert plan["dla_core"] == int(stage.device[3:])
        assert {x["device"] for x in plan["layers"]} == {stage.device}
        assert stage.artifact.accuracy is not None
        assert stage.artifact.accuracy["within"]
    assert "before this stage" in str(made.stages[1].artifact.accuracy)


def unnamed(path: Path) -> Path:
    """Nodes without names, of which some become several layers: TensorRT counts them anew in every model."""
    from onnx import helper

    rng = np.random.default_rng(3)
    constants = {
        "w": rng.standard_normal((8, 8, 3, 3)).astype(np.float32) * 0.2,
        "g": rng.standard_normal((8 * 8 * 8, 8)).astype(np.float32) * 0.05,
        "b": rng.standard_normal(8).astype(np.float32),
        "slope": np.full((8, 1, 1), 0.2, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("PRelu", ["c1", "slope"], ["p1"]),
        helper.make_node("Conv", ["p1", "w"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("PRelu", ["c2", "slope"], ["p2"]),
        helper.make_node("Flatten", ["p2"], ["f"]),
        helper.make_node("Gemm", ["f", "g", "b"], ["y"]),
    ]
    save(onnx_model(nodes, {"x": ("n", 8, 8, 8)}, {"y": ("n", 8)}, constants), path)
    return path


@pytest.mark.parametrize("trt", ["8.5", "10.3"])
def test_unnamed_onnx_nodes_are_built_on_the_placed_core(trt: str, tmp_path: Path) -> None:
    path = unnamed(tmp_path / "net.onnx")
    graph = load_onnx(path, trt=tuple(int(n) for n in trt.split(".")), batch=1)
    core = {"c1": "DLA0", "p1": "DLA0", "c2": "DLA1", "p2": "DLA1"}

    def devices(i: int, n: int) -> str:
        return core.get(graph.layers[i].outputs[0], "GPU")

    # The placement is that of the model as it is to be built: with its batch.
    fixed = onnx.load(str(path))
    for value in (*fixed.graph.input, *fixed.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(fixed, str(path))
    options = PlanOptions(allow_unknown=True)
    file = placed(path, tmp_path / "p.json", devices, trt=trt)
    plans = plan_stages(path, request(file, trt=trt, options=options))
    planned = {x.outputs[0]: x.device for plan in plans for x in plan.layers if x.outputs[0] in core}
    assert planned == core
    assert {x.device for x in plans[1].layers if x.outputs[0] not in core} == {"GPU"}
    made = build(path, tmp_path / "out", request(file, trt=trt, options=options))
    assert list(made.placement_predicted) == [layer.name for layer in graph.layers]


def test_plan_options_of_a_chain_use_the_whole_networks_names(tmp_path: Path) -> None:
    file = placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1"), precision="int8")
    names = [layer.name for layer in load_onnx(DETECTOR).layers]
    options = PlanOptions(
        devices={names[0]: "GPU", names[-1]: "GPU"},
        precisions={names[4]: "fp16", names[-2]: "fp16"},
        output_formats=parse_io_formats("fp16:chw16"),
    )
    first, second = plan_stages(DETECTOR, request(file, precision="int8", options=options))
    assert first.layers[0].device == second.layers[-1].device == "GPU"
    assert [x.name for p in (first, second) for x in p.layers if x.precision == "fp16"] == [names[4], names[-2]]
    assert {(io.dtype, io.format) for io in second.outputs} == {("HALF", "CHW16")}
    assert {(io.dtype, io.format) for io in first.outputs} == {("INT8", "CHW32")}
    assert [io.format for io in first.inputs] == ["LINEAR"]
    made = build(DETECTOR, tmp_path / "out", request(file, precision="int8", options=options))
    assert f"devices set by hand: {names[-1]}:GPU, {names[0]}:GPU" in made.notes
    with pytest.raises(UsageError, match="no layer of shapes_detector is called 'conv99'"):
        plan_stages(DETECTOR, request(file, precision="int8", options=PlanOptions(devices={"conv99": "GPU"})))


def test_a_placement_is_accepted_as_object_or_file(tmp_path: Path) -> None:
    file = placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1"))
    plans = plan_stages(DETECTOR, request(file))
    for given in (str(file), read_placement(file)):
        assert plan_stages(DETECTOR, replace(request(file), placement=given)) == plans


def test_a_placement_on_one_core_stays_one_engine(tmp_path: Path) -> None:
    file = placed(DETECTOR, tmp_path / "p.json", on_one_core(runs("DLA0", "DLA1")))
    assert len(plan_stages(DETECTOR, request(file))) == 1
    assert plan_build(DETECTOR, request(file)).dla_core == 0
    with pytest.raises(BuildError, match="a chain of 2 engines"):
        plan_build(DETECTOR, request(placed(DETECTOR, tmp_path / "q.json", runs("DLA0", "DLA1"))))


def test_folded_and_hand_moved_layers_follow_a_placement_to_core_1(tmp_path: Path) -> None:
    size = [1, 8, 8, 8]
    nodes = [
        node("Conv", "x w", "a", name="conv1", pads=[1, 1, 1, 1]),
        node("Reshape", "a size", "b", name="nothing"),
        node("Relu", "b", "c", name="relu"),
        node("Conv", "c w", "y", name="conv2", pads=[1, 1, 1, 1]),
    ]
    values = {"w": np.full((8, 8, 3, 3), 0.01, np.float32), "size": np.asarray(size, np.int64)}
    path = tmp_path / "net.onnx"
    save(onnx_model(nodes, {"x": size}, {"y": size}, values), path)
    file = placed(path, tmp_path / "p.json", runs("GPU", "DLA1"))
    assert "folded" in file.read_text(encoding="utf-8")
    for by_hand in ({}, {"conv1": "DLA"}):
        plan = plan_build(path, request(file, options=PlanOptions(devices=by_hand)))
        assert plan.dla_core == 1
        assert {x.device for x in plan.layers} <= {"GPU", "DLA1"}
        assert (plan.layers[0].device == "DLA1") == bool(by_hand)


def test_a_placement_on_the_gpu_alone_notes_that_no_layer_is_on_the_dla(tmp_path: Path) -> None:
    plan = plan_build(DETECTOR, request(placed(DETECTOR, tmp_path / "p.json", runs("GPU"))))
    assert plan.dla_core is None
    assert "no layer runs on the DLA" in plan.notes


def test_a_wrong_placement_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    said: List[str] = []
    file = placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1"))
    with pytest.raises(DocumentError, match="placed for precision fp16"):
        plan_stages(DETECTOR, request(file, precision="int8"), say=said.append)
    assert said == []


def test_engines_on_one_core_share_its_sram(tmp_path: Path) -> None:
    back = placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1", "DLA0"))
    plans = plan_stages(DETECTOR, request(back))
    assert [p.concurrent_engines for p in plans] == [2, 1, 2]
    assert [p.pools.dla_sram_bytes for p in plans] == [1 << 19, 1 << 20, 1 << 19]


@pytest.mark.parametrize(
    ("target", "want"), [("agx-orin-64gb", [1, 2, 1, 2]), ("agx-xavier-32gb", [3, 3, 3, 3]), ("xavier-nx-8gb", [3, 3, 3, 3])]
)
def test_gpu_stages_take_no_share_of_the_sram(target: str, want: List[int]) -> None:
    stages = [StageLayers(device, (i,)) for i, device in enumerate(("GPU", "DLA0", "DLA1", "DLA0"))]
    platform = platform_for(target)
    assert [engines_that_share_sram(platform, stages, stage) for stage in stages] == want


def test_a_chain_with_other_loadables_than_the_placement_notes_it(tmp_path: Path) -> None:
    n = len(load_onnx(DETECTOR).layers)
    whole = placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1"), regions=[range(n // 2), range(n // 2, n)])
    made = build(DETECTOR, tmp_path / "a", request(whole))
    assert not [note for note in made.notes if "other loadables" in note]
    none = placed(DETECTOR, tmp_path / "q.json", runs("DLA0", "DLA1"))
    assert [n for n in build(DETECTOR, tmp_path / "b", request(none)).notes if "other loadables" in n]
    torn = [(0, n // 2 - 1), (1, n - 1)]
    devices = runs("DLA0", "DLA1")
    both = placed(DETECTOR, tmp_path / "r.json", lambda i, k: "DLA0" if i in (0, k - 1) else devices(i, k), regions=[(0, n - 1)])
    assert torn
    with pytest.raises(BuildError, match="cannot be cut into engines of one core"):
        build(DETECTOR, tmp_path / "c", request(both))


def test_a_standalone_chain_has_int8_bindings_and_refuses_gpu_stages(tmp_path: Path) -> None:
    file = placed(DETECTOR, tmp_path / "p.json", runs("DLA0", "DLA1"), precision="int8")
    made = build(DETECTOR, tmp_path / "out", request(file, precision="int8", mode="standalone"))
    assert [s.artifact.kind for s in made.stages] == ["standalone", "standalone"]
    assert {b.dtype for b in made.bindings} == {"INT8"}
    assert made.accuracy is not None
    assert made.accuracy["within"]
    mixed = placed(DETECTOR, tmp_path / "q.json", runs("DLA0", "GPU", "DLA1"), precision="int8")
    with pytest.raises(BuildError, match="no-gpu"):
        build(DETECTOR, tmp_path / "mixed", request(mixed, precision="int8", mode="standalone"))


def test_missing_external_weights_allow_a_plan_but_no_build(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.load(str(DETECTOR)), str(path), save_as_external_data=True, location="w.bin", size_threshold=1024)
    file = placed(path, tmp_path / "p.json", runs("DLA0", "DLA1"))
    made = build(path, tmp_path / "out", request(file))
    assert made.model["external"].keys() == {"w.bin"}
    (tmp_path / "w.bin").unlink()
    assert len(plan_stages(path, request(file))) == 2
    with pytest.raises(ModelError, match=r"external weights are missing \(w.bin\)"):
        build(path, tmp_path / "other", request(file))


# --- the folder -----------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(chain: Callable[..., Path], tmp_path: Path) -> Callable[..., BuildRequest]:
    """A request for conv1, relu1, pool1 | conv2 on the two cores."""

    def make(**changes: Any) -> BuildRequest:
        precision = changes.get("precision", "fp16")
        file = placed(chain(), tmp_path / f"{precision}.json", runs("DLA0", "DLA0", "DLA0", "DLA1"), precision=precision)
        return request(file, **changes)

    return make


def visible(folder: Path) -> List[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


def test_the_same_chain_is_not_built_twice_unless_forced(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path
) -> None:
    first = build(chain(), tmp_path / "out", mixed())
    said: List[str] = []
    assert build(chain(), tmp_path / "out", mixed(), say=said.append) == first
    assert said == ["the folder holds this very build already; --force builds it again"]
    said.clear()
    assert build(chain(), tmp_path / "out", mixed(force=True), say=said.append) == first
    assert said == ["building a chain of 2 stages with the host backend", "stage 0, DLA0, 3 layers", "stage 1, DLA1, 1 layer"]
    assert not (tmp_path / "out/.work/stages").exists()


def test_a_chain_measured_on_random_input_is_built_again_for_samples(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path
) -> None:
    build(chain(), tmp_path / "out", mixed())
    np.save(tmp_path / "samples.npy", np.random.default_rng(4).standard_normal((3, 3, 16, 16)).astype(np.float32))
    made = build(chain(), tmp_path / "out", mixed(calib_data=tmp_path / "samples.npy"))
    sources = [a.accuracy["samples"] for a in (made, *(s.artifact for s in made.stages)) if a.accuracy]
    assert sources[0] == sources[1]
    assert "of 3 samples of samples.npy" in sources[0]
    assert sources[2] == f"what FP32 makes of {sources[0]} before this stage"


def test_stages_of_the_previous_build_are_removed_after_the_new_manifest(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = build(chain(), out, mixed())
    second = build(chain(), out, mixed(precision="int8"))
    assert not any(s.artifact.folder and s.artifact.folder.exists() for s in first.stages)
    listed = [f.path for f in second.files] + [s.artifact.folder.name for s in second.stages if s.artifact.folder]
    assert visible(out) == sorted(["manifest.json", *listed])
    single = build(chain(), out, replace(mixed(), placement=None))
    assert single.kind == "hybrid"
    assert visible(out) == sorted(["manifest.json"] + [f.path for f in single.files])


@pytest.mark.parametrize("single", [False, True])
def test_a_concurrent_build_into_a_chains_folder_is_refused(
    single: bool, mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path
) -> None:
    """It would remove, or take over, the stages that the first one has finished."""
    path, out, first = chain(), tmp_path / "out", mixed()
    second = replace(first, placement=None) if single else first
    refused: List[str] = []

    def meanwhile(line: str) -> None:
        with pytest.raises(BuildError, match="out: another build is writing into this folder"):
            build(path, out, second)
        refused.append(line)

    made = build(path, out, first, say=meanwhile)
    assert len(refused) == 3
    assert load_artifact(out) == made
    assert build(path, out, second).kind == ("hybrid" if single else "chain")


def test_a_failed_forced_build_keeps_the_previous_stages(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = chain(), tmp_path / "out"
    first = build(path, out, mixed())
    original = os.rename

    def dies_there(source: Any, target: Any) -> None:
        if Path(target).parent == out:
            raise KeyboardInterrupt
        original(source, target)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(os, "rename", dies_there)
        build(path, out, mixed(force=True))
    assert load_artifact(out) == first


def test_an_interrupted_chain_build_resumes_at_the_missing_stage(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import edgedla.builder.building as building

    original = building._build_one
    out = tmp_path / "out"

    def stops(plan: Any, *args: Any, **kwargs: Any) -> Any:
        if plan.dla_core == 1:
            raise KeyboardInterrupt
        return original(plan, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(building, "_build_one", stops)
        with pytest.raises(KeyboardInterrupt):
            build(chain(), out, mixed())
    assert not (out / "manifest.json").exists()
    said: List[str] = []
    made = build(chain(), out, mixed(), say=said.append)
    assert said[1:] == ["stage 0, DLA0, 3 layers: is built already", "stage 1, DLA1, 1 layer"]
    assert load_artifact(out) == made


class Died(BaseException):
    """Stands for the end of the process: nothing in edgedla catches it."""


def test_a_chain_build_killed_at_any_system_call_leaves_the_old_or_new_chain(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The k-th call that changes the disk never happens, for every fifth k; what loads is the old chain or the new one."""
    path, old, new = chain(), mixed(), mixed(precision="int8")
    wanted = [without_folders(build(path, tmp_path / f"ref{i}", r)) for i, r in enumerate((old, new))]
    outcomes = set()
    for k in range(0, 300, 5):
        folder = tmp_path / f"out{k}"
        shutil.copytree(tmp_path / "ref0", folder)
        left = [k]

        def dying(call: Callable[..., Any], left: List[int] = left) -> Callable[..., Any]:
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise Died
                return call(*args, **kwargs)

            return wrapped

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "rename", "unlink", "rmdir"):
                patch.setattr(os, name, dying(getattr(os, name)))
            try:
                build(path, folder, new)
                finished = True
            except Died:
                finished = False
        found = without_folders(load_artifact(folder))
        assert found in wanted
        outcomes.add(found.precision)
        assert without_folders(build(path, folder, new)) == wanted[1]
        assert len(visible(folder)) == 5
        if finished:
            break
    else:
        pytest.fail("a chain makes more than 300 calls")
    assert outcomes == {"fp16", "int8"}


def without_folders(artifact: Artifact) -> Artifact:
    stages = tuple(replace(s, artifact=replace(s.artifact, folder=None)) for s in artifact.stages)
    return replace(artifact, folder=None, stages=stages)


# --- other backends, and what is shown ------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_chain_builds_each_stage_with_tensorrt(
    precision: str,
    mixed: Callable[..., BuildRequest],
    chain: Callable[..., Path],
    fake_tensorrt: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the fake, which is given the layers of each stage's own ONNX file."""
    import edgedla.builder.tensorrt.backend as on_device

    original = on_device.build_engine
    calls: List[List[str]] = []

    def with_its_layers(plan: Any, path: Path, **kwargs: Any) -> Any:
        graph = load_onnx(path)
        fake = fake_tensorrt(
            "10.3.0",
            layers=[(x.name, x.type, x.inputs, x.outputs) for x in graph.layers],
            inputs={n: graph.tensors[n].dims for n in graph.inputs},
            outputs={n: graph.tensors[n].dims for n in graph.outputs},
            engine_formats={io.name: io.format for io in plan.io if io.format != "LINEAR"},
            inspector={
                "Layers": [{"Name": f"{{ForeignNode[{plan.regions[0][0]}...{plan.regions[0][1]}]}}", "LayerType": "DLA"}],
                "Bindings": [],
            },
        )
        try:
            return original(plan, path, **kwargs)
        finally:
            calls.append(list(fake.world.calls))

    monkeypatch.setattr(on_device, "build_engine", with_its_layers)
    made = build(chain(), tmp_path / "out", mixed(backend="tensorrt", precision=precision))
    assert load_artifact(tmp_path / "out") == made
    assert not made.simulated
    assert made.software["tensorrt"] == "10.3.0"
    assert made.placement_real == {"conv1": "DLA0", "relu1": "DLA0", "pool1": "DLA0", "conv2": "DLA1"}
    assert [s.artifact.has("engine") for s in made.stages] == [True, True]
    form = "CHW16" if precision == "fp16" else "CHW32"
    for made_of_stage in calls:
        assert any(f"TensorFormat.{form}" in c or "allowed_formats" in c for c in made_of_stage)
    assert (tmp_path / "out/.work/stage1/timing.cache").exists()


def test_a_stage_that_fails_is_named(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], fake_tensorrt: Callable[..., Any], tmp_path: Path
) -> None:
    fake_tensorrt("10.3.0", parse_errors=("unsupported",))
    with pytest.raises(ModelError, match=r"^stage 0 \(DLA0\), .*: TensorRT's parser refuses the model"):
        build(chain(), tmp_path / "out", mixed(backend="tensorrt"))


def halved(path: Path) -> Path:
    """The model with FP16 tensors, as a release wants it in which tensor types decide."""
    from onnx import TensorProto, numpy_helper

    model = onnx.load(str(path))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for k, tensor in enumerate(model.graph.initializer):
        half = numpy_helper.to_array(tensor).astype(np.float16)
        model.graph.initializer[k].CopyFrom(numpy_helper.from_array(half, tensor.name))
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("trt", ["8.4", "8.5", "8.6", "10.3", "10.7", "11.4.1"])
def test_scripts_build_every_stage_with_every_release(trt: str, chain: Callable[..., Path], tmp_path: Path) -> None:
    path = halved(chain()) if trt.startswith("11") else chain()
    file = placed(path, tmp_path / "p.json", runs("DLA0", "DLA0", "DLA0", "DLA1"), trt=trt)
    written = write_scripts(path, tmp_path / "scripts", request(file, trt=trt))
    assert [p.name for p in written.stages] == ["stage0.onnx", "build_stage0.sh", "stage1.onnx", "build_stage1.sh"]
    assert [n.op_type for n in onnx.load(str(written.stages[0])).graph.node] == ["Conv", "Relu", "MaxPool"]
    fake = tmp_path / "trtexec"
    fake.write_text('#!/bin/sh\necho "$@" >> "$0.calls"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    subprocess.run([str(written.script), str(tmp_path / "out")], check=True, env={**os.environ, "TRTEXEC": str(fake)})
    calls = (tmp_path / "trtexec.calls").read_text().splitlines()
    assert [f"--useDLACore={k}" in call for k, call in enumerate(calls)] == [True, True]
    assert [f"--onnx={tmp_path}/scripts/stage{k}.onnx" in call for k, call in enumerate(calls)] == [True, True]
    assert (tmp_path / "out/stage1/build.log").exists()
    # From 11 on the option holds the format alone.
    form = "chw16" if trt.startswith("11") else "fp16:chw16"
    assert f"--outputIOFormats={form}" in calls[0]
    assert f"--inputIOFormats={form}" in calls[1]
    with pytest.raises(UsageError, match="a chain has several files"):
        write_scripts(path, tmp_path / "one.sh", request(file, trt=trt))


def test_folders_of_scripts_may_have_a_dot_and_other_files_are_not_written_over(
    chain: Callable[..., Path], tmp_path: Path
) -> None:
    file = placed(chain(), tmp_path / "p.json", runs("DLA0", "DLA1"))
    for wanted in (request(file), replace(request(file), placement=None)):
        folder = tmp_path / f"trt-8.5_{wanted.placement is None}"
        assert write_scripts(chain(), folder, wanted).script == folder / "build.sh"
        before = file.read_bytes()
        with pytest.raises(UsageError, match=r"p\.json: this is a file"):
            write_scripts(chain(), file, wanted)
        assert file.read_bytes() == before
    single = write_scripts(chain(), tmp_path / "one.sh", replace(request(file), placement=None))
    assert single.script == tmp_path / "one.sh"


@pytest.mark.parametrize(("device", "form"), [("DLA0", "CHW16"), ("GPU", "LINEAR")])
def test_with_strong_typing_stage_borders_have_the_models_types(
    device: str, form: str, chain: Callable[..., Path], tmp_path: Path
) -> None:
    path = halved(chain())
    file = placed(path, tmp_path / "p.json", runs("DLA0", "DLA0", device, "DLA1"), trt="11.4.1")
    first, second = plan_stages(path, request(file, trt="11.4.1"))
    assert [(io.name, io.dtype, io.format) for io in first.outputs] == [("p1", "HALF", form)]
    assert [(io.name, io.dtype, io.format) for io in second.inputs] == [("p1", "HALF", form)]


def test_plans_of_a_chain_render_as_a_list_document(mixed: Callable[..., BuildRequest], chain: Callable[..., Path]) -> None:
    from edgedla.reports.build import render_plans

    plans = plan_stages(chain(), mixed())
    document = json.loads(render_plans(plans, "json"))
    jsonschema.validate(document, LIST_SCHEMA)
    assert [p["dla_core"] for p in document["stages"]] == [0, 1]
    text = render_plans(plans, "text")
    assert [line for line in text.splitlines() if line.startswith("stage ")] == ["stage     0 of 2", "stage     1 of 2"]
    assert text.count("\nplan      chain_stage") == 2


def test_inspect_shows_the_stages_of_a_chain_and_diff_compares_two(
    mixed: Callable[..., BuildRequest], chain: Callable[..., Path], tmp_path: Path
) -> None:
    build(chain(), tmp_path / "a", mixed())
    build(chain(), tmp_path / "b", mixed(precision="int8"))
    inspection = inspect(tmp_path / "a")
    rows = {(f.section, f.key): f.value for f in inspection.facts}
    assert rows["Stages", "0"] == "DLA0, 3 layers; reads image; hands on p1"
    assert rows["Stages", "1"] == "DLA1, 1 layers; reads p1"
    assert rows["Stage 1: Inputs", "p1"] == "1x8x8x8 HALF CHW16, 2048 B"
    assert inspection.size_bytes > sum(f.size_bytes for f in load_artifact(tmp_path / "a").files)
    changed = {(d.section, d.key) for d in diff(inspection, inspect(tmp_path / "b")).differences}
    assert ("Stage 0: Outputs", "p1") in changed
    assert diff(inspection, inspect(tmp_path / "a")).equal
