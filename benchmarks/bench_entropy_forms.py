"""Which detail of the published entropy method decides how far it collapses on trained networks: each switched by itself.

    python benchmarks/bench_entropy_forms.py FOLDER [--nets m2,m3,rn] [--forms WORDS] [--calibration 200] [--count 1000] [--out FILE]

FOLDER as for bench_quantize_trained.py. Histograms are exact: of every element, without the shared fine bins of `collect`.
A row per network and form: top-1 and SQNR with every layer simulated in INT8, and the tensors whose T is below half of their
maximum. `one_bin`: T stands where a single bin is occupied; P and Q are the same there, so KL is 0 whatever is clipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple
from unittest import mock

import numpy as np
from bench_quantize_trained import ORIN
from provenance import write_rows
from trained_digits import add_options, calibration_and_held_out

from edgedla.accuracy.metrics import METRICS
from edgedla.accuracy.phases.job import open_job
from edgedla.accuracy.phases.start import first_state
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.simulation import Simulation
from edgedla.accuracy.state import State, metric_values
from edgedla.builder.host import simulated_model
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.collect import collect
from edgedla.quantization.histogram import BINS
from edgedla.quantization.methods import divergences, least, mse, sqnr_db
from edgedla.quantization.numerics import INT8_EQUAL_SCALES, INT8_ROUNDING
from edgedla.quantization.samples import Samples
from edgedla.quantization.session import open_session


@dataclass(frozen=True)
class Form:
    """One way to take the method.

    Attributes:
        name: what differs from the first form. batch: samples that set the bins' width together; 0: all. bins: of the first
            batch. stride: every how many-th candidate is tried. alone: candidates with a single occupied bin count.
        zeros: the first bin keeps its count. samples: calibrated on; 0: all of them.
        numerics: of the simulation. per_tensor: one scale for all of a layer's weights. every: tensors that TensorRT merges
            are rounded too. shared: thresholds of `collect`'s histograms.
    """

    name: str
    batch: int = 0
    bins: int = BINS
    stride: int = 1
    alone: bool = True
    zeros: bool = False
    samples: int = 0
    numerics: Tuple[Tuple[str, str], ...] = ()
    per_tensor: bool = False
    every: bool = False
    shared: bool = False


FORMS = (
    Form("as published: one batch, 2048 bins, stride 1"),
    Form("as edgedla has it (fine bins shared)", shared=True),
    Form("batches of 32, bins appended", batch=32),
    Form("batches of 1, bins appended", batch=1),
    Form("64 samples", samples=64),
    Form("stride 2", stride=2),
    Form("stride 4", stride=4),
    Form("stride 8", stride=8),
    Form("stride 16", stride=16),
    Form("1024 bins", bins=1024),
    Form("4096 bins", bins=4096),
    Form("no candidate of a single occupied bin", alone=False),
    Form("first bin keeps its count", zeros=True),
    Form("halves to even", numerics=((INT8_ROUNDING, "half-even"),)),
    Form("every tensor its own scale", numerics=((INT8_EQUAL_SCALES, "own"),)),
    Form("weights per tensor", per_tensor=True),
    Form("merged tensors rounded too", every=True),
)


def magnitudes(model: Any, names: Sequence[str], samples: Samples) -> Dict[str, List[np.ndarray]]:
    """Tensor -> |x| of every sample."""
    import onnx

    added = onnx.ModelProto()
    present = {o.name for o in model.graph.output} | {i.name for i in model.graph.input}
    for name in names:
        if name not in present:
            added.graph.output.add().name = name
    session = open_session(model.SerializeToString() + added.SerializeToString())
    computed = [n for n in names if n not in {i.name for i in model.graph.input}]
    values: Dict[str, List[np.ndarray]] = {n: [] for n in names}
    for feed in samples.feeds:
        for name, array in [*feed.items(), *zip(computed, session.run(computed, feed))]:
            if name in values:
                values[name].append(np.abs(array).reshape(-1))
    return values


def counted(values: Sequence[np.ndarray], bins: int, batch: int) -> Tuple[np.ndarray, float]:
    """(counts, width of a bin), as pytorch-quantization's HistogramCalibrator collects: bins are appended, never widened."""
    counts, width = np.zeros(0), 0.0
    for first in range(0, len(values), batch or len(values)):
        part = np.concatenate(values[first : first + (batch or len(values))])
        top = float(part.max())
        if not len(counts):
            counts, width = np.zeros(bins), top / bins
        if top > len(counts) * width:
            counts = np.concatenate([counts, np.zeros(int(np.ceil(top / width)) - len(counts))])
        place = np.minimum((part / width).astype(np.int64), len(counts) - 1)
        counts += np.bincount(place, minlength=len(counts))
    return counts, width


