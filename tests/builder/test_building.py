"""`build` end to end: the host backend on real networks, the TensorRT backend on the fake, resuming, failing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping

import jsonschema
import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from onnx import helper, numpy_helper

from edgedla.builder import Artifact, existing_artifact, load_artifact
from edgedla.builder.artifact.of_plan import already_built
from edgedla.builder.building import build, plan_build
from edgedla.builder.host.session import HostSession
from edgedla.builder.plan import int8_scales
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.cli.main import exit_code_of
from edgedla.errors import BuildError, DataError, DocumentError, EnvironmentMissing, ModelError, UsageError
from edgedla.formats.pack import pack, unpack
from edgedla.identity import identity
from edgedla.io.documents import schema
from edgedla.placement.api import place
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.calibration_cache import write_cache
from edgedla.records.text_lines import text_lines
from tests.builder.conftest import chain_net
from tests.models import node, onnx_model, save


def request(**changes: Any) -> BuildRequest:
    return replace(BuildRequest(target="agx-orin-64gb", trt="10.3", backend="host"), **changes)


def fp32(path: Path, image: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"image": image})[0]  # type: ignore[no-any-return]


IMAGE = np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype(np.float32)


@pytest.mark.parametrize("mode", ["hybrid", "standalone"])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 0.01), ("int8", 0.1)])
def test_a_host_artifact_agrees_with_fp32_through_its_border_formats(
    precision: str, tolerance: float, mode: str, chain: Callable[..., Path], tmp_path: Path
) -> None:
    path = chain()
    made = build(path, tmp_path / "out", request(precision=precision, mode=mode))
    artifact = load_artifact(tmp_path / "out", model=path)
    assert artifact == made
    assert artifact.simulated
    assert artifact.accuracy is not None
    assert artifact.accuracy["within"]
    session = HostSession(artifact)
    layouts = session.layouts
    image, y = artifact.inputs[0], artifact.outputs[0]
    buffer = pack(IMAGE, layouts["image"], scale=image.scale)
    assert buffer.nbytes == image.size_bytes
    found = unpack(session.run({"image": buffer})["y"], layouts["y"], scale=y.scale).astype(np.float32)
    want = fp32(path, IMAGE)
    assert np.linalg.norm(found - want) / np.linalg.norm(want) < tolerance


def test_int8_without_calib_data_is_marked_synthetic_in_output_and_plan(chain: Callable[..., Path], tmp_path: Path) -> None:
    said: List[str] = []
    artifact = build(chain(), tmp_path / "out", request(precision="int8"), say=said.append)
    assert any("random" in line for line in said)
    assert any("accuracy means nothing" in note for note in artifact.notes)
    plan = json.loads(artifact.file("plan").read_text())
    assert plan["calibration"]["source"] == "synthetic"


def test_calibration_data_and_caches_set_the_plans_ranges(chain: Callable[..., Path], tmp_path: Path) -> None:
    path = chain()
    np.save(tmp_path / "samples.npy", np.concatenate([IMAGE, IMAGE * 2]))
    from_data = build(path, tmp_path / "a", request(precision="int8", calib_data=tmp_path / "samples.npy"))
    plan = json.loads(from_data.file("plan").read_text())
    assert plan["calibration"]["source"] == "data"
    assert plan["calibration"]["absmax"]["image"] == pytest.approx(float(np.abs(IMAGE).max()) * 2)
    assert not any("random" in note for note in from_data.notes)
    from_cache = build(path, tmp_path / "b", request(precision="int8", calib=from_data.file("calibration")))
    assert from_cache.file("calibration").read_bytes() == from_data.file("calibration").read_bytes()
    assert from_cache.accuracy["within"] is None, "random input and scales of real data"
    both = request(precision="int8", calib=from_data.file("calibration"), calib_data=tmp_path / "samples.npy")
    measured = build(path, tmp_path / "b", both)
    assert json.loads(measured.file("plan").read_text())["calibration"]["source"] == "cache"
    assert measured.accuracy["within"] is True
    assert measured.accuracy["samples"].startswith("the last 2 of 2 samples")
    assert from_data.accuracy["samples"] == measured.accuracy["samples"] + "; the scales were measured on them too"
    other = tmp_path / "other.cache"
    other.write_text(write_cache({"image": 1.0}, (8, 5, 2)))
    with pytest.raises(BuildError, match="int8-scale"):
        build(path, tmp_path / "d", request(precision="int8", mode="standalone", calib=other))
    # Nothing would become INT8, so the build is not what was asked for.
    other.write_text(write_cache({"nothing": 1.0}, (8, 5, 2)))
    with pytest.raises(DataError, match="names no tensor of this network: it holds 1 scale, of nothing"):
        build(path, tmp_path / "d", request(precision="int8", calib=other))


@pytest.mark.parametrize("part", ["code", "rules", "costs", "schemas"])
def test_a_build_of_other_code_or_data_is_not_taken_for_this_one(
    chain: Callable[..., Path], tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = build(chain(), tmp_path / "out", request())
    asked = (tmp_path / "out", artifact.file("plan").read_text(), artifact.backend, artifact.model)
    assert already_built(*asked) == artifact
    other = identity()._replace(**{part: "0" * 12})
    monkeypatch.setattr("edgedla.builder.artifact.of_plan.identity", lambda: other)
    assert already_built(*asked) is None


@pytest.mark.parametrize(
    ("changed", "again"), [("", False), ("samples", True), ("no samples", True), ("library", True), ("preprocessing", True)]
)
def test_an_error_measured_on_other_samples_or_by_other_libraries_is_measured_again(
    chain: Callable[..., Path], tmp_path: Path, changed: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FP16 takes no scales, so that the plans are equal: only the measured error differs."""
    data = tmp_path / "samples.npz"
    np.savez(data, image=np.stack([IMAGE[0]] * 4))
    path = chain()
    first = build(path, tmp_path / "out", request(calib_data=data))
    if changed == "samples":
        np.savez(data, image=np.stack([50 * IMAGE[0]] * 4))
    elif changed == "library":
        monkeypatch.setattr(existing_artifact, "libraries", lambda: {"onnxruntime": "0.0"})
    said: List[str] = []
    asked = request() if changed == "no samples" else request(calib_data=data)
    if changed == "preprocessing":
        asked = replace(asked, preprocess=PreprocessSettings(mean=(1.0, 0.0, 0.0)))
    second = build(path, tmp_path / "out", asked, say=said.append)
    assert ("building with the host backend" in said) == again
    assert (second.accuracy != first.accuracy) == (changed in ("samples", "no samples"))
    said.clear()
    build(path, tmp_path / "out", asked, say=said.append)
    assert "building with the host backend" not in said


