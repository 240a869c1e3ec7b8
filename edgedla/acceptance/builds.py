"""P3, P4 and P11: TensorRT's verdicts on single layers, its builds, and whether trtexec builds the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Tuple

import onnx

from edgedla.acceptance.nets import RANGES, SINGLE, detector, many_loadables, near_sram, numerics, tensors_of
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.load import load_artifact
from edgedla.builder.building import build, plan_build
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.builder.tensorrt.api import ask_tensorrt
from edgedla.builder.tensorrt.bindings import installed_version
from edgedla.builder.trtexec.script import DEFAULT_TRTEXEC, trtexec_script
from edgedla.errors import BuildError, EdgedlaError
from edgedla.placement.result.placement import Placement
from edgedla.quantization.calibration_cache import write_cache
from edgedla.records.engine_info import parse_engine_info
from edgedla.targets.board import this_board
from edgedla.vocabulary import DEVICES, PRECISIONS

#: In place of layer devices: build a chain over both cores instead of one engine.
CHAIN = "chain"


#: Layers of the detector that a chain pins.
HALVES = {"conv0": "DLA0", "conv1": "DLA0", "conv2": "DLA1", "scores": "DLA1", "boxes": "DLA1"}


class Build(NamedTuple):
    """One build of P4.

    Attributes:
        free: formats that need no reformat. devices: for --layer-devices; CHAIN means a placement over both cores.
    """

    make: Callable[[], Any]
    mode: str
    precision: str
    free: bool = False
    devices: str = ""


BUILDS: Mapping[str, Build] = {
    "hybrid-fp16": Build(detector, "hybrid", "fp16"),
    "standalone-fp16": Build(detector, "standalone", "fp16"),
    "standalone-int8": Build(detector, "standalone", "int8"),
    "numerics-int8": Build(numerics, "standalone", "int8"),
    "numerics-fp16": Build(numerics, "standalone", "fp16"),
    "hybrid-int8": Build(detector, "hybrid", "int8"),
    "reformat-free-int8": Build(detector, "hybrid", "int8", True),
    "chain-fp16": Build(detector, "hybrid", "fp16", devices=CHAIN),
    "gpu-fp16": Build(detector, "hybrid", "fp16", devices="*:GPU"),
    "near-sram": Build(near_sram, "hybrid", "fp16"),
    "many-loadables": Build(many_loadables, "hybrid", "fp16"),
}
QUICK_BUILDS = ("hybrid-fp16", "standalone-fp16", "standalone-int8", "numerics-int8")


def rules(context: Context) -> List[Finding]:
    """P3: can_run_on_DLA of one-layer networks, before and after setting INT8 scales, against the rules' verdict."""
    findings: List[Finding] = []
    for name, make in SINGLE.items():
        for precision in PRECISIONS[:1] if context.quick else PRECISIONS:
            path, request = prepare(Path(context.work) / "single", name, make(), "hybrid", precision)
            try:
                plan = plan_build(path, request)
                drift = ask_tensorrt(plan, path)
            except EdgedlaError as e:
                findings.append(Finding(f"{name} {precision}", f"error: {e.what}", "an answer", "rules/layers"))
                continue
            differing = {d.layer: d for d in drift.differences}
            for layer in plan.layers:
                answer = differing[layer.name].tensorrt if layer.name in differing else layer.capable
                data = {
                    "layer": layer.name,
                    "type": layer.type,
                    "precision": precision,
                    "rules": layer.capable,
                    "tensorrt": answer,
                    "changed_by_precision": layer.name in drift.changed,
                    "target": plan.platform["target"],
                    "trt": plan.platform["trt"],
                }
                findings.append(Finding(f"{name} {precision} {layer.name}", answer, layer.capable, "rules/layers", data))
            if drift.missing or drift.duplicated or drift.unplanned:
                names = {"missing": drift.missing, "unplanned": drift.unplanned, "duplicated": drift.duplicated}
                findings.append(Finding(f"{name} {precision} names", json.dumps({k: list(v) for k, v in names.items()})))
    return findings


def builds(context: Context) -> List[Finding]:
    """P4: each kind of build, stored below work/artifacts for later steps."""
    findings: List[Finding] = []
    for name, row in BUILDS.items():
        if context.quick and name not in QUICK_BUILDS:
            continue
        mode, precision = row.mode, row.precision
        folder = Path(context.work) / "artifacts" / name
        path, request = prepare(Path(context.work) / "models", name, row.make(), mode, precision, row.free, devices=row.devices)
        started = time.monotonic()
        try:
            if row.devices == CHAIN:
                request = replace(request, placement=over_both_cores(path, request))
            artifact = build(path, folder, request)
        except EdgedlaError as e:
            findings.append(Finding(name, f"{type(e).__name__}: {e.what}", "built", "edgedla build"))
            continue
        seconds = round(time.monotonic() - started, 1)
        data = {"seconds": seconds, "mode": mode, "precision": precision, "software": dict(artifact.software)}
        findings.append(Finding(name, "built", "built", "edgedla build", data))
        findings += _placement(name, artifact)
    return findings


