"""Assertions for a project's own tests: `assert_fits("model.onnx", target="orin-nx-16gb", min_dla_macs=0.95)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Union

from edgedla.regions.report import CheckReport

#: Layers that a failed assertion names.
_MOST_NAMED = 10


def assert_fits(
    model: Union[str, Path, bytes, Any],
    *,
    target: Optional[str] = None,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
    mode: str = "fallback",
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    fail_on: str = "",
    min_dla_macs: Optional[float] = None,
    max_loadables: Optional[int] = None,
    max_gpu_layers: Optional[int] = None,
    max_latency_us: Optional[float] = None,
    max_energy_mj: Optional[float] = None,
    baseline: Union[None, str, Path] = None,
) -> CheckReport:
    """Checks a model as `edgedla check` does and fails, naming layers and rules, where it does not fit.

    Args:
        model, target, jetpack, trt, precision, mode, shapes, batch: as in `edgedla.check`.
        fail_on: "unsupported", "fallback", "unknown" or "never"; by default unsupported, and never beside a limit or a baseline.
        min_dla_macs: least share of the multiply-accumulates on the DLA, 0 to 1.
        max_loadables: on one core. max_gpu_layers: layers off the DLA.
        max_latency_us, max_energy_mj: predicted, of one frame as TensorRT places the model.
        baseline: a file of `edgedla check --baseline FILE --update-baseline`, which holds the model, given as a path, on this platform;
            nothing in it may have got worse.

    Returns:
        The report, with its predicted cost where a limit or the baseline needs one.

    Raises:
        AssertionError: it does not fit.
        UsageError, ModelError, DocumentError: the question, the model or the baseline is wrong.
    """
    from edgedla.errors import UsageError
    from edgedla.placement.check_cost import check
    from edgedla.reports import gate
    from edgedla.reports.gate.baseline import against, read_baseline
    from edgedla.reports.gate.thresholds import Thresholds
    from edgedla.vocabulary import one_of

    limits = Thresholds(min_dla_macs, max_loadables, max_gpu_layers, max_latency_us, max_energy_mj)
    for name, limit in limits._asdict().items():
        most = 1.0 if name == "min_dla_macs" else float("inf")
        if limit is not None and not 0 <= limit <= most:
            raise UsageError(f"{limit!r} is not a limit", where=name, allowed=f"0 to {most:g}")
    unless_said = "never" if baseline is not None or limits != Thresholds() else "unsupported"
    fail_on = one_of("fail_on", fail_on or unless_said, gate.FAIL_ON)
    if baseline is not None and not isinstance(model, (str, Path)):
        raise UsageError("a baseline knows models by their path", where="model", allowed="the path of an ONNX file")
    cost = limits.needs_cost or baseline is not None
    report = check(
        model, target=target, jetpack=jetpack, trt=trt, precision=precision, mode=mode, shapes=shapes, batch=batch, cost=cost
    )
    faults: List[str] = list(limits.failures(report))
    if not gate.passes(report, fail_on):
        faults += _layers(report, fail_on) or ["the build without GPU fallback does not succeed"]
    if baseline is not None:
        (answer,) = against(read_baseline(str(baseline)), {str(model): report}, ())
        faults += [f"worse than {baseline}: {sentence}" for sentence in answer.change.worse]
        if not answer.known:
            # Another name or precision would else never fail.
            faults.append(f"{baseline} does not hold it on {answer.place}: `edgedla check --update-baseline` adds it")
    if faults:
        off = [] if not gate.passes(report, fail_on) else _layers(report, "unknown")
        where = f"{report.model} does not fit {report.platform.module.id}:"
        raise AssertionError("\n  ".join([where, *faults, *off]))
    return report


def _layers(report: CheckReport, fail_on: str) -> List[str]:
    """The layers that count, with their rules and their place in the user's code."""
    from edgedla.reports import gate, layer_groups

    lines = []
    for layer in gate.offenders(report, fail_on):
        why = "; ".join(f"{f.rule} {f.message}" for f in layer_groups.decisive(layer)) or layer.reason
        source = f" [{layer.source}]" if layer.source is not None else ""
        lines.append(f"{layer.type} {layer.name}{source}: {why}")
    more = len(lines) - _MOST_NAMED
    return [*lines[:_MOST_NAMED], *([f"{more} more layers"] if more > 0 else [])]
