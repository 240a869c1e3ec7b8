"""Feeds a built network through the very buffers that a DLA would read and write.

usage: python buffers.py ARTIFACT CALIBRATION.npz
"""

from __future__ import annotations

import sys

import numpy as np

from edgedla.builder import HostSession, load_artifact
from edgedla.formats.pack import pack, unpack


def main(folder: str, samples: str) -> None:
    artifact = load_artifact(folder)
    session = HostSession(artifact)
    image = np.load(samples)[artifact.inputs[0].name][:1].astype(np.float32)
    buffers = {b.name: pack(image, session.layouts[b.name], scale=b.scale) for b in artifact.inputs}
    for b in artifact.inputs:
        lies = session.layouts[b.name]
        print(f"{b.name}: {b.size_bytes} bytes, a row is {lies.row_bytes} bytes, laid out {lies.describe()}")
    for name, buffer in session.run(buffers).items():
        binding = next(b for b in artifact.outputs if b.name == name)
        values = unpack(buffer, session.layouts[name], scale=binding.scale)
        print(f"{name}: {binding.size_bytes} bytes, {list(values.shape)}, largest value {values.max():.1f}")
    if artifact.simulated:
        print("simulated: no DLA was here")


if __name__ == "__main__":
    main(*sys.argv[1:])
