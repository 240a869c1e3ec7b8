"""A bundle against the full installation: bytes, files, start to first result, resident memory.

    python benchmarks/bench_bundle.py [--runs 15] [--pairs 30] [--host PYTHON] [--board PYTHON ...] [--out FILE]

The shapes detector with its decoder and one synthetic frame, by `edgedla run` and by its bundle, in turn, in two forms:

`host`: the simulated artifact. --host is an interpreter with NumPy and ONNX Runtime alone.
`board`: an engine's artifact over the stand-in for TensorRT and CUDA's memory (tests/bundles/board.py), without its decoder, for its
outputs are zeros. --board is an interpreter with NumPy alone. A real TensorRT takes far more time and memory than all of this.

`pairs`: run and bundle in turn, many times; of each neighbours' times to the first result their ratio, the median of all and the
least. Other work on the machine changes both alike. --board may name several interpreters, for pairs under each.

`edgedla run` is the full installation's, by this interpreter. `floor` imports what the bundle's environment has (and the stand-in, or
opens a session of the model and runs it) and does nothing else. CPU seconds are of the whole process, seconds of the clock those to
the first result; medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Dict, List

from provenance import provenance

import edgedla
from edgedla.io.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
DETECTOR = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
#: What `pip install edgedla` brings (pyproject.toml); NumPy is on a board already.
REQUIRED = (
    "onnx",
    "PyYAML",
    "click",
    "rich",
    "Jinja2",
    "highspy",
    "flatbuffers",
    "protobuf",
    "ml_dtypes",
    "Pygments",
    "markdown-it-py",
    "mdurl",
    "MarkupSafe",
)
STAND_IN = ROOT / "tests" / "bundles" / "board.py"
#: As an AGX Orin has them.
BOARD_FILES = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic",
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit",
    "proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234",
    "proc/meminfo": "MemTotal:       64349264 kB",
}
PIPELINE = "version: 1\nartifact: {artifact}\nsource: synthetic://?frames=1\noutputs: {{jsonl: /dev/stdout}}\n"
#: Runs a command and prints its exit code, CPU seconds, seconds to its first line, and largest resident size in KiB.
CHILD = """
import resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
done.stdout.readline()
seconds = time.monotonic() - start
_, text = done.communicate()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
sys.stderr.buffer.write(text if done.returncode else b"")
print(done.returncode, used.ru_utime + used.ru_stime, seconds, used.ru_maxrss)
"""
#: The least that runs the model: no pipeline, no edgedla.
SESSION = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.enable_mem_pattern = False
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, {i.name: numpy.zeros(i.shape, numpy.float32) for i in session.get_inputs()})
print(flush=True)
"""
STAND_IN_ALONE = """
import importlib.util, sys, numpy
spec = importlib.util.spec_from_file_location("board", sys.argv[1])
board = importlib.util.module_from_spec(spec)
spec.loader.exec_module(board)
board.install()
print(flush=True)
"""


