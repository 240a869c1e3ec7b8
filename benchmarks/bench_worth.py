"""What `check` says of the worth of the DLA, against what `place` finds: one CSV row per model, board and precision.

    python benchmarks/bench_worth.py --jobs 16 ../shared/corpus/nets/*.onnx > benchmarks/results/worth.csv

`--part 2/3` takes the second third of the rows, so that several calls make the table; names of boards and precisions choose some.
Per model, board and precision: the headline's word and axes, CPU seconds of the costs, and whether
(a) frames/s of all engines reach 97 % of `place --objective throughput --time-limit 10`,
(b) no axis is called equal beyond 10 %,
(c) NOT WORTH IT never stands where energy falls by 30 % or the GPU's time by half, unless time and frames/s of a core lose and that
    is said,
(d) the placement that is suggested next gains what is promised, within 1 %.
Predictions only; the checks are exact, so the load of the machine decides nothing but the seconds.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import edgedla
from edgedla.importers import load_onnx
from edgedla.placement.check_cost import with_cost
from edgedla.placement.worth import Headline, Worth
from edgedla.regions import check_graph
from edgedla.reports.check.next_command import split_that_gains
from edgedla.targets import platform_for

BOARDS = ("orin-nx-16gb", "agx-orin-64gb", "agx-xavier-32gb", "xavier-nx-8gb")
PLACE_S = 10.0


def held(said: Headline) -> str:
    """The letters of (b) and (c) that fail; "" if both hold."""
    by_name = {axis.name: axis for axis in said.axes}
    failed = "b" if any(a.state == "equal" and not 0.9 <= a.ratio <= 1.1 for a in said.axes) else ""
    if said.word == "Not worth it" and (by_name["energy"].ratio <= 0.7 or by_name["gpu"].ratio <= 0.5):
        loses = by_name["time"].ratio > 1 and "one DLA core" in said.text
        failed += "" if loses else "c"
    return failed


def row(file: str, board: str, precision: str) -> dict[str, object]:
    platform = platform_for(board)
    graph = load_onnx(file, trt=platform.release.trt, as_trained=True)
    began = time.process_time()
    report = with_cost(check_graph(graph, platform, precision), graph)
    spent = time.process_time() - began
    worth = report.worth
    if not isinstance(worth, Worth):
        return {}
    said, most = worth.headline(), worth.way("throughput")
    if most is None or not said.axes:
        return {}
    placed = edgedla.place(graph, target=board, precision=precision, objective="throughput", time_limit_s=PLACE_S)
    found = placed.figures.throughput_fps
    failed = held(said) + ("" if most.fps >= 0.97 * found else "a")
    gain = ""
    split = split_that_gains(report)
    if split is not None and split.name in ("latency", "energy"):
        asked = edgedla.place(graph, target=board, precision=precision, objective=split.name, time_limit_s=PLACE_S)
        best = worth.way(split.name)
        assert best is not None
        pairs = {
            "latency": (asked.figures.latency.latency_us, best.cost.latency_us),
            "energy": (asked.figures.energy.energy_mj, best.cost.energy_mj),
        }
        found_value, promised = pairs[split.name]
        failed += "" if found_value <= promised * 1.01 else "d"
        gain = f"{promised / found_value:.4f}"
    elif split is not None and split.name == "throughput":
        failed += "" if found >= most.fps * 0.99 else "d"
        gain = f"{found / most.fps:.4f}"
    axes = {a.name: f"{a.ratio:.3f} [{a.low:.3f} {a.high:.3f}]" for a in said.axes}
    return {
        "model": Path(file).stem,
        "board": board,
        "precision": precision,
        "word": said.word,
        **axes,
        "fps_check": round(most.fps, 1),
        "fps_place": round(found, 1),
        "share": round(most.fps / found, 4),
        "proven_within": round(most.gap, 4),
        "next": split.name if split else "nothing",
        "next_over_promise": gain,
        **{letter: "FAIL" if letter in failed else "ok" for letter in "abcd"},
        "cost_cpu_s": round(spent, 2),
    }


def safe(task: tuple[str, str, str]) -> dict[str, object]:
    try:
        return row(*task)
    except Exception as e:  # A model that a release refuses has no row; the table goes on.
        print(f"{Path(task[0]).stem} {task[1]} {task[2]}: {e}", file=sys.stderr)
        return {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="+", help="models, boards and precisions")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--part", default="1/1")
    given = parser.parse_args()
    boards = [b for b in BOARDS if b in given.words] or list(BOARDS)
    precisions = [p for p in ("int8", "fp16") if p in given.words] or ["int8", "fp16"]
    files = [name for name in given.words if name.endswith(".onnx")]
    part, parts = (int(word) for word in given.part.split("/"))
    tasks = [(f, b, p) for f in files for b in boards for p in precisions][part - 1 :: parts]
    writer = None
    with ProcessPoolExecutor(given.jobs) as pool:
        for values in pool.map(safe, tasks):
            if not values:
                continue
            if writer is None:
                writer = csv.DictWriter(sys.stdout, list(values), lineterminator="\n")
                writer.writeheader()
            writer.writerow(values)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
