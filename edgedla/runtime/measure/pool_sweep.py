"""`bench --sweep-pools`: an engine built again with other memory pools of the DLA, and timed with each."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.store import save_artifact
from edgedla.builder.onnx_source import OnnxSource
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.plan.pools import MIB, MIN_POOL_BYTES, in_mib, sram_budget_bytes
from edgedla.builder.tensorrt.backend import build_on_device
from edgedla.errors import BuildError, RunError, UsageError
from edgedla.records.build_log_reader import read_build_log
from edgedla.runtime.measure.bench import BenchReport, bench_request
from edgedla.runtime.measure.layer_profile import plan_of
from edgedla.runtime.measure.request import BenchRequest
from edgedla.targets import platform_for

SRAM = "dlaSRAM"
#: trtexec's name of each pool -> the fields of the plan's Pools and of the log's.
FIELDS = {
    SRAM: ("dla_sram_bytes", "sram_mib"),
    "dlaLocalDRAM": ("dla_local_dram_bytes", "local_dram_mib"),
    "dlaGlobalDRAM": ("dla_global_dram_bytes", "global_dram_mib"),
}


def check_sweepable(artifact: Artifact) -> None:
    """Raises UsageError if the artifact is not one TensorRT build with layers on a DLA."""
    on_gpu = set(artifact.placement_predicted.values()) <= {"GPU"}
    if artifact.simulated or artifact.kind == "chain" or on_gpu:
        raise UsageError(
            "the artifact is simulated, a chain, or without layers on a DLA",
            where="--sweep-pools",
            allowed="one engine or loadable for a DLA, built on the board: edgedla build --backend tensorrt",
        )


def sweep_pools(report: BenchReport, model: Path, request: BenchRequest, say: Callable[[str], None]) -> Dict[str, Any]:
    """Builds the artifact's plan anew for each size of each pool, all else as it is, and times it as `report` did.

    SRAM: the powers of two from the least that TensorRT takes to what the hardware leaves this engine. DRAM: from what a
    loadable uses down to the first refusal. A build that places layers elsewhere counts as refused.

    Args:
        report: of the artifact as it is. model: the ONNX file that it was built from.

    Returns:
        Fields of the document edgedla.bench. `best` is None if no size gains more than the noise: the spreads (interquartile
        ranges), and by how much the planned sizes, built anew, differ.
    """
    plan, interrupted = plan_of(report.artifact), False
    trials: List[Dict[str, Any]] = []
    platform = platform_for(*(plan.platform[name] for name in ("target", "jetpack", "trt")))
    with tempfile.TemporaryDirectory(prefix="edgedla-") as folder:
        work, source = Path(folder), OnnxSource(model)
        if report.artifact.has("timing_cache"):
            # The GPU's layers keep their kernels, so that times differ by the pools alone.
            (work / "timing.cache").write_bytes(report.artifact.file("timing_cache").read_bytes())
        shapes = {io.name: io.shape_nchw for io in plan.inputs}
        borders = "fallback" if all(io.format == "LINEAR" for io in plan.io) else "strict"
        source.convert(platform, borders if plan.mode == "hybrid" else plan.mode, shapes, None, work / "model.onnx")
        try:
            for pool in FIELDS:
                for size in _sizes(pool, report, plan, sram_budget_bytes(platform, plan.concurrent_engines)):
                    say(f"building with {pool} of {in_mib(size)} MiB")
                    outcome = _trial(pool, size, report, plan, source.path, work, request)
                    trials.append({"pool": pool, "size_bytes": size, **outcome})
                    if "refused" in outcome and pool != SRAM:
                        break
        except KeyboardInterrupt:
            interrupted = True
    planned: Dict[str, Any] = _figures(report)
    timed = [trial for trial in trials if "refused" not in trial]
    fastest = min([planned, *timed], key=lambda trial: float(trial["median_ms"]))
    again = [t["median_ms"] for t in timed if getattr(plan.pools, FIELDS[t["pool"]][0]) == t["size_bytes"]]
    noise = max(planned["spread_ms"], fastest["spread_ms"], *(abs(ms - planned["median_ms"]) for ms in again))
    gains = planned["median_ms"] - fastest["median_ms"] > noise
    best = f"--memPoolSize={fastest['pool']}:{in_mib(fastest['size_bytes'])}" if gains else None
    pools = {"planned_ms": planned["median_ms"], "noise_ms": round(noise, 4), "trials": trials, "best": best}
    return {"pools": pools, **({"interrupted": True} if interrupted else {})}


def _sizes(pool: str, report: BenchReport, plan: BuildPlan, sram_bytes: int) -> List[int]:
    field, logged = FIELDS[pool]
    top = sram_bytes if pool == SRAM else getattr(plan.pools, field)
    used = read_build_log(report.artifact.file("log")).consumed
    if used is not None and pool != SRAM:
        top = min(top, 1 << (int(getattr(used, logged) * MIB) - 1).bit_length())
    powers = [1 << n for n in range(MIN_POOL_BYTES.bit_length() - 1, top.bit_length())]
    return powers if pool == SRAM else powers[::-1]


def _trial(
    pool: str, size: int, report: BenchReport, plan: BuildPlan, model: Path, work: Path, request: BenchRequest
) -> Dict[str, Any]:
    field, logged = FIELDS[pool]
    try:
        made, contents = build_on_device(replace(plan, pools=replace(plan.pools, **{field: size})), model, work)
        saved = save_artifact(made, work / "artifact", contents)
        taken = read_build_log(saved.file("log")).pools
        if taken is not None and abs(getattr(taken, logged) * MIB - size) > size / 4:
            return {"refused": f"TensorRT takes {getattr(taken, logged):g} MiB"}
        if made.placement_real != report.artifact.placement_real:
            return {"refused": "TensorRT places layers elsewhere"}
        measured = bench_request(saved, request)
    except (BuildError, RunError) as e:
        return {"refused": e.what}
    if measured.interrupted:
        raise KeyboardInterrupt
    return _figures(measured)


def _figures(report: BenchReport) -> Dict[str, float]:
    low, median, high = np.percentile(report.results[0].times_ms, (25, 50, 75))
    return {"median_ms": round(float(median), 4), "spread_ms": round(float(high - low), 4)}
