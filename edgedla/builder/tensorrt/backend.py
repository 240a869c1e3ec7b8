"""The TensorRT backend's artifact: log, drift and timings kept beside it, what was really placed read back."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.of_plan import Contents, artifact_of
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.tensorrt.api import Built, build_engine
from edgedla.builder.tensorrt.drift import Drift, drift_yaml
from edgedla.builder.tensorrt.log_causes import read_log, what_went_elsewhere, why_it_failed
from edgedla.errors import BuildError, EnvironmentMissing, ModelError
from edgedla.io.files import write_atomic
from edgedla.records.build_log import BuildLog
from edgedla.records.engine_info import read_engine_info
from edgedla.records.real_placement import DLA, real_of_engine, real_of_log
from edgedla.vocabulary import GPU

#: A longer log is stored compressed.
PLAIN_LOG_BYTES = 1 << 20


def build_on_device(
    plan: BuildPlan, path: Path, work: Path, *, allow_drift: bool = False, say: Optional[Callable[[str], None]] = None
) -> Tuple[Artifact, Contents]:
    """Builds with TensorRT and gathers what belongs into the artifact.

    Args:
        path: the ONNX file. work: folder for what outlives the build: timings, drift, and the log of a failed one.

    Returns:
        The artifact without its files, and the files: (role, name) -> content.

    Raises:
        EnvironmentMissing, ModelError, BuildError: see build_engine; the hint has what the log tells.
    """
    timing = work / "timing.cache"
    log, drift_file = work / "build.log", work / "drift.yaml"

    def keep_drift(drift: Drift) -> None:
        if drift.differences:
            _keep(drift_file, drift_yaml(plan, drift))
            if say is not None:
                say(f"TensorRT differs from the rules on {len(drift.differences)} layers: {drift_file}")

    lines: List[str] = []

    def keep_log(text: str) -> None:
        lines.extend(text.splitlines())
        if not _keep(log, text):
            with suppress(OSError):
                log.unlink()

    try:
        with _line_writer(log) as write_line:
            built = build_engine(
                plan,
                path,
                timing_cache=timing.read_bytes() if timing.is_file() else b"",
                allow_drift=allow_drift,
                progress=say,
                on_drift=keep_drift,
                on_line=write_line,
                on_log=keep_log,
            )
    except (BuildError, ModelError) as e:
        causes = "".join(f"  - {cause}\n" for cause in why_it_failed(read_log("\n".join(lines))))
        hint = (f"what the log says:\n{causes}  " if causes else "") + f"{e.hint or ''}\n  the whole log: {log}"
        raise type(e)(e.what, where=e.where, allowed=e.allowed, hint=hint) from e
    if built.timing_cache:
        _keep(timing, built.timing_cache)
    contents = _contents(plan, built)
    parsed = read_log(built.log)
    notes = (*plan.notes, *what_went_elsewhere(parsed), *_drift_notes(plan, built.drift))
    other = [f"{io.name}: {built.formats[io.name]}" for io in plan.io if built.formats.get(io.name, io.format) != io.format]
    if other:
        raise BuildError("the engine's border formats are not the planned ones: " + ", ".join(other), hint=f"log: {log}")
    software = {"tensorrt": built.version}
    artifact = artifact_of(plan, "tensorrt", software, notes, None, real_placement(plan, built.inspector, parsed))
    return artifact, contents


def _contents(plan: BuildPlan, built: Built) -> Contents:
    """The files of the artifact that TensorRT's build gives: (role, name) -> content."""
    role = ("engine", "model.engine") if plan.mode == "hybrid" else ("loadable", "model.dla.bin")
    contents: Contents = {**_log(built.log), role: built.data}
    if built.inspector is not None:
        contents[("layers", "layers.json")] = json.dumps(built.inspector, indent=1).encode()
    if built.timing_cache:
        contents[("timing_cache", "timing.cache")] = built.timing_cache
    if built.drift.differences:
        contents[("drift", "drift.yaml")] = drift_yaml(plan, built.drift).encode()
    return contents


def _log(text: str) -> Contents:
    """The build's log, compressed where it is long: a verbose INT8 build for the GPU writes megabytes of tactics, in every artifact."""
    whole = text.encode()
    if len(whole) <= PLAIN_LOG_BYTES:
        return {("log", "build.log"): whole}
    # Without the time, so that equal logs are equal files. Whatever reads a log here reads a compressed one too.
    return {("log", "build.log.gz"): gzip.compress(whole, mtime=0)}


def _drift_notes(plan: BuildPlan, drift: Drift) -> List[str]:
    notes = []
    if drift.differences:
        notes.append(f"TensorRT differs from the rules on {len(drift.differences)} layers: see the drift file")
    if drift.refused:
        notes.append("planned for the DLA, refused by TensorRT: " + ", ".join(drift.refused))
    if drift.missing and plan.mode == "hybrid":
        notes.append(
            "planned for the DLA, but TensorRT has no layers of these names (the placement as built says what runs "
            "where): " + ", ".join(drift.missing)
        )
    return notes


def real_placement(
    plan: BuildPlan, inspector: Optional[Mapping[str, Any]], log: Optional[BuildLog] = None
) -> Optional[Dict[str, str]]:
    """Layer name -> device of the built engine; layers that were folded or fused out of sight are missing.

    A standalone loadable has everything on the DLA, else TensorRT would have refused it. The inspector's word counts
    before the log's, which can list layers before subgraphs are formed. None where neither tells.
    """
    core = f"DLA{plan.dla_core}"
    if plan.mode == "standalone":
        return {layer.name: core for layer in plan.running}
    names = [layer.name for layer in plan.layers]
    devices: Dict[str, str] = dict(real_of_log(log, names).devices) if log is not None else {}
    if inspector is not None and "Layers" in inspector:
        devices.update(real_of_engine(read_engine_info(inspector), names).devices)
    return {name: core if devices[name] == DLA else GPU for name in names if name in devices} or None


@contextmanager
def _line_writer(path: Path) -> Iterator[Callable[[str], None]]:
    """Writes each line at once: a crash in native code leaves no other trace of what TensorRT was doing."""
    file = None
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o666)

    def write(line: str) -> None:
        if file is not None:
            with suppress(OSError):
                os.write(file, line.encode("utf-8", "backslashreplace") + b"\n")

    try:
        yield write
    finally:
        if file is not None:
            os.close(file)


def _keep(path: Path, data: Union[str, bytes]) -> bool:
    # A convenience of the next build or of the user; a full disk shows soon enough where it matters.
    try:
        write_atomic(path, data, follow=False)
    except EnvironmentMissing:
        return False
    return True
