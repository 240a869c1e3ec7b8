"""What is fitted beside the latencies: shared memory, power, structured sparsity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Dict, List, Mapping, Sequence, Tuple

import numpy as np

from edgedla.costs.contention import achieved_gb_s
from edgedla.costs.engines import clocks_for, highest_clocks, multiprocessors
from edgedla.costs.fit.evidence import Row
from edgedla.costs.fit.nnls import nnls
from edgedla.costs.fit.samples import Sample, sample_of
from edgedla.costs.fit.solve import Fitted, tied_features
from edgedla.costs.networks import network
from edgedla.costs.work import work_of
from edgedla.targets.modules import module_for
from edgedla.vocabulary import PRECISIONS


@dataclass(frozen=True)
class Contention:
    """achieved = min(demand, max(total - external, floor)), as shares of the DRAM's peak."""

    total_share: float
    floor_share: float
    mean_error: float
    mean_error_without: float
    rms_error: float
    ids: Tuple[str, ...]


@dataclass(frozen=True)
class Power:
    """Energy above the board's idle power.

    GPU: energy_mj = active_w * activity * latency_ms + pj_per_mac * macs / 1e9, activity = share of units * clock.
    DLA: energy_mj = active_w * (clock / highest clock) * latency_ms + pj_per_mac * macs / 1e9; the GPU's part of a DLA
    engine (its call, reformats) is the GPU's.

    Attributes:
        idle_w: of the board, all engines waiting.
        active_w: by group: gpu-orin, dla2-int8, dla2-fp16.
        pj_per_mac: of the GPU, by precision.
        dla_pj_per_mac: of DLA v2, by precision.
        loadable_mj: of the host for one loadable: submit and wait.
        spread: relative standard deviation, over the rows fitted to and the published performance-per-watt ratios, which are
            compared only.
        ratios: (row id, published ratio, predicted ratio).
    """

    idle_w: float
    active_w: Mapping[str, float]
    pj_per_mac: Mapping[str, float]
    dla_pj_per_mac: Mapping[str, float]
    loadable_mj: float
    spread: float
    ratios: Tuple[Tuple[str, float, float], ...]
    ids: Tuple[str, ...]


@dataclass(frozen=True)
class Sparsity:
    """Structured sparsity: mac.dense times `mac_factor`. `speedups` are (row id, published, predicted)."""

    mac_factor: float
    speedups: Tuple[Tuple[str, float, float], ...]


def fit_contention(rows: Sequence[Row]) -> Contention:
    """The two parameters that meet the published matrix best, in steps of 1 GB/s."""
    matrix = [(r, *_demands(r)) for r in rows if r.use == "fit" and r.metric == "bandwidth"]

    def errors(total: float, floor: float) -> List[float]:
        return [achieved_gb_s(d, e, total, floor) / r.value - 1.0 for r, d, e in matrix]

    best = min(
        (
            (sum(x * x for x in errors(total, floor)), total, floor)
            for total in range(40, 120)
            for floor in range(20, 80)
        ),
    )
    _, total, floor = best
    best_errors = errors(total, floor)
    peak = module_for(matrix[0][0].module).dram_gb_s
    return Contention(
        total / peak,
        floor / peak,
        _mean_abs(best_errors),
        _mean_abs([d / r.value - 1.0 for r, d, _ in matrix]),
        math.sqrt(sum(x * x for x in best_errors) / len(best_errors)),
        tuple(r.id for r, _, _ in matrix),
    )


