"""Power of the engines above idle, fitted to the published power of boards and to the ratios between their engines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.costs.energy import activity, gpu_shares, voltage
from edgedla.costs.engines import Clocks, clocks_for, highest_clocks
from edgedla.costs.fit.evidence import Row
from edgedla.costs.fit.extras import predicted_us
from edgedla.costs.fit.nnls import nnls
from edgedla.costs.fit.samples import sample_of
from edgedla.costs.fit.solve import Fitted, tied_features
from edgedla.costs.networks import network
from edgedla.costs.work import work_of
from edgedla.targets.modules import module_for
from edgedla.vocabulary import PRECISIONS

#: Slopes of the voltage that are tried.
SLOPES = tuple(n / 20 for n in range(15))
#: Word of `includes`: the system idles at watts that the source does not state and that all its figures hold.
OWN_IDLE = "idle"


@dataclass(frozen=True)
class Gpu:
    """The GPU's part, as in edgedla.costs.energy: watts of a full GPU, pJ per multiply-accumulate by precision."""

    slope: float
    active_w: float
    pj_per_mac: Mapping[str, float]

    def energy_mj(self, row: Row, run_ms: float) -> float:
        """Millijoules above idle of one inference."""
        share, units = gpu_shares(module_for(row.module), row.power_mode, _clocks(row).gpu_mhz)
        busy = self.active_w * activity(share, units) * run_ms
        return (busy + self.pj_per_mac[row.precision] * gmacs(row)) * voltage(share, self.slope) ** 2


@dataclass(frozen=True)
class Figure:
    """One published figure in mJ of one inference, with the errors of its prediction.

    Attributes:
        energy_mj: above idle; board_mj with idle.
        left_out: error with all figures of its source left out; None where the others cannot tell, or nothing was fitted to it and
            `error` is that already.
    """

    row: Row
    energy_mj: float
    board_mj: float
    error: float
    left_out: Optional[float]

    @property
    def unseen(self) -> Optional[float]:
        return self.error if self.row.use == "check" else self.left_out


@dataclass(frozen=True)
class Power:
    """Energy above the board's idle power; the form is in edgedla.costs.energy.

    Attributes:
        idle_w: of the board, all engines waiting, by family of modules.
        gpu: fitted to board power and energy of GPUs.
        dla_w, dla_pj_per_mac: of DLA v2, by precision.
        loadable_mj: of the host for one loadable: submit and wait.
        figures: of the GPU.
        ratios: (row id, published, predicted) performance per watt of the DLA over the GPU.
    """

    idle_w: Mapping[str, float]
    gpu: Gpu
    dla_w: Mapping[str, float]
    dla_pj_per_mac: Mapping[str, float]
    loadable_mj: float
    figures: Tuple[Figure, ...]
    ratios: Tuple[Tuple[str, float, float], ...]
    ids: Tuple[str, ...]

    @property
    def spread(self) -> float:
        """The error on unseen sources that two thirds of the figures keep: one standard deviation of a normal distribution."""
        return float(np.quantile([abs(f.unseen) for f in self.figures if f.unseen is not None], 0.68))


