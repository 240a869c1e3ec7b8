"""What the modes of `place` take: --verify, --evaluate and --pareto leave out options that mean nothing there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Mapping, Optional, Sequence

import click

from edgedla.errors import UsageError

if TYPE_CHECKING:
    from edgedla.placement.result.placement import Placement

_NETWORK = "models shapes batch output_format output trtexec_onnx trtexec_fallback"
_PLATFORM = "target jetpack trt precision trtexec_fp16 trtexec_int8 trtexec_best"
_COSTS = "power_mode profile layer_info use_unknown clocks"

#: Option -> the parameters that have a meaning beside it. An option of `place` that is in none is for solving alone.
TAKES: Mapping[str, FrozenSet[str]] = {
    "verified": frozenset(f"{_NETWORK} {_PLATFORM}".split()),
    "evaluated": frozenset(f"{_NETWORK} {_PLATFORM} {_COSTS} borders concurrent one_process".split()),
}
#: Parameters that mean nothing beside --pareto: the pair says what is minimised.
_NOT_OF_PARETO = ("objective", "everything", "fail_on")
#: Parameters that mean something beside --evaluate alone.
_OF_EVALUATE = ("borders", "concurrent")


def require_meaning(context: click.Context) -> None:
    """Refuses what was typed and would change nothing.

    Raises:
        UsageError: an option that the mode leaves out.
    """
    typed = [
        option
        for option in context.command.params
        if context.get_parameter_source(option.name or "") == click.core.ParameterSource.COMMANDLINE
    ]
    names = {option.name: "/".join((*option.opts[:1], *option.secondary_opts[:1])) for option in typed}
    mode = next((name for name in TAKES if name in names), None)
    if mode is not None:
        odd = [name for name in names if name not in TAKES[mode] | {mode}]
    else:
        odd = [name for name in names if name in _OF_EVALUATE or (name in _NOT_OF_PARETO and "pareto" in names)]
    if odd:
        if odd[0] in _OF_EVALUATE:
            raise UsageError("only --evaluate uses it", where=names[odd[0]], allowed="with --evaluate ASSIGNMENT")
        raise UsageError(f"means nothing with {names[mode] if mode else '--pareto'}", where=names[odd[0]])


def require_made_for(placement: Placement, given: Mapping[str, Optional[str]]) -> None:
    """Refuses a module, release or precision beside --verify that is not the placement's.

    Raises:
        UsageError
    """
    from edgedla.targets import module_for, platform_for

    made: Dict[str, Any] = {**placement.platform, "precision": placement.precision}
    target, jetpack, trt = given["target"], given["jetpack"], given["trt"]
    asked = {"target": module_for(target).id if target else None, "precision": given["precision"]}
    if jetpack or trt:
        asked["trt"] = platform_for(target or made["target"], jetpack=jetpack, trt=trt).release.trt_text
    for name, value in asked.items():
        if value not in (None, made[name]):
            raise UsageError(
                f"the placement was made for {made[name]}, not {value}",
                where="--jetpack" if name == "trt" and jetpack else f"--{name}",
                hint="leave it out, or place the model again",
            )


def names_placement(assignments: Sequence[str]) -> bool:
    """Whether some --evaluate is a placement's file, which says what it was made for."""
    from pathlib import Path

    from edgedla.placement.prediction.assignments import opened

    return any(not isinstance(opened(a), (str, Path)) for a in assignments)
