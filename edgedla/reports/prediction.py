"""A prediction and a Pareto front in every form of report."""

from __future__ import annotations

from typing import Iterable, Iterator, List

from edgedla.errors import UsageError
from edgedla.placement.pareto import ParetoFront
from edgedla.placement.prediction.prediction import PredictedStream, Prediction
from edgedla.reports.gains import parts_text
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.text import Line, aligned, folded, print_lines
from edgedla.reports.words import count

FORMATS = ("text", "json")


def render_prediction(prediction: Prediction, form: str) -> str:
    """ "text" or "json" (the document).

    Raises:
        UsageError: another form.
    """
    if form == "json":
        return prediction.to_json()
    if form == "text":
        return _in_columns(_prediction_lines(prediction))
    raise UsageError(f"a prediction has no form {form!r}", where="--format", allowed=", ".join(FORMATS))


def render_front(front: ParetoFront, form: str) -> str:
    """ "text", "json" or "html" (a plot with its table).

    Raises:
        UsageError: another form.
    """
    if form == "json":
        return front.to_json()
    if form == "text":
        return _in_columns(_front_lines(front))
    if form == "html":
        from edgedla.reports.pareto_html import to_html

        return to_html(front)
    raise UsageError(f"a front has no form {form!r}", where="--format", allowed="text, json, html")


def _in_columns(lines: Iterable[str], width: int = 80) -> str:
    """Lines as text, folded to the width; continuations are indented further."""
    rows: List[Line] = [("", len(line) - len(line.lstrip()), line.lstrip()) for line in lines]
    return print_lines([part for row in rows for part in folded(row, width)], terminal=False)


def _prediction_lines(p: Prediction) -> Iterator[str]:
    mode = p.costs["mode_text"] or "no power mode"
    yield f"{p.platform['title']}, {p.precision.upper()}, {mode}, TensorRT {p.platform['trt']}: predicted, {p.basis}"
    several = len(p.streams) > 1
    rows = [["model", "on", "latency ms", *(["beside others"] if p.concurrent else []), "frames/s", "energy mJ"]]
    for s in p.streams:
        times = [f"{significant(s.latency.latency_us / 1e3)} ±{s.latency.spread:.0%}"]
        rate = significant(s.throughput_fps)
        if s.open_turns:
            times.append(" to ".join(significant(us / 1e3) for us in s.beside_us))
            rate = " to ".join(significant(1e6 / us) for us in reversed(s.beside_us))
        elif p.concurrent:
            times.append(f"{significant(s.together.latency_us / 1e3)} ±{s.together.spread:.0%}")
        rows.append([s.name, s.devices, *times, rate, f"{significant(s.energy_mj)} ±{s.latency.energy_spread:.0%}"])
    yield from aligned(rows)
    yield from (s.against_gpu for s in p.streams if s.against_gpu)
    if p.concurrent:
        # Not `side by side`: that is `place`'s term for one frame of each model; here the other models keep running.
        yield "beside others: ms of a frame while the other models keep running"
    together = f", together {significant(p.throughput_fps)}" if several else ""
    yield (
        f"frames/s are with one frame in flight{together}; with many, as in a pipeline: {significant(p.pipeline_fps)}"
        f"{' of each model' if several else ''} (±{p.period.spread:.0%})"
    )
    idle = float(p.costs.get("idle_power_w", 0.0))
    yield f"energy is above the board's idle power of {idle:g} W ({p.costs.get('idle_power_basis')})"
    yield (
        f"weights and activations of all engines {p.memory_bytes / (1 << 20):.1f} MiB (±{p.memory_spread:.0%}), "
        f"{'more than' if p.exceeds_module else 'of'} the {p.module_memory_bytes >> 30} GiB that CPU, GPU and DLA share"
    )
    for s in p.streams:
        yield from _memory_lines(s)
    for note in p.notes:
        yield f"  {note}"


def _memory_lines(s: PredictedStream) -> Iterator[str]:
    mib = 1 / (1 << 20)
    yield f"{s.name}: of {milliseconds(s.latency.latency_us)} {parts_text(s.parts)}"
    yield f"{s.name}: weights {s.weight_bytes * mib:.1f} MiB, activations {s.activation_bytes * mib:.1f} MiB"
    for n, x in enumerate(s.loadables):
        m = x.memory
        over = f"; exceeds {', '.join(m.over)}" if m.over else ""
        yield (
            f"  loadable {n} on {x.core}: {count(len(x.layers), 'layer')}, {milliseconds(x.cost.latency_us)} with its start, weights "
            f"{m.weight_bytes * mib:.1f} MiB, intermediate {m.intermediate_bytes * mib:.1f} MiB (±{m.spread:.0%}){over}"
        )
    for text in s.broken:
        yield f"  breaks a limit: {text}"


def _front_lines(front: ParetoFront) -> Iterator[str]:
    where = f"{front.platform['title']}, {front.precision.upper()}"
    yield f"{', '.join(front.models)} on {where}: {' against '.join(front.objectives)}, predicted"
    rows: List[List[str]] = [["latency ms", "energy mJ", "frames/s", "loadables", "optimum within this latency"]]
    for p in front.points:
        loadables = ", ".join(f"{core} {n}" for core, n in sorted(p.placement.figures.regions.items())) or "none"
        rows.append(
            [
                f"{significant(p.latency_us / 1e3)} ±{p.spread:.0%}",
                f"{significant(p.energy_mj)} ±{p.energy_spread:.0%}",
                significant(p.throughput_fps),
                loadables,
                front.optimality(p),
            ]
        )
    yield from aligned(rows)
    yield front.completeness
    yield from (f"  {note}" for note in front.notes)
