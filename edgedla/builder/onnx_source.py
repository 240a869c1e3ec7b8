"""The ONNX file of one build. Each part is read once, on first use, and shared by all steps of the build."""

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
        scales: the samples behind the build's INT8 scales; None unless the scales were measured on samples.
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
        """The preprocessing inside the model; None if it has none. Raises ModelError: unreadable."""
        return embedded_preprocess(self.file.model, str(self.path))

    @property
    def dynamic_inputs(self) -> Tuple[str, ...]:
        return dynamic_inputs(self.file)

    def static(self, shapes: Mapping[str, Tuple[int, ...]]) -> ModelProto:
        """The whole model with weights, inputs of these sizes, at an opset for the simulation. Do not change it.

        Raises:
            ModelError: unreadable, external data missing, or too old to convert.
        """
        if self._static is None:
            self._static = read_model(self.path)
        # Changes the sizes of the one copy in place, because weights may be gigabytes.
        fix_inputs(self._static, shapes)
        return self._static
