"""CPU seconds and memory of every command at its size limits: large malicious models, and the largest accepted ones.

`quantize` is not among them: it searches over the samples that it is given, for as long as that takes.

    python -m tests.hostile.attack_sizes -o sizes.json                        everything, some twenty minutes
    python -m tests.hostile.attack_sizes --model chain --command build -o one.json

Each line runs as a user's does, in a process of its own; what it and its children used is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

from onnx import ModelProto

from edgedla.io.files import write_atomic
from tests.hostile.attack import ROOT, commit, versions
from tests.hostile.nasty_models import LARGE, alternating, chain, fan_out, wide_concat

#: The most layers that `fix` and host builds take, and what asks for the most proofs, outputs and INT8 ranges.
AT_LIMITS: Dict[str, Callable[[], ModelProto]] = {
    "chain_6000": lambda: chain(6_000),
    "hard_swishes": lambda: chain(800, "HardSwish", opset=14),
    "alternating_6000": lambda: alternating(6_000),
    "wide_concat_5999": lambda: wide_concat(5_999),
    "fan_out_1000": lambda: fan_out(1_000),
    "chain_2000": lambda: chain(2_000),
}
MODELS = {**LARGE, **AT_LIMITS}
#: {d} is an empty folder for results.
COMMANDS: Dict[str, Tuple[str, ...]] = {
    "check": (),
    "layers": (),
    "place": ("--time-limit", "5"),
    "fix": ("-o", "{d}/fixed.onnx"),
    "build": ("--backend", "host", "-o", "{d}/a"),
    "build int8": ("--backend", "host", "--precision", "int8", "-o", "{d}/q"),
    "build trtexec": ("--backend", "trtexec", "-o", "{d}/build.sh"),
    "sweep": ("-o", "{d}/s.jsonl"),
}
#: Beyond this a line is ended: it has missed its limit long before.
MOST_CPU_S = 120


def measured(model: Path, command: str, folder: Path) -> Dict[str, Any]:
    """One command line on one model."""
    words = [command.split()[0], str(model), "--target", "orin", *(a.format(d=folder) for a in COMMANDS[command])]
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "edgedla", *words],
            cwd=str(ROOT),
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 1)),
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    lines = (folder / "stderr").read_text(errors="replace").strip().splitlines()
    error = next((line for line in lines if "error:" in line), "")
    return {
        "exit_code": process.returncode,
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_mib": usage.ru_maxrss >> 10,
        **({"error": error[:160].replace(str(model), "MODEL")} if error else {}),
    }


def write_model(name: str, path: Path) -> None:
    """By a process of its own: the memory of this one counts as the least of those that it starts."""
    code = "import sys; from tests.hostile.attack_sizes import MODELS; from pathlib import Path; "
    code += "Path(sys.argv[2]).write_bytes(MODELS[sys.argv[1]]().SerializeToString())"
    subprocess.run([sys.executable, "-c", code, name, str(path)], cwd=str(ROOT), check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--command", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rows: Dict[str, Dict[str, Any]] = {}
    document = {"commit": commit(), "versions": versions(), "most_cpu_s": MOST_CPU_S, "rows": rows}
    for name in options.model:
        with tempfile.TemporaryDirectory(prefix="sizes-") as scratch:
            model = Path(scratch) / "m.onnx"
            write_model(name, model)
            rows[name] = {"file_bytes": model.stat().st_size}
            for command in options.command:
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    rows[name][command] = measured(model, command, Path(folder))
                print(name, command, rows[name][command], flush=True)
                write_atomic(options.output, json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