@pytest.mark.parametrize("other", ["code", "library", "samples", "method"])
def test_kept_ranges_are_measured_again_by_other_code_libraries_samples_or_method(
    chain: Callable[..., Path], tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "samples.npz"
    np.savez(data, image=np.stack([IMAGE[0]] * 4))
    asked = request(precision="int8", calib_data=data)
    build(chain(), tmp_path / "out", asked)
    if other == "code":
        monkeypatch.setattr(int8_scales, "identity", lambda: identity()._replace(code="0" * 12))
    elif other == "library":
        monkeypatch.setattr(int8_scales, "libraries", lambda: {"numpy": "0.0"})
    elif other == "samples":
        np.savez(data, image=np.stack([2 * IMAGE[0]] * 4))
    else:
        asked = replace(asked, calib_method="minmax")
    said: List[str] = []
    build(chain(), tmp_path / "out", replace(asked, force=True), say=said.append)
    assert any("measuring INT8 ranges" in line for line in said)


def test_an_unchanged_build_is_skipped_unless_forced(chain: Callable[..., Path], tmp_path: Path) -> None:
    path = chain()
    first = build(path, tmp_path / "out", request())
    before = first.file("host_model").stat().st_mtime_ns
    said: List[str] = []
    assert build(path, tmp_path / "out", request(), say=said.append) == first
    assert said == ["the folder holds this very build already; --force builds it again"]
    assert first.identity == identity().digests
    assert first.file("host_model").stat().st_mtime_ns == before
    said.clear()
    assert build(path, tmp_path / "out", request(force=True), say=said.append) == first
    assert said == ["building with the host backend"]


def test_a_changed_model_is_built_again_and_the_old_artifact_is_stale(chain: Callable[..., Path], tmp_path: Path) -> None:
    path = chain()
    build(path, tmp_path / "out", request())
    model = onnx.load(str(path))
    model.graph.doc_string = "changed"
    onnx.save(model, str(path))
    with pytest.raises(DocumentError, match="stale"):
        load_artifact(tmp_path / "out", model=path)
    build(path, tmp_path / "out", request())
    assert load_artifact(tmp_path / "out", model=path).kind == "hybrid"


def test_changed_weights_beside_the_model_make_the_artifact_stale(chain: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "external.onnx"
    onnx.save(onnx.load(str(chain())), str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    build(path, tmp_path / "out", request())
    assert load_artifact(tmp_path / "out", model=path).simulated
    data = bytearray((tmp_path / "w.bin").read_bytes())
    data[0] ^= 1
    (tmp_path / "w.bin").write_bytes(data)
    with pytest.raises(DocumentError, match="stale: built from another version of w.bin"):
        load_artifact(tmp_path / "out", model=path)


def test_a_forced_int8_build_reuses_measured_ranges(chain: Callable[..., Path], tmp_path: Path) -> None:
    path = chain()
    said: List[str] = []
    build(path, tmp_path / "out", request(precision="int8"), say=said.append)
    build(path, tmp_path / "out", request(precision="int8", force=True), say=said.append)
    assert sum("measuring" in line for line in said) == 1


def test_models_may_be_bytes_or_protos(chain: Callable[..., Path], tmp_path: Path) -> None:
    proto = onnx.load(str(chain()))
    a = build(proto.SerializeToString(), tmp_path / "a", request())
    b = build(proto, tmp_path / "b", request())
    assert a.file("host_model").read_bytes() == b.file("host_model").read_bytes()


def test_models_that_cannot_be_built_give_the_reason(chain: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        build(tmp_path / "none.onnx", tmp_path / "out", request())
    path = tmp_path / "weightless.onnx"
    onnx.save(onnx.load(str(chain())), str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match="external weights are missing"):
        build(path, tmp_path / "out", request())
    with pytest.raises(UsageError, match="unknown backend"):
        build(chain(), tmp_path / "out", request(backend="cuda"))


def test_a_folder_that_cannot_be_written_fails_before_the_build(chain: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match="not a folder"):
        build(chain(), tmp_path / "taken", request())
    with pytest.raises(UsageError, match="a part of this path is a file"):
        build(chain(), tmp_path / "taken" / "below", request())


def test_an_unfinished_first_build_leaves_no_folder(
    chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "new" / "out"
    for error in (KeyboardInterrupt(), BuildError("no")):

        def ends(*_: Any, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr("edgedla.builder.building._build_one", ends)
        with pytest.raises(type(error)):
            build(chain(), out, request(force=True))
        assert not out.parent.exists()
        out.mkdir(parents=True)
        with pytest.raises(type(error)):
            build(chain(), out, request(force=True))
        # A folder that stood there before is somebody's.
        assert out.is_dir()
        shutil.rmtree(out.parent)


def test_a_failed_first_build_keeps_its_log(chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaves_a_log(plan: Any, path: Path, work: Path, *_: Any) -> None:
        (work / "build.log").write_text("why")
        raise errors.pop()

    errors: List[BaseException] = [KeyboardInterrupt(), BuildError("no")]
    monkeypatch.setattr("edgedla.builder.building._build_one", leaves_a_log)
    with pytest.raises(BuildError):
        build(chain(), tmp_path / "failed", request())
    assert (tmp_path / "failed/.work/build.log").read_text() == "why"
    # Whoever pressed Ctrl-C knows why.
    with pytest.raises(KeyboardInterrupt):
        build(chain(), tmp_path / "stopped", request())
    assert not (tmp_path / "stopped").exists()


# --- TensorRT, on the fake ------------------------------------------------------------------------------------------

CHAIN = [
    ("conv1", "CONVOLUTION", ("image",), ("c1",)),
    ("relu1", "ACTIVATION", ("c1",), ("r1",)),
    ("pool1", "POOLING", ("r1",), ("p1",)),
    ("conv2", "CONVOLUTION", ("p1",), ("y",)),
]
INSPECTOR = {
    "Layers": [
        {"Name": "Reformatting CopyNode for Input Tensor 0 to {ForeignNode[conv1...conv2]}", "LayerType": "Reformat"},
        {"Name": "{ForeignNode[conv1...conv2]}", "LayerType": "DLA"},
    ],
    "Bindings": ["image", "y"],
}


@pytest.fixture
def on_device(fake_tensorrt: Callable[..., Any]) -> Callable[..., Any]:
    def install(version: str = "10.3.0", **script: Any) -> Any:
        values: Dict[str, Any] = {
            "layers": CHAIN,
            "inputs": {"image": (1, 3, 16, 16)},
            "outputs": {"y": (1, 8, 8, 8)},
            "inspector": INSPECTOR,
            **script,
        }
        return fake_tensorrt(version, **values)

    return install


def on_tensorrt(**changes: Any) -> BuildRequest:
    return request(backend="tensorrt", **changes)


def test_an_engine_artifact_holds_engine_plan_log_layers_and_caches(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    on_device(log=(("INFO", "building"),))
    made = build(chain(), tmp_path / "out", on_tensorrt(precision="int8"))
    artifact = load_artifact(tmp_path / "out")
    assert artifact == made
    assert {f.role for f in artifact.files} == {"engine", "plan", "log", "layers", "timing_cache", "calibration"}
    assert not artifact.simulated
    assert artifact.software["tensorrt"] == "10.3.0"
    assert artifact.placement_real == dict.fromkeys(["conv1", "relu1", "pool1", "conv2"], "DLA0")
    assert "[I] [TRT] building" in artifact.file("log").read_text()
    assert b"GPU_FALLBACK" in artifact.file("engine").read_bytes()


def test_a_long_log_is_stored_compressed_and_read_as_before(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """INT8 builds for the GPU log megabytes of tactics, and each artifact holds its log."""
    tactics = tuple(("VERBOSE", f"conv1 Tactic: 0x{n:016x} Time: 0.01{n % 977}") for n in range(20_000))
    on_device(
        log=(*tactics, ("WARNING", "Layer 'pool1' (POOLING): Unsupported on DLA. Switching this layer's device type to GPU."))
    )
    artifact = build(chain(), tmp_path / "out", on_tensorrt())
    log = load_artifact(tmp_path / "out").file("log")
    assert log.name.endswith(".log.gz")
    assert log.stat().st_size < (1 << 20)
    lines = list(text_lines(log))
    assert sum("Tactic: 0x" in line for line in lines) == 20_000
    assert exit_code_of(["explain", str(log)]) == 0
    assert "pool1" in capsys.readouterr().out
    assert exit_code_of(["inspect", str(log)]) == 0
    assert "log" in capsys.readouterr().out
    again = build(chain(), tmp_path / "again", on_tensorrt())
    assert again.file("log").read_bytes() == artifact.file("log").read_bytes(), "without the time of compression"


@pytest.mark.parametrize("release", ["8.4.1", "8.5.2", "8.6.1", "10.3.0", "10.7.0"])
def test_standalone_works_on_every_release_with_implicit_precision(
    release: str, on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    fake = on_device(release)
    trt = ".".join(release.split(".")[:2])
    artifact = build(chain(), tmp_path / "out", on_tensorrt(trt=trt, mode="standalone"))
    assert artifact.kind == "standalone"
    assert artifact.has("loadable")
    assert "IBuilderConfig.engine_capability = EngineCapability.DLA_STANDALONE" in fake.world.calls
    assert set(artifact.placement_real or {}) == {"conv1", "relu1", "pool1", "conv2"}


def test_the_second_build_reuses_the_first_ones_timings(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    fake = on_device()
    path = chain()
    build(path, tmp_path / "out", on_tensorrt())
    fake.world.calls.clear()
    build(path, tmp_path / "out", on_tensorrt(precision="int8"))
    assert "IBuilderConfig.create_timing_cache(<1 bytes>)" in fake.world.calls


@pytest.mark.parametrize("fact", ["model", "l4t", "power_mode", "tensorrt"])
def test_an_engine_of_another_device_is_not_taken_for_this_one(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_device()
    facts = {"model": "Orin", "l4t": "36.4.3", "power_mode": "MAXN", "tensorrt": "10.3.0", "clocks_mhz": {"emc": 1}}
    here = existing_artifact.computed_by

    def changed(backend: str) -> Mapping[str, Any]:
        with monkeypatch.context() as patch:
            patch.setattr("edgedla.targets.board.board_facts", lambda: dict(facts))
            patch.setattr("edgedla.builder.tensorrt.bindings.installed_version", lambda: facts["tensorrt"])
            return here(backend)

    monkeypatch.setattr(existing_artifact, "computed_by", changed)
    path, said = chain(), []
    build(path, tmp_path / "out", on_tensorrt())
    facts["clocks_mhz"] = {"emc": 2}
    build(path, tmp_path / "out", on_tensorrt(), say=said.append)
    assert "building with the tensorrt backend" not in said
    facts[fact] = "other"
    build(path, tmp_path / "out", on_tensorrt(), say=said.append)
    assert "building with the tensorrt backend" in said


def test_a_refused_layer_is_written_to_a_drift_file(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    on_device(cannot=("pool1",))
    with pytest.raises(BuildError, match="refuses on the DLA: pool1"):
        build(chain(), tmp_path / "out", on_tensorrt())
    drift = yaml.safe_load((tmp_path / "out/.work/drift.yaml").read_text())
    assert (drift["document"], drift["schema_version"]) == ("edgedla.drift", 1)
    assert (drift["target"], drift["trt"]) == ("agx-orin-64gb", "10.3.0")
    assert [x["layer"] for x in drift["layers"]] == ["pool1"]
    with pytest.raises(DocumentError):
        load_artifact(tmp_path / "out")
    artifact = build(chain(), tmp_path / "out", on_tensorrt(allow_drift=True))
    assert any("refused by TensorRT: pool1" in note for note in artifact.notes)
    assert yaml.safe_load(artifact.file("drift").read_text()) == drift


@pytest.mark.parametrize(
    ("script", "error", "why"),
    [
        ({"parse_errors": ("unsupported",)}, ModelError, "refuses the model"),
        ({"build": "none", "log": (("ERROR", "out of memory"),)}, BuildError, "built nothing: out of memory"),
        ({"build": "raise"}, BuildError, "raised RuntimeError"),
        ({"cores": 0}, EnvironmentMissing, "sees 0 DLA cores"),
        ({"engine_formats": {"image": "CHW32"}}, BuildError, "border formats are not the planned ones: image: CHW32"),
    ],
)
def test_a_failed_build_leaves_the_last_good_artifact_and_its_log(
    script: Dict[str, Any], error: type, why: str, on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    path = chain()
    on_device()
    good = build(path, tmp_path / "out", on_tensorrt())
    on_device(**script)
    with pytest.raises(error, match=why) as caught:
        build(path, tmp_path / "out", on_tensorrt(force=True))
    assert load_artifact(tmp_path / "out", model=path) == good
    if error is not EnvironmentMissing:
        log = tmp_path / "out/.work/build.log"
        assert str(log) in str(caught.value)
        assert log.exists()


def test_a_crash_in_native_code_leaves_the_log_up_to_it(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    on_device(build="die", log=(("VERBOSE", "{ForeignNode[conv1...conv2]}"),))
    path = chain()
    child = os.fork()
    if not child:
        build(path, tmp_path / "out", on_tensorrt())
        os._exit(0)
    assert os.waitpid(child, 0)[1] != 0
    log = (tmp_path / "out/.work/build.log").read_text()
    assert log.splitlines()[-1] == "[V] [TRT] {ForeignNode[conv1...conv2]}"


def test_tensorrt_is_not_asked_about_a_dla_that_the_plan_does_not_use(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    """A module or PC without DLA answers no for every layer, which says nothing of the rules."""
    fake = on_device(cores=0, cannot=("conv1", "relu1", "pool1", "conv2"))
    on_gpu = on_tensorrt(options=PlanOptions(devices={"*": "GPU"}))
    artifact = build(chain(), tmp_path / "out", on_gpu)
    assert not any("can_run_on_DLA" in call for call in fake.world.calls)
    assert not artifact.has("drift")
    assert not any("differs" in note for note in artifact.notes)


def quantised_chain(path: Path) -> Path:
    """The chain's first Conv with Q/DQ nodes before it."""
    model = chain_net()
    model.graph.initializer.extend(
        [numpy_helper.from_array(np.float32(0.02), "scale"), numpy_helper.from_array(np.int8(0), "zero")]
    )
    model.graph.node[0].input[0] = "image_dq"
    for made in (
        helper.make_node("DequantizeLinear", ["image_q", "scale", "zero"], ["image_dq"], "dq"),
        helper.make_node("QuantizeLinear", ["image", "scale", "zero"], ["image_q"], "q"),
    ):
        model.graph.node.insert(0, made)
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("backend", ["tensorrt", "host"])
def test_a_model_with_qdq_nodes_needs_no_samples_for_int8(backend: str, on_device: Callable[..., Any], tmp_path: Path) -> None:
    layers = [
        ("q", "QUANTIZE", ("image",), ("image_q",)),
        ("dq", "DEQUANTIZE", ("image_q",), ("image_dq",)),
        ("conv1", "CONVOLUTION", ("image_dq",), ("c1",)),
        *CHAIN[1:],
    ]
    fake = on_device(layers=layers)
    said: List[str] = []
    wanted = replace(on_tensorrt(precision="int8"), backend=backend)
    artifact = build(quantised_chain(tmp_path / "q.onnx"), tmp_path / "out", wanted, say=said.append)
    assert not any("measuring" in line for line in said)
    assert not any("random input" in note for note in artifact.notes)
    assert not artifact.has("calibration")
    assert not any("int8_calibrator" in call for call in fake.world.calls)


def test_the_plan_of_a_model_with_qdq_nodes_is_as_its_schema_says(tmp_path: Path) -> None:
    plan = plan_build(quantised_chain(tmp_path / "q.onnx"), replace(on_tensorrt(precision="int8"), backend="host"))
    assert plan.calibration.source == "qdq"
    jsonschema.validate(plan.to_dict(), schema("edgedla.plan"))


def test_a_full_disk_ends_in_exit_code_4_and_nothing_half_written(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = chain()
    on_device()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentMissing, match="No space left"):
        build(path, tmp_path / "out", on_tensorrt())
    monkeypatch.undo()
    assert not (tmp_path / "out").exists()


def test_backend_auto_is_tensorrt_on_a_jetson_only(
    on_device: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_device()
    root = tmp_path / "root"
    release, model = root / "etc/nv_tegra_release", root / "proc/device-tree/model"
    for file in (release, model):
        file.parent.mkdir(parents=True)
    monkeypatch.setenv("EDGEDLA_ROOT", str(root))
    # A PC with TensorRT, a device of another make, and then two kinds of Jetson.
    backends: List[str] = []
    for text in (None, b"Raspberry Pi 5\0", b"NVIDIA Jetson AGX Orin Developer Kit\0"):
        if text is not None:
            model.write_bytes(text)
        artifact: Artifact = build(chain(), tmp_path / "out", request(backend="auto"))
        backends.append(artifact.backend)
    model.unlink()
    release.write_text("# R36")
    backends.append(build(chain(), tmp_path / "out", request(backend="auto")).backend)
    release.unlink()
    # A container: the board's files are hidden, its devices are not.
    (root / "dev").mkdir()
    (root / "dev/nvmap").touch()
    backends.append(build(chain(), tmp_path / "out", request(backend="auto")).backend)
    assert backends == ["host", "host", "tensorrt", "tensorrt", "tensorrt"]


def test_backend_auto_in_a_bare_jetson_container_fails_instead_of_simulating(
    fake_tensorrt: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "dev").mkdir(parents=True)
    monkeypatch.setenv("EDGEDLA_ROOT", str(root))
    monkeypatch.setattr("edgedla.builder.building.machine", lambda: "aarch64")
    fake_tensorrt("10.3.0")
    with pytest.raises(EnvironmentMissing, match="looks like a Jetson in a container") as hidden:
        build(chain(), tmp_path / "out", request(backend="auto"))
    assert hidden.value.exit_code == 4
    assert "/etc/nv_tegra_release" in str(hidden.value)
    # An ARM machine without a DLA is none.
    fake_tensorrt("10.3.0", cores=0)
    assert build(chain(), tmp_path / "out", request(backend="auto")).backend == "host"
    (root / "dev/nvmap").touch()
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(EnvironmentMissing, match="this is a Jetson, but TensorRT's Python bindings"):
        build(chain(), tmp_path / "other", request(backend="auto"))


def test_plan_options_of_a_request_reach_the_plan(chain: Callable[..., Path], tmp_path: Path) -> None:
    options = PlanOptions(devices={"conv2": "GPU"}, concurrent_engines=2)
    artifact = build(chain(), tmp_path / "out", request(options=options))
    assert artifact.placement_predicted["conv2"] == "GPU"
    assert json.loads(artifact.file("plan").read_text())["pools"]["dla_sram_bytes"] == 1 << 19


def test_a_gpu_placement_is_noted_without_a_rule_as_reason(chain: Callable[..., Path]) -> None:
    path = chain()
    placement = place(path, target="agx-orin-64gb", devices="GPU")
    plan = plan_build(path, BuildRequest(target="agx-orin-64gb", placement=placement))
    assert {layer.device for layer in plan.layers} == {"GPU"}
    assert {"no layer runs on the DLA", "devices are those of a placement"} <= set(plan.notes)
    assert not any("reason" in note for note in plan.notes)


def test_onnx_runtimes_refusal_names_the_file_without_its_source_location(tmp_path: Path) -> None:
    model = onnx_model([node("Relu", "x", "y", name="relu")], {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)}, {}, opset=17)
    model.opset_import[0].version = 99
    path = save(model, tmp_path / "late.onnx")
    with pytest.raises(ModelError) as caught:
        build(path, tmp_path / "out", BuildRequest(target="agx-orin-64gb", backend="host"))
    assert str(caught.value).startswith(f"{path}: ONNX Runtime refuses the model: ")
    assert "operator set 99" in str(caught.value)
    assert "onnxruntime::" not in str(caught.value)
