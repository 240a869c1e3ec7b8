"""The rewrites that a call of `fix` uses, and what they need of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple, Union

from edgedla.errors import ModelError, UsageError
from edgedla.fixes.network.network import Goal, Network
from edgedla.fixes.rewrites import all_rewrites
from edgedla.fixes.site import Rewrite
from edgedla.rules.remedies import rewrite_entries, rewrites_named

#: Ids of the rewrites of the whole model that `float_types.in_float32` and `in_half` do.
TYPES, HALF_TYPES = "float32-types", "float16-types"

#: Rewrites write operators in forms that exist from this operator set on.
MIN_OPSET = 11
#: Operator set to convert older models to by default, as `build` does.
OPSET_OF_OLDER = 13
#: Operators that take FLOAT and not FLOAT16 in older operator sets -> the first one where they take both. Others have it from 11 on.
HALF_FROM = {"CumSum": 14, "IsInf": 20}


def wanted_rewrites(
    only: Sequence[str], skip: Sequence[str], purpose: str, approximate: float, precision: str
) -> Tuple[Rewrite, ...]:
    """Rewrites in their order: those that `only` names, or all for the purpose; without those in `skip`."""
    only, skip = _listed(only), _listed(skip)
    named = set(rewrites_named(only, "--only")) - {TYPES, HALF_TYPES}
    skipped = set(rewrites_named(skip, "--skip"))
    if only and not named:
        return ()
    entries = rewrite_entries()
    chosen: List[Rewrite] = []
    for rewrite in all_rewrites(precision):
        entry = entries[rewrite.id]
        if entry.equality == "approximate":
            fits = approximate > 0 and (rewrite.id in named or (not named and entry.use != "asked"))
        elif named:
            fits = rewrite.id in named
        else:
            fits = entry.use == "always" or (entry.use == "strict" and purpose != "hybrid")
        if fits and rewrite.id not in skipped:
            chosen.append(rewrite)
    if named and approximate == 0 and all(entries[name].equality == "approximate" for name in named):
        raise UsageError(
            f"{', '.join(sorted(named))}: an approximation, which needs --approximate",
            where="only",
            hint="Say how large an error may be: --approximate 0.01 is 1 % (relative L2) per site.",
        )
    return tuple(chosen)


def turned_types(only: Sequence[str], skip: Sequence[str], precision: str, typed: bool) -> Tuple[str, ...]:
    """The rewrites of the whole model to do first: those that the user names. Without names FLOAT for INT8, whose scales are
    measured on FLOAT; on a strongly typed release FLOAT16, which alone runs in FP16 there (BFLOAT16 and DOUBLE by way of FLOAT), and
    INT8 means Q/DQ.
    """
    named, skipped = rewrites_named(_listed(only), "--only"), rewrites_named(_listed(skip), "--skip")
    usual = (TYPES, HALF_TYPES) if typed else (TYPES,) if precision == "int8" else ()
    return tuple(name for name in (TYPES, HALF_TYPES) if name not in skipped and name in (named or usual))


def _listed(ids: Sequence[str]) -> Sequence[str]:
    # A single string is a sequence of letters.
    return (ids,) if isinstance(ids, str) else ids


def opset_to_write(model: Any, given: Optional[int], half: bool) -> Optional[int]:
    """The operator set to convert to; None leaves the model's. `half`: the model becomes FLOAT16."""
    if given is not None:
        return given
    present = Network(model, Goal()).opset
    wanted = OPSET_OF_OLDER if present < MIN_OPSET else present
    if half:
        wanted = max([wanted, *(HALF_FROM.get(node.op_type, 0) for node in model.graph)])
    return None if wanted == present else wanted


def require_opset(work: Any, source: str) -> None:
    """Checks the operator set.

    Raises:
        ModelError: the operator set is older than the forms that rewrites write.
    """
    opset = Network(work, Goal()).opset
    if opset < MIN_OPSET:
        raise ModelError(
            f"the operator set is {opset}",
            where=source or "<model>",
            allowed=f"{MIN_OPSET} or newer",
            hint="without --opset an older model is written in operator set 13",
        )


def require_samples(data: Union[None, str, Path], prove: bool) -> None:
    """Refuses samples without proofs, and a wrong path of samples, even if nothing is rewritten and no proof needs them."""
    if data is not None and not prove:
        raise UsageError("without proofs nothing reads it", where="data", allowed="with proofs")
    if data is not None:
        from edgedla.quantization.samples import sample_files

        sample_files(data)
