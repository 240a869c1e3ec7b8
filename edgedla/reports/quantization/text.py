"""The texts of `edgedla quantize` and `edgedla evaluate`. Every INT8 error is marked as simulated."""

from __future__ import annotations

import math
from typing import Dict, List, Sequence

from edgedla.accuracy.channels.measure import ChannelGroup
from edgedla.accuracy.channels.repair import SPLIT
from edgedla.accuracy.evaluate import Evaluation, Score
from edgedla.accuracy.result import GIVEN, Quantized
from edgedla.accuracy.triage import TensorError
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.scale_rules import scale_rules
from edgedla.reports.page.numbers import milliseconds
from edgedla.reports.text import labelled, print_lines
from edgedla.text.printable import number
from edgedla.vocabulary import LEAST_CHANNEL_DB

_WORST = 8
#: Most groups of channels that starve to list.
_GROUPS = 4
#: Column at which the text behind a label begins.
_LABEL = 10


def quantized_text(result: Quantized, terminal: bool = False) -> str:
    """The result as lines."""
    return print_lines(labelled(_lines(result), _LABEL, terminal), terminal)


def evaluation_text(result: Evaluation, terminal: bool = False) -> str:
    """The evaluation as lines."""
    lines = [f"samples   {result.detail}", score_text(result.score)]
    if result.against is not None and result.difference is not None:
        value, low, high = result.difference
        lines.append(score_text(result.against))
        lines.append(f"difference {_signed(value)}  (95 %: {_signed(low)} to {_signed(high)})")
    if result.judgement is not None:
        j = result.judgement
        answer = {"shown": "yes", "exceeded": f"NO: it falls by {number(j.drop, '.4g')}", "not shown": f"NOT SHOWN: {j.why}"}
        lines.append(f"judged    falls by at most {j.max_drop:g}: {answer[j.answer]}")
    elif result.blind:
        lines.append(f"note      the samples notice little: {'; '.join(result.blind)}")
    return print_lines(labelled(lines, _LABEL, terminal), terminal)


def _signed(value: float) -> str:
    return number(value, "+.4f")


def score_text(score: Score) -> str:
    basis = {"fp32": f"{score.computed_in} by ONNX Runtime", "simulated": "SIMULATED", "measured": "measured on a device"}[
        score.basis
    ]
    network = basis if basis.startswith(score.network) else f"{score.network}, {basis}"
    return (
        f"{score.metric:9} {number(score.value, '.4f')}  (95 %: {number(score.low, '.4f')} to {number(score.high, '.4f')}, "
        f"{score.samples} samples)  "
        f"{network}"
    )


def db(value: float) -> str:
    """An SQNR with one decimal; `exact` if there is no error, `not measured` for NaN."""
    if math.isnan(value):
        return "not measured"
    if math.isinf(value):
        return "exact" if value > 0 else "no signal"
    return f"{number(value, '.1f')} dB"


def _lines(r: Quantized) -> List[str]:
    platform = r.platform
    lines = [
        *_channels(r),
        f"network   {r.network}",
        f"for       {platform['target']}, TensorRT {platform['trt']}, INT8",
        f"scales    {r.method}{', judged' if r.method == GIVEN else ''} on {r.samples}"
        + (" RANDOM INPUT: accuracy means nothing" if r.synthetic else ""),
        "error     outputs not measured: the build ran no sample"
        if math.isnan(r.sqnr_db)
        else f"error     outputs {db(r.sqnr_db)} SQNR on {r.holdout} (SIMULATED)",
    ]
    if r.channels:
        worst = r.channels[0]
        lines.append(f"channels  worst group {group_text(worst)}")
    if r.judged and r.methods:
        lines.append(f"judged    steps {judged(r)}")
    if r.methods:
        lines.append("methods   " + ", ".join(f"{name} {db(value)}" for name, value in r.methods.items()))
    if r.nodes:
        n = r.nodes
        lines.append(f"nodes     {n['dla_int8']} INT8 and {n['dla_fp16']} FP16 on the DLA, {n['gpu_fp32']} on the GPU")
    lines += [score_text(score) for score in r.scores]
    if r.met is not None:
        word = f"NOT SHOWN: {r.not_shown}" if r.not_shown else "met" if r.met else "NOT met"
        lines.append(f"goal      {r.goal}: {word}")
    lines += _coverage(r)
    if r.predicted_us:
        p = r.predicted_us
        lines.append(
            f"time      layers on the DLA {_time(p['int8'])} per frame in INT8, {_time(p['fp16'])} in FP16; "
            f"steps add {_time(p['extra'])}, missing scales {_time(p['missing'])} (predicted: layers alone, without "
            "reformats and loadable starts)"
        )
    for s in r.steps:
        cost = f", {number(s.extra_us, '+.1f')} us predicted" if s.extra_us else ""
        outcome = "kept" if s.kept else "not kept"
        lines.append(f"tried     {s.name}: {db(s.before_db)} to {db(s.sqnr_db)}{cost}, {outcome}; {s.detail}")
    if r.precisions:
        lines.append("fp16      " + ", ".join(f"{n}{' (GPU)' if n in r.devices else ''}" for n in sorted(r.precisions)))
    lines += _worst(r.errors)
    for f in r.fp16:
        what = f"reaches {f.absmax:.4g}, FP16 ends at 65504" if f.problem == "overflow" else f"{db(f.sqnr_db)} in FP16"
        sign = "divide by" if f.shift < 0 else "multiply by"
        lines.append(f"FP16      {f.tensor} {what}: {sign} 2^{abs(f.shift)}, or keep its layers on the GPU")
    if r.fp16:
        lines.append("          --repair-fp16 does the first, and where it cannot the second")
    lines += [f"note      {note}" for note in r.notes]
    return lines


