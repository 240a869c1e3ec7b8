"""Where a figure comes from: the command, the commit and the versions that a result file carries."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]


def provenance(packages: Sequence[str] = ("numpy", "onnx", "onnxruntime")) -> Dict[str, Any]:
    """Args:
    packages: whose versions the figure may hang on; those that are not installed are left out.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    versions = {"python": platform.python_version()}
    machine = f"{platform.machine()}, {_processor()}"
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    script = Path(sys.argv[0]).name
    # Folders of the machine that measured say nothing to others.
    arguments = [Path(a).name if "/" in a else a for a in sys.argv[1:]]
    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return {
        "command": " ".join(["python", f"benchmarks/{script}", *arguments]),
        "commit": (git("rev-parse", "--short", "HEAD") or "unknown") + changed,
        "machine": machine,
        "versions": versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor")


def loop_seconds(times: int = 5) -> float:
    """CPU seconds of five million steps of a plain Python loop, the best of some: how fast this machine is just now."""

    def once() -> float:
        start, total = time.process_time(), 0
        for i in range(5_000_000):
            total += i & 7
        return time.process_time() - start

    return round(min(once() for _ in range(times)), 3)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], basis: str = "simulated", **more: Any) -> None:
    """A result file of one line per row."""
    head = json.dumps({"basis": basis, **provenance(), **more})[1:-1]
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.write_text(f'{{{head},\n "rows": [\n{body}\n ]}}\n', encoding="utf-8")


def write_lines(path: Path, head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """A result file of what `head` says, indented, and one line per row."""
    text = json.dumps(head, indent=1)[:-2]
    text += ',\n "rows": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]\n}\n"
    path.write_text(text, encoding="utf-8")


def tell(document: Mapping[str, Any], path: str) -> None:
    """Prints a result, and writes it where a path is given."""
    text = json.dumps(document, indent=1) + "\n"
    sys.stdout.write(text)
    if path:
        Path(path).write_text(text, encoding="utf-8")
