"""The model that rewrites start from: with the user's sizes, the operator set and the types that the platform needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from edgedla.fixes.fold import set_shapes
from edgedla.fixes.network.model_file import outline, require_sound
from edgedla.fixes.opset import convert_opset
from edgedla.fixes.wanted import HALF_TYPES, TYPES, opset_to_write, require_opset
from edgedla.graph.layer_graph import HALVED
from edgedla.graph.open_sizes import TRTEXEC_BATCH, batch_taken
from edgedla.importers.model_file.float32_types import own_types
from edgedla.targets import Platform


def path_of(model: Any) -> str:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""


class Turn(NamedTuple):
    """The rewrites of the whole model to do: ids, the platform that they are for, and the mode of `check`."""

    names: Tuple[str, ...]
    platform: Platform
    mode: str


class Opened(NamedTuple):
    """The original model, and the model that rewrites start from, both with the user's sizes. They may be the same object.

    Attributes:
        notes: on sizes and operator set. interface, types: of `Typed`, if types were converted. in_half: to FLOAT16.
    """

    before: Any
    work: Any
    notes: Tuple[str, ...]
    interface: Tuple[str, ...]
    types: str
    in_half: bool = False


def open_for(
    before: Any,
    source: str,
    opset: Optional[int],
    shapes: Mapping[str, Sequence[int]],
    batch: Optional[int],
    turn: Turn,
    prove: bool,
    data: Union[None, str, Path],
) -> Opened:
    """The model with the user's sizes, operator set and types.

    Args:
        prove, data: as in `fix`.
    """
    target_opset = opset_to_write(before, opset, HALF_TYPES in turn.names)
    work = before if target_opset is None else convert_opset(before, target_opset)
    require_opset(work, source)
    # Both models: a conversion returns a separate one.
    batch_fixed = [set_shapes(form, shapes, batch) for form in (before, work)]
    require_sound(work, source)
    notes: Tuple[str, ...] = (batch_taken(TRTEXEC_BATCH),) if any(batch_fixed) else ()
    if prove:
        from edgedla.fixes.apply_proven import conversion_note, feeds_of

        notes += conversion_note(before, work, prove)
    interface: Tuple[str, ...] = ()
    types: List[str] = []
    in_float = work
    for name in turn.names:
        own = own_types(outline(work))
        # BFLOAT16 and DOUBLE go by way of FLOAT; nothing else needs it, and without it they stay.
        if (own is not None and (HALF_TYPES not in turn.names or "FLOAT16" not in own.names)) != (name == TYPES):
            continue
        from edgedla.fixes.float_types import in_float32, in_half

        feeds = feeds_of(work, data) if prove else ()
        inputs = "the data" if data is not None else "seeded random input"
        turned = in_float32(work, feeds) if name == TYPES else in_half(work, turn.platform, turn.mode, feeds, inputs)
        if turned is not None:
            work, interface = turned.model, (*interface, *turned.interface)
            types.append(turned.note)
    converted = work is not in_float and HALVED in work.metadata_props
    return Opened(before, work, notes, interface, "; ".join(types), converted)
