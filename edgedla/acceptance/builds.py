"""P3, P4 and P11: what TensorRT says of single layers, what it builds, and whether trtexec builds the same."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import onnx

from edgedla.acceptance.nets import SINGLE, detector, many_loadables, tensors_of
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.building import build, plan_build
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.builder.tensorrt.api import ask_tensorrt, installed_version
from edgedla.builder.trtexec.script import DEFAULT_TRTEXEC, trtexec_script
from edgedla.errors import BuildError, EdgedlaError
from edgedla.quantization.calibration_cache import write_cache
from edgedla.records.engine_info import parse_engine_info
from edgedla.targets.board import this_board
from edgedla.vocabulary import PRECISIONS

#: name -> (network, mode, precision, formats that need no copy).
BUILDS: Mapping[str, Tuple[Callable[[], Any], str, str, bool]] = {
    "hybrid-fp16": (detector, "hybrid", "fp16", False),
    "standalone-fp16": (detector, "standalone", "fp16", False),
    "standalone-int8": (detector, "standalone", "int8", False),
    "hybrid-int8": (detector, "hybrid", "int8", False),
    "reformat-free-int8": (detector, "hybrid", "int8", True),
    "many-loadables": (many_loadables, "hybrid", "fp16", False),
}
QUICK_BUILDS = ("hybrid-fp16", "standalone-fp16", "standalone-int8")


def rules(context: Context) -> List[Finding]:
    """P3: can_run_on_DLA of one-layer networks, before and after the INT8 scales, against the rules' own verdict."""
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
                seen = differing[layer.name].tensorrt if layer.name in differing else layer.capable
                data = {
                    "layer": layer.name, "type": layer.type, "precision": precision, "rules": layer.capable,
                    "tensorrt": seen, "changed_by_precision": layer.name in drift.changed, **_platform(plan),
                }  # fmt: skip
                findings.append(Finding(f"{name} {precision} {layer.name}", seen, layer.capable, "rules/layers", data))
            if drift.missing or drift.duplicated or drift.unplanned:
                names = {"missing": drift.missing, "unplanned": drift.unplanned, "duplicated": drift.duplicated}
                findings.append(
                    Finding(f"{name} {precision} names", json.dumps({k: list(v) for k, v in names.items()}))
                )
    return findings


def builds(context: Context) -> List[Finding]:
    """P4: each kind of build, kept below work/artifacts for the steps after it."""
    findings: List[Finding] = []
    for name, (make, mode, precision, free) in BUILDS.items():
        if context.quick and name not in QUICK_BUILDS:
            continue
        folder = Path(context.work) / "artifacts" / name
        path, request = prepare(Path(context.work) / "models", name, make(), mode, precision, free)
        started = time.monotonic()
        try:
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
    folder: Path, name: str, model: Any, mode: str, precision: str, reformat_free: bool = False
) -> Tuple[Path, BuildRequest]:
    """The model as a file, and the request to build it for this board with the TensorRT that is here."""
    trt, board = installed_version(), this_board()
    if trt is None:
        raise Skip("TensorRT's Python bindings cannot be imported")
    if board is None or board.target is None:
        raise Skip("edgedla does not know which module this is")
    version = tuple(int(n) for n in trt.split(".")[:3])
    folder.mkdir(parents=True, exist_ok=True)
    path, cache = folder / f"{name}.onnx", folder / f"{name}.cache"
    onnx.save(model, str(path))
    cache.write_text(write_cache(tensors_of(model), version), encoding="utf-8")
    request = BuildRequest(
        target=board.target,
        trt=".".join(str(n) for n in version),
        precision=precision,
        mode=mode,
        backend="tensorrt",
        calib=cache if precision == "int8" and version < (11,) else None,
        options=PlanOptions(reformat_free=reformat_free),
        allow_drift=mode == "hybrid",
        force=True,
    )
    return path, request


def _platform(plan: BuildPlan) -> Dict[str, Any]:
    return {"target": plan.platform["target"], "trt": plan.platform["trt"]}


def _placement(name: str, artifact: Artifact) -> List[Finding]:
    """Planned against built, layer by layer, and how many loadables the engine has."""
    real = artifact.placement_real
    if real is None:
        return [Finding(f"{name} placement", "TensorRT does not say")]
    planned = artifact.placement_predicted
    moved = {n: [planned[n], real[n]] for n in real if n in planned and planned[n] != real[n]}
    findings = [
        Finding(
            f"{name} placement",
            json.dumps(moved) if moved else "as planned",
            "as planned",
            "plan.json",
            {"moved": moved},
        )
    ]
    if artifact.has("layers"):
        info = parse_engine_info(json.loads(artifact.file("layers").read_text(encoding="utf-8")), name)
        findings.append(Finding(f"{name} loadables", str(len(info.dla_nodes))))
    return findings


def trtexec(context: Context) -> List[Finding]:
    """P11: the emitted script with the board's own trtexec; does it place as the Python API does?"""
    if not Path(DEFAULT_TRTEXEC).exists():
        raise Skip(f"no {DEFAULT_TRTEXEC} (package libnvinfer-bin)")
    findings: List[Finding] = []
    for name in ("hybrid-int8", "standalone-fp16"):
        make, mode, precision, free = BUILDS[name]
        folder = Path(context.work) / "trtexec" / name
        path, request = prepare(folder, name, make(), mode, precision, free)
        script = trtexec_script(plan_build(path, request))
        (folder / "build.sh").write_text(script.text, encoding="utf-8")
        command = ["bash", str(folder / "build.sh"), str(path), str(folder / "out")]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        (Path(context.files) / f"trtexec-{name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        data = {"not_expressed": list(script.unsaid)}
        findings.append(
            Finding(f"{name} script", f"exit code {done.returncode}", "exit code 0", "trtexec script", data)
        )
        nodes = _dla_nodes(folder / "out" / "layers.json")
        ours = _dla_nodes(Path(context.work) / "artifacts" / name / "layers.json")
        if nodes is not None and ours is not None:
            findings.append(Finding(f"{name} DLA nodes", nodes, ours, "P4"))
    return findings


def _dla_nodes(path: Path) -> Optional[str]:
    try:
        info = parse_engine_info(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError, BuildError):
        return None
    return "; ".join(sorted(layer.name for layer in info.dla_nodes))