def prepare(
    folder: Path,
    name: str,
    model: Any,
    mode: str,
    precision: str,
    reformat_free: bool = False,
    *,
    backend: str = "tensorrt",
    devices: str = "",
    numerics: Optional[Mapping[str, str]] = None,
) -> Tuple[Path, BuildRequest]:
    """The model as a file, and the request to build it for this board with its TensorRT.

    Args:
        backend: "host" simulates the same build. devices: as in BUILDS, "name:GPU,other:GPU". numerics: for a simulated build.

    Raises:
        Skip: no TensorRT, or an unknown module.
    """
    trt, board = installed_version(), this_board()
    if trt is None:
        raise Skip("TensorRT's Python bindings cannot be imported")
    if board is None or board.target is None:
        raise Skip("edgedla does not know which module this is")
    version = tuple(int(n) for n in trt.split(".")[:3])
    folder.mkdir(parents=True, exist_ok=True)
    path, cache = folder / f"{name}.onnx", folder / f"{name}.cache"
    onnx.save(model, str(path))
    cache.write_text(write_cache({**tensors_of(model), **RANGES.get(name, {})}, version), encoding="utf-8")
    request = BuildRequest(
        target=board.target,
        trt=".".join(str(n) for n in version),
        precision=precision,
        mode=mode,
        backend=backend,
        calib=cache if precision == "int8" and version < (11,) else None,
        options=PlanOptions(
            reformat_free=reformat_free,
            devices=dict(pair.split(":") for pair in devices.split(",") if pair) if devices != CHAIN else {},
            numerics=dict(numerics or {}),
        ),
        allow_drift=mode == "hybrid" and backend == "tensorrt",
        force=True,
    )
    return path, request


def over_both_cores(path: Path, request: BuildRequest) -> Placement:
    """The detector with its first half on one core and its second half on the other: a chain of two engines."""
    from edgedla.placement.api import place

    pins = [f"{layer}:{core}" for layer, core in HALVES.items()]
    return place(path, target=request.target, trt=request.trt, precision=request.precision, pins=pins, devices=list(DEVICES))


def _placement(name: str, artifact: Artifact) -> List[Finding]:
    """Planned against built devices, layer by layer, and the number of loadables in the engine."""
    real = artifact.placement_real
    if real is None:
        return [Finding(f"{name} placement", "TensorRT does not say")]
    planned = artifact.placement_predicted
    moved = {n: [planned[n], real[n]] for n in real if n in planned and planned[n] != real[n]}
    findings = [
        Finding(f"{name} placement", json.dumps(moved) if moved else "as planned", "as planned", "plan.json", {"moved": moved})
    ]
    if artifact.has("layers"):
        info = parse_engine_info(json.loads(artifact.file("layers").read_text(encoding="utf-8")), name)
        findings.append(Finding(f"{name} loadables", str(len(info.dla_nodes))))
    return findings


def own_trtexec() -> str:
    """The board's trtexec, as the scripts find it; from TensorRT 10.15 on it is in /usr/bin. Raises Skip: there is none."""
    program = os.environ.get("TRTEXEC") or shutil.which("trtexec") or DEFAULT_TRTEXEC
    if not Path(program).exists():
        raise Skip(f"no {program} (package libnvinfer-bin)")
    return program


def trtexec(context: Context) -> List[Finding]:
    """P11: runs the emitted script with the board's own trtexec, and compares its placement with the Python API's."""
    own_trtexec()
    findings: List[Finding] = []
    for name in ("hybrid-int8", "standalone-fp16"):
        row = BUILDS[name]
        folder = Path(context.work) / "trtexec" / name
        path, request = prepare(folder, name, row.make(), row.mode, row.precision, row.free)
        script = trtexec_script(plan_build(path, request))
        (folder / "build.sh").write_text(script.text, encoding="utf-8")
        command = ["bash", str(folder / "build.sh"), str(path), str(folder / "out")]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        (Path(context.files) / f"trtexec-{name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        data = {"not_expressed": list(script.unsaid)}
        findings.append(Finding(f"{name} script", f"exit code {done.returncode}", "exit code 0", "trtexec script", data))
        nodes = _dla_nodes(folder / "out" / "layers.json")
        ours = _built_nodes(Path(context.work) / "artifacts" / name)
        if nodes is not None and ours is not None:
            findings.append(Finding(f"{name} DLA nodes", nodes, ours, "P4"))
    return findings


def _dla_nodes(path: Path) -> Optional[str]:
    try:
        info = parse_engine_info(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError, BuildError):
        return None
    return "; ".join(sorted(layer.name for layer in info.dla_nodes))


def _built_nodes(folder: Path) -> Optional[str]:
    """The DLA nodes of P4's build; file names in an artifact contain hashes, so they are read from the manifest."""
    try:
        artifact = load_artifact(folder)
        return _dla_nodes(artifact.file("layers")) if artifact.has("layers") else None
    except EdgedlaError:
        return None
