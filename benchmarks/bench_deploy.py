"""What `edgedla deploy` reaches: on the shapes detector with labelled frames, and on real networks with random weights.

    python benchmarks/bench_deploy.py shapes [--out FILE] [--frames 250]
    python benchmarks/bench_deploy.py nets NETS [NAME...] --rows ROWS.jsonl [--config orin-jp6,...] [--levels 0,1,2] [--place best]
        [--jobs CORES] [--limit SECONDS] [--deadline SECONDS]
    python benchmarks/bench_deploy.py table --rows ROWS.jsonl --commit COMMIT --out deploy_levels.json

`shapes`: levels 0 to 3 for AGX Orin and AGX Xavier, `--place dla`, metric mAP 0.5:0.95; accuracy (simulated) on frames that no
step looked at. `nets`: NETS is a folder of ONNX files whose weights may be missing: they get seeded random ones; metric l2
against FP32 on random input. One row per network, platform, placement and level, appended to ROWS as it is finished; a second
call goes on from there. Each network and platform runs in a process of its own on cores of its own, more of them for a large
network, the largest first. `table` makes the table of ROWS, and names every network that a level makes worse. Costs are predicted,
accuracy simulated; `seconds` is wall-clock time of this machine under whatever else ran, `cpu_s` what the processor worked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

import numpy as np
from provenance import provenance

import edgedla
from edgedla.errors import EdgedlaError
from edgedla.io.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
DETECTOR = ROOT / "examples" / "00_shapes_detector"
CONFIGS: Mapping[str, Dict[str, str]] = {
    "orin-jp6": {"target": "agx-orin-64gb"},
    "xavier-jp5": {"target": "agx-xavier-32gb"},
    "orin-jp5": {"target": "agx-orin-64gb", "jetpack": "5.1.2"},
}
VERSIONS = f"edgedla {edgedla.__version__}, onnxruntime {version('onnxruntime')}, Python {platform.python_version()}"


def labelled(path: Path, frames: int) -> Path:
    """Frames and boxes of the shapes detector that it was not trained on."""
    sys.path.insert(0, str(DETECTOR))
    from make_data import CALIBRATION_SEED, labels_of, network_input
    from shapes import sample

    taken = [sample(CALIBRATION_SEED + i) for i in range(frames)]
    np.savez(path, images=np.stack([network_input(f) for f, _, _ in taken]), labels=labels_of(taken))
    return path


def shapes(frames: int, targets: List[str]) -> List[Dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = labelled(Path(folder) / "labelled.npz", frames)
        for target in targets:
            for level in range(4):
                # A folder of its own each: the times are those of a first call.
                start, cpu = time.monotonic(), cpu_s()
                result = edgedla.deploy(
                    DETECTOR / "shapes_detector.onnx",
                    Path(folder) / f"{target}-{level}",
                    target=target,
                    level=level,
                    place="dla",
                    data=data,
                    metric="map",
                    decode="yolov8",
                    reg_max=8,
                    max_drop=0.01,
                    backend="host",
                )
                times = {"seconds": round(time.monotonic() - start, 1), "cpu_s": round(cpu_s() - cpu, 1)}
                rows.append({"target": target, "level": level, **figures(result), **times})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def cpu_s() -> float:
    """What this process and those that it waited for have worked."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def figures(result: Any) -> Dict[str, Any]:
    check, built, own = (result.best.predicted[k] for k in ("check", "build", "tensorrt"))
    return {
        "accepted": result.accepted,
        "built": result.best.name,
        "rewrites": dict(result.best.rewrites),
        "macs": check["macs"],
        "share_macs_dla": check["share_macs_dla"],
        "loadables": check["loadables"],
        "transitions": check["transitions"],
        "optimum_us": round(built["latency_us"] + result.best.extra_us, 1),
        "tensorrt_us": None if own is None else round(own["latency_us"] + result.best.extra_us, 1),
        "metric": result.score["metric"],
        "fp32": round(result.score["fp32"], 6),
        "score": round(result.score["value"], 6),
        "drop": round(result.score["drop"], 6),
        "rewrite_rel_l2": result.best.proof.get("rel_l2"),
        "trials": [[t.name, t.outcome] for t in result.trials],
    }


def with_weights(path: Path, folder: Path) -> Path:
    """The network with seeded weights in place of missing ones."""
    from edgedla.fixes.network.model_file import open_model
    from edgedla.fixes.network.write_model import save_model
    from edgedla.fixes.seeded import with_seeded_weights
    from edgedla.io.publishing import publication

    out = folder / path.name
    with publication() as published:
        save_model(with_seeded_weights(open_model(path)), out, published)
    return out