def _channels(r: Quantized) -> List[str]:
    """The dead groups of channels, those that a repair gave back, then those that starve."""
    cure = "more samples, or another --method" if r.methods else "without --quick it is repaired where possible"
    taken = "taken all the same (--force)" if r.forced else f"`build` refuses it: {cure}"
    lines = [f"DEAD      {group_text(g)}; {taken}" for g in r.dead]
    starving = [g for g in r.channels if g.few_codes and g not in r.dead]
    fixed = [f"repaired  {repaired(r)}"] if r.revived else []
    for label, groups, more in (("was dead", r.revived, fixed), ("starving", starving, [])):
        lines += [f"{label}  {group_text(g)}" for g in groups[:_GROUPS]]
        lines += [f"          and {len(groups) - _GROUPS} groups more"] * (len(groups) > _GROUPS) + more
    seen = {g.tensor for g in r.channels}
    # Repairs may have changed the scale since its error was measured.
    inside = [
        e for e in r.errors if e.alone_db < LEAST_CHANNEL_DB and e.tensor not in seen and r.absmax.get(e.tensor) == e.absmax
    ]
    for e in sorted(inside, key=lambda e: e.alone_db)[:_GROUPS]:
        scale = number(e.absmax / INT8_MAX, ".3g")
        lines.append(f"starving  {e.tensor}, inside: {db(e.alone_db)} SQNR alone on its scale of {scale} (SIMULATED)")
    return lines


def repaired(r: Quantized) -> str:
    """What gave dead groups of channels back, and what it costs."""
    step = next(s for s in reversed(r.steps) if s.kept and s.name.startswith(SPLIT))
    cost = f"; adds {_time(step.extra_us)} per frame (predicted)" if r.predicted_us else ""
    return f"by {step.name}, {step.detail}; the worst group has {db(r.channels[0].sqnr_db)} now (SIMULATED){cost}"


def group_text(g: ChannelGroup) -> str:
    """One group of channels: where it is, and what INT8 leaves of it."""
    many = f"{len(g.channels)} channel{'s' * (len(g.channels) != 1)}"
    of = "" if g.tensor == g.output else f" of {g.tensor}"
    by = f" ({g.made_by})" if g.made_by else ""
    scale = "" if g.scale is None else f", largest {number(g.absmax, '.3g')} on a scale of {number(g.scale, '.3g')}"
    codes = f"; {g.one_code} round to one level, {g.few_codes} to fewer than 8" if g.few_codes else ""
    return f"output {g.output}: {many}{of}{by} {db(g.sqnr_db)} SQNR (SIMULATED){scale}{codes}"


def judged(r: Quantized) -> str:
    """The samples that steps were judged by, as distinct from those of the result."""
    if r.judged != r.holdout:
        return f"by {r.judged}, none of which is in the error"
    return "by the same samples, so the error is optimistic; of 32 held-out samples or more, half judge the steps"


def _time(time_us: float) -> str:
    return milliseconds(time_us) if time_us else "nothing"


def _coverage(r: Quantized) -> List[str]:
    counts = r.coverage.counts
    names = {rule.id: rule.name for rule in (*scale_rules().equal, *scale_rules().missing)}
    by_rule: Dict[str, int] = {}
    for t in r.coverage.tensors:
        if t.rule:
            by_rule[t.rule] = by_rule.get(t.rule, 0) + 1
    by_rule_text = ", ".join(f"{rule} {names[rule]} {count}" for rule, count in sorted(by_rule.items()))
    total = sum(counts.values())
    lines = [
        f"coverage  {total - counts.get('missing', 0)} of {total} tensors have a scale: "
        + ", ".join(f"{count} {origin}" for origin, count in counts.items())
        + (f" ({by_rule_text})" if by_rule_text else "")
    ]
    for t in sorted(r.coverage.missing, key=lambda t: -r.missing_us.get(t.tensor, 0.0)):
        lost = r.missing_us.get(t.tensor, 0.0)
        cost = f", {number(lost / 1e3, '+.3f')} ms predicted" if lost else ""
        lines.append(f"missing   {t.tensor}: {t.why}; {', '.join(t.layers)} leave{'s' * (len(t.layers) == 1)} INT8{cost}")
    return lines


def _worst(errors: Sequence[TensorError]) -> List[str]:
    rows = sorted(errors, key=lambda e: (-(e.output_share or 0.0), -e.loss_db))[:_WORST]
    if not rows:
        return []
    lines = [f"{'worst tensors, before steps (SIMULATED)':44}{'alone':>9}{'best':>9}{'outputs':>9}{'so far':>9}{'cosine':>9}"]
    for e in rows:
        share = "-" if not e.output_share else number(-10 * math.log10(e.output_share), ".1f")
        so_far = "-" if e.accumulated_db is None else number(e.accumulated_db, ".1f")
        cosine = "-" if e.cosine is None else number(e.cosine, ".4f")
        name = e.tensor if len(e.tensor) <= 41 else "..." + e.tensor[-38:]
        mark = " !" if e.suspect else ""
        alone, best = number(e.alone_db, ">9.1f"), number(e.best_db, ">9.1f")
        lines.append(f"  {name + mark:42}{alone}{best}{share:>9}{so_far:>9}{cosine:>9}")
    lines.append("  dB; alone: this tensor rounded; best: with its best scale; outputs: its part there; so far: all before too")
    return lines
