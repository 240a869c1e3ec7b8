"""Turns trtexec's spellings of options of `build` into its own."""

from __future__ import annotations

from typing import Any, Dict

from edgedla.cli.output import echo
from edgedla.errors import UsageError

#: A hybrid engine is the only one that edgedla builds beside a standalone loadable.
_FALLS_BACK = (
    "without --allowGPUFallback trtexec fails where the DLA refuses a layer; this build runs such layers on the GPU: "
    "`edgedla check --mode strict` names them"
)


def take_over(given: Dict[str, Any], trtexec: Dict[str, Any]) -> None:
    """Puts the values of trtexec's options into `given`; where both are given they must agree."""
    int8 = trtexec["trtexec_int8"] or trtexec["trtexec_best"]
    spelled = {
        "precision": "int8" if int8 else "fp16" if trtexec["trtexec_fp16"] else None,
        "mode": "standalone" if trtexec["trtexec_standalone"] else "hybrid" if trtexec["trtexec_fallback"] else None,
        "dla_core": trtexec["trtexec_core"],
    }
    if trtexec["trtexec_standalone"] and trtexec["trtexec_fallback"]:
        raise UsageError("a standalone loadable has no GPU to fall back to", where="--allowGPUFallback")
    if trtexec["trtexec_core"] is not None and trtexec["trtexec_core"] not in (0, 1):
        raise UsageError(f"{trtexec['trtexec_core']} is not a DLA core", where="--useDLACore", allowed="0 or 1")
    if trtexec["trtexec_core"] is not None and spelled["mode"] is None and given["mode"] is None:
        echo(f"edgedla: {_FALLS_BACK}", err=True)
    for name, value in spelled.items():
        if value is not None and given[name] not in (None, value):
            raise UsageError(
                f"{given[name]} contradicts trtexec's options, which mean {value}", where=f"--{name.replace('_', '-')}"
            )
        given[name] = given[name] if value is None else value
    given["obey_precision"] = given["obey_precision"] or trtexec["trtexec_constraints"] == "obey"
