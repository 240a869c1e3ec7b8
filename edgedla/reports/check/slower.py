"""The check's sentences on changes that it does not rank, and on those that `edgedla fix` makes."""

from __future__ import annotations

from edgedla.regions.report import CheckReport
from edgedla.regions.values import ROUGH_ERROR
from edgedla.reports.check.next_command import TRIED_LAYERS, rewrites_of, turns_qdq
from edgedla.reports.gains import stays_behind, way
from edgedla.reports.page.numbers import milliseconds
from edgedla.reports.words import made_by


def nothing_to_change(report: CheckReport) -> str:
    """The sentence shown if no change is ranked although layers are refused."""
    gain = report.fix_gain
    if gain is not None and (gain.pays or gain.cut_us is not None or gain.rough_us is not None) and report.with_fixes is None:
        return by_fix(report)
    if report.slower is not None:
        return "Nothing left to change: no remedy saves time."
    return "Nothing is worth changing: no known remedy brings more than its loadables cost."


def by_fix(report: CheckReport, above: bool = True) -> str:
    """What `edgedla fix` gains, if that was computed; "" if there is nothing to add. `above`: the ranked changes stand there."""
    if turns_qdq(report) and report.ranking:
        return "`edgedla quantize` turns Q/DQ into scales."
    gain = report.fix_gain
    if gain is None and rewrites_of(report) and len(report.layers) > TRIED_LAYERS and report.with_fixes is None:
        return f"Above {TRIED_LAYERS} layers, `edgedla check --with-fixes` tries what `edgedla fix` gains."
    if gain is None or report.with_fixes is not None:
        return ""
    dla = way(report, "tensorrt")
    now = "" if dla is None else milliseconds(dla.cost.latency_us)
    if gain.cut_us is not None and now:
        return f"`edgedla fix --change-outputs` leaves the decoder to the host: {now} become {milliseconds(gain.cut_us)} (predicted)."
    if gain.rough_us is not None and now:
        return (
            f"`edgedla fix --approximate {ROUGH_ERROR:g}` brings a frame from {now} to {milliseconds(gain.rough_us)} or less (predicted); "
            f"each place differs by at most {ROUGH_ERROR:.0%} (relative L2), so measure the accuracy."
        )
    if not gain.pays:
        names = rewrites_of(report)
        if not names:
            return "No rewrite of `edgedla fix` makes these changes." if report.ranking else ""
        return f"`edgedla fix` knows such changes ({', '.join(names)}), but predicts no gain from these alone."
    if report.mode != "fallback":
        return f"`edgedla fix --for {report.mode}` brings this build nearer (predicted)."
    if not now or gain.latency_us is None:
        return "`edgedla fix` lowers the number of loadables (predicted)."
    ranked = report.ranking[-1].latency_us if report.ranking else None
    added = ""
    if above and ranked is not None and ranked < gain.latency_us:
        added = " Its rewrites add layers, which the changes above leave out."
    gpu_note = " The GPU alone stays faster." if stays_behind(report, gain.latency_us) else ""
    return f"`edgedla fix` brings a frame from {now} to {milliseconds(gain.latency_us)} or less (predicted).{added}{gpu_note}"


def slower_changes(report: CheckReport) -> str:
    """The changes left out because a frame would take longer; "" if there are none."""
    slower = report.slower
    if slower is None:
        return ""
    with_them, without = milliseconds(slower.latency_us), milliseconds(slower.without_us)
    instead = f"{with_them} instead of {without}" if with_them != without else f"as long, {without}"
    if with_them != without and slower.latency_us < slower.without_us:
        instead = f"hardly less, {instead}"
    known = [fix for fix in slower.fixes if made_by(report, fix)]
    by = f" `edgedla fix` makes {', '.join(known)} where that pays." if known else ""
    return f"Not advised: {', '.join(slower.fixes)}. More layers on the DLA, but a frame takes {instead} " f"(predicted).{by}"
