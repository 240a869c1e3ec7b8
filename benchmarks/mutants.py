"""Mutation testing of rules, regions, placement and builder: how many small changes of the code do the tests notice?

    make mutants                            # 300 sampled mutants
    python benchmarks/mutants.py --sample 50 --rooms rules --seed 2

Each mutant changes one operator, number or word in one function. It is killed where a test of its own room fails, and has
survived where all pass. mutmut makes the mutants in mutants/, a copy of the checkout, and runs them; the sample is drawn
with a seed, evenly over all mutants of the rooms. The result goes to benchmarks/results/mutants.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "mutants"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
#: Room -> where its code stands and which tests are related.
ROOMS: Dict[str, Dict[str, List[str]]] = {
    "rules": {"code": ["edgedla/rules"], "tests": ["tests/rules"]},
    "regions": {"code": ["edgedla/regions"], "tests": ["tests/regions"]},
    "placement": {"code": ["edgedla/placement/problem", "edgedla/placement/solvers"], "tests": ["tests/placement"]},
    "builder": {"code": ["edgedla/builder/plan", "edgedla/builder/chain"], "tests": ["tests/builder"]},
}
#: Of a mutant's status as mutmut prints it, what it means.
KILLED = {"killed", "timeout", "segfault", "suspicious", "caught by type check"}
LINE = re.compile(r"^\s*(?P<name>edgedla\.\S+__mutmut_\d+): (?P<status>.+?)\s*$")


def configuration(room: str) -> str:
    parts = ROOMS[room]
    return "\n".join(
        [
            "[mutmut]",
            "source_paths=\n    edgedla",
            "only_mutate=\n" + "\n".join(f"    {folder}/*" for folder in parts["code"]),
            "pytest_add_cli_args_test_selection=\n" + "\n".join(f"    {folder}" for folder in parts["tests"]),
            "pytest_add_cli_args=\n    -x\n    -p\n    no:cacheprovider\n    -p\n    no:xdist",
            "also_copy=\n" + "\n".join(f"    {name}" for name in ("rules", "tests", "examples", "pyproject.toml")),
            "use_git_change_detection=false",
            "",
        ]
    )


def mutmut(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def statuses() -> Dict[str, str]:
    lines = mutmut("results", "--all", "true").splitlines()
    matches = [m for m in map(LINE.match, lines) if m]
    return {m["name"]: m["status"] for m in matches}


def notices(room: str, mutant: str) -> bool:
    """Whether any test of the room fails with the mutant. mutmut runs only the tests that called the function once, and a
    function behind a cache was called by the first of them alone."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *ROOMS[room]["tests"]],
        cwd=WORK, env={**os.environ, "PYTHONPATH": str(WORK), "MUTANT_UNDER_TEST": mutant}, capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode == 1


def measure(room: str, size: int, seed: int) -> Dict[str, Any]:
    """The score of one room: mutants made, sampled, killed, and the names of those that survived."""
    (ROOT / "setup.cfg").write_text(configuration(room), encoding="utf-8")
    shutil.rmtree(WORK, ignore_errors=True)
    started = time.monotonic()
    # A name that fits none: mutmut makes all mutants and runs none of them.
    first = mutmut("run", "--max-children", "1", "edgedla.no_such_mutant")
    names = sorted(statuses())
    if not names:
        raise SystemExit(f"mutmut made no mutant of {room}:\n{first[-3000:]}")
    sample = sorted(random.Random(seed).sample(names, min(size, len(names))))
    mutmut("run", "--max-children", "2", *sample)
    results = statuses()
    for name in sample:
        if results[name] not in KILLED and notices(room, name):
            results[name] = "killed"
    counted = Counter(results[name] for name in sample)
    killed = sum(n for status, n in counted.items() if status in KILLED)
    untested = sum(n for status, n in counted.items() if status == "no tests")
    return {
        "room": room,
        "mutants": len(names),
        "sampled": len(sample),
        "killed": killed,
        "no_test": untested,
        "score": round(killed / len(sample), 3),
        "survived": [name for name in sample if results[name] not in KILLED],
        "seconds": round(time.monotonic() - started),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Score of the tests against sampled mutants.")
    parser.add_argument("--sample", type=int, default=300, help="mutants in all, spread evenly over the rooms")
    parser.add_argument("--rooms", nargs="*", choices=sorted(ROOMS), default=sorted(ROOMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    config = ROOT / "setup.cfg"
    try:
        rows = [measure(room, options.sample // len(options.rooms), options.seed) for room in options.rooms]
    finally:
        config.unlink(missing_ok=True)
    sampled, killed = sum(r["sampled"] for r in rows), sum(r["killed"] for r in rows)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    document = {
        "what": "share of sampled mutants that the tests of their own room notice",
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "seed": options.seed,
        "sampled": sampled,
        "killed": killed,
        "score": round(killed / sampled, 3),
        "rooms": rows,
    }
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{killed} of {sampled} mutants killed ({killed / sampled:.0%}); {options.output}")


if __name__ == "__main__":
    main()
