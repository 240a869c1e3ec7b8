"""A model as `quantize` and `deploy` take it: in FLOAT, whatever types it came in, and proven to compute the same."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from edgedla.errors import UsageError
from edgedla.importers.model_file.onnx_file import read
from edgedla.quantization.float32_types import OwnTypes, drop_casts, own_types, turn_types


@dataclass(frozen=True)
class Turned:
    """A model whose types became FLOAT.

    Attributes:
        original: onnx.ModelProto as it came. model: the same in FLOAT. own: what it computed in.
        interface: inputs and outputs of another type now, a sentence each.
    """

    original: Any
    model: Any
    own: OwnTypes
    interface: Tuple[str, ...]

    def notes(self, feed: Mapping[str, np.ndarray]) -> List[str]:
        """What was done, and how far it is proven on these inputs in FLOAT.

        Raises:
            ModelError: a node computes something else in FLOAT.
        """
        from edgedla.builder.onnx_input import with_static_inputs
        from edgedla.fixes.proofs.float_types import proof_text
        from edgedla.quantization.session import model_input_specs

        sizes = {name: tuple(np.shape(value)) for name, value in feed.items()}
        before, after = (with_static_inputs(m, sizes) for m in (self.original, self.model))
        try:
            specs = {spec.name: spec for spec in model_input_specs(before)}
        except UsageError as e:
            # Of BFLOAT16, which NumPy lacks.
            return [f"{self.own.turned}: not proven: {e.what}", *self.interface]
        given: Dict[str, np.ndarray] = {n: np.asarray(v).astype(specs[n].dtype, copy=False) for n, v in feed.items()}
        return [f"{self.own.turned}: {proof_text(before, after, given)}", *self.interface]


def turned(model: Any) -> Optional[Turned]:
    """Of an onnx.ModelProto, which stays as it is; None where it computes in FLOAT."""
    own = own_types(model)
    if own is None:
        return None
    changed = type(model)()
    changed.CopyFrom(model)
    interface = turn_types(changed)
    drop_casts(changed)
    return Turned(model, changed, own, interface)


@contextmanager
def float32_model(path: Path) -> Iterator[Tuple[Path, Optional[Turned]]]:
    """(file of the model in FLOAT, what was turned); the file itself and None where nothing is.

    Raises:
        ModelError: unreadable.
    """
    from edgedla.builder.building import as_file
    from edgedla.builder.onnx_input import read_model

    wide = turned(read_model(path)) if own_types(read(path).model) is not None else None
    if wide is None:
        yield path, None
        return
    with as_file(wide.model) as file:
        yield file, wide
