"""Restores the outputs that a model had before `fix` changed them."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import RunError
from edgedla.importers.model_file.changed_outputs import ChangedOutput

Arrays = Mapping[str, np.ndarray]
Restore = Callable[[Arrays], Dict[str, np.ndarray]]


def decoded_names(artifact: Artifact) -> Tuple[str, ...]:
    """Names of the outputs that the artifact's decoder computes."""
    cut = tuple(o.name for o in artifact.changed_outputs if o.decoder)
    return cut if cut and artifact.has("decoder") else ()


def original_names(artifact: Artifact) -> List[str]:
    """Names of the outputs before `fix`; with a decoder, those of the model before its end was cut off."""
    current = [b.name for b in artifact.outputs]
    cut = [o for o in artifact.changed_outputs if o.name in decoded_names(artifact)]
    return [o.name for o in cut] + [name for name in current if all(name not in o.sources for o in cut)]


def original_outputs(artifact: Artifact, decoder: bool = True) -> Optional[Restore]:
    """A function that adds the original outputs to arrays by output name; None if `fix` changed no output.

    Args:
        decoder: also run the decoder, which needs ONNX Runtime. The result holds its inputs and its outputs.

    Raises:
        EnvironmentMissing: a decoder is needed, and ONNX Runtime is missing.
    """
    steps: List[Restore] = []
    if decoder and decoded_names(artifact):
        steps.append(_decoder(artifact))
    shapes = [o for o in artifact.changed_outputs if not o.decoder]
    if shapes:
        steps.append(lambda arrays: {**arrays, **{o.name: _reshaped(arrays[o.sources[0]], o) for o in shapes}})
    if not steps:
        return None

    def restore(arrays: Arrays) -> Dict[str, np.ndarray]:
        outputs = dict(arrays)
        for step in steps:
            outputs = step(outputs)
        return outputs

    return restore


def _reshaped(array: np.ndarray, was: ChangedOutput) -> np.ndarray:
    try:
        return array.reshape(was.shape)
    except ValueError as e:
        raise RunError(f"{was.name} has {array.size} elements", allowed=f"those of {list(was.shape)}") from e


def _decoder(artifact: Artifact) -> Restore:
    from edgedla.quantization.samples import NUMPY_OF_ORT
    from edgedla.quantization.session import open_session

    session = open_session(artifact.file("decoder").read_bytes())
    types = {entry.name: NUMPY_OF_ORT[entry.type] for entry in session.get_inputs()}
    names = [entry.name for entry in session.get_outputs()]

    def run(arrays: Arrays) -> Dict[str, np.ndarray]:
        feed: Dict[str, np.ndarray] = {name: np.asarray(arrays[name]).astype(kind, copy=False) for name, kind in types.items()}
        return {**arrays, **dict(zip(names, session.run(names, feed)))}

    return run
