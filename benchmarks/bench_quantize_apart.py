"""How optimistic `edgedla quantize` is where the samples that judged its steps also give the number that it reports.

    python benchmarks/bench_quantize_apart.py FOLDER [--calibration 64] [--count 256] [--draws 4] [--out FILE]

FOLDER as for bench_quantize_trained.py. Each draw holds out 2 n other digits: n judge the repair for --min-sqnr, 3 dB above what the
network has, and n were seen by no step. A row a network and n: what the repair gains on the first, on the second, and the mean
difference, all in dB of the outputs; every layer is simulated in INT8.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
from provenance import write_rows
from trained_digits import add_options, calibration_and_held_out

from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.quantization.samples import Samples

ORIN: Dict[str, Any] = {"target": "agx-orin-64gb", "trt": "10.3", "everywhere": True, "keep_apart": False}
COUNTS, ABOVE_DB = (4, 16), 3.0


def part(samples: Samples, first: int, end: int) -> Samples:
    return Samples(samples.feeds[first:end], False, f"{first} to {end - 1}")


def gains(model: Path, calibration: Samples, judged: Samples, unseen: Samples) -> Tuple[float, float]:
    """What the repair gains in dB: (on the samples that judged it, on others)."""
    plain = quantize(model, calibration, QuantizeRequest(**ORIN, triage_samples=0), holdout=judged)
    asked = QuantizeRequest(**ORIN, triage_samples=4, min_sqnr_db=plain.sqnr_db + ABOVE_DB)
    repaired = quantize(model, calibration, asked, holdout=judged)
    before, after = (_elsewhere(model, calibration, found, unseen) for found in (plain, repaired))
    return repaired.sqnr_db - plain.sqnr_db, after - before


def _elsewhere(model: Path, calibration: Samples, found: Any, unseen: Samples) -> float:
    """The same scales and layers in FP16, on other samples."""
    from edgedla.accuracy import quantize as module

    first = module.first_state

    def with_precisions(*arguments: Any) -> Any:
        state = first(*arguments)
        state.precisions = dict(found.precisions)
        return state

    module.first_state = with_precisions
    try:
        request = QuantizeRequest(**ORIN, triage_samples=0)
        return float(quantize(model, calibration, request, holdout=unseen, absmax=found.absmax).sqnr_db)
    finally:
        module.first_state = first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.set_defaults(calibration=64, count=256)
    parser.add_argument("--draws", type=int, default=4)
    options = parser.parse_args()
    calibration, every = calibration_and_held_out(options)
    rows: List[Dict[str, Any]] = []
    for path in sorted(options.folder.glob("*.onnx")):
        for count in COUNTS:
            found: List[Tuple[float, float]] = []
            for k in range(options.draws):
                start = 2 * count * k
                judged, unseen = part(every, start, start + count), part(every, start + count, start + 2 * count)
                found.append(gains(path, calibration, judged, unseen))
            on_judged, on_unseen = np.array(found).T
            row = {
                "network": path.stem,
                "judged": count,
                "judged_gain_db": [round(float(v), 2) for v in on_judged],
                "unseen_gain_db": [round(float(v), 2) for v in on_unseen],
                "optimism_db": round(float(np.mean(on_judged - on_unseen)), 2),
            }
            rows.append(row)
            print(row, flush=True)
    if options.out is not None:
        write_rows(options.out, rows)


if __name__ == "__main__":
    main()
