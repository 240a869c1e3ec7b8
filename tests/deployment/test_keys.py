"""Each step runs again when anything changes that its result rests on, and is reused when nothing does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, Mapping, Optional, Set

import numpy as np
import pytest

from edgedla.accuracy.metrics import metric_of
from edgedla.deployment import store as store_module
from edgedla.deployment.data import parts_of
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.steps import Steps
from edgedla.deployment.store import Step, Store, key_of
from edgedla.identity import identity
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.samples import InputSpec

ROOT = Path(__file__).resolve().parents[2]
EVERY = {"types", "fix", "place", "quantize", "build", "score", "measure"}
REQUEST = DeployRequest("agx-orin-64gb", level=2, backend="host")


class Keys(Store):
    """Keeps the key of each step in place of working it out."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keys: Dict[str, str] = {}

    def step(self, name: str, rests_on: Mapping[str, Any], make: Any, title: str = "") -> Step:
        self.keys[name] = key_of(name, rests_on)
        return Step(name, self.keys[name], self.folder, {"notes": []})


def keys(folder: Path, request: DeployRequest, **given: Any) -> Dict[str, str]:
    """The keys of every step of a deployment of the files in `folder`. `given` replaces arguments of the steps."""
    store = Keys(folder)
    metric = metric_of("l2" if request.metric == "map" else request.metric or "l2")
    inputs = [InputSpec("x", (1, 3, 32, 32), np.float32)]
    parts = parts_of(replace(request, data=given.get("data", folder / "samples.npz")), inputs, lambda samples: None)
    steps = Steps(request, store, parts, metric, folder / "small.onnx")
    candidate: Any = SimpleNamespace(
        name="a", precision="fp16", model=steps.source, model_sha256="m", quantization=None, quantization_key="", placement=None
    )
    vars(candidate).update({k: v for k, v in given.items() if k in vars(candidate)})
    steps.types(SimpleNamespace(notes=list))  # type: ignore[arg-type]
    fix = {k: given[k] for k in ("approximate", "only", "opset") if k in given}
    steps.fix(steps.source, candidate.precision, "", **fix)
    steps.predict(steps.source, candidate.precision, "")
    if parts.calibration is not None:
        steps.quantize(steps.source, lambda phase, done, of: None)
    steps.build(candidate, given.get("backend", "host"))
    steps.score(folder, given.get("digest", "d"), given.get("part", "search"), "")
    steps.measure(folder, given.get("digest", "d"), "")
    return store.keys


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> Set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.fixture
def folder(model: Path, samples: Path) -> Path:
    return model.parent


def test_nothing_changed_nothing_runs_again(folder: Path) -> None:
    before = keys(folder, REQUEST)
    assert set(before) == EVERY
    assert changed(before, keys(folder, REQUEST)) == set()


