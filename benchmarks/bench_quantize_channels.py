"""Random heads of detectors in INT8: the worst part of each, with and without the repair of channels.

    python benchmarks/bench_quantize_channels.py [--count 200] [--jobs 1] [--nets FOLDER] [--out FILE]

Parts of ranges from 1e-2 to 1e4 in one output, joined in eight ways (tests/accuracy/random_heads.py). A row a kind: heads, heads with
a dead part (below 6 dB, measured apart from quantize's own figures, from the text of its cache) as the whole outputs show it and after
the repair, the worst part, and CPU seconds per head. --nets: also a row for SSD300 and YOLOv8n, from a folder of weightless networks:
their weights are random, and the convolutions in front of SSD's outputs get the ranges of trained ones. Simulated.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from bench_quantize_trained import corpus_model
from onnx import numpy_helper
from provenance import write_rows

from edgedla.accuracy.channels import repair
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.quantization.samples import InputSpec, synthetic_samples
from edgedla.quantization.session import model_input_specs, open_session
from tests.accuracy.random_heads import KINDS, head, samples
from tests.accuracy.test_channels import FAST, part_db


def figures(seed: int, repaired: bool) -> Dict[str, float]:
    """One head: SQNR of the outputs and of the worst part in dB, and what quantize calls dead."""
    repair._apart, repair._divided = REPAIRS if repaired else (lambda *_: [],) * 2  # type: ignore[assignment]
    case, held_out = head(seed), samples(8, seed + 1000)
    started = time.process_time()
    result = quantize(case.model, samples(16, seed), QuantizeRequest(**FAST), holdout=held_out)
    cpu_s = time.process_time() - started
    return {
        "db": result.sqnr_db,
        "part_db": min(part_db(case, result, held_out)),
        "dead": len(result.dead),
        "cpu_s": cpu_s,
    }


REPAIRS = repair._apart, repair._divided
#: Network -> output -> its largest magnitude. SSD's: class logits, and offsets of boxes.
NETS: Dict[str, Dict[str, float]] = {"det_ssd300_vgg16": {"438": 10.0, "286": 3.0}, "yolo_yolov8n": {}}


def net_row(path: Path, ranges: Dict[str, float]) -> Dict[str, Any]:
    """A real graph with random weights. `ranges`: output -> its largest magnitude, which its convolutions are scaled to."""
    model, data = corpus_model(path)
    makers = {name: n for n in model.graph.node for name in n.output}
    session = open_session(model.SerializeToString())
    tops = dict(zip([o.name for o in model.graph.output], session.run(None, data.feeds[0])))
    weights = {i.name: i for i in model.graph.initializer}
    for output, most in ranges.items():
        waiting = [output]
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is not None and maker.op_type != "Conv":
                waiting += maker.input
            for name in maker.input[1:] if maker is not None and maker.op_type == "Conv" else ():
                scaled = numpy_helper.to_array(weights[name]) * np.float32(most / np.abs(tops[output]).max())
                weights[name].CopyFrom(numpy_helper.from_array(scaled, name))
    started = time.process_time()
    specs = [InputSpec(v.name, v.shape, v.dtype) for v in model_input_specs(model)]
    request = QuantizeRequest(triage_samples=0, keep_apart=False)
    result = quantize(model, synthetic_samples(specs, 8), request, holdout=synthetic_samples(specs, 4, seed=1000))
    return {
        "net": path.stem, "weights": "random", "outputs_db": round(result.sqnr_db, 1), "dead": len(result.dead),
        "worst_group_db": round(result.channels[0].sqnr_db, 1), "groups": len(result.channels),
        "steps": [[s.name, s.detail, s.kept, round(s.extra_us, 1)] for s in result.steps if s.name.startswith(repair.SPLIT)],
        "cpu_s": round(time.process_time() - started, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1, help="processes; each takes a core")
    parser.add_argument("--nets", type=Path)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    seeds = range(options.count)
    found: Dict[str, List[List[Dict[str, float]]]] = {kind: [[], []] for kind in KINDS}
    with ProcessPoolExecutor(options.jobs) as pool:
        for mended in (False, True):
            for seed, of in zip(seeds, pool.map(figures, seeds, [mended] * len(seeds))):
                found[KINDS[seed % len(KINDS)]][mended].append(of)
    rows: List[Dict[str, Any]] = []
    for kind, (plain, repaired) in found.items() if options.count else ():
        rows.append({
            "heads": kind, "count": len(plain),
            "dead_without": sum(f["part_db"] < 6 for f in plain),
            "dead_without_unsaid": sum(f["part_db"] < 6 and not f["dead"] for f in plain),
            "dead": sum(f["part_db"] < 6 for f in repaired),
            "dead_above_20_db": sum(f["part_db"] < 6 and f["db"] > 20 and not f["dead"] for f in repaired),
            "refused": sum(bool(f["dead"]) for f in repaired),
            "worst_part_db": round(min(f["part_db"] for f in repaired), 1),
            "outputs_db_without": round(min(f["db"] for f in plain), 1),
            "cpu_s_per_head": round(sum(f["cpu_s"] for f in repaired) / len(repaired), 2),
        })  # fmt: skip
    if options.nets:
        for name, ranges in NETS.items():
            rows.append(net_row(options.nets / f"{name}.onnx", ranges))
    for row in rows:
        print(row)
    if options.out is not None:
        write_rows(options.out, rows)


if __name__ == "__main__":
    main()
