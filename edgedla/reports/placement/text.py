"""A placement as text: answer, predictions beside the baselines, timeline, then every layer with its reason."""

from __future__ import annotations

import itertools
import re
from typing import Dict, Iterator, List, Sequence, Tuple

from edgedla.placement.result.placement import WHY, Baseline, Figures, PlacedLayer, PlacedModel, Placement
from edgedla.reports.page.numbers import best_found, megabytes, significant
from edgedla.reports.placement.timeline import timeline_lines
from edgedla.reports.text import Line, aligned, clean, folded, print_lines
from edgedla.reports.words import count

#: Objective -> what it minimises, for the headline.
GOALS = {
    "latency": "latency per frame",
    "throughput": "time between frames",
    "energy": "energy per frame",
    "gpu-time": "GPU time per frame",
    "makespan": "time for one frame of every model",
}


#: Short names of the baselines.
SHORT = {
    "own": "your model, GPU alone",
    "gpu": "GPU alone",
    "dla-fallback": "all legal on DLA0",
    "tensorrt": "TensorRT's default",
    "one-per-device": "one per device",
}
#: Columns of text.
WIDTH = 80
#: Groups of layers with one reason on the first screen.
GROUPS = 8
_NUMBERS = re.compile(r"[\d.]+")


def to_text(placement: Placement, files: Sequence[str] = (), terminal: bool = False, everything: bool = False) -> str:
    """The report; for a terminal in colour (unless NO_COLOR is set)."""
    lines = list(report_lines(placement, everything))
    if not everything:
        lines = [part for line in lines for part in folded(line, WIDTH)]
    return print_lines(lines, terminal)


def value_text(placement: Placement) -> str:
    """The objective's value with its unit."""
    value = placement.proof.value
    if placement.frames_per_second and placement.objective == "gpu-time":
        return f"{significant(value / 1e4)} % busy"
    if placement.frames_per_second:
        idle = float(placement.costs.get("idle_power_w", 0.0))
        return f"{significant(idle + value)} W, of which {idle:g} W idle"
    if placement.objective == "energy":
        return f"{significant(value)} mJ"
    if placement.objective == "throughput" and value > 0:
        rates = ", ".join(significant(m.rate * 1e6 / value) for m in placement.models) if has_rates(placement) else ""
        return f"{significant(value)} us ({rates or significant(1e6 / value)} frames/s)"
    return f"{significant(value)} us"


def has_rates(placement: Placement) -> bool:
    """Whether a period is another number of frames than one of each model."""
    return any(m.rate != 1 for m in placement.models)


def proof_text(placement: Placement) -> str:
    """How far the value is proven."""
    proof = placement.proof
    among = " with one core per model" if proof.one_core_per_model else ""
    if proof.optimal:
        return f"proven optimum{among} under the cost model"
    if proof.bound <= 0:
        return "best found, no bound proven"
    return f"{best_found(proof.gap)}{among}"


def why_unproven(placement: Placement) -> str:
    """Why the search ended before a proof; "" after one, or within the gap that was asked for."""
    proof = placement.proof
    if proof.optimal:
        return ""
    if proof.solver == "none":
        return "too many layers for a search"
    return "stopped by the time limit" if proof.timed_out else ""


def headline(placement: Placement) -> Tuple[str, str]:
    """(what was placed on which platform, how good the placement is): one line each."""
    names = ", ".join(clean(m.name) for m in placement.models)
    p = placement.platform
    release = f"TensorRT {p['trt']}" + (f", JetPack {p['jetpack']}" if p.get("jetpack") else "")
    mode = f"{placement.costs.get('mode_text', placement.power_mode)}, " if placement.power_mode else ""
    subject = f"{names} on {p['title']}, {placement.precision.upper()}, {mode}{release}"
    return subject, f"{goal_text(placement)}: {value_text(placement)}, {proof_text(placement)}"


def goal_text(placement: Placement) -> str:
    """What the objective minimises."""
    if placement.frames_per_second:
        rates = ", ".join(f"{fps:g}" for fps in placement.frames_per_second)
        return f"{'GPU' if placement.objective == 'gpu-time' else 'board power'} at {rates} frames/s"
    goal = GOALS[placement.objective]
    if placement.objective != "throughput" or len(placement.models) == 1:
        return goal
    if has_rates(placement):
        frames = (f"{m.rate:g} of {clean(m.name)}" for m in placement.models)
        goal = f"period of {' and '.join(frames)}"
    else:
        goal = f"{goal} of each model"
    return f"{goal}, one of each in flight" if placement.in_flight == "one" else goal


