"""Converts a model of any float type to FLOAT for `quantize` and `deploy`, and proves that it computes the same."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from edgedla.errors import UsageError
from edgedla.importers.model_file.float32_types import OwnTypes, in_float32, own_types
from edgedla.importers.model_file.onnx_file import read


@dataclass(frozen=True)
class Turned:
    """A model whose types were converted to FLOAT.

    Attributes:
        original: the original onnx.ModelProto. model: the same in FLOAT. own: the original's types.
        interface: a sentence per input and output whose type changed.
    """

    original: Any
    model: Any
    own: OwnTypes
    interface: Tuple[str, ...]

    def notes(self, feed: Mapping[str, np.ndarray]) -> List[str]:
        """Notes on the conversion and on its proof with these inputs in FLOAT.

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
            # The original takes or gives BFLOAT16, which NumPy lacks.
            return [f"{self.own.turned}: not proven: {e.what}", *self.interface]
        given: Dict[str, np.ndarray] = {n: np.asarray(v).astype(specs[n].dtype, copy=False) for n, v in feed.items()}
        return [f"{self.own.turned}: {proof_text(before, after, given)}", *self.interface]


def turned(model: Any) -> Optional[Turned]:
    """The FLOAT version of an onnx.ModelProto, which stays unchanged; None if it computes in FLOAT already."""
    own = own_types(model)
    if own is None:
        return None
    changed, interface = in_float32(model)
    return Turned(model, changed, own, interface)


@contextmanager
def float32_model(path: Path) -> Iterator[Tuple[Path, Optional[Turned]]]:
    """(file of the model in FLOAT, the conversion); the original file and None if it is in FLOAT already.

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