def fit_power(rows: Sequence[Row], fitted: Mapping[str, Fitted]) -> Power:
    """Power of the engines above idle, and the check against published ratios."""
    idle_rows = [r for r in rows if r.use == "fit" and r.metric == "idle power"]
    idle = {module_for(r.module).family: r.value for r in idle_rows}
    used = [r for r in rows if r.use == "fit" and r.metric in ("board power", "board energy")]
    above = {r.id: _above_idle(r, idle) for r in rows if r.metric in ("board power", "board energy")}
    on_gpu = [r for r in used if r.engine == "GPU"]
    gpu = _fit_gpu(on_gpu, above)
    dla_w: Dict[str, float] = {}
    dla_per_mac: Dict[str, float] = {}
    loadable_mj = 0.0
    for precision in PRECISIONS:
        board = [(r, above[r.id]) for r in used if r.engine == "DLA" and r.precision == precision]
        # Ratios are of the accelerators' rails alone; a step of the board's power holds the host's work too.
        rails = [(r, _gpu_mj(r, fitted, gpu) / r.value) for r in _dense_ratios(rows)] if precision == "int8" else []
        on_dla = rails or board
        terms = np.array([_dla_terms(replace(r, engine="DLA"), fitted, gpu) for r, _ in on_dla])
        rest = np.array([mj for _, mj in on_dla]) - terms[:, 2]
        dla_w[precision], dla_per_mac[precision] = (float(v) for v in nnls(terms[:, :2] / rest[:, None], np.ones(len(rest))))
        if rails:
            over = [mj - _dla_mj(r, fitted, gpu, dla_w, dla_per_mac) for r, mj in board]
            loadable_mj = max(sum(over) / sum((word(r, "loadable") or 1.0) for r, _ in board), 0.0)
    return Power(
        idle,
        gpu,
        dla_w,
        dla_per_mac,
        loadable_mj,
        _figures([r for r in rows if r.id in above and r.engine == "GPU"], on_gpu, above, gpu),
        tuple(
            (r.id, r.value, _gpu_mj(r, fitted, gpu) / _dla_mj(r, fitted, gpu, dla_w, dla_per_mac)) for r in _dense_ratios(rows)
        ),
        tuple(r.id for r in (*idle_rows, *used)),
    )


def _fit_gpu(rows: Sequence[Row], above: Mapping[str, float]) -> Gpu:
    """The slope, watts and pJ with the least squares of relative errors, beside an idle power of every source marked OWN_IDLE."""
    best: Tuple[float, Optional[Gpu]] = math.inf, None
    own = sorted({r.origin for r in rows if OWN_IDLE in r.includes})
    run_ms = [word(r, "run_ms") for r in rows]
    for slope in SLOPES:
        units = [Gpu(slope, 1.0, dict.fromkeys(PRECISIONS, 0.0))]
        units += [Gpu(slope, 0.0, {p: float(p == q) for p in PRECISIONS}) for q in PRECISIONS]
        terms = [[*(u.energy_mj(r, ms) for u in units), *(ms * (r.origin == o) for o in own)] for r, ms in zip(rows, run_ms)]
        a = np.array(terms) / np.array([[above[r.id]] for r in rows])
        found = nnls(a, np.ones(len(rows)))
        watts, *per_mac = (float(v) for v in found[: len(units)])
        squares = float(np.sum((a @ found - 1.0) ** 2))
        best = min(best, (squares, Gpu(slope, watts, dict(zip(PRECISIONS, per_mac)))), key=lambda found: found[0])
    assert best[1] is not None
    return best[1]


def _figures(rows: Sequence[Row], used: Sequence[Row], above: Mapping[str, float], gpu: Gpu) -> Tuple[Figure, ...]:
    figures = []
    for row in rows:
        beside = [r for r in rows if r.origin == row.origin]
        others = [r for r in used if r.origin != row.origin]
        tells = row.use == "fit" and any(r.precision == row.precision for r in others)
        left_out = _error(_fit_gpu(others, above), row, beside, above) if tells else None
        energy_mj = _without_own_idle(gpu, row, beside, above)
        figures.append(Figure(row, energy_mj, _board_mj(row), _error(gpu, row, beside, above), left_out))
    return tuple(figures)


def _error(gpu: Gpu, row: Row, beside: Sequence[Row], above: Mapping[str, float]) -> float:
    return gpu.energy_mj(row, word(row, "run_ms")) / _without_own_idle(gpu, row, beside, above) - 1.0


