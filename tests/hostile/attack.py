"""The long attack: `make attack`. Mutated models, interrupted builds, changed artifacts, a soak; figures as JSON.

    python -m tests.hostile.attack --models 200000 --kills 2000 --tampers 10000 --soak-minutes 30
    python -m tests.hostile.attack --models 200000 --kills 2000 --part 3/16 -o part-3.json   on one of 16 cores
    python -m tests.hostile.attack --merge part-*.json -o attack.json

Every case follows from the seed and its number, so that a failure can be run again: --seed S --first N --models 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgedla.io.files import write_atomic
from tests.hostile import attack_builds, attack_files, attack_models, attack_parts, attack_processes, attack_soak

ROOT = Path(__file__).resolve().parents[2]
#: The figures are written after so many command lines, and after a case of the other kinds where so many seconds have passed.
WRITE_EVERY = 20
WRITE_AFTER_S = 5.0


def versions() -> Dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("numpy", "onnx", "onnxruntime", "protobuf", "click", "highspy"):
        # A package that was copied to its machine as a folder has no metadata.
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def commit() -> str:
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    # A machine that got the sources as a copy may have no git.
    with contextlib.suppress(OSError):
        return subprocess.run(words, cwd=str(ROOT), capture_output=True, text=True).stdout.strip() or "unknown"
    return "unknown"


class Figures:
    """What was found so far; written as it goes, so that a run that ends early has said what it did."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.started, self.output = time.monotonic(), options.output
        self.values: Dict[str, Any] = {"commit": options.commit or commit(), "versions": versions(), "seed": options.seed}

    def note(self, part: str, found: Dict[str, Any]) -> None:
        self.values[part] = found
        self.values["hours"] = round((time.monotonic() - self.started) / 3600, 3)
        self.write()

    def repeat(self, part: str, numbers: range, name: str, case: Callable[[random.Random], Optional[str]]) -> None:
        """Cases by their number, with a seed each: how many there were and went wrong, and the first of them."""
        wrong: List[Dict[str, Any]] = []
        written = time.monotonic()
        for done, number in enumerate(numbers, 1):
            answer = case(random.Random(f"{self.values['seed']} {name} {number}"))
            if answer is not None:
                wrong.append({"case": number, "what": answer})
            if time.monotonic() - written > WRITE_AFTER_S or done == len(numbers):
                self.note(part, {"cases": done, "wrong": len(wrong), "first_wrong": wrong[:20]})
                written = time.monotonic()

    def write(self) -> None:
        if self.output is not None:
            write_atomic(self.output, self.text())

    def finish(self) -> int:
        """Writes and prints them; the exit code."""
        self.write()
        sys.stdout.write(self.text())
        return 1 if self.bad() else 0

    def text(self) -> str:
        return json.dumps(self.values, indent=1) + "\n"

    def bad(self) -> bool:
        parts = [v for v in self.values.values() if isinstance(v, dict)]
        return any(part.get("wrong") or part.get("alive_to_the_end") is False for part in parts)


def builds(options: argparse.Namespace, figures: Figures) -> None:
    """Interrupted builds and changed artifacts."""
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder, out = Path(name) / "plans", Path(name) / "out"
        folder.mkdir()
        plans = attack_builds.Plans(folder)
        kills = attack_parts.numbers_of(options.part, range(options.kills))
        tampers = attack_parts.numbers_of(options.part, range(options.tampers))
        figures.repeat("kills", kills, "kill", lambda r: attack_builds.kill_case(plans, out, r))
        figures.repeat("tampered_artifacts", tampers, "tamper", lambda r: attack_builds.tamper_case(plans, out, r))