def one(path: Path, config: str, levels: List[int], place: str) -> None:
    """One network on one platform: prints a row per level as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        model = with_weights(path, Path(folder))
        for level in levels:
            start, cpu = time.monotonic(), time.process_time()
            try:
                # One folder for the levels: they share their steps. Random numbers serve them all alike.
                result = edgedla.deploy(
                    model,
                    Path(folder) / "out",
                    **CONFIGS[config],
                    level=level,
                    place=place,
                    metric="l2",
                    max_drop=1.0,
                    data="random",
                    backend="host",
                )
                reached = figures(result)
            except EdgedlaError as e:
                reached = {"error": type(e).__name__, "what": e.what}
            except Exception as e:
                reached = {"crash": type(e).__name__, "what": str(e)}
            reached.update(seconds=round(time.monotonic() - start, 1), cpu_s=round(time.process_time() - cpu, 1))
            row = {"net": path.stem, "config": config, "place": place, "versions": VERSIONS, f"level_{level}": reached}
            print(json.dumps(row), flush=True)


def macs_of(path: Path) -> int:
    return sum(layer.macs or 0 for layer in edgedla.check(path, target="agx-orin-64gb").layers)


def cores_of(macs: int) -> int:
    """Cores that one network is given: so many that no network takes much longer than all others together."""
    return next((cores for least, cores in ((60e9, 8), (15e9, 4), (5e9, 2)) if macs >= least), 1)


class Job(NamedTuple):
    """A call of `one` with these arguments, on so many cores."""

    name: str
    arguments: List[str]
    cores: int


class Pool:
    """Runs calls of `one` side by side, each on cores of its own, and appends what they print to the rows."""

    def __init__(self, rows: Path, cores: int, limit_s: float) -> None:
        self.rows, self.limit_s = rows, limit_s
        self.free = sorted(os.sched_getaffinity(0))[:cores]
        self.all = len(self.free)
        self.running: Dict[int, Tuple[subprocess.Popen[str], List[int], Path, float, str]] = {}

    def run(self, waiting: List[Job], deadline: float) -> None:
        """Runs what waits, and takes it from the list. After the deadline no job starts, and those that run are ended."""
        while (waiting and time.monotonic() < deadline) or self.running:
            for job in [j for j in waiting if min(j.cores, self.all) <= len(self.free) and time.monotonic() < deadline]:
                if min(job.cores, self.all) <= len(self.free):
                    waiting.remove(job)
                    self.start(job)
            time.sleep(0.1)
            for pid, (process, _, _, end, _) in list(self.running.items()):
                late = process.poll() is None and time.monotonic() > min(end, deadline)
                if late:
                    process.kill()
                    process.wait()
                if process.poll() is not None:
                    self.finish(pid, late)
        for job in waiting:
            print("not begun:", job.name, flush=True)

    def start(self, job: Job) -> None:
        taken = [self.free.pop() for _ in range(min(job.cores, self.all))]
        log = Path(tempfile.mkdtemp(prefix="bench-deploy-"))
        threads = {key: str(len(taken)) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        with open(log / "out", "w") as out, open(log / "err", "w") as err:
            process = subprocess.Popen(
                ["taskset", "-c", ",".join(map(str, taken)), sys.executable, str(Path(__file__).resolve()), *job.arguments],
                stdout=out,
                stderr=err,
                text=True,
                env={**os.environ, **threads, "TMPDIR": str(log)},
            )
        self.running[process.pid] = (process, taken, log, time.monotonic() + self.limit_s, job.name)

    def finish(self, pid: int, late: bool) -> None:
        process, taken, log, end, name = self.running.pop(pid)
        process.wait()
        self.free += taken
        # A process that was ended may have left half a line.
        lines = [x for x in (log / "out").read_text().splitlines() if x.endswith("}}")]
        with open(self.rows, "a", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))
        outcome = "ended after" if late else f"exit {process.returncode} after" if process.returncode else "done in"
        seconds = self.limit_s - (end - time.monotonic())
        print(f"{name}: {outcome} {seconds:.0f} s on {len(taken)} cores, {len(lines)} levels", flush=True)
        if process.returncode and not late:
            print((log / "err").read_text()[-2000:], flush=True)
        shutil.rmtree(log, ignore_errors=True)


def nets(paths: List[Path], a: argparse.Namespace) -> None:
    """Appends a row per network, platform and level that ROWS does not have yet."""
    start = time.monotonic()
    finished = {(r["net"], r["config"], r["place"]): r for r in read_rows(a.rows)}
    jobs = []
    for macs, path in sorted(((macs_of(p), p) for p in paths), reverse=True):
        for config in a.config.split(","):
            row = finished.get((path.stem, config, a.place), {})
            levels = [x for x in a.levels.split(",") if f"level_{x}" not in row]
            if levels:
                arguments = ["one", str(path), "--config", config, "--levels", ",".join(levels), "--place", a.place]
                jobs.append(Job(f"{path.stem} {config}", arguments, cores_of(macs)))
    Pool(a.rows, a.jobs, a.limit).run(jobs, start + a.deadline)


def read_rows(path: Path) -> List[Dict[str, Any]]:
    """A row per network, platform and placement, with its levels."""
    rows: Dict[Tuple[str, str, str], Dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        row = json.loads(line)
        rows.setdefault((row["net"], row["config"], row["place"]), {}).update(row)
    return [rows[key] for key in sorted(rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shapes", "nets", "one", "table"])
    parser.add_argument("nets", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--targets", default="agx-orin-64gb,agx-xavier-32gb")
    parser.add_argument("--config", default="orin-jp6,xavier-jp5,orin-jp5")
    parser.add_argument("--levels", default="0,1,2")
    parser.add_argument("--place", default="best")
    parser.add_argument("--rows", type=Path, help="JSON lines: what is finished of `nets`")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cores that `nets` may use")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for one network on one platform")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds for all of `nets`")
    parser.add_argument("--commit", default="", help="that `table` writes: of the rows")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    if a.what == "shapes":
        rows = shapes(a.frames, a.targets.split(","))
        if a.out:
            write_atomic(a.out, json.dumps({**provenance(), "rows": rows}, indent=1) + "\n")
        return 0
    if a.what == "one":
        one(a.nets, a.config, [int(x) for x in a.levels.split(",")], a.place)
        return 0
    if a.rows is None:
        parser.error("--rows is missing")
    if a.what == "nets":
        paths = [a.nets / f"{name}.onnx" for name in a.names] or sorted(a.nets.glob("*.onnx"))
        nets(paths, a)
    elif a.out is None:
        parser.error("--out is missing")
    else:
        from deploy_table import write_table

        rows = read_rows(a.rows)
        versions = sorted({row.pop("versions", "not noted") for row in rows})
        command = "python " + " ".join(sys.argv)
        write_table(rows, a.out, {"command": command, "commit": a.commit, "versions": "; ".join(versions)})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