def measured(commands: Dict[str, List[str]], runs: int) -> Dict[str, Any]:
    """Medians of each command, and of each what `run` divides by; the commands take turns."""
    taken: Dict[str, List[List[float]]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            done = subprocess.run([sys.executable, "-c", CHILD, *command], stdout=subprocess.PIPE, text=True, check=True)
            code, *figures = done.stdout.split()
            if code != "0":
                raise SystemExit(f"{' '.join(command)}: exit code {code}")
            # The first run writes Python's caches.
            if turn:
                taken[name].append([float(f) for f in figures])
    table: Dict[str, Any] = {}
    for name, rows in taken.items():
        cpu, wall, kib = (statistics.median(column) for column in zip(*rows))
        table[name] = {"cpu_s": round(cpu, 3), "wall_s": round(wall, 3), "rss_mib": round(kib / 1024, 1)}
    for row in table.values():
        row["of_run"] = [round(row[k] / table["run"][k], 2) for k in ("cpu_s", "wall_s", "rss_mib")]
    return table


def pairs(run: List[str], bundle: List[str], count: int) -> Dict[str, Any]:
    """Seconds to the first result of `bundle` as parts of `run`'s, each with the runs before and after it."""

    def seconds(command: List[str]) -> float:
        start = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
            assert done.stdout is not None
            first = done.stdout.readline()
            taken = time.monotonic() - start
            _, text = done.communicate()
        if done.returncode or not first:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{text.decode(errors='replace')}")
        return taken

    # The first run writes Python's caches.
    seconds(run), seconds(bundle)
    runs, bundles = [seconds(run)], []
    for _ in range(count):
        bundles.append(seconds(bundle))
        runs.append(seconds(run))
    ratios = [b / r for i, b in enumerate(bundles) for r in runs[i : i + 2]]
    return {
        "pairs": count,
        "median_ratio": round(statistics.median(ratios), 3),
        "least_ratio": round(min(ratios), 3),
        "run_s": round(statistics.median(runs), 3),
        "bundle_s": round(statistics.median(bundles), 3),
    }


def versions_of(python: str) -> str:
    code = "import platform, numpy; print('Python', platform.python_version() + ', NumPy', numpy.__version__)"
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def installed() -> Dict[str, int]:
    """Bytes and files of edgedla's package and the libraries that it requires beside NumPy, as they are installed."""
    package = Path(edgedla.__file__).parent
    files = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    for name in REQUIRED:
        files += [Path(str(f.locate())) for f in distribution(name).files or [] if "__pycache__" not in str(f)]
    files = [f for f in files if f.is_file()]
    return {"bytes": sum(f.stat().st_size for f in files), "files": len(files)}


def engine_of(artifact: Path, folder: Path) -> Path:
    """An artifact of an engine with the same inputs and outputs, for the stand-in."""
    from edgedla.builder.artifact.store import save_artifact

    host = edgedla.load_artifact(artifact)
    engine = replace(
        host, kind="hybrid", backend="tensorrt", simulated=False, software={"tensorrt": "10.3.0"}, accuracy=None, files=()
    )
    save_artifact(engine, folder, {("engine", "engine.plan"): b"engine"})
    return folder


def sizes(made: Any, packed: Any) -> Dict[str, Any]:
    with zipfile.ZipFile(packed.path) as archive:
        code = sum(i.compress_size for i in archive.infolist() if not i.filename.startswith("artifacts/"))
    return {
        "modules": made.modules,
        "code_bytes": made.code_bytes,
        "artifact_bytes": made.data_bytes,
        "pyz_without_artifact": code,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--host", default=sys.executable)
    parser.add_argument("--board", nargs="+", default=[sys.executable])
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    # A start whose modules were compiled before, as every start but the first.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found: Dict[str, Any] = provenance()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ.update(
            XDG_CACHE_HOME=folder, EDGEDLA_ROOT=str(root / "root"), BOARD_MANIFEST=str(root / "engine" / "manifest.json")
        )
        for name, text in BOARD_FILES.items():
            (root / "root" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "root" / name).write_text(text)
        edgedla.build(DETECTOR, root / "artifact", edgedla.BuildRequest(target="agx-orin-64gb", backend="host"))
        model = next((root / "artifact").glob("model-*.onnx"))
        run = [sys.executable, "-m", "edgedla", "run"]
        pipelines = {
            "host": PIPELINE.format(artifact=root / "artifact") + "decode: {kind: yolov8, reg_max: 8}\n",
            "board": PIPELINE.format(artifact=engine_of(root / "artifact", root / "engine")),
        }
        for form, text in pipelines.items():
            file = root / f"{form}.yaml"
            file.write_text(text)
            made = edgedla.bundle(pipeline=file, out=root / form)
            packed = edgedla.bundle(pipeline=file, out=root / f"{form}.pyz")
            if form == "host":
                commands = {
                    "run": [*run, str(file)],
                    "bundle": [a.host, str(made.path)],
                    "bundle_pyz": [a.host, str(packed.path)],
                    "floor": [a.host, "-c", SESSION, str(model)],
                }
            else:
                commands = {
                    "run": [sys.executable, str(STAND_IN), *run[1:], str(file)],
                    "bundle": [a.board[0], str(STAND_IN), str(made.path)],
                    "floor": [a.board[0], "-c", STAND_IN_ALONE, str(STAND_IN)],
                }
            found[form] = {**sizes(made, packed), **measured(commands, a.runs)}
            found[form]["pairs"] = {
                versions_of(python): pairs(commands["run"], [python, *commands["bundle"][1:]], a.pairs)
                for python in ([a.host] if form == "host" else a.board)
            }
        found["installation"] = installed()
    print(json.dumps(found, indent=1))
    if a.out:
        write_atomic(a.out, json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
