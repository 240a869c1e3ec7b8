"""Runs a host artifact on buffers in the planned formats, as on the device."""

from __future__ import annotations

from typing import Dict, Mapping

import numpy as np

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.errors import UsageError
from edgedla.formats import Layout, TensorFormat, layout
from edgedla.formats.pack import Buffer, pack, unpack
from edgedla.quantization.samples import NUMPY_OF_ORT
from edgedla.quantization.session import open_session


def binding_layout(binding: Binding, chip: str, gpu_fallback: bool = True) -> Layout:
    """The memory layout of the binding's buffer."""
    return layout(TensorFormat(binding.format), binding.dtype, binding.shape_nchw, chip=chip, gpu_fallback=gpu_fallback)


class HostSession:
    """A loaded host artifact. Its results are simulated: ONNX Runtime with the DLA's precision, without its timing.

    `run` takes and returns buffers; `run_arrays` takes and returns NCHW arrays in real values.
    """

    simulated = True

    def __init__(self, artifact: Artifact) -> None:
        """Raises DocumentError where the artifact has no host model, ModelError where ONNX Runtime refuses it."""
        self.artifact = artifact
        self._session = open_session(artifact.file("host_model").read_bytes())
        chip = str(artifact.platform["chip"])
        fallback = artifact.kind != "standalone"
        self.layouts = {b.name: binding_layout(b, chip, fallback) for b in artifact.bindings}
        self._types = {entry.name: NUMPY_OF_ORT[entry.type] for entry in self._session.get_inputs()}

    def run(self, inputs: Mapping[str, Buffer]) -> Dict[str, np.ndarray]:
        """One inference on buffers of the bindings' formats.

        Args:
            inputs: input name -> `size_bytes` bytes.

        Returns:
            output name -> array of the format's storage shape.

        Raises:
            UsageError: an input is missing, unknown, or its buffer has another size.
            RunError: ONNX Runtime fails.
        """
        self._check_names(inputs)
        arrays = {b.name: unpack(inputs[b.name], self.layouts[b.name], scale=b.scale) for b in self.artifact.inputs}
        outputs = self.run_arrays(arrays)
        return {
            b.name: pack(self.as_bound(b, outputs[b.name]), self.layouts[b.name], scale=b.scale) for b in self.artifact.outputs
        }

    def input_type(self, name: str) -> type:
        """NumPy type that `run_arrays` feeds an input as."""
        return self._types[name]

    @staticmethod
    def as_bound(binding: Binding, array: np.ndarray) -> np.ndarray:
        """The array, with INT64 cast to the binding's type: TensorRT before 10 has INT32 only."""
        return array.astype(np.int32) if binding.dtype == "INT32" and array.dtype == np.int64 else array

    def run_arrays(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """As `run`, on NCHW arrays in real values, without packing."""
        self._check_names(inputs)
        feed: Dict[str, np.ndarray] = {
            name: np.asarray(array).astype(self._types[name], copy=False) for name, array in inputs.items()
        }
        names = [b.name for b in self.artifact.outputs]
        return dict(zip(names, self._session.run(names, feed)))

    def _check_names(self, inputs: Mapping[str, object]) -> None:
        expected = {b.name for b in self.artifact.inputs}
        if set(inputs) != expected:
            raise UsageError(
                f"arrays for {', '.join(sorted(inputs)) or 'no input'}", where="inputs", allowed=", ".join(sorted(expected))
            )