@pytest.mark.parametrize("what", ["code", "rules", "costs", "schemas", "library"])
def test_another_edgedla_or_library_runs_every_step_again(folder: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(folder, REQUEST)
    if what == "library":
        monkeypatch.setattr(store_module, "libraries", lambda: {"onnxruntime": "0.0"})
    else:
        other = identity()._replace(**{what: "0" * 12})
        monkeypatch.setattr(store_module, "identity", lambda: other)
    assert changed(before, keys(folder, REQUEST)) == EVERY


@pytest.mark.parametrize(
    ("field", "value", "again"),
    [
        ("target", "orin-nx-16gb", "fix place quantize build"),
        ("jetpack", "6.0", "fix place quantize build"),
        ("trt", "8.6.2", "fix place quantize build"),
        ("objective", "energy", "fix place"),
        ("power_mode", "MODE_30W", "fix place"),
        ("place", "dla", "place"),
        ("devices", "dla", "place"),
        ("max_latency_us", 5.0, "place"),
        ("max_drop", 0.1, "quantize score"),
        ("metric", "cosine", "quantize score"),
        ("shapes", {"x": [2, 3, 32, 32]}, "types fix place quantize build"),
        ("batch", 2, "types fix place quantize build"),
        ("preprocess", PreprocessSettings(), "types quantize build score"),
        ("preprocess", PreprocessSettings(std=(2.0, 2.0, 2.0)), "types quantize build score"),
        # What only selects steps is part of no key.
        ("level", 0, ""),
        ("budget_s", 9.0, ""),
    ],
)
def test_a_field_of_the_request_runs_the_steps_again_that_read_it(folder: Path, field: str, value: Any, again: str) -> None:
    assert changed(keys(folder, REQUEST), keys(folder, replace(REQUEST, **{field: value}))) == set(again.split())


def test_every_setting_of_the_preprocessing_counts(folder: Path) -> None:
    """The fill of a letterbox, and digits that its text leaves out."""
    found = [
        keys(folder, replace(REQUEST, preprocess=PreprocessSettings(**settings)))
        for settings in (
            {},
            {"pad": 0},
            {"fit": "crop"},
            {"colour": "bgr"},
            {"mean": (1.0, 0.0, 0.0)},
            {"mean": (1.0000001, 0.0, 0.0)},
        )
    ]
    assert len({found_keys["build"] for found_keys in found}) == len(found)


@pytest.mark.parametrize("data", [None, "random"])
def test_the_preprocessing_that_an_artifact_carries_counts_without_pictures_too(folder: Path, data: Optional[str]) -> None:
    """Random samples are the same whatever the preprocessing: only the build's own key tells it."""
    before = keys(folder, REQUEST, data=data)
    after = keys(folder, replace(REQUEST, preprocess=PreprocessSettings(mean=(1.0, 0.0, 0.0))), data=data)
    assert changed(before, after) == {"build"}


@pytest.mark.parametrize(("field", "value"), [("decode", "yolov5"), ("reg_max", 8), ("iou", 0.6)])
def test_how_boxes_are_read_is_part_of_the_steps_that_score(folder: Path, field: str, value: Any) -> None:
    request = replace(REQUEST, metric="map", decode="yolov8")
    assert changed(keys(folder, request), keys(folder, replace(request, **{field: value}))) == {"quantize", "score"}


@pytest.mark.parametrize(
    ("argument", "value", "again"),
    [
        ("precision", "int8", "fix place build"),
        ("approximate", 0.1, "fix"),
        ("only", ("clip-relu6",), "fix"),
        ("opset", 17, "fix"),
        ("model_sha256", "n", "build"),
        ("quantization_key", "q", "build"),
        ("placement", ROOT / "README.md", "build"),
        ("backend", "tensorrt", "build"),
        ("digest", "e", "score measure"),
        ("part", "final", "score"),
    ],
)
def test_an_argument_of_a_step_is_part_of_its_key(folder: Path, argument: str, value: Any, again: str) -> None:
    assert changed(keys(folder, REQUEST), keys(folder, REQUEST, **{argument: value})) == set(again.split())


@pytest.mark.parametrize("fact", ["model", "l4t", "power_mode", "tensorrt"])
def test_another_device_builds_and_measures_again(folder: Path, fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"model": "Orin", "l4t": "36.4.3", "power_mode": "MAXN", "tensorrt": "10.3.0", "clocks_mhz": {"emc": 1}}

    def on_the_device() -> Dict[str, str]:
        monkeypatch.setattr("edgedla.targets.board.board_facts", lambda: dict(facts))
        monkeypatch.setattr("edgedla.builder.tensorrt.bindings.installed_version", lambda: facts["tensorrt"])
        return keys(folder, REQUEST, backend="tensorrt")

    before = on_the_device()
    facts["clocks_mhz"] = {"emc": 2}
    assert changed(before, on_the_device()) == set()
    facts[fact] = "other"
    assert changed(before, on_the_device()) == {"build", "measure"}


@pytest.mark.parametrize(
    ("touch", "again"),
    [
        (lambda folder: _append(folder / "samples.npz"), "types quantize build score"),
        (lambda folder: _append(folder / "small.onnx"), "types fix place quantize score"),
    ],
)
def test_other_bytes_of_the_samples_or_the_model(folder: Path, touch: Callable[[Path], None], again: str) -> None:
    before = keys(folder, REQUEST)
    touch(folder)
    assert changed(before, keys(folder, REQUEST)) == set(again.split())


def test_the_code_of_an_own_metric_is_part_of_the_steps_that_score(folder: Path) -> None:
    own = folder / "own.py"
    own.write_text("def score(outputs, label):\n    return 1.0\n")
    request = replace(REQUEST, metric=f"{own}:score")
    before = keys(folder, request)
    own.write_text("def score(outputs, label):\n    return 2.0\n")
    assert changed(before, keys(folder, request)) == {"quantize", "score"}


def _append(path: Path) -> None:
    """Other bytes of the same content: a zip file may have a comment, a protobuf message an unknown field."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            np.savez(path, **{name: array + 1 for name, array in arrays.items()})
    else:
        path.write_bytes(path.read_bytes() + b"\xfa\x3f\x01x")


@pytest.mark.slow
@pytest.mark.once
def test_a_limit_changed_in_the_rules_changes_the_answer_of_the_next_deployment(tmp_path: Path) -> None:
    """In a checkout of its own: the second deployment into one folder says what a fresh folder says."""
    checkout = tmp_path / "checkout"
    for name in ("edgedla", "rules"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", checkout)
    model = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"

    def deployed(out: str) -> str:
        words = ["deploy", str(model), "--target", "orin-nx-16gb", "--place", "dla", "--level", "0", "-o", str(tmp_path / out)]
        command = [sys.executable, "-m", "edgedla", *words]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
        return next(line for line in done.stdout.splitlines() if "Layers on" in line)

    before = deployed("old")
    assert deployed("old") == before
    rule = checkout / "rules" / "layers" / "convolution.yaml"
    text = rule.read_text(encoding="utf-8")
    limit = "with: {fact: kernel, min: 1, max: 32}"
    assert limit in text
    rule.write_text(text.replace(limit, limit.replace("32", "1")), encoding="utf-8")
    after = deployed("old")
    assert after != before
    assert after == deployed("new")
