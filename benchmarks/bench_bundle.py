"""A bundle against the full installation: bytes, files, start to first result, resident memory.

    python benchmarks/bench_bundle.py [--runs 5] [--python PROGRAM] [--out FILE]

Builds the shapes detector (simulated, host backend), bundles it as a folder and as a .pyz, and runs one synthetic frame by
`edgedla run` and by each bundle, in turn. --python runs the bundle: an interpreter with NumPy, ONNX Runtime and OpenCV alone shows
what a board needs; `edgedla run` runs by this one. `floor` imports these three libraries and does nothing. Seconds are CPU time of
the process (user and system), which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Dict, List, Sequence

import edgedla
from edgedla.files import write_atomic

DETECTOR = Path(__file__).resolve().parents[1] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
#: What `pip install edgedla` brings (pyproject.toml); NumPy is on a board already.
REQUIRED = ("onnx", "PyYAML", "click", "rich", "Jinja2", "highspy", "flatbuffers", "protobuf", "ml_dtypes", "Pygments",
            "markdown-it-py", "mdurl", "MarkupSafe")  # fmt: skip
SOURCE = ["--source", "synthetic://?frames=1", "--frames", "1"]
#: Runs a command and prints its CPU seconds and its largest resident size in KiB.
CHILD = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def measured(command: Sequence[str], runs: int) -> Dict[str, float]:
    seconds: List[float] = []
    memory: List[float] = []
    for _ in range(runs + 1):
        done = subprocess.run([sys.executable, "-c", CHILD, *command], capture_output=True, text=True, check=True)
        code, used, kib = done.stdout.split()
        if code != "0":
            raise SystemExit(f"{' '.join(command)}: exit code {code}")
        seconds.append(float(used))
        memory.append(float(kib) / 1024)
    # The first run writes Python's caches.
    return {"cpu_s": round(statistics.median(seconds[1:]), 3), "rss_mib": round(statistics.median(memory[1:]), 1)}


def installed() -> Dict[str, int]:
    """Bytes and files of edgedla's package and the libraries that it requires beside NumPy, as they are installed."""
    package = Path(edgedla.__file__).parent
    files = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    for name in REQUIRED:
        files += [Path(str(f.locate())) for f in distribution(name).files or [] if "__pycache__" not in str(f)]
    files = [f for f in files if f.is_file()]
    return {"bytes": sum(f.stat().st_size for f in files), "files": len(files)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    found: Dict[str, Any] = {"command": " ".join(["python benchmarks/bench_bundle.py", f"--runs {a.runs}"])}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        artifact = Path(folder) / "artifact"
        edgedla.build(DETECTOR, artifact, edgedla.BuildRequest(target="agx-orin-64gb", backend="host"))
        made = edgedla.bundle(artifact, Path(folder) / "bundle")
        packed = edgedla.bundle(artifact, Path(folder) / "bundle.pyz")
        found["bundle"] = {"code_bytes": made.code_bytes, "modules": made.modules, "artifact_bytes": made.data_bytes}
        with zipfile.ZipFile(packed.path) as archive:
            code = sum(i.compress_size for i in archive.infolist() if not i.filename.startswith("artifacts/"))
        found["bundle_pyz"] = {"bytes": packed.path_bytes, "without_artifact": code}
        found["installation"] = installed()
        found["run"] = measured([sys.executable, "-m", "edgedla", "run", str(artifact), *SOURCE], a.runs)
        found["bundle"].update(measured([a.python, str(made.path), *SOURCE], a.runs))
        found["bundle_pyz"].update(measured([a.python, str(packed.path), *SOURCE], a.runs))
        found["floor"] = measured([a.python, "-c", "import numpy, onnxruntime, cv2"], a.runs)
    print(json.dumps(found, indent=1))
    if a.out:
        write_atomic(a.out, json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
