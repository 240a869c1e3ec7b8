"""The one command to run after a check."""

from __future__ import annotations

import shlex
from typing import List, Optional, Tuple

from edgedla.pasted import argument, file_of
from edgedla.regions.report import CheckReport
from edgedla.reports.worth import COSTED_LAYERS, of_the_data, other_precision, ratio, stays_behind, way, worth_of
from edgedla.rules.remedies import remedies
from edgedla.targets import target_options


def next_command(report: CheckReport, file: str) -> Optional[str]:
    """The one command to run next; None if there is none."""
    before = _before_fix(report, file)
    if before is not None:
        return before
    rest = f"{argument(file)} {_options(report)}"
    if worth_of(report) is None and of_the_data(report) and report.mode == "fallback":
        detector = any(layer.type == "NMS" for layer in report.layers)
        return f"edgedla fix {rest} --only decoder-cut --change-outputs -o {_fixed(file)}" if detector else None
    # INT8 scales are measured on FP32 tensors, so layers in the model's own narrow types come first.
    if report.narrow_layers or _fix_pays(report):
        purpose = "" if report.mode == "fallback" else f" --for {report.mode}"
        return f"edgedla fix {rest}{purpose} -o {_fixed(file)}"
    if not report.totals.layers_dla and not report.totals.layers_unknown:
        # Neither a placement nor a build for the DLA would differ from the GPU alone.
        return None
    own_ratio = ratio(report)
    whole = report.strict is not None and report.strict.passes
    # A build of such a mode would stop at the first refused layer; `place` gives that layer to the GPU.
    fails = report.strict is not None and report.strict.passes is False
    if own_ratio is not None and not whole and (fails or not own_ratio.wins):
        objective = "" if own_ratio.wins else " --objective throughput"
        return f"edgedla place {rest}{report.given_costs.measured()}{objective}"
    if fails:
        return None
    return f"edgedla build {argument(file)} {_build_options(report)} -o {shlex.quote(_stem(file))}"


def asks_for_fix(report: CheckReport) -> bool:
    """True if the next command depends on what `edgedla fix` gains."""
    return _before_fix(report, "") is None


def _before_fix(report: CheckReport, file: str) -> Optional[str]:
    """The command needed before any rewrite: another module, sizes, the cost, scales instead of Q/DQ, INT8."""
    if not report.platform.has_dla:
        return "edgedla targets"
    given, file, platform = file, argument(file), target_options(report.platform)
    int8 = _int8(report)
    # A note with "; give --..." names the options that fix the open sizes. Its letters stand for numbers only the user knows.
    closing = [note.split("; give ")[1] for note in report.notes if "; give --" in note]
    if worth_of(report) is None and (closing or any(str(layer.cause) == "open_sizes" for layer in report.layers)):
        options = f"{platform}{int8}{_mode(report)}{_power(report)}{report.given_costs.measured()}"
        return f"edgedla check {file} {options} {report.sizes.options(closing)}".rstrip()
    if worth_of(report) is None and len(report.layers) > COSTED_LAYERS:
        return f"edgedla check {file} {_options(report)}{_mode(report)} --cost"
    if turns_qdq(report):
        return f"edgedla quantize {file} {platform}{_sizes(report)} -o {shlex.quote(_stem(given) + '-int8')}"
    own_ratio = ratio(report)
    if _int8_is_faster(report) and own_ratio is not None and not own_ratio.wins:
        return f"edgedla check {file} {platform} --precision int8{_mode(report)}{_power(report)}{_sizes(report)}"
    return None


def _int8_is_faster(report: CheckReport) -> bool:
    """True if INT8 changes the answer for the better; where it moves layers to the GPU, a frame may take longer."""
    own, int8 = way(report, "tensorrt"), way(report, "tensorrt", "int8")
    if own is None or int8 is None or other_precision(report) != "int8":
        return False
    return int8.cost.latency_us < own.cost.latency_us


def turns_qdq(report: CheckReport) -> bool:
    """True if Q/DQ nodes keep layers off the DLA and `edgedla quantize` can turn them into scales; TensorRT 11 requires Q/DQ.

    `quantize` takes pairs: it refuses the whole model for one node without a partner.
    """
    if report.platform.release.strongly_typed:
        return False
    fixes = {fix for change in report.ranking for fix in change.fixes}
    fixes.update(fix for layer in report.layers for finding in layer.findings for fix in finding.fixes)
    return "strip-qdq" in fixes and "float-border" not in fixes


def _options(report: CheckReport) -> str:
    """The options that repeat the report's platform, precision, power mode and sizes."""
    return f"{target_options(report.platform)}{_int8(report)}{_power(report)}{_sizes(report)}"


def _build_options(report: CheckReport) -> str:
    """As `_options`, for `build`: it takes no power mode, and its DLA modes differ from those of `check`."""
    mode = {"fallback": "", "strict": " --reformat-free", "standalone": " --mode standalone"}[report.mode]
    core = f" --dla-core {report.core}" if report.core else ""
    return f"{target_options(report.platform)}{_int8(report)}{mode}{core}{_sizes(report)}"


def _int8(report: CheckReport) -> str:
    return " --precision int8" if report.precision == "int8" else ""


def _mode(report: CheckReport) -> str:
    return "" if report.mode == "fallback" else f" --mode {report.mode}"


def _power(report: CheckReport) -> str:
    """The power mode that was asked for; "" for the module's default."""
    worth = worth_of(report)
    mode = worth.power_mode if worth is not None else report.given_costs.power_mode
    return f" --power-mode {mode}" if mode and mode != report.platform.module.default_power_mode else ""


def _sizes(report: CheckReport) -> str:
    return f" {report.sizes.options()}" if report.sizes.options() else ""


def _fix_pays(report: CheckReport) -> bool:
    """As `edgedla fix` judges; if that is unknown, True if the ranked changes have rewrites."""
    gain = report.fix_gain
    if gain is not None:
        return gain.pays and not stays_behind(report, gain.latency_us)
    after_us = report.ranking[-1].latency_us if report.ranking else None
    return bool(rewrites_of(report)) and not stays_behind(report, after_us)


def rewrites_of(report: CheckReport) -> Tuple[str, ...]:
    """The rewrites of `edgedla fix` that make the ranked changes."""
    all_remedies = remedies()
    names: List[str] = []
    for change in report.ranking:
        for fix in change.fixes:
            names += all_remedies[fix].rewrites if fix in all_remedies else ()
    return tuple(dict.fromkeys(names))


def _stem(file: str) -> str:
    name = file_of(file).replace("\\", "/").rsplit("/", 1)[-1]
    return name[:-5] if name.lower().endswith(".onnx") else name


def _fixed(file: str) -> str:
    return shlex.quote(f"{_stem(file)}-fixed.onnx")
