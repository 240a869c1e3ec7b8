"""How the model does on figures that it has not seen: every source left out in turn, power modes, calibration of the spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterator, List, Mapping, Tuple

from edgedla.costs.features import FIXED_FEATURES
from edgedla.costs.fit.evidence import Row
from edgedla.costs.fit.power import Power
from edgedla.costs.fit.report import FIXED_SPREAD, is_network, percent, signed, spread_of
from edgedla.costs.fit.samples import Sample
from edgedla.costs.fit.solve import Fitted, tied_features


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


def report_lines(fitted: Mapping[str, Fitted], power: Power) -> Iterator[str]:
    """The report of `python -m edgedla.costs.fit report`."""
    rows = unseen(fitted)
    yield "Networks, predicted with their source left out of the fit"
    for u in rows:
        yield f"  {u.row.id}  {u.group:<11}{signed(u.error):>7}  (states {percent(u.spread)})  {u.row.model}, {u.row.origin}"
    yield f"mean error of {len(rows)} networks: {percent(_mean(abs(u.error) for u in rows))}"
    plain = [u for u in rows if not u.fallback]
    yield f"  without fallback ({len(plain)}): {percent(_mean(abs(u.error) for u in plain))}"
    for name in fitted:
        errors_of_group = [abs(u.error) for u in rows if u.group == name]
        yield f"  {name} ({len(errors_of_group)}): {percent(_mean(iter(errors_of_group))) if errors_of_group else '-'}"
    modes = power_mode_errors(fitted)
    yield f"power modes, relative to the highest ({len(modes)}): {percent(_mean(abs(e) for _, e in modes))}"
    for sigma in (1, 2):
        share = sum(abs(u.error) <= sigma * u.spread for u in rows) / len(rows)
        yield f"within {sigma} spread{'s' * (sigma > 1)}: {percent(share)}"

    yield ""
    yield "Energy of the GPU above idle, predicted without its source"
    figures = [(f, f.unseen) for f in power.figures if f.unseen is not None]
    for f, error in figures:
        where = f"{f.row.module} {f.row.power_mode}".strip()
        yield f"  {f.row.id}{signed(error):>7}  {f.energy_mj:.1f} mJ, {f.row.model}, {where}, {f.row.origin}"
    yield f"mean error of {len(figures)} figures: {percent(_mean(abs(e) for _, e in figures))} (states {percent(power.spread)})"
    with_idle = [abs(e) * f.energy_mj / f.board_mj for f, e in figures]
    yield f"  of the board's whole power: {percent(_mean(iter(with_idle)))}"
    ratios = [abs(predicted / published - 1) for _, published, predicted in power.ratios]
    yield f"performance per watt of the DLA over the GPU ({len(ratios)}): {percent(_mean(iter(ratios)))}"


def _stated(f: Fitted, sample: Sample) -> float:
    """As `Coefficients.spread_of`, for the coefficients of the fit, whose features have names of their own."""
    terms = {n: f.coefficients.get(n, 0.0) * v for n, v in tied_features(sample.features, f.group).items()}
    whole = sum(terms.values())
    fixed = sum(v for n, v in terms.items() if n.replace(".tuned", "") in FIXED_FEATURES)
    share = fixed / whole if whole > 0 else 0.0
    spread = spread_of(f)
    return share * max(FIXED_SPREAD, spread) + (1 - share) * spread


def _mean(values: Iterator[float]) -> float:
    every = list(values)
    return sum(every) / len(every) if every else 0.0
