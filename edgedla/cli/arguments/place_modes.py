"""Which options each mode of `place` takes: --verify, --evaluate and --pareto refuse those that they would ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Mapping, Optional, Sequence

import click

from edgedla.cli.arguments.option import given_options
from edgedla.errors import UsageError

if TYPE_CHECKING:
    from edgedla.placement.result.placement import Placement

_NETWORK = "models shapes batch output_format output trtexec_onnx trtexec_fallback"
_PLATFORM = "target jetpack trt precision trtexec_fp16 trtexec_int8 trtexec_best"
_COSTS = "power_mode clocks_locked profile layer_info use_unknown clocks"

#: Mode -> the parameters that have a meaning in it. A parameter in neither set is for solving only.
TAKES: Mapping[str, FrozenSet[str]] = {
    "verified": frozenset(f"{_NETWORK} {_PLATFORM}".split()),
    "evaluated": frozenset(f"{_NETWORK} {_PLATFORM} {_COSTS} borders concurrent one_process".split()),
}
#: Parameters that mean nothing with --pareto, and why.
_NOT_OF_PARETO = {
    "objective": "--pareto names both objectives",
    "everything": "a front lists no layers",
    "fail_on": "a front has no one answer",
}
#: Parameters that have a meaning only with --evaluate.
_OF_EVALUATE = ("borders", "concurrent")


def require_meaning(context: click.Context) -> None:
    """Refuses options that this mode of `place` would ignore.

    Raises:
        UsageError: an option that has no meaning in this mode.
    """
    names = given_options(context)
    mode = next((name for name in TAKES if name in names), None)
    if mode is not None:
        odd = [names[name] for name in names if name not in TAKES[mode] | {mode}]
        if odd:
            shown = [p.opts[0] for p in context.command.params if p.name in TAKES[mode] and not _is_hidden(p)]
            does = {"verified": "checks an existing placement", "evaluated": "predicts one assignment"}[mode]
            raise UsageError(
                f"means nothing with {names[mode]}, which {does}",
                where=", ".join(odd),
                allowed=", ".join(shown),
                hint=f"Leave out {', '.join(odd)}, or leave out {names[mode]}.",
            )
        return
    for name, shown_name in names.items():
        if name in _OF_EVALUATE:
            raise UsageError("only --evaluate uses this option", where=shown_name, allowed="with --evaluate ASSIGNMENT")
        if name in _NOT_OF_PARETO and "pareto" in names:
            raise UsageError(
                f"means nothing with --pareto: {_NOT_OF_PARETO[name]}", where=shown_name, hint=f"Leave out {shown_name}."
            )


def _is_hidden(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument) or getattr(parameter, "hidden", False)


def require_made_for(placement: Placement, given: Mapping[str, Optional[str]]) -> None:
    """Refuses --target, --jetpack, --trt or --precision with --verify where they differ from the placement's.

    Raises:
        UsageError
    """
    from edgedla.targets import module_for, platform_for

    made: Dict[str, Any] = {**placement.platform, "precision": placement.precision}
    target, jetpack, trt = given["target"], given["jetpack"], given["trt"]
    requested = {"target": module_for(target).id if target else None, "precision": given["precision"]}
    if jetpack or trt:
        requested["trt"] = platform_for(target or made["target"], jetpack=jetpack, trt=trt).release.trt_text
    for name, value in requested.items():
        if value not in (None, made[name]):
            raise UsageError(
                f"the placement was made for {made[name]}, not {value}",
                where="--jetpack" if name == "trt" and jetpack else f"--{name}",
                hint="leave it out, or place the model again",
            )


def names_placement(assignments: Sequence[str]) -> bool:
    """Whether an --evaluate names a placement file, which holds its own platform."""
    from pathlib import Path

    from edgedla.placement.prediction.assignments import opened

    return any(not isinstance(opened(a), (str, Path)) for a in assignments)
