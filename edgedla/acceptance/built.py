"""The builds of P4 for later steps: artifacts by name, and equal inputs as arrays and as buffers."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterator, Tuple

import numpy as np

from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Skip
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.load import load_artifact
from edgedla.builder.host.session import binding_layout
from edgedla.formats.pack import pack


def artifacts(context: Context) -> Iterator[Tuple[str, Artifact]]:
    """Every artifact below work/artifacts, in the order of P4's table.

    Raises:
        Skip: there are none.
    """
    from edgedla.acceptance.builds import BUILDS

    present = False
    for name in BUILDS:
        folder = Path(context.work) / "artifacts" / name
        if (folder / "manifest.json").is_file():
            present = True
            yield name, load_artifact(folder)
    if not present:
        raise Skip("P4 built nothing")


def single(context: Context) -> Iterator[Tuple[str, Artifact]]:
    """The artifacts with a single engine; a chain's devices are those of its stages."""
    return ((name, artifact) for name, artifact in artifacts(context) if not artifact.stages)


def model_of(context: Context, name: str) -> Path:
    return Path(context.work) / "models" / f"{name}.onnx"


def sample_inputs(artifact: Artifact, seed: int) -> Tuple[Dict[str, np.ndarray], Dict[str, np.ndarray]]:
    """One input as NCHW arrays and as buffers; seed 0 gives zeros, seed 1 ones (the largest value), others random values."""
    rng = np.random.default_rng(seed)
    chip = str(artifact.platform["chip"])
    arrays, buffers = {}, {}
    for b in artifact.inputs:
        if seed < 2:
            value = np.full(b.shape_nchw, float(seed), np.float32)
        else:
            value = rng.uniform(-1, 1, b.shape_nchw).astype(np.float32)
        arrays[b.name] = value
        lay = binding_layout(b, chip, artifact.kind != "standalone")
        packed = pack(value.reshape(lay.dims), lay, scale=b.scale)
        buffers[b.name] = packed.reshape(-1).view(np.uint8)
    return arrays, buffers
