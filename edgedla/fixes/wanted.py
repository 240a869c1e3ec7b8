"""What a call of `fix` asks for: the rewrites that it names or that fit, and what they need of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple, Union

from edgedla.errors import ModelError, UsageError
from edgedla.fixes.network.network import Goal, Network
from edgedla.fixes.rewrites import all_rewrites
from edgedla.fixes.site import Rewrite
from edgedla.quantization.samples import sample_files
from edgedla.rules.remedies import rewrite_entries, rewrites_named

#: The rewrite of the whole model, by `float_types.in_float32`.
TYPES = "float32-types"

#: The forms that rewrites write exist from this operator set on.
MIN_OPSET = 11
#: What an older model is converted to where no set is asked for; what builds it takes the same.
OPSET_OF_OLDER = 13


def wanted_rewrites(
    only: Sequence[str], skip: Sequence[str], purpose: str, approximate: float, precision: str
) -> Tuple[Rewrite, ...]:
    """Rewrites in their order: those named, or all that fit the purpose, less those skipped."""
    only, skip = _listed(only), _listed(skip)
    named = set(rewrites_named(only, "--only")) - {TYPES}
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
            where="--only",
            hint="Say how large an error may be: --approximate 0.01 is 1 % (relative L2) per site.",
        )
    return tuple(chosen)


def turns_types(only: Sequence[str], skip: Sequence[str], precision: str, typed: bool) -> bool:
    """Whether types become FLOAT first: where that is named, and for INT8, whose scales are measured on FLOAT.

    Args:
        typed: tensor types decide in the release: FP16 is what the DLA takes, and INT8 is Q/DQ.
    """
    named, skipped = rewrites_named(_listed(only), "--only"), rewrites_named(_listed(skip), "--skip")
    return TYPES not in skipped and (TYPES in named if named else precision == "int8" and not typed)


def _listed(ids: Sequence[str]) -> Sequence[str]:
    # A text is a sequence too, of letters.
    return (ids,) if isinstance(ids, str) else ids


def opset_to_write(model: Any, asked: Optional[int]) -> Optional[int]:
    """The operator set to convert to; None leaves the model's."""
    return OPSET_OF_OLDER if asked is None and Network(model, Goal()).opset < MIN_OPSET else asked


def require_opset(work: Any, source: str) -> None:
    """
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


def require_samples(data: Union[None, str, Path]) -> None:
    """A wrong path is a mistake, also where nothing is rewritten and so nothing proven."""
    if data is not None:
        sample_files(data)