def _without_own_idle(gpu: Gpu, row: Row, beside: Sequence[Row], above: Mapping[str, float]) -> float:
    """Millijoules above idle: of a source marked OWN_IDLE, above the watts with the least squares of its relative errors."""
    if OWN_IDLE not in row.includes:
        return above[row.id]
    shares = [(word(r, "run_ms") / above[r.id], gpu.energy_mj(r, word(r, "run_ms")) / above[r.id]) for r in beside]
    idle_w = max(sum(t * (1.0 - known) for t, known in shares) / sum(t * t for t, _ in shares), 0.0)
    return above[row.id] - idle_w * word(row, "run_ms")


def _board_mj(row: Row) -> float:
    return row.value if row.unit == "mJ" else row.value * word(row, "run_ms")


def _above_idle(row: Row, idle: Mapping[str, float]) -> float:
    """Millijoules above idle of one inference; with idle where that is the source's own."""
    return _board_mj(row) - (0.0 if OWN_IDLE in row.includes else idle[module_for(row.module).family] * word(row, "run_ms"))


def _dla_terms(row: Row, fitted: Mapping[str, Fitted], gpu: Gpu) -> Tuple[float, float, float]:
    """What a DLA row's energy is made of: mJ per watt of the core, mJ per pJ of a multiply-accumulate, mJ of the GPU's part."""
    module = module_for(row.module)
    f = fitted[f"dla{module.dla_version}-{row.precision}"]
    sample = sample_of(replace(row, unit="ms", metric="latency", value=1.0, includes=("loadable", "io")))
    features = tied_features(sample.features, f.group)
    fixed = ("engine", "reformat", "reformat_bytes")
    gpu_ms = sum(f.coefficients.get(n, 0.0) * features.get(n, 0.0) for n in fixed) / 1e3
    run_ms = word(row, "run_ms") or predicted_us(sample, f) / 1e3
    share = _clocks(row).dla_mhz / highest_clocks(module).dla_mhz
    squared = voltage(share, gpu.slope) ** 2
    idle_gpu = replace(gpu, pj_per_mac=dict.fromkeys(PRECISIONS, 0.0))
    return (run_ms - gpu_ms) * share * squared, gmacs(row) * squared, idle_gpu.energy_mj(row, gpu_ms)


def _dla_mj(row: Row, fitted: Mapping[str, Fitted], gpu: Gpu, dla_w: Mapping[str, float], per_mac: Mapping[str, float]) -> float:
    """Millijoules of one inference on the DLA, without the host's part."""
    watts, macs, on_gpu = _dla_terms(replace(row, engine="DLA"), fitted, gpu)
    return watts * dla_w[row.precision] + macs * per_mac[row.precision] + on_gpu


def _gpu_mj(row: Row, fitted: Mapping[str, Fitted], gpu: Gpu) -> float:
    """Millijoules of one inference on the GPU, at its predicted time."""
    on_gpu = sample_of(replace(row, engine="GPU", unit="ms", includes=("engine",)))
    return gpu.energy_mj(row, predicted_us(on_gpu, fitted["gpu-orin"]) / 1e3)


def _dense_ratios(rows: Sequence[Row]) -> List[Row]:
    """Performance per watt of dense networks at batch 1 on both engines."""
    ratios = (r for r in rows if r.use == "check" and r.metric.startswith("perf-per-watt"))
    return [r for r in ratios if "sparse" not in r.includes and r.model.endswith("bs=1")]


def gmacs(row: Row) -> float:
    """1e9 multiply-accumulates of one inference."""
    return word(row, "gmacs") or _gmacs_of(row.work.split()[1])


@lru_cache(maxsize=None)
def _gmacs_of(name: str) -> float:
    graph = network(name)
    return sum(work_of(layer, graph, 1).macs for layer in graph.layers) / 1e9


def word(row: Row, name: str) -> float:
    """The number behind a word of `includes`; 0 without one."""
    return next((float(w.partition("=")[2]) for w in row.includes if w.startswith(f"{name}=")), 0.0)


def _clocks(row: Row) -> Clocks:
    return clocks_for(module_for(row.module), row.power_mode or None, row.clocks)