def fit_sparsity(rows: Sequence[Row], dense: Fitted) -> Sparsity:
    """The factor on mac.dense that meets the published sparse-to-dense ratios, which cancel the networks' own errors."""
    sparse = [r for r in rows if r.use == "fit" and "sparse" in r.includes]
    dense_samples = {(s.row.work, s.row.power_mode): s for s in dense.samples if s.row.metric == "throughput"}
    points: List[Tuple[Row, float, float]] = []
    for row in sparse:
        pair = dense_samples[row.work, row.power_mode]
        part = dense.coefficients["mac.dense"] * pair.features["mac.dense"]
        points.append((row, sample_of(row).time_us / pair.time_us, part / predicted_us(pair, dense)))
    # time ratio = 1 - (1 - factor) * share, least squares in (1 - factor).
    saved = sum((1 - ratio) * share for _, ratio, share in points) / sum(share * share for _, _, share in points)
    factor = min(max(1.0 - saved, 0.5), 1.0)
    return Sparsity(factor, tuple((r.id, 1 / ratio, 1 / (1 - (1 - factor) * share)) for r, ratio, share in points))


def fit_power(rows: Sequence[Row], fitted: Mapping[str, Fitted]) -> Power:
    """Power of the engines above idle, and the check against published ratios."""
    idle_row = next(r for r in rows if r.use == "fit" and r.metric == "idle power")
    used = [r for r in rows if r.use == "fit" and r.metric == "board power"]
    gpu = [r for r in used if r.engine == "GPU"]
    above = {r.id: (r.value - idle_row.value) * _run_ms(r) for r in used}
    # 1 pJ per multiply-accumulate is 1 mJ for 1e9 of them.
    a = np.array(
        [[_run_ms(r) * gpu_activity(r), *(_gmacs(r) if r.precision == p else 0.0 for p in PRECISIONS)] for r in gpu]
    )
    b = np.array([above[r.id] for r in gpu])
    x = [float(v) for v in nnls(a / b[:, None], np.ones(len(b)))]
    active, per_mac = {"gpu-orin": x[0]}, dict(zip(PRECISIONS, x[1:]))
    errors = [float(e) for e in a @ np.array(x) / b - 1.0]
    dla_per_mac: Dict[str, float] = {}
    loadable_mj = 0.0
    for precision in PRECISIONS:
        board = [(r, above[r.id]) for r in used if r.engine == "DLA" and r.precision == precision]
        # Ratios are of the accelerators' rails alone; a step of the board's power holds the host's work too.
        rails = _from_ratios(rows, fitted, active, per_mac) if precision == "int8" else []
        on_dla = rails or board
        dla_terms = np.array([_dla_energy_terms(r, fitted) for r, _ in on_dla])
        rest = np.array([mj - t[2] * active["gpu-orin"] for (_, mj), t in zip(on_dla, dla_terms)])
        w, pj = (float(v) for v in nnls(dla_terms[:, :2] / rest[:, None], np.ones(len(rest))))
        active[f"dla2-{precision}"], dla_per_mac[precision] = w, pj
        if rails:
            terms = [_dla_energy_terms(r, fitted) for r, _ in board]
            over = [mj - t[0] * w - t[1] * pj - t[2] * active["gpu-orin"] for (_, mj), t in zip(board, terms)]
            loadables = [_loadables(r) for r, _ in board]
            loadable_mj = max(sum(over) / sum(loadables), 0.0)
            errors += [n * loadable_mj / mj - o / mj for n, o, (_, mj) in zip(loadables, over, board)]
        errors += [float(e) for e in dla_terms[:, :2] @ np.array([w, pj]) / rest - 1.0]
    ratios = _ratios(rows, fitted, active, per_mac, dla_per_mac)
    spread = math.sqrt(sum(e * e for e in errors) / len(errors))
    ids = tuple(r.id for r in (idle_row, *used))
    return Power(idle_row.value, active, per_mac, dla_per_mac, loadable_mj, spread, tuple(ratios), ids)


