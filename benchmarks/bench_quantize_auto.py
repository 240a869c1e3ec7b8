"""`quantize --method auto` against each single method, on networks as exported and after `edgedla fix`, with three seeds of samples.

    python benchmarks/bench_quantize_auto.py FOLDER [--only ROWS] [--judge 1024] [--skip 0] [--count 3000] [--frames 600] [--jobs 1]
        [--out FILE]

FOLDER: see trained_digits.py; the shapes detector of the examples is a row too. A row: NET.FORM.SEED. `auto` chooses on the first
held-out samples (--judge), every figure is of `measured` others (--count behind --skip unused ones, or --frames): score (top-1, or mAP of
the detector), SQNR of the outputs in dB; the worst group of channels and the dead ones are those of quantize's own report; `cpu_s` is
of `auto`. `loss`: to the best single method on those samples, at the worst output, and in score. `within`: at most 0.3 dB and 0.3
points. `lead`: method -> 95 % interval of its paired lead over `auto` in score. `shown_worse`: one leads by more than 0.3 points by its
lower end. Exits with 1 where that is so, or a loss in dB is larger. Simulated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple
from unittest.mock import patch

from bench_quantize_shapes import MODEL
from bench_quantize_shapes import samples_of as frames
from provenance import write_rows
from trained_digits import generated

import edgedla
from edgedla.accuracy import quantize as quantizing
from edgedla.accuracy.metrics import METRICS, Metric
from edgedla.accuracy.reference import Reference
from edgedla.accuracy.repairs.single_method import by_method
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.simulation import Noise, Simulation
from edgedla.accuracy.split_samples import parted
from edgedla.quantization.methods import METHODS, thresholds
from edgedla.quantization.samples import Samples
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.decode.map_metric import LEAST_SCORE, map_metric

ORIN: Dict[str, Any] = {"target": "agx-orin-64gb", "trt": "10.3"}
FORMS, SEEDS = ("exported", "fixed"), (0, 1, 2)
MOST_DB, MOST_POINTS = 0.3, 0.003
DETECTOR = "shapes"
#: Samples that are measured at a time.
BLOCK = 250
#: "fp32", "chosen" (what `auto` ends with) and each method -> (error of the outputs, the metric's value of each sample).
Found = Dict[str, Tuple[Noise, List[Any]]]


def data_of(net: str, seed: int, options: argparse.Namespace) -> Tuple[Samples, Samples, Samples, Metric]:
    """(calibration samples, those that judge, those that measure, metric)."""
    if net != DETECTOR:
        calibration = generated(options.folder, 200, 1 + 10 * seed, 0, 1297)
        held_out = generated(options.folder, options.judge + options.skip + options.count, 2 + 10 * seed, 1297, 1797)
        judging, others = parted(held_out, options.judge)
        return calibration, judging, parted(others, options.skip)[1], METRICS["top1"]
    sys.path.insert(0, str(MODEL.parent))
    import shapes

    calibration = frames(shapes, 1000 * (1 + seed), 160)
    held_out = frames(shapes, 500_000 + 10_000 * seed, 2 * options.frames)
    decode = DecodeOptions("yolov8", score=LEAST_SCORE, iou=0.6, reg_max=8)
    metric = map_metric(decode, ("raw_s8", "raw_s16"), held_out.feeds[0]["images"].shape)
    return (calibration, *parted(held_out, options.frames), metric)


class Chosen:
    """Runs `auto`, and keeps the state that it ends with."""

    def __init__(self, model: Any, calibration: Samples, judging: Samples) -> None:
        def spied(state: Any, collection: Any, *more: Any) -> Any:
            self.state, self.collection = state, collection
            return by_method(state, collection, *more)

        started = time.process_time()
        request = QuantizeRequest(**ORIN, everywhere=True, keep_apart=False)
        with patch.object(quantizing, "by_method", spied):
            self.result = quantizing.quantize(model, calibration, request, holdout=judging)
        self.cpu_s = time.process_time() - started

    def ranges(self) -> Dict[str, Any]:
        """ "chosen" (what `auto` ends with) and each method -> its ranges."""
        plans = {"chosen": self.state.plan(), **{n: self.state.plan(thresholds(self.collection, n)) for n in METHODS}}
        return {n: plan.calibration.absmax for n, plan in plans.items()}


class Part(NamedTuple):
    """What one of `of` processes measures: every `of`-th block of samples."""

    net: str
    seed: int
    options: argparse.Namespace
    exact: Any
    model: Any
    plan: Any
    ranges: Dict[str, Any]
    index: int
    of: int


def measured(part: Part) -> Found:
    if part.of > 1:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[part.index % len(cores)]})
    *_, samples, metric = data_of(part.net, part.seed, part.options)
    simulation, labels = Simulation(part.model, part.plan, Reference(part.exact)), samples.labels
    assert labels is not None
    found: Found = {n: (Noise(simulation.outputs), []) for n in ("fp32", *part.ranges)}
    for first in range(part.index * BLOCK, len(samples.feeds), part.of * BLOCK):
        feeds = list(samples.feeds[first : first + BLOCK])
        exact = list(simulation.reference(feeds))
        for name, (noise, values) in found.items():
            outputs = exact if name == "fp32" else simulation.runs(feeds, part.ranges[name])
            for k, (want, got) in enumerate(zip(exact, outputs)):
                noise.add(want, got)
                values.append(metric.of_sample(dict(zip(simulation.outputs, got)), labels[first + k], None))
    return found


def together(parts: Iterable[Found]) -> Found:
    """The errors and values of all parts."""
    first, *others = parts
    for other in others:
        for name, (noise, values) in other.items():
            sums = first[name][0]
            sums.signal += noise.signal
            sums.error += noise.error
            first[name][1].extend(values)
    return first


def row_of(net: str, seed: int, model: Any, options: argparse.Namespace) -> Dict[str, Any]:
    calibration, judging, measuring, metric = data_of(net, seed, options)
    chosen = Chosen(model, calibration, judging)
    state, jobs = chosen.state, 1 if net == DETECTOR else options.jobs
    parts = [
        Part(net, seed, options, state.reference.model, state.model, state.plan(), chosen.ranges(), k, jobs) for k in range(jobs)
    ]
    # Spawned, not forked: ONNX Runtime has threads by now.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        found = together(map(measured, parts) if jobs == 1 else pool.map(measured, parts))
    db = {n: [noise.of(i)[0] for i in range(len(noise.names))] for n, (noise, _) in found.items()}
    scores = {n: metric.figure(values) for n, (_, values) in found.items()}
    own = found["chosen"][1]
    # The best single method is the luckiest of five on these samples; the interval tells what is more than luck.
    lead = {n: [round(x, 5) for x in metric.difference_interval(found[n][1], own)] for n in METHODS}
    loss_db = max(db[n][i] - db["chosen"][i] for n in METHODS for i in range(len(db[n])))
    loss = max(scores[n] for n in METHODS) - scores["chosen"]
    figures = {n: {"score": round(scores[n], 4), "sqnr_db": round(found[n][0].sqnr_db, 2)} for n in ("chosen", *METHODS)}
    return {
        "judging": len(judging.feeds),
        "measured": len(own),
        "cpu_s": round(chosen.cpu_s, 1),
        "fp32": round(scores["fp32"], 4),
        "auto": figures.pop("chosen"),
        "worst_group_db": round(chosen.result.channels[0].sqnr_db, 1),
        "dead": len(chosen.result.dead),
        "steps": [[s.name, s.kept] for s in chosen.result.steps],
        "single": figures,
        "loss": {"score": round(loss, 4), "sqnr_db": round(loss_db, 2)},
        "within": bool(loss_db <= MOST_DB and loss <= MOST_POINTS + 1e-9),
        "lead": lead,
        "shown_worse": bool(max(low for low, _ in lead.values()) > MOST_POINTS),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="rows NET.FORM.SEED, separated by commas")
    parser.add_argument("--judge", type=int, default=1024)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=1, help="processes that measure digits")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    nets = {**{path.stem: path for path in sorted(options.folder.glob("*.onnx"))}, DETECTOR: MODEL}
    rows: List[Dict[str, Any]] = []
    for net, path in nets.items():
        for form in FORMS:
            for seed in SEEDS:
                name = f"{net}.{form}.{seed}"
                if options.only and name not in options.only.split(","):
                    continue
                fixed = form == "fixed"
                model = edgedla.fix(path, **ORIN, precision="int8", prove=False).to_proto() if fixed else path
                rows.append({"row": name, **row_of(net, seed, model, options)})
                print(json.dumps(rows[-1]), flush=True)
    if options.out:
        write_rows(options.out, rows)
    return int(any(row["shown_worse"] or row["loss"]["sqnr_db"] > MOST_DB for row in rows))


if __name__ == "__main__":
    sys.exit(main())
