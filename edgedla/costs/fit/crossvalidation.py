"""How the model does on figures that it has not seen: every source left out in turn, power modes, calibration of the spread."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from edgedla.costs.engines import clocks_for, highest_clocks
from edgedla.costs.features import FIXED_FEATURES, LOWER_CLOCK_SPREAD, STRUCTURE_SPREAD, grouped_as_published
from edgedla.costs.fit.evidence import Row
from edgedla.costs.fit.extras import mean
from edgedla.costs.fit.power import Power, word
from edgedla.costs.fit.report import FIXED_SPREAD, is_network, percent, signed, spread_of
from edgedla.costs.fit.samples import Sample, graph_of
from edgedla.costs.fit.solve import CARRIED, Fitted, tied_features
from edgedla.costs.work import work_of
from edgedla.targets.modules import module_for


@dataclass(frozen=True)
class Unseen:
    """One network's time, predicted without any figure of its source.

    Attributes:
        error: predicted / figure - 1.
        spread: the relative deviation that the model states for it.
        fallback: its engine has several loadables or layers on the GPU beside the DLA.
    """

    row: Row
    group: str
    error: float
    spread: float
    fallback: bool


def unseen(fitted: Mapping[str, Fitted]) -> Tuple[Unseen, ...]:
    """All whole networks whose source can be left out."""
    rows = []
    for name, f in fitted.items():
        for sample, error in zip(f.samples, f.left_out):
            if error is not None and is_network(sample):
                fallback = any(word.startswith("loadable=") for word in sample.row.includes)
                rows.append(Unseen(sample.row, name, error, _stated(f, sample), fallback))
    return tuple(rows)


def power_mode_errors(fitted: Mapping[str, Fitted]) -> Tuple[Tuple[Row, float], ...]:
    """(row of a lower mode, error of its time relative to the same figure in the highest mode).

    The networks' own errors cancel, so the figures themselves are in the fit.
    """
    errors: List[Tuple[Row, float]] = []
    for f in fitted.values():
        top: Dict[Tuple[str, str, str, str], float] = {}
        for sample, error in zip(f.samples, f.errors):
            key = (sample.row.origin, sample.row.work, sample.row.engine, sample.row.module)
            if sample.row.power_mode == "MAXN":
                top[key] = error
            elif key in top:
                errors.append((sample.row, (1 + error) / (1 + top[key]) - 1))
    return tuple(errors)


@dataclass(frozen=True)
class Order:
    """Two figures of one source that differ in the engine or the precision alone, the faster one first.

    Attributes:
        measured, predicted: slower / faster.
        spread: of `predicted`.
    """

    faster: Row
    slower: Row
    measured: float
    predicted: float
    spread: float

    @property
    def said(self) -> str:
        """ "right" or "wrong", "undecided" where the spread reaches 1."""
        if max(self.predicted, 1 / self.predicted) <= 1 + self.spread:
            return "undecided"
        return "right" if self.predicted > 1 else "wrong"


def orders(fitted: Mapping[str, Fitted], checked: Sequence[Tuple[Sample, float]]) -> Tuple[Order, ...]:
    """Every published comparison of whole networks, predicted without its source where the rest can tell."""
    known = [(sample, error, fitted.get(sample.group) or fitted[dict(CARRIED)[sample.group]]) for sample, error in checked]
    for f in fitted.values():
        known += [(s, e if out is None else out, f) for s, e, out in zip(f.samples, f.errors, f.left_out)]
    rows = []
    for sample, error, f in known:
        row, on_gpu = sample.row, word(sample.row, "gpu_ms") * 1e3
        if row.metric in ("latency", "throughput") and row.model and (is_network(sample) or "0-141" in row.work):
            rows.append((row, sample.time_us + on_gpu, sample.time_us * (1 + error) + on_gpu, _widened(f, sample)))
    found = []
    for (a, time_a, predicted_a, spread_a), (b, time_b, predicted_b, spread_b) in itertools.combinations(rows, 2):
        same = all(getattr(a, key) == getattr(b, key) for key in ("origin", "model", "module", "power_mode", "clocks", "batch"))
        if same and ((a.engine != b.engine) != (a.precision != b.precision)) and "qdq" not in a.work + b.work:
            spread = math.hypot(spread_a, spread_b)
            if time_a <= time_b:
                found.append(Order(a, b, time_b / time_a, predicted_b / predicted_a, spread))
            else:
                found.append(Order(b, a, time_a / time_b, predicted_a / predicted_b, spread))
    return tuple(found)


def report_lines(fitted: Mapping[str, Fitted], power: Power, checked: Sequence[Tuple[Sample, float]]) -> Iterator[str]:
    """The report of `python -m edgedla.costs.fit report`."""
    rows = unseen(fitted)
    yield "Networks, predicted with their source left out of the fit"
    for u in rows:
        yield f"  {u.row.id}  {u.group:<11}{signed(u.error):>7}  (states {percent(u.spread)})  {u.row.model}, {u.row.origin}"
    yield f"mean error of {len(rows)} networks: {percent(mean(u.error for u in rows))}"
    plain = [u for u in rows if not u.fallback]
    yield f"  without fallback ({len(plain)}): {percent(mean(u.error for u in plain))}"
    loose = {s.row.origin for f in fitted.values() for s in f.samples if "unlocked" in s.row.includes}
    locked = [u for u in plain if u.row.origin not in loose]
    yield f"    and without the source that did not lock clocks ({len(locked)}): {percent(mean(u.error for u in locked))}"
    for name in fitted:
        errors_of_group = [u.error for u in rows if u.group == name]
        yield f"  {name} ({len(errors_of_group)}): {percent(mean(errors_of_group))}"
    modes = power_mode_errors(fitted)
    yield f"power modes, relative to the highest ({len(modes)}): {percent(mean(e for _, e in modes))}"
    yield f"  {_within([(u.error, u.spread) for u in rows])}"
    for name, by in (("the figure", "left_one"), ("its source", "left_out")):
        parts = [(s, e, f) for f in fitted.values() for s, e in zip(f.samples, getattr(f, by)) if not is_network(s)]
        layers = [(e, _stated(f, s)) for s, e, f in parts if e is not None]
        whole = f"layers and groups of layers, {name} left out ({len(layers)})"
        yield f"{whole}: {percent(mean(e for e, _ in layers))}; {_within(layers)}"

    yield ""
    yield "Order of published comparisons: how many times slower the second one is"
    compared = orders(fitted, checked)
    for o in compared:
        one, other = (f"{r.id} {r.engine} {r.precision}" for r in (o.faster, o.slower))
        ratio = f"{o.measured:5.2f}, predicted {o.predicted:5.2f} ±{percent(o.spread)}"
        yield f"  {o.said:<9} {one:<17} {other:<17} {ratio}  {o.faster.model}, {o.faster.module} {o.faster.power_mode}"
    said = [o.said for o in compared]
    yield f"of {len(said)}: {', '.join(f'{said.count(w)} {w}' for w in ('right', 'undecided', 'wrong'))}"

    yield ""
    yield "Energy of the GPU above idle, predicted without its source"
    figures = [(f, f.unseen) for f in power.figures if f.unseen is not None]
    for f, error in figures:
        where = f"{f.row.module} {f.row.power_mode}".strip()
        yield f"  {f.row.id}{signed(error):>7}  {f.energy_mj:.1f} mJ, {f.row.model}, {where}, {f.row.origin}"
    yield f"mean error of {len(figures)} figures: {percent(mean(e for _, e in figures))} (states {percent(power.spread)})"
    with_idle = mean(e * f.energy_mj / f.board_mj for f, e in figures)
    yield f"  of the board's whole power: {percent(with_idle)}"
    ratios = mean(predicted / published - 1 for _, published, predicted in power.ratios)
    yield f"performance per watt of the DLA over the GPU ({len(power.ratios)}): {percent(ratios)}"


def _stated(f: Fitted, sample: Sample) -> float:
    """As `Coefficients.spread_of`, for the coefficients of the fit, whose features have names of their own."""
    terms = {n: f.coefficients.get(n, 0.0) * v for n, v in tied_features(sample.features, f.group).items()}
    whole = sum(terms.values())
    fixed = sum(v for n, v in terms.items() if n.replace(".tuned", "") in FIXED_FEATURES)
    share = fixed / whole if whole > 0 else 0.0
    return share * max(FIXED_SPREAD, spread_of(f)) + (1 - share) * spread_of(f)


def _widened(f: Fitted, sample: Sample) -> float:
    """The same with what `Prices` and `placement` add for doubtful clocks, narrow groups and engines of several loadables."""
    row, spreads = sample.row, [_stated(f, sample)]
    if row.engine == "DLA" and (word(row, "loadable") or 1) > 1:
        spreads.append(STRUCTURE_SPREAD[row.precision])
    if row.engine == "GPU" and row.work.startswith("net ") and not _as_published(row):
        spreads.append(FIXED_SPREAD)
    module = module_for(row.module)
    dla_mhz = clocks_for(module, row.power_mode or None, row.clocks).dla_mhz
    if f.group.name == "dla2-fp16" and dla_mhz < highest_clocks(module).dla_mhz:
        spreads.append(LOWER_CLOCK_SPREAD)
    return math.hypot(*spreads)


def _as_published(row: Row) -> bool:
    """Whether a GPU is known to work on all groups of the figure's network as on one convolution."""
    graph, _ = graph_of(row)
    return all(grouped_as_published(work_of(layer, graph, 1)) for layer in graph.layers)


def _within(errors: Sequence[Tuple[float, float]]) -> str:
    """Which share of the (error, spread) keeps the spread once and twice."""
    once, twice = (mean(float(abs(e) <= n * spread) for e, spread in errors) for n in (1, 2))
    return f"{percent(once)} within 1 spread, {percent(twice)} within 2"
