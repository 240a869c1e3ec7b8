"""The summary common to all forms of a check report: verdict, headline and predicted cost."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Tuple

from edgedla.regions.report import CheckReport
from edgedla.regions.values import Cause, Placed
from edgedla.reports.layer_groups import is_unknown, unknowns
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.words import count, percent


class Headline(NamedTuple):
    """The answer in one line. `tone` is "good", "mixed", "bad" or "unknown"."""

    tone: str
    text: str


def verdict(report: CheckReport) -> Tuple[str, str]:
    """(tone, word) of the whole model, as pages and tables say it."""
    totals = report.totals
    if report.platform.dla_unknown:
        return "unknown", "Unknown whether there is a DLA"
    if not report.platform.has_dla:
        return "plain", "No DLA here"
    if report.strict is not None and report.strict.passes is False:
        return "bad", "Does not build"
    if unknowns(report) or (report.strict is not None and report.strict.passes is None):
        return "unknown", "Unknown in part"
    if not totals.layers_dla:
        return ("bad" if totals.layers_gpu else "plain"), "Nothing on the DLA"
    return ("mixed", "Partly on the DLA") if totals.layers_gpu else ("good", "All on the DLA")


def sentence(report: CheckReport) -> str:
    """The verdict with its numbers, in one or two short sentences."""
    totals = report.totals
    if report.platform.no_dla:
        return report.platform.no_dla
    if report.strict is not None and report.strict.passes is False:
        return headline(report).text
    live = totals.layers_dla + totals.layers_gpu
    text, n = f"{totals.layers_dla} of {live} layers run on the DLA{_refused(report)}.", unknowns(report)
    if n:
        text += f" {n} {'is' if n == 1 else 'are'} unknown and counted on the GPU."
    return text


def _refused(report: CheckReport) -> str:
    """`, 42 on the GPU`: the layers that surely run there."""
    refused = sum(layer.placed is Placed.GPU and not is_unknown(layer) for layer in report.layers)
    return f", {refused} on the GPU" if refused else ""


def headline(report: CheckReport) -> Headline:
    """The verdict on the whole model, for the requested mode."""
    totals = report.totals
    if report.platform.dla_unknown:
        return Headline("unknown", f"UNKNOWN WHETHER THERE IS A DLA: {report.platform.no_dla}")
    if not report.platform.has_dla:
        return Headline("bad", f"NO DLA HERE: {report.platform.no_dla}")
    if report.strict is not None and report.strict.passes is False:
        at = report.strict.first_offender or "the network as a whole"
        return Headline("bad", f"FAILS as a {build_kind(report)}, at {at}")
    live = totals.layers_dla + totals.layers_gpu
    share = f"{totals.layers_dla} of {live} layers"
    if totals.macs:
        share += f" ({percent(totals.share_macs_dla)} of MACs)"
    loadables = count(totals.regions, "loadable")
    if report.strict is not None and report.strict.passes is None and report.strict.unknowns:
        first, *others = report.strict.unknowns
        more = f" and {len(others)} more" if others else ""
        return Headline("unknown", f"NOT KNOWN whether the {build_kind(report)} succeeds: {first}{more}; {share} on the DLA")
    n = unknowns(report)
    if n:
        inside = f" in {loadables}" if totals.regions else ""
        return Headline("unknown", f"UNKNOWN IN PART: {share} on the DLA{inside}{_refused(report)}, {n} unknown")
    if report.strict is not None and report.strict.passes is None:
        return Headline("unknown", f"UNKNOWN whether the {build_kind(report)} succeeds; {share} on the DLA")
    if live == 0:
        return Headline("mixed", "NOTHING TO RUN: TensorRT works out the whole network when it builds the engine")
    if totals.layers_dla == 0:
        alone = "the only layer runs" if live == 1 else f"all {live} layers run"
        return Headline("bad", f"NOTHING ON THE DLA: {alone} on the GPU")
    if totals.layers_gpu == 0:
        return Headline("good", f"ALL ON THE DLA: {count(live, 'layer')} in {loadables}")
    casts = sum(layer.cause is Cause.TYPE_BORDER for layer in report.layers) == totals.layers_gpu
    what = " (Casts at its borders)" if casts else ""
    return Headline("mixed", f"PARTLY ON THE DLA: {share} in {loadables}, {totals.layers_gpu} on the GPU{what}")


def costs(report: CheckReport) -> Iterator[Tuple[str, str]]:
    """(label, text) of the predicted figures of one frame, as placed and on the GPU alone, and of slow layers."""
    from edgedla.reports.gains import axis_rows, beside, frame_word, way, worth_of

    worth, gpu = worth_of(report), way(report, "gpu")
    if worth is None or gpu is None:
        return
    rows = axis_rows(report)
    for row in rows:
        doubt = f" ({row.doubt})" if row.doubt else ""
        yield row.name, f"{row.value} against {row.base} on the GPU alone: {row.said}{doubt}"
    if not rows:
        cost = gpu.cost
        yield ("GPU alone", f"{milliseconds(cost.latency_us)} ±{cost.spread * 100:.0f} %, {significant(cost.energy_mj)} mJ")
    mode = f", {worth.mode_text}" if worth.mode_text else ""
    yield "cost", f"predicted per {frame_word(report)}, {gpu.cost.basis}{mode}; {'; '.join(beside(report))}"


def build_kind(report: CheckReport) -> str:
    """The kind of build that a mode without fallback makes."""
    return "standalone loadable" if report.mode == "standalone" else "build without GPU fallback"


def strict_answer(report: CheckReport) -> Tuple[str, int, str]:
    """The headline of the section on a mode without fallback, as a line of text: tone, indent, answer."""
    assert report.strict is not None
    passes = report.strict.passes
    tone = {True: "good", False: "bad", None: "unknown"}[passes]
    answer = {True: "succeeds", False: "fails", None: "unknown"}[passes]
    if passes and report.strict.findings:
        answer = "succeeds, if the following is done"
    what = build_kind(report)
    return tone, 0, f"{what[0].upper()}{what[1:]}: {answer}"


def subject(report: CheckReport) -> str:
    """Model, platform, precision and mode in one line."""
    p = report.platform
    release = f"TensorRT {p.release.trt_text}"
    if p.release.jetpack:
        release = f"JetPack {p.release.jetpack}, {release}"
    mode = {"fallback": "with GPU fallback", "strict": "without GPU fallback", "standalone": "standalone loadable"}
    return f"{report.model} on {p.module.title} ({p.module.id}), {release}, {report.precision.upper()}, {mode[report.mode]}"


def with_fixes(report: CheckReport) -> List[Tuple[int, str]]:
    """(indent, line) of what `edgedla fix` would gain, if the report has it."""
    fixed = report.with_fixes
    if fixed is None:
        return []
    after = fixed["after"]
    lines = [(0, ""), (0, "With `edgedla fix` (predicted)")]
    if not fixed["rewrites"]:
        return [*lines, (2, "nothing to rewrite: none applies, or none lowers the predicted cost")]
    lines.append((2, ", ".join(f"{n} {rewrite}" for rewrite, n in fixed["rewrites"].items())))
    text = f"{count(after['loadables'], 'loadable')}, {count(after['transitions'], 'transition')}, "
    text += f"{after['layers_dla']} of {after['layers']} layers and {percent(after['share_macs_dla'])} of MACs on the DLA"
    if fixed["speedup"]:
        times = fixed["speedup"]
        than = f"{times:.2f} times better than" if times >= 1 else f"{1 / times:.2f} times worse than"
        text += f"; {milliseconds(after['latency_us'])} per frame, {than} now"
    lines.append((2, text))
    if after["passes"] is not None:
        lines.append((2, f"a {report.mode} build {'passes' if after['passes'] else 'still fails'}"))
    return [*lines, *((2, text) for text in fixed["interface"])]
