"""The long attack: `make attack`. Mutated models, interrupted builds, changed artifacts, a soak; figures as JSON.

    python -m tests.hostile.attack --models 200000 --kills 2000 --tampers 10000 --soak-minutes 30

Every case follows from the seed and its number, so that a failure can be run again: --seed S --first N --models 1.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from edgedla.files import write_atomic
from tests.hostile import attack_builds, attack_models, attack_soak

ROOT = Path(__file__).resolve().parents[2]
#: How often the figures are written while it runs.
WRITE_EVERY = 500


def versions() -> Dict[str, str]:
    names = ("numpy", "onnx", "onnxruntime", "protobuf", "click", "highspy")
    found = {name: metadata.version(name) for name in names}
    return {"python": platform.python_version(), **found}


def commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=str(ROOT), capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


def repeated(count: int, seed: int, name: str, case: Callable[[random.Random], Optional[str]]) -> Dict[str, Any]:
    """`count` cases with a seed each; the number that went wrong, and the first of them."""
    wrong = []
    for number in range(count):
        answer = case(random.Random(f"{seed} {name} {number}"))
        if answer is not None:
            wrong.append({"case": number, "what": answer})
    return {"cases": count, "wrong": len(wrong), "first_wrong": wrong[:20]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutated model")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--tampers", type=int, default=500)
    parser.add_argument("--soak-minutes", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="a folder of further models to wound")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    started = time.monotonic()
    figures: Dict[str, Any] = {"commit": commit(), "versions": versions(), "seed": options.seed}

    def write() -> None:
        figures["hours"] = round((time.monotonic() - started) / 3600, 3)
        if options.output is not None:
            write_atomic(options.output, json.dumps(figures, indent=1) + "\n")

    attack_models.warm()
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        (Path(folder) / "plans").mkdir()
        plans = attack_builds.Plans(Path(folder) / "plans")
        out = Path(folder) / "out"
        figures["kills"] = repeated(
            options.kills, options.seed, "kill", lambda r: attack_builds.kill_case(plans, out, r)
        )
        write()
        figures["tampered_artifacts"] = repeated(
            options.tampers, options.seed, "tamper", lambda r: attack_builds.tamper_case(plans, out, r)
        )
        write()
    if options.soak_minutes:
        missing = attack_soak.possible()
        figures["soak"] = {"skipped": missing} if missing else attack_soak.soak(options.soak_minutes, options.seed)
        write()
    models = attack_models.seeds(options.corpus)
    tally = attack_models.Tally()
    case = attack_models.mutation_case(models, options.seed)
    for first in range(options.first, options.first + options.models, WRITE_EVERY):
        last = min(first + WRITE_EVERY, options.first + options.models)
        attack_models.run_cases(case, first, last, tally.add)
        figures["mutated_models"] = {"seeds": len(models), "limits": attack_models.LIMITS, **tally.to_dict()}
        write()
    write()
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    wrong = [figures[part]["wrong"] for part in ("kills", "tampered_artifacts", "mutated_models") if part in figures]
    soaked = figures.get("soak", {}).get("alive_to_the_end", True)
    return 1 if sum(wrong) or not soaked else 0


if __name__ == "__main__":
    sys.exit(main())