def processes(options: argparse.Namespace, figures: Figures) -> None:
    """Cases of whole processes (attack_processes.PROCESSES), each in an empty folder."""
    for name in options.kinds:
        lacking = attack_processes.lacking(name)
        if lacking is not None:
            sys.stderr.write(f"attack: {name} is left out: no {lacking} here\n")
            continue
        case = attack_processes.PROCESSES[name]

        def in_a_folder(rng: random.Random, case: Any = case) -> Optional[str]:
            with tempfile.TemporaryDirectory(prefix="attack-") as folder:
                return case(rng, Path(folder))

        numbers = attack_parts.numbers_of(options.part, range(options.processes))
        figures.repeat(f"processes_{name}", numbers, name, in_a_folder)


def cases(
    campaign: str,
    figures: Figures,
    build_case: Callable[[int, Path], List[str]],
    numbers: range,
    part: Tuple[int, int],
    about: Dict[str, Any],
) -> None:
    """Command lines by their number; those of one part."""
    tally, own = attack_models.Tally(), attack_parts.numbers_of(part, numbers)
    for first in range(own.start, own.stop, WRITE_EVERY):
        attack_models.run_cases(build_case, first, min(first + WRITE_EVERY, own.stop), tally.add)
        figures.note(campaign, {**about, "of": len(numbers), "limits": attack_models.LIMITS, **tally.to_dict()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutated model")
    parser.add_argument("--patterns", type=int, default=0, help="mutated examples of the rewrites, through fix")
    parser.add_argument("--files", type=int, default=0, help="cases of each other kind of file (attack_files.SURFACES)")
    parser.add_argument("--surfaces", nargs="+", choices=sorted(attack_files.SURFACES), default=list(attack_files.SURFACES))
    parser.add_argument("--processes", type=int, default=0, help="cases of each kind of attack_processes.PROCESSES")
    kinds = list(attack_processes.PROCESSES)
    parser.add_argument(
        "--kinds", nargs="+", choices=sorted(kinds), default=kinds, help="which kinds --processes runs; default: all"
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--tampers", type=int, default=500)
    parser.add_argument("--soak-minutes", type=float, default=0.0)
    parser.add_argument("--unmutated", action="store_true", help="every model as it is, with every command and platform")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", default="", help="commit of the sources, for a copy without git")
    parser.add_argument("--corpus", type=Path, help="a folder of further models to wound")
    parser.add_argument(
        "--part", type=attack_parts.share, default=(1, 1), help="part of the cases, as 3/16; a soak is not divided"
    )
    parser.add_argument("--merge", type=Path, nargs="+", metavar="PART", help="add up the figures of parts; run nothing")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    figures = Figures(options)
    if options.merge:
        figures.values = attack_parts.merged_files(options.merge)
        return figures.finish()
    missing = attack_models.cannot_run()
    if missing is not None:
        parser.error(missing)
    attack_models.warm()
    if options.kills or options.tampers:
        builds(options, figures)
    if options.processes:
        processes(options, figures)
    if options.soak_minutes:
        missing = attack_soak.possible()
        soaked = {"skipped": missing} if missing else attack_soak.soak(options.soak_minutes, options.seed)
        figures.note("soak", soaked)
    if options.unmutated:
        files = attack_models.files_as_they_are(options.corpus)
        count, plain = attack_models.unmutated_case(files)
        cases("unmutated_models", figures, plain, range(count), options.part, {"files": len(files)})
    if options.patterns:
        patterns = attack_models.pattern_seeds()
        broken = attack_models.pattern_case(patterns, options.seed)
        cases("mutated_patterns", figures, broken, range(options.patterns), options.part, {"seeds": len(patterns)})
    for name in options.surfaces if options.files else ():
        changed = attack_files.surface_case(name, options.seed)
        cases(f"files_{name}", figures, changed, range(options.files), options.part, {})
    if options.models:
        models = attack_models.seeds(options.corpus)
        wound = attack_models.mutation_case(models, options.seed)
        numbers = range(options.first, options.first + options.models)
        cases("mutated_models", figures, wound, numbers, options.part, {"seeds": len(models)})
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