def report_lines(placement: Placement, everything: bool = False) -> Iterator[Line]:
    """The report, line by line."""
    subject, answer = headline(placement)
    yield "title", 0, subject
    yield ("good" if placement.proof.optimal else "mixed"), 0, answer
    if placement.against_gpu:
        yield "", 0, placement.against_gpu
    yield from (("", 2, clean(note)) for note in placement.notes)
    yield "", 0, ""
    yield from _table(placement)
    yield "", 0, ""
    yield "title", 0, "Timeline"
    yield from (("", 2, line) for line in timeline_lines(placement))
    for model in placement.models:
        yield "", 0, ""
        yield from _model(model, everything)
    yield "", 0, ""
    yield (
        "dim",
        0,
        (
            f"basis: {placement.figures.latency.basis} costs, rules {placement.rules_version}; predictions, not "
            "measurements: ± is one standard deviation, and the errors of the columns go together"
        ),
    )
    seconds = f"{placement.solve_time_s:.2f} s, " if placement.rounds else ""
    why = why_unproven(placement)
    stopped = f", {why}" if why else ""
    yield "dim", 0, f"solver: {placement.proof.solver}, {seconds}gap {placement.proof.gap:.2%}{stopped}"


def _table(placement: Placement) -> Iterator[Line]:
    several = len(placement.models) > 1
    per_second = "periods/s" if has_rates(placement) else "frames/s"
    head = ["one frame", "latency us", per_second, "energy mJ", "loadables"]
    if several:
        head.insert(3, "makespan")
    table = [head, _row("this placement", placement.figures, several, "")]
    for b in placement.baselines:
        table.append(_row(_short_title(b, placement), b.figures, several, "" if not b.broken else " *"))
    lines, apart = list(aligned(table)), False
    if several and max(map(len, lines)) > WIDTH - 2:
        lines, apart = list(aligned([row[:-1] for row in table])), True
    yield from (("title" if i == 0 else "", 2, line) for i, line in enumerate(lines))
    for b in placement.baselines:
        if b.broken:
            yield "dim", 2, f"* {_short_title(b, placement)} breaks a limit: {_broken(b)}"
    if several:
        yield "", 2, "makespan: us for one frame of every model, side by side"
        cores = " + ".join(placement.figures.regions)
        counts = ", ".join(f"{row[0]} {row[-1]}" for row in table[1:])
        if cores:
            yield "", 2, f"loadables on {cores}: {counts}" if apart else f"loadables: on {cores}"
    loads = (f"{d} {significant(c.latency_us)} us" for d, c in placement.figures.loads.items())
    frames = "one frame of each model" if placement.in_flight == "one" else "many frames"
    of_each = " of each model" if several else ""
    yield "", 2, f"{per_second}{'' if has_rates(placement) else of_each}: with {frames} in flight"
    yield "", 2, f"busy per period: {', '.join(loads)}"
    if placement.frame_latency_us:
        times = ", ".join(f"{significant(t)} us" for t in placement.frame_latency_us)
        where = "with its waits" if placement.in_flight == "one" else "through the pipeline"
        yield "", 2, f"latency per frame {where}: {times}"


def _short_title(baseline: Baseline, placement: Placement) -> str:
    """Its title where there is no room for the long one, with the first core that may be used."""
    if baseline.name == "gpu" and any(b.name == "own" for b in placement.baselines):
        return "this one, GPU alone"
    return SHORT.get(baseline.name, baseline.title).replace("DLA0", next(iter(placement.figures.regions), "DLA0"))


def _broken(baseline: Baseline) -> str:
    more = len(baseline.broken) - 1
    return clean(baseline.broken[0]) + (f" (and {more} more)" if more else "")


def _row(name: str, figures: Figures, several: bool, mark: str) -> List[str]:
    row = [
        name + mark,
        _spread(figures.latency.latency_us, figures.latency.spread),
        _spread(figures.throughput_fps, figures.period.spread),
        _spread(figures.energy.energy_mj, figures.energy.energy_spread),
        ", ".join(f"{core} {n}" for core, n in figures.regions.items()) or "-",
    ]
    if several:
        row[-1] = " + ".join(str(n) for n in figures.regions.values()) or "-"
        row.insert(3, "-" if figures.makespan_us is None else significant(figures.makespan_us))
    return row


