"""Random heads of detectors in INT8: the worst part of each, with and without the repair of channels.

    python benchmarks/bench_quantize_channels.py [--count 200] [--jobs 1] [--nets FOLDER] [--out FILE]

Parts of ranges from 1e-2 to 1e4 in one output, joined in eight ways (tests/accuracy/random_heads.py). A row a kind: heads, heads with
a dead part (below 6 dB, measured apart from quantize's own figures, from the text of its cache) as the whole outputs show it and after
the repair, the worst part, and CPU seconds per head. --nets: also a row for SSD300 and YOLOv8n, from a folder of weightless networks:
random weights, every convolution scaled on pictures, those in front of SSD's outputs with the ranges of trained ones. Simulated.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from bench_quantize_shapes import MODEL
from bench_quantize_trained import corpus_model
from onnx import helper, numpy_helper
from provenance import write_rows

from edgedla.accuracy.channels import repair
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.quantization.samples import Feed, Samples
from edgedla.quantization.session import open_session
from tests.accuracy.random_heads import KINDS, head, samples
from tests.accuracy.test_channels import FAST, part_db


def figures(seed: int, repaired: bool) -> Dict[str, float]:
    """One head: SQNR of the outputs and of the worst part in dB, and what quantize calls dead."""
    repair._apart, repair._divided = REPAIRS if repaired else (lambda *_: [],) * 2  # type: ignore[assignment]
    case, held_out = head(seed), samples(8, seed + 1000)
    started = time.process_time()
    result = quantize(case.model, samples(16, seed), QuantizeRequest(**FAST), holdout=held_out)
    cpu_s = time.process_time() - started
    return {"db": result.sqnr_db, "part_db": min(part_db(case, result, held_out)), "dead": len(result.dead), "cpu_s": cpu_s}


REPAIRS = repair._apart, repair._divided
#: Network -> output -> its largest magnitude. SSD's: class logits, and offsets of boxes.
NETS: Dict[str, Dict[str, float]] = {"det_ssd300_vgg16": {"438": 10.0, "286": 3.0}, "yolo_yolov8n": {}}


def pictures(feed: Feed, first: int, count: int) -> Samples:
    """Frames of the shapes detector's example in the size of this sample, 0 to 1."""
    sys.path.insert(0, str(MODEL.parent))
    import shapes

    ((name, like),) = feed.items()
    frames = [shapes.sample(seed, like.shape[-1])[0] for seed in range(first, first + count)]
    values = [np.ascontiguousarray(f.transpose(2, 0, 1)[None], np.float32) / np.float32(255) for f in frames]
    return Samples([{name: v} for v in values], False, f"{count} frames")


def like_trained(model: Any, feeds: Sequence[Feed]) -> Dict[str, float]:
    """Takes the biases of all convolutions away and brings what each writes to a root mean square of 1 on these samples, so that depth
    neither drowns nor amplifies what differs between pictures. Returns tensor -> largest magnitude.
    """
    weights = {i.name: i for i in model.graph.initializer}
    values: Dict[str, List[np.ndarray]] = {name: [f[name] for f in feeds] for name in feeds[0]}
    uses = Counter(name for node in model.graph.node for name in node.input)
    tops: Dict[str, float] = {}
    for node in model.graph.node:
        given = [n for n in dict.fromkeys(node.input) if n in values]
        dims = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n][0].dtype), values[n][0].shape)
            for n in given
        ]
        constants = [weights[n] for n in dict.fromkeys(node.input) if n in weights]
        ends = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
        alone = helper.make_model(
            helper.make_graph([node], "alone", dims, ends, constants),
            opset_imports=model.opset_import,
            ir_version=model.ir_version,
        )
        session = open_session(alone.SerializeToString(), estimate=False)
        made = [session.run(None, {n: values[n][i] for n in given}) for i in range(len(feeds))]
        for k, end in enumerate(ends):
            values[end.name] = [of_sample[k] for of_sample in made]
        if node.op_type == "Conv":
            values[node.output[0]] = scaled_to_one(weights, node, values[node.output[0]])
        for end in ends:
            tops[end.name] = max(float(np.abs(v).max(initial=0)) for v in values[end.name])
        uses.subtract(node.input)
        for name in [n for n in node.input if n in values and not uses[n]]:
            del values[name]
    return tops


def scaled_to_one(weights: Dict[str, Any], node: Any, outputs: Sequence[np.ndarray]) -> List[np.ndarray]:
    """Changes weight and bias of a convolution; returns what it now writes."""
    weight, *bias = (numpy_helper.to_array(weights[name]) for name in node.input[1:])
    across = (1, -1, *(1,) * (outputs[0].ndim - 2))
    outputs = [v - sum(b.reshape(across) for b in bias) for v in outputs]
    scale = np.sqrt(np.mean([np.square(v, dtype=np.float64).mean() for v in outputs])).astype(np.float32)
    for name, values in zip(node.input[1:], [weight / scale, *(b * np.float32(0) for b in bias)]):
        weights[name].CopyFrom(numpy_helper.from_array(values, name))
    return [v / scale for v in outputs]


def net_row(path: Path, ranges: Dict[str, float]) -> Dict[str, Any]:
    """A real graph with random weights, see like_trained. `ranges`: output -> the largest magnitude that its convolutions are scaled to."""
    model, data = corpus_model(path)
    calibration, held_out = (pictures(data.feeds[0], first, count) for first, count in ((0, 16), (1000, 8)))
    tops = like_trained(model, calibration.feeds[:8])
    makers = {name: n for n in model.graph.node for name in n.output}
    weights = {i.name: i for i in model.graph.initializer}
    for output, most in ranges.items():
        waiting = [output]
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is not None and maker.op_type != "Conv":
                waiting += maker.input
            for name in maker.input[1:] if maker is not None and maker.op_type == "Conv" else ():
                scaled = numpy_helper.to_array(weights[name]) * np.float32(most / tops[output])
                weights[name].CopyFrom(numpy_helper.from_array(scaled, name))
    started = time.process_time()
    result = quantize(model, calibration, QuantizeRequest(triage_samples=0, keep_apart=False), holdout=held_out)
    return {
        "net": path.stem,
        "weights": "random, scaled",
        "outputs_db": round(result.sqnr_db, 1),
        "dead": len(result.dead),
        "worst_group_db": round(result.channels[0].sqnr_db, 1),
        "groups": len(result.channels),
        "steps": [[s.name, s.detail, s.kept, round(s.extra_us, 1)] for s in result.steps if s.name.startswith(repair.SPLIT)],
        "cpu_s": round(time.process_time() - started, 1),
    }


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
        rows.append(
            {
                "heads": kind,
                "count": len(plain),
                "dead_without": sum(f["part_db"] < 6 for f in plain),
                "dead_without_unsaid": sum(f["part_db"] < 6 and not f["dead"] for f in plain),
                "dead": sum(f["part_db"] < 6 for f in repaired),
                "dead_above_20_db": sum(f["part_db"] < 6 and f["db"] > 20 and not f["dead"] for f in repaired),
                "refused": sum(bool(f["dead"]) for f in repaired),
                "worst_part_db": round(min(f["part_db"] for f in repaired), 1),
                "outputs_db_without": round(min(f["db"] for f in plain), 1),
                "cpu_s_per_head": round(sum(f["cpu_s"] for f in repaired) / len(repaired), 2),
            }
        )
    if options.nets:
        for name, ranges in NETS.items():
            rows.append(net_row(options.nets / f"{name}.onnx", ranges))
    for row in rows:
        print(row)
    if options.out is not None:
        write_rows(options.out, rows)


if __name__ == "__main__":
    main()
