"""The fit as files: rules/costs/*.yaml for the model, README.md for readers. The same input gives the same bytes."""

from __future__ import annotations

import math
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from edgedla.costs.features import DLA_FEATURES, GPU_FEATURES
from edgedla.costs.fit.extras import Contention, Sparsity, mean
from edgedla.costs.fit.power import Power
from edgedla.costs.fit.samples import Sample
from edgedla.costs.fit.solve import CARRIED, NUISANCE, Fitted

HEAD = "# Written by `python -m edgedla.costs.fit` from rules/evidence. Do not edit: run the command again.\n"
#: Rows whose errors make a group's spread: whole times of networks, groups of layers and single layers.
TIMES = ("latency", "throughput", "group time")


#: Spread of what an engine, a loadable or a reformat costs by being one. Engines of a single layer, which are little else,
#: are predicted 30 to 60 % off with their one source left out, and 5 % with it: two of three layers keep this spread.
FIXED_SPREAD = 0.49
#: No group is stated better than this: the figures are of few boards and releases.
LEAST_SPREAD = 0.12


def spread_of(fitted: Fitted) -> float:
    """Root mean square of the errors of whole networks with their source left out; with the figure left out where the
    group has one source only."""
    whole = [o for s, o in zip(fitted.samples, fitted.left_out) if o is not None and is_network(s)]
    errors = whole or [e for s, e in zip(fitted.samples, fitted.left_one) if e is not None and s.row.metric in TIMES]
    return max(math.sqrt(sum(e * e for e in errors) / len(errors)), LEAST_SPREAD)


def is_network(sample: Sample) -> bool:
    """A whole network, not a part of one or a single layer."""
    kind, *rest = sample.row.work.split()
    return kind in ("yolox", "features") or (kind == "net" and not any("-" in word for word in rest[1:]))


def guessed_spread(all_fitted: Iterable[Fitted]) -> float:
    """Spread of what is carried over from another engine: how far a source is from the fit to all others.

    Standard deviation of a normal distribution with their mean absolute error; single outliers count less so.
    """
    deviations = [abs(e) for f in all_fitted for e in f.left_out if e is not None]
    return math.sqrt(math.pi / 2) * sum(deviations) / len(deviations)


def engine_yaml(name: str, fitted: Fitted, guessed: float, carried_from: str = "", sparsity: Optional[Sparsity] = None) -> str:
    """One group of coefficients."""
    # Memory coefficients taken from the same engine's other precision do not count as borrowed.
    borrowed = {n for n in fitted.borrowed if _hardware(fitted.group.borrowed[n]) != _hardware(name)}
    lines = [HEAD, f"engine: {name}\n"]
    if carried_from:
        lines.append(f"carried_from: {carried_from}\n")
    lines.append(f"spread: {number(max(guessed, spread_of(fitted)) if carried_from else spread_of(fitted))}\n")
    lines.append(f"guessed_spread: {number(max(guessed, spread_of(fitted)))}\n")
    lines.append(f"fixed_spread: {number(FIXED_SPREAD)}\n")
    lines.append("coefficients:\n")

    for feature in DLA_FEATURES if name.startswith("dla") else GPU_FEATURES:
        source = fitted.group.tied.get(feature, feature)
        basis = "guessed" if carried_from or source in borrowed else "fitted"
        lines.append(f"  - {{feature: {feature}, value: {number(fitted.coefficients[source])}, basis: {basis}}}\n")
    if sparsity:
        lines.append(f"sparse_mac_factor: {number(sparsity.mac_factor)}\n")
    if not carried_from:
        lines.append("errors:\n")
        for key, values in _summaries(fitted).items():
            lines.append(f"  {key}: {number(values)}\n")
        lines.append(f"data: [{', '.join(s.row.id for s in fitted.samples)}]\n")
    return "".join(lines)


def _hardware(name: str) -> str:
    """dla2-int8 and dla2-fp16 are one piece of hardware; gpu-orin and gpu-xavier are two."""
    return name.split("-")[0] if name.startswith("dla") else name


def power_yaml(power: Power) -> str:
    active = {"gpu-orin": power.gpu.active_w, **{f"dla2-{p}": w for p, w in power.dla_w.items()}}
    tables = {
        "idle_w": power.idle_w,
        "active_w": active,
        "gpu_pj_per_mac": power.gpu.pj_per_mac,
        "dla_pj_per_mac": power.dla_pj_per_mac,
    }
    lines = [HEAD, f"spread: {number(power.spread)}\n", f"voltage_slope: {number(power.gpu.slope)}\n"]
    lines.append(f"loadable_mj: {number(power.loadable_mj)}\n")
    for name, table in tables.items():
        lines += [f"{name}:\n", *(f"  {key}: {number(table[key])}\n" for key in sorted(table))]
    lines.append(f"data: [{', '.join(power.ids)}]\n")
    return "".join(lines)


def contention_yaml(contention: Contention) -> str:
    return (
        f"{HEAD}total_share: {number(contention.total_share)}\nfloor_share: {number(contention.floor_share)}\n"
        f"spread: {number(contention.rms_error)}\nmean_error: {number(contention.mean_error)}\n"
        f"mean_error_without_model: {number(contention.mean_error_without)}\n"
        f"data: [{', '.join(contention.ids)}]\n"
    )