def _spread(value: float, spread: float) -> str:
    return f"{significant(value)} ±{spread:.0%}"


def _model(model: PlacedModel, everything: bool) -> Iterator[Line]:
    counts = {w: sum(x.why == w for x in model.layers) for w in WHY}
    folded_count = counts.pop("folded")
    reasons = ", ".join(f"{n} {w}" for w, n in counts.items() if n)
    folded_away = f", {folded_count} folded" if folded_count else ""
    yield "title", 0, f"{clean(model.name)}: {count(len(model.running), 'layer')} ({reasons}){folded_away}"
    if model.regions:
        yield from (("", 2, line) for line in aligned(_loadables(model, everything)))
        moved = sum(t.cost.latency_us for t in model.transitions)
        size = sum(t.size_bytes for t in model.transitions)
        n = count(len(model.transitions), "transition")
        yield "", 2, f"{n} with the network's inputs and outputs: {megabytes(size)}, {significant(moved)} us"
        if model.call is not None:
            call = model.call
            yield ("", 2, f"the call of the engine, once per frame: {significant(call.cost.latency_us)} us of {call.device}")
        if model.torn:
            times = ", ".join(f"{significant(x.cost.latency_us)} us of {x.device}" for x in model.torn)
            yield "", 2, f"operators that are divided between devices cost more: {times}"
    yield from _every_layer(model) if everything else _by_reason(model)


def _loadables(model: PlacedModel, everything: bool) -> List[List[str]]:
    """The table of a model's loadables, with shortened names of first and last layers unless everything is wanted."""
    # A check, a build and a prediction count layers; the limits count layers after TensorRT's fusions.
    fused = any(r.size != len(r.layers) for r in model.regions)
    table = [["loadable", "on", "layers (fused)" if fused else "layers", "us with start"]]
    for r in model.regions:
        layers = f"{len(r.layers)} ({r.size})" if fused else str(len(r.layers))
        table.append([str(r.id), r.device, layers, significant(r.cost.latency_us)])
    room = WIDTH - 2 - sum(2 + max(len(cell) for cell in column) for column in zip(*table))
    table[0].append("from ... to")
    for row, r in zip(table[1:], model.regions):
        first, last = (clean(model.layers[i].name) for i in (r.layers[0], r.layers[-1]))
        row.append(f"{first} ... {last}" if everything else _short(first, last, room))
    return table


def _by_reason(model: PlacedModel) -> Iterator[Line]:
    """Numbers of layers per device and reason; reasons that differ only in numbers are one. Largest groups first."""
    groups: Dict[Tuple[str, str, str], List[str]] = {}
    for layer in model.layers:
        device, why, reason = _same(layer)
        groups.setdefault((device, why, _NUMBERS.sub("0", reason)), []).append(reason)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for (device, why, _), reasons in ordered[:GROUPS]:
        example = "" if len(set(reasons)) == 1 else "for example "
        yield "", 2, f"{device}  {len(reasons)} {why}: {example}{clean(reasons[0])}"
    if len(ordered) > GROUPS:
        rest = sum(len(names) for _, names in ordered[GROUPS:])
        yield "dim", 2, f"{count(rest, 'layer')} for {count(len(ordered) - GROUPS, 'other reason')} (--all)"


def _every_layer(model: PlacedModel) -> Iterator[Line]:
    table = [["layers", "device", "why", "reason"]]
    for (device, why, reason), group in itertools.groupby(model.layers, key=_same):
        layers = list(group)
        name = clean(layers[0].name) + (f" ... {clean(layers[-1].name)} ({len(layers)})" if len(layers) > 1 else "")
        table.append([name, device, why, clean(reason)])
    yield from (("", 2, line) for line in aligned(table))


def _short(first: str, last: str, width: int) -> str:
    """First and last layer of a loadable in a narrow column: the ends of their names."""
    each = (width - 5) // 2
    ends = [name if len(name) <= each else f"…{name[1 - each :]}" for name in (first, last)]
    return f"{ends[0]} ... {ends[1]}" if first != last else ends[0]


def _same(layer: PlacedLayer) -> Tuple[str, str, str]:
    return ("-" if layer.why == "folded" else layer.device), layer.why, layer.reason
