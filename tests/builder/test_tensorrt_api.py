"""The TensorRT backend on a fake with the exact surface of each release: planned calls, and every way to fail."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, List

import pytest

from edgedla.builder.plan.plan import BuildPlan, Calibration, LayerPlan
from edgedla.builder.tensorrt.api import build_engine
from edgedla.builder.tensorrt.bindings import dla_cores, installed_version, why_missing
from edgedla.builder.tensorrt.drift import Drift
from edgedla.errors import BuildError, EnvironmentMissing, ModelError

RELEASES = ["8.4.1", "8.5.2", "8.6.1", "10.3.0", "10.7.0", "11.4.0.106"]
MODEL = Path("small.onnx")
NETWORK = [
    ("weights", "CONSTANT", (), ("w",)),
    ("conv", "CONVOLUTION", ("image", "w"), ("a",)),
    ("relu", "ACTIVATION", ("a",), ("b",)),
]


@pytest.mark.parametrize("mode", ["hybrid", "standalone"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
@pytest.mark.parametrize("release", RELEASES)
def test_tensorrt_calls_match_the_golden_files(
    release: str,
    precision: str,
    mode: str,
    fake_tensorrt: Callable[..., Any],
    plan_for: Callable[..., BuildPlan],
    golden: Callable[[str, str], None],
) -> None:
    fake = fake_tensorrt(release)
    phases: List[str] = []
    built = build_engine(plan_for(release, mode, precision), MODEL, timing_cache=b"old", progress=phases.append)
    golden(f"builder/calls-{release}-{mode}-{precision}.txt", "\n".join(fake.world.calls) + "\n")
    assert built.version == release
    assert built.timing_cache == b"old+"
    assert (built.inspector is None) == (mode == "standalone")
    assert phases == (["Building Engine"] if release >= "10" and release[0] == "1" else [])


def test_devices_are_set_layer_by_layer_and_nothing_else_goes_to_the_dla(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("10.3.0")
    build_engine(plan_for("10.3.0"), MODEL)
    set_devices = [c for c in fake.world.calls if "device_type" in c]
    assert set_devices == [
        "IBuilderConfig.default_device_type = DeviceType.GPU",
        "IBuilderConfig.set_device_type(<ILayer conv>, DeviceType.DLA)",
        "IBuilderConfig.set_device_type(<ILayer relu>, DeviceType.DLA)",
        "IBuilderConfig.set_device_type(<ILayer softmax>, DeviceType.GPU)",
    ]


@pytest.mark.parametrize("release", ["8.5.2", "10.3.0"])
def test_int8_scales_come_from_the_plan_as_an_entropy_2_cache(
    release: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt(release)
    caches = []
    original = fake.IInt8EntropyCalibrator2

    class Spy(original):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            original.__init__(self)
            caches.append(self)

    fake.IInt8EntropyCalibrator2 = Spy
    build_engine(plan_for(release, precision="int8"), MODEL)
    text = caches[0].read_calibration_cache().decode()
    assert text.splitlines()[0] == {"8.5.2": "TRT-8502", "10.3.0": "TRT-100300"}[release] + "-EntropyCalibration2"
    assert len(text.splitlines()) == 5
    assert caches[0].get_batch(["image"]) is None


def test_int8_ranges_are_set_tensor_by_tensor_without_a_calibrator(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("8.6.1")
    plan = plan_for("8.6.1", precision="int8", calibration=Calibration("data", {"image": 2.0, "a": 3.0}, "", "ranges"))
    build_engine(plan, MODEL)
    assert [c for c in fake.world.calls if "range" in c] == [
        "ITensor[image].set_dynamic_range(-2.0, 2.0)",
        "ITensor[a].set_dynamic_range(-3.0, 3.0)",
    ]
    assert not any("int8_calibrator" in c for c in fake.world.calls)


def test_dynamic_inputs_become_static(fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]) -> None:
    fake = fake_tensorrt("10.3.0", inputs={"image": (-1, 3, 8, 8)})
    build_engine(plan_for("10.3.0"), MODEL)
    assert "ITensor[image].shape = [1, 3, 8, 8]" in fake.world.calls


@pytest.mark.parametrize("earlier", [b"damaged", b"foreign"])
@pytest.mark.parametrize("release", RELEASES)
def test_an_incompatible_timing_cache_is_discarded_and_logged(
    release: str, earlier: bytes, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt(release)
    built = build_engine(plan_for(release), MODEL, timing_cache=earlier)
    assert built.timing_cache == b"+"
    assert "timing begins anew" in built.log


def test_a_plan_without_timing_cache_sets_none(fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]) -> None:
    fake = fake_tensorrt("10.3.0")
    built = build_engine(plan_for("10.3.0", timing_cache=False), MODEL)
    assert built.timing_cache is None
    assert not any("timing_cache" in c for c in fake.world.calls)


def test_drift_is_reported_before_anything_is_built(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("10.3.0", cannot=("relu", "softmax"))
    seen: List[Drift] = []
    with pytest.raises(BuildError, match="refuses on the DLA: relu") as caught:
        build_engine(plan_for("10.3.0"), MODEL, on_drift=seen.append)
    assert "--allow-drift" in str(caught.value)
    assert not any("build_serialized_network" in c for c in fake.world.calls)
    assert seen[0].refused == ("relu",)
    assert seen[0].unplanned == ("weights",)
    document = seen[0].to_dict(plan_for("10.3.0"))
    # softmax is refused too, but so say the rules: no difference.
    assert document["layers"] == [{"layer": "relu", "type": "ACTIVATION", "planned": "DLA0", "rules": "dla", "tensorrt": "gpu"}]


def test_a_build_asks_the_parser_about_nodes_where_a_layer_is_refused(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan], tmp_path: Path
) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(b"")
    refused = (("relu", "Relu", "DLA validation failed for layer: relu"),)
    release = "11.4.0.106"
    fake_tensorrt(release, cannot=("relu", "softmax"), refused_nodes=refused)
    seen: List[Drift] = []
    with pytest.raises(BuildError, match="refuses on the DLA: relu"):
        build_engine(plan_for(release), model, on_drift=seen.append)
    rows = [{"node": "relu", "operator": "Relu", "reason": "DLA validation failed for layer: relu"}]
    assert seen[0].to_dict(plan_for(release))["refused_nodes"] == rows
    fake_tensorrt(release, cannot=("softmax",), refused_nodes=refused)
    assert build_engine(plan_for(release), model).drift.nodes == (), "nothing is refused, so nothing is asked"


def test_allowed_drift_puts_the_refused_layer_on_the_gpu_by_name(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("10.3.0", cannot=("relu",))
    built = build_engine(plan_for("10.3.0"), MODEL, allow_drift=True)
    assert built.drift.refused == ("relu",)
    assert "IBuilderConfig.set_device_type(<ILayer relu>, DeviceType.GPU)" in fake.world.calls


def test_of_a_layer_of_unknown_support_tensorrt_decides_without_allowed_drift(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("10.3.0", cannot=("relu",))
    plan = plan_for("10.3.0")
    plan = replace(plan, layers=tuple(replace(x, capable="unknown") if x.name == "relu" else x for x in plan.layers))
    assert build_engine(plan, MODEL).drift.refused == ("relu",)
    assert "IBuilderConfig.set_device_type(<ILayer relu>, DeviceType.GPU)" in fake.world.calls


def test_a_gpu_layer_that_tensorrt_would_take_is_a_difference_and_stays_on_the_gpu(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("10.3.0")
    built = build_engine(plan_for("10.3.0"), MODEL)
    # softmax: the rules say GPU, this TensorRT says DLA. Nothing is refused, nothing is moved.
    assert [(d.layer, d.rules, d.tensorrt) for d in built.drift.differences] == [("softmax", "gpu", "dla")]
    assert built.drift.refused == built.drift.missing == ()
    assert "IBuilderConfig.set_device_type(<ILayer softmax>, DeviceType.GPU)" in fake.world.calls


def test_an_absent_gpu_layer_is_a_difference_but_not_missing(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt("10.3.0", layers=NETWORK, outputs={"b": (1, 8, 8, 8)}, cannot=("softmax",))
    plan = plan_for("10.3.0")
    plan = replace(plan, io=(plan.io[0], replace(plan.io[1], name="b")))
    built = build_engine(plan, MODEL)
    assert [(d.layer, d.tensorrt) for d in built.drift.differences] == [("softmax", "absent")]
    assert built.drift.missing == ()


def test_standalone_refuses_any_refused_layer_even_with_allowed_drift(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt("10.3.0", cannot=("conv", "softmax"))
    with pytest.raises(BuildError, match="standalone loadable has no GPU: conv, softmax"):
        build_engine(plan_for("10.3.0", "standalone"), MODEL, allow_drift=True)


def test_parser_errors_are_a_model_error_with_node_and_reason(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt("10.3.0", parse_errors=("In node 0 with name: x and operator: Foo: unsupported",))
    with pytest.raises(ModelError, match="node 0: In node 0 with name: x and operator: Foo") as caught:
        build_engine(plan_for("10.3.0"), MODEL)
    assert caught.value.exit_code == 3


LOG = (
    ("VERBOSE", "trying tactics"),
    ("ERROR", "10: Could not find any implementation for node {ForeignNode[conv...relu]}."),
    ("ERROR", "2: [builder.cpp] Error Code 2"),
)


@pytest.mark.parametrize(
    ("build", "what"),
    [
        ("none", r"built nothing: 10: Could not find any implementation for node \{ForeignNode\[conv\.\.\.relu\]\}"),
        ("raise", "raised RuntimeError: internal error in the DLA compiler"),
    ],
)
def test_a_failed_build_gives_cause_last_log_lines_and_the_log(
    build: str, what: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt("10.3.0", build=build, log=LOG)
    logs: List[str] = []
    with pytest.raises(BuildError, match=what) as caught:
        build_engine(plan_for("10.3.0"), MODEL, on_log=logs.append)
    assert caught.value.exit_code == 5
    assert "[E] [TRT] 2: [builder.cpp] Error Code 2" in str(caught.value)
    assert logs[0].splitlines()[0] == "[V] [TRT] trying tactics"


def test_a_failed_build_without_log_says_so(fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]) -> None:
    fake_tensorrt("10.3.0", build="none")
    with pytest.raises(BuildError, match="gave no reason") as caught:
        build_engine(plan_for("10.3.0"), MODEL)
    assert "it logged nothing" in str(caught.value)


def test_a_network_with_other_inputs_than_planned_is_refused(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt("10.3.0", inputs={"picture": (1, 3, 8, 8)})
    with pytest.raises(BuildError, match=r"\['image', 'picture'\]"):
        build_engine(plan_for("10.3.0"), MODEL)


def test_another_tensorrt_or_a_missing_core_is_an_environment_error(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tensorrt("10.3.0")
    with pytest.raises(EnvironmentMissing, match=r"plan is for TensorRT 8.5.2, this is 10.3.0"):
        build_engine(plan_for("8.5.2"), MODEL)
    fake_tensorrt("10.3.0", cores=0)
    with pytest.raises(EnvironmentMissing, match="DLA core 0, TensorRT sees 0 DLA cores"):
        build_engine(plan_for("10.3.0"), MODEL)
    fake_tensorrt("10.3.0", cores=1)
    with pytest.raises(EnvironmentMissing, match="DLA core 1, TensorRT sees 1"):
        build_engine(plan_for("10.3.0", dla_core=1), MODEL)
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    assert installed_version() is None
    with pytest.raises(EnvironmentMissing, match="cannot be imported"):
        build_engine(plan_for("10.3.0"), MODEL)


def test_a_folder_named_tensorrt_is_no_tensorrt(plan_for: Callable[..., BuildPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", ModuleType("tensorrt"))
    assert installed_version() is None
    assert dla_cores() == 0
    assert "__version__" in why_missing()
    with pytest.raises(EnvironmentMissing, match="cannot be imported"):
        build_engine(plan_for("10.3.0"), MODEL)


def test_builds_without_dla_layers_need_no_dla_core(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("10.3.0", cores=0)
    plan = plan_for("10.3.0")
    on_gpu = tuple(LayerPlan(x.name, x.type, "GPU", None, x.capable, x.outputs) for x in plan.layers)
    build_engine(plan_for("10.3.0", layers=on_gpu, dla_core=None), MODEL)
    assert not any("DLA_core" in c or "GPU_FALLBACK" in c or "DLA_MANAGED" in c for c in fake.world.calls)


def test_importing_the_backend_imports_no_tensorrt() -> None:
    code = "import sys, edgedla.builder.tensorrt.api; sys.exit('tensorrt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