def readme(
    fitted: Mapping[str, Fitted],
    checked: Sequence[Tuple[Sample, Optional[float]]],
    power: Power,
    contention: Contention,
    sparsity: Sparsity,
) -> str:
    """The table of errors."""
    lines = [
        "<!-- Written by `python -m edgedla.costs.fit` from rules/evidence. Do not edit: run the command again. -->\n",
        "# The cost model's coefficients, and how far they can be trusted\n\n",
        "latency_us is a sum of coefficient * feature over the features of `edgedla/costs/features.py`. The coefficients are\n",
        "fitted by nonnegative least squares on relative errors to published figures (`rules/evidence/performance.csv`, source\n",
        "and licence in each row) of the networks in `rules/evidence/networks/`. Nothing here was measured by this project.\n\n",
        "- in sample: error of the fit on the figures it was fitted to.\n",
        "- figure left out, source left out: error with the figure, or everything from its source, left out of the fit. A dash\n",
        "  says that the remaining figures cannot tell: one of the features would have no figure left.\n\n",
        "| engine | figures | mean error in sample | figure left out | source left out | spread of a prediction |\n",
        "|---|---|---|---|---|---|\n",
    ]
    for name, f in fitted.items():
        s = _summaries(f)
        lines.append(
            f"| {name} | {len(f.samples)} | {percent(s['in_sample'])} | {percent(s['figure_left_out'])} "
            f"| {percent(s.get('source_left_out'))} | {percent(spread_of(f))} |\n"
        )
    for name, source in CARRIED:
        lines.append(f"| {name} | 0, carried over from {source} | - | - | - | guessed |\n")
    for name, f in fitted.items():
        lines += [f"\n## {name}\n\n", _coefficients(f)]
        lines.append("| row | source | module, mode | figure | ms | in sample | figure left out | source left out |\n")
        lines.append("|---|---|---|---|---|---|---|---|\n")
        for sample, e, one, out in zip(f.samples, f.errors, f.left_one, f.left_out):
            lines.append(_row(sample) + f" {signed(e)} | {signed(one)} | {signed(out)} |\n")
    lines += [
        "\n## Compared only\n\nFigures that no coefficient was fitted to.\n\n",
        "| row | source | module, mode | figure | ms | predicted |\n|---|---|---|---|---|---|\n",
    ]
    lines += [_row(sample) + f" {signed(error)} |\n" for sample, error in checked]
    lines += _power(power)
    lines.append("\n## Structured sparsity: speed-up over dense\n\n| row | published | predicted |\n|---|---|---|\n")
    lines += [f"| {i} | {m:.2f} | {p:.2f} |\n" for i, m, p in sparsity.speedups]
    lines.append(
        f"\n## Shared memory\n\nachieved = min(demand, max(total - external, floor)), total {contention.total_share:.2f} and "
        f"floor {contention.floor_share:.2f} of the DRAM's peak: mean error {percent(contention.mean_error)} over "
        f"{len(contention.ids)} figures of AGX Xavier; without a model of contention "
        f"{percent(contention.mean_error_without)}. Other modules: guessed.\n"
    )
    return "".join(lines)


def _power(power: Power) -> List[str]:
    """The tables of energies."""
    lines = [
        "\n## Energy above idle of the GPU\n\nWall power counts as the board's. NVIDIA's systems at MaxQ and those of another submitter ",
        "differ by 3 to 5.5 W in all four\npairs: the fit finds an idle power for each of the two, which is taken off.\n\n",
        "| row | source | module, mode | network | mJ | in sample | source left out |\n|---|---|---|---|---|---|---|\n",
    ]
    lines += [
        f"| {f.row.id} | {f.row.origin} | {f.row.module} {f.row.power_mode} | {f.row.model} {f.row.precision} "
        f"| {f.energy_mj:.1f} | {signed(f.error) if f.row.use == 'fit' else 'compared only'} | {signed(f.unseen)} |\n"
        for f in power.figures
    ]
    lines.append("\n## Energy: performance per watt of the DLA over the GPU, compared only\n\n")
    lines.append("| row | published | predicted |\n|---|---|---|\n")
    lines += [f"| {i} | {m:.1f} | {p:.1f} |\n" for i, m, p in power.ratios]
    return lines


def number(value: float) -> str:
    """Four significant digits as YAML reads them back: no exponent."""
    if value == 0:
        return "0.0"
    digits = max(3 - math.floor(math.log10(abs(value))), 1)
    text = f"{value:.{digits}f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def percent(value: Optional[float]) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def signed(value: Optional[float]) -> str:
    return "-" if value is None else f"{100 * value:+.0f} %"


def _summaries(f: Fitted) -> Dict[str, float]:
    summaries = {"in_sample": mean(f.errors), "figure_left_out": mean(f.left_one), "source_left_out": mean(f.left_out)}
    return {k: v for k, v in summaries.items() if v is not None}


def _coefficients(f: Fitted) -> str:
    shown = [f"{n} {number(v)}" for n, v in sorted(f.coefficients.items()) if n not in NUISANCE]
    text = "Coefficients: " + ", ".join(shown) + ".\n"
    if f.borrowed:
        text += "Carried over: " + ", ".join(f"{n} from {f.group.borrowed[n]}" for n in f.borrowed) + ".\n"
    for (origin, word), factor in sorted(f.stretches.items()):
        text += f"{origin}: figures marked `{word}` are {factor:.2f} times what the model says.\n"
    return text + "\n"


def _row(sample: Sample) -> str:
    r = sample.row
    where = " ".join(w for w in (r.module, r.power_mode) if w)
    return f"| {r.id} | {r.origin} | {where} | {r.work} {r.precision} | {sample.time_us / 1000:.3f} |"