def _dla_energy_terms(row: Row, fitted: Mapping[str, Fitted]) -> Tuple[float, float, float]:
    """(time on the DLA in ms * clock share, 1e9 multiply-accumulates, the GPU's part in ms * activity) of a DLA row."""
    module = module_for(row.module)
    f = fitted[f"dla{module.dla_version}-{row.precision}"]
    sample = sample_of(replace(row, unit="ms", metric="latency", value=1.0, includes=("loadable", "io")))
    features = tied_features(sample.features, f.group)
    gpu_ms = (
        sum(f.coefficients.get(n, 0.0) * features.get(n, 0.0) for n in ("engine", "reformat", "reformat_bytes")) / 1e3
    )
    run_ms = next((float(w[7:]) for w in row.includes if w.startswith("run_ms=")), predicted_us(sample, f) / 1e3)
    clock = clocks_for(module, row.power_mode or None).dla_mhz / highest_clocks(module).dla_mhz
    return (run_ms - gpu_ms) * clock, _gmacs(row), gpu_ms * gpu_activity(row)


def _from_ratios(
    rows: Sequence[Row], fitted: Mapping[str, Fitted], active: Mapping[str, float], per_mac: Mapping[str, float]
) -> List[Tuple[Row, float]]:
    """(row, millijoules of the DLA) that the published performance per watt over the GPU implies."""
    implied = []
    for row in _dense_ratios(rows):
        implied.append((replace(row, engine="DLA"), _gpu_energy(row, fitted, active, per_mac) / row.value))
    return implied


def _loadables(row: Row) -> int:
    return next((int(w[9:]) for w in row.includes if w.startswith("loadable=")), 1)


def _dense_ratios(rows: Sequence[Row]) -> List[Row]:
    """Performance per watt of dense networks at batch 1 on both engines."""
    return [
        r
        for r in rows
        if r.use == "check" and r.metric.startswith("perf-per-watt") and "sparse" not in r.includes
        and r.model.endswith("bs=1")
    ]  # fmt: skip


def _gpu_energy(
    row: Row, fitted: Mapping[str, Fitted], active: Mapping[str, float], per_mac: Mapping[str, float]
) -> float:
    gpu = sample_of(replace(row, engine="GPU", unit="ms", includes=("engine",)))
    on_gpu = predicted_us(gpu, fitted["gpu-orin"]) / 1000 * active["gpu-orin"] * gpu_activity(row)
    return on_gpu + per_mac[row.precision] * _gmacs(row)


def _run_ms(row: Row) -> float:
    return next(float(w[7:]) for w in row.includes if w.startswith("run_ms="))


def _gmacs(row: Row) -> float:
    graph = network(row.work.split()[1])
    return sum(work_of(layer, graph, 1).macs for layer in graph.layers) / 1e9


def gpu_activity(row: Row) -> float:
    """GPU units that are on, times clock, against the module's most."""
    module = module_for(row.module)
    mode = row.power_mode or None
    on = multiprocessors(module, mode) / multiprocessors(module)
    return on * clocks_for(module, mode).gpu_mhz / highest_clocks(module).gpu_mhz


def predicted_us(sample: Sample, fitted: Fitted) -> float:
    features = tied_features(sample.features, fitted.group)
    return sum(fitted.coefficients.get(n, 0.0) * v for n, v in features.items())


def _ratios(
    rows: Sequence[Row],
    fitted: Mapping[str, Fitted],
    active: Mapping[str, float],
    per_mac: Mapping[str, float],
    dla_per_mac: Mapping[str, float],
) -> List[Tuple[str, float, float]]:
    """(id, published, predicted) performance per watt of the DLA over the GPU, dense rows at batch 1 on both."""
    ratios = []
    for row in _dense_ratios(rows):
        time, gmacs, gpu_part = _dla_energy_terms(replace(row, engine="DLA"), fitted)
        on_dla = time * active["dla2-int8"] + gmacs * dla_per_mac["int8"] + gpu_part * active["gpu-orin"]
        ratios.append((row.id, row.value, _gpu_energy(row, fitted, active, per_mac) / on_dla))
    return ratios


def _demands(row: Row) -> Tuple[float, float]:
    words = dict(w.split("=") for w in row.work.split())
    return float(words["demand"]), float(words["external"])


def _mean_abs(values: Sequence[float]) -> float:
    return sum(abs(v) for v in values) / len(values)