def threshold(values: Sequence[np.ndarray], form: Form) -> Tuple[float, bool]:
    """(T, it stands where a single bin is occupied)."""
    counts, width = counted(values, form.bins, form.batch)
    if not form.zeros:
        counts[0] = counts[1]
    kept, divergence = divergences(counts)
    occupied = np.cumsum(counts > 0)
    if not form.alone:
        divergence = np.where(occupied[kept - 1] > 1, divergence, np.inf)
    chosen = least(kept[:: form.stride], divergence[:: form.stride])
    return chosen * width, bool(occupied[chosen - 1] == 1)


def per_tensor(values: np.ndarray, axis: int) -> np.ndarray:
    scale = np.abs(values).max() / INT8_MAX
    rounded: np.ndarray = np.round(values / scale).clip(-INT8_MAX, INT8_MAX) * scale
    return rounded


def measured(state: State, form: Form) -> Dict[str, float]:
    plan = replace(state.plan(), numerics=dict(form.numerics))
    if dict(form.numerics).get(INT8_EQUAL_SCALES) == "own":
        plan = replace(plan, calibration=replace(plan.calibration, absmax=dict(state.absmax)))
    weights = per_tensor if form.per_tensor else simulated_model.quantize_weights
    fused = (lambda model: {}) if form.every else simulated_model.fused_tensors
    with mock.patch.multiple(simulated_model, quantize_weights=weights, fused_tensors=fused):
        simulation = Simulation(state.model, plan)
    exact, simulated = metric_values(simulation, state.holdout, METRICS["top1"])
    figure = METRICS["top1"].figure
    return {
        "top1_fp32": round(figure(exact), 4),
        "top1": round(figure(simulated), 4),
        "sqnr_db": round(simulation.noise(state.holdout.feeds).sqnr_db, 1),
    }


def rows_of(path: Path, calibration: Samples, held_out: Samples, words: Sequence[str]) -> Any:
    job = open_job(path, QuantizeRequest(**ORIN, everywhere=True, method="entropy"), None, None, None)
    collection = collect(job.model, calibration)
    state = first_state(job, collection, calibration, held_out, None)
    shared = dict(state.absmax)
    values = magnitudes(job.model, list(shared), calibration)
    top = {name: float(max(part.max() for part in parts)) for name, parts in values.items()}
    for form in FORMS:
        if not any(word in form.name for word in words):
            continue
        chosen: Dict[str, Tuple[float, bool]] = {n: (shared[n], False) for n in shared}
        if not form.shared:
            chosen = {n: threshold(v[: form.samples or None], form) for n, v in values.items()}
        state.absmax = {n: t for n, (t, _) in chosen.items()}
        low = sorted((round(t / top[n], 3), n, one) for n, (t, one) in chosen.items() if t < 0.5 * top[n])
        yield {
            "net": path.stem,
            "form": form.name,
            **measured(state, form),
            "below_half": [{"tensor": n, "share": share, "one_bin": one} for share, n, one in low],
        }
    # The worst tensors, each by its SQNR alone, get the range of least squared error.
    for stride in (1, 4) if any(word in "worst tensors" for word in words) else ():
        plain = {n: threshold(v, replace(FORMS[0], stride=stride))[0] for n, v in values.items()}
        worst = sorted(plain, key=lambda n: sqnr_db(collection.histograms[n], plain[n]))
        for count in (1, 2, 3):
            state.absmax = {**plain, **{n: mse(collection.histograms[n]) for n in worst[:count]}}
            name = f"stride {stride}, {count} worst tensors by least squares"
            yield {"net": path.stem, "form": name, **measured(state, FORMS[0])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--nets", default="m2,m3,rn")
    parser.add_argument("--forms", default="", help="only those whose name holds one of these words, separated by commas")
    options = parser.parse_args()
    data = calibration_and_held_out(options)
    rows = []
    for net in options.nets.split(","):
        for row in rows_of(options.folder / f"{net}.onnx", *data, options.forms.split(",")):
            rows.append(row)
            print(json.dumps(row), flush=True)
    if options.out:
        write_rows(options.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
