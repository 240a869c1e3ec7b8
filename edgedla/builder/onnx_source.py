"""The ONNX file of one build. What a build asks of it is read once, however many steps ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple

from edgedla.builder.onnx_input import fix_inputs, read_model
from edgedla.importers.model_file.embedded_preprocess import EmbeddedPreprocess, embedded_preprocess
from edgedla.importers.model_file.model_identity import dynamic_inputs, identity_of
from edgedla.importers.model_file.onnx_file import OnnxFile, read

if TYPE_CHECKING:
    from onnx import ModelProto

    from edgedla.builder.plan.measured_scales import MeasuredScales


class OnnxSource:
    """An ONNX file, its graph without weights, and the whole model; each is read when it is first asked for.

    Attributes:
        path: of the file.
        scales: what the build's INT8 scales were measured on; None where they were not measured on samples.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scales: Optional[MeasuredScales] = None
        self._file: Optional[OnnxFile] = None
        self._static: Optional[ModelProto] = None

    @property
    def file(self) -> OnnxFile:
        """The graph, without the payload of large weights. Raises ModelError: unreadable."""
        if self._file is None:
            self._file = read(self.path)
        return self._file

    @property
    def identity(self) -> Dict[str, Any]:
        """Name and digests, as an artifact states them. Raises ModelError: unreadable."""
        return identity_of(self.file)

    @property
    def embedded(self) -> Optional[EmbeddedPreprocess]:
        """What the model holds of its own preprocessing; None where it holds none. Raises ModelError: unreadable."""
        return embedded_preprocess(self.file.model, str(self.path))

    @property
    def dynamic_inputs(self) -> Tuple[str, ...]:
        return dynamic_inputs(self.file)

    def static(self, shapes: Mapping[str, Tuple[int, ...]]) -> ModelProto:
        """The whole model with weights, inputs of these sizes, at an opset for the simulation. Not to be changed.

        Raises:
            ModelError: unreadable, external data missing, or too old to convert.
        """
        if self._static is None:
            self._static = read_model(self.path)
        # The one copy in memory takes other sizes in place: weights may be gigabytes.
        fix_inputs(self._static, shapes)
        return self._static
