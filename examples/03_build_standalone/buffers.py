"""Feeds a built network through the very buffers that a DLA would read and write.

usage: python buffers.py ARTIFACT CALIBRATION.npz
"""

from __future__ import annotations

import sys

import numpy as np

from edgedla.builder import load_artifact
from edgedla.builder.host.session import binding_layout
from edgedla.formats.pack import pack, unpack
from edgedla.runtime.runners import open_runners


def main(folder: str, samples: str) -> None:
    artifact = load_artifact(folder)
    chip, fallback = artifact.platform["chip"], artifact.kind != "standalone"
    layouts = {b.name: binding_layout(b, chip, fallback) for b in artifact.bindings}
    image = np.load(samples)[artifact.inputs[0].name][:1].astype(np.float32)
    buffers = {b.name: pack(image, layouts[b.name], scale=b.scale) for b in artifact.inputs}
    for b in artifact.inputs:
        lies = layouts[b.name]
        print(f"{b.name}: {b.size_bytes} bytes, a row is {lies.row_bytes} bytes, laid out {lies.describe()}")
    # ONNX Runtime behind a simulated artifact; on a Jetson cuDLA or TensorRT.
    with open_runners(artifact)[0] as runner:
        answers = runner.wait(runner.submit(buffers))
    for name, buffer in answers.items():
        binding = next(b for b in artifact.outputs if b.name == name)
        values = unpack(buffer, layouts[name], scale=binding.scale)
        print(f"{name}: {binding.size_bytes} bytes, {list(values.shape)}, largest value {values.max():.1f}")
    if artifact.simulated:
        print("simulated: no DLA was here")


if __name__ == "__main__":
    main(*sys.argv[1:])
