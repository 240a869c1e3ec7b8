"""The ONNX file of one build. Each part is read once, on first use, and shared by all steps of the build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

from edgedla.builder.onnx_input import MOST_WEIGHT_BYTES, fix_inputs, load_model, read_model
from edgedla.errors import ModelError
from edgedla.importers.model_file.embedded_preprocess import EmbeddedPreprocess, embedded_preprocess
from edgedla.importers.model_file.float16_types import Halved
from edgedla.importers.model_file.float32_types import in_float32, lacks_half
from edgedla.importers.model_file.model_identity import dynamic_inputs, identity_of
from edgedla.importers.model_file.onnx_file import OnnxFile, read
from edgedla.importers.shared_parameters import read_directly, shared_parameters
from edgedla.io.files import write_atomic
from edgedla.regions.float16_model import half_model, half_source
from edgedla.targets import Platform

if TYPE_CHECKING:
    from onnx import ModelProto

    from edgedla.builder.plan.measured_scales import MeasuredScales


class OnnxSource:
    """An ONNX file, its graph without weights, and the whole model; each is read when it is first asked for.

    Attributes:
        path: of the file.
        halved: how the model was converted to FLOAT16; None where it was not.
        converted: whether `path` is that of a file made of the user's: as FLOAT16, or with parameters read directly that the user's
            file, exported untrained, shares.
        scales: the samples behind the build's INT8 scales; None unless the scales were measured on samples.
    """

    def __init__(self, path: Path) -> None:
        self.path = self._original = path
        self.halved: Optional[Halved] = None
        self.converted = False
        self.scales: Optional[MeasuredScales] = None
        self._identity: Optional[Dict[str, Any]] = None
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
        """Name and digests of the user's file, as an artifact states them. Raises ModelError: unreadable."""
        if self._identity is None:
            self._identity = identity_of(self.file)
        return self._identity

    @property
    def embedded(self) -> Optional[EmbeddedPreprocess]:
        """The preprocessing inside the model; None if it has none. Raises ModelError: unreadable."""
        return embedded_preprocess(self.file.model, str(self.path))

    @property
    def dynamic_inputs(self) -> Tuple[str, ...]:
        return dynamic_inputs(self.file)

    def convert(
        self,
        platform: Platform,
        mode: str,
        shapes: Optional[Mapping[str, Sequence[int]]],
        batch: Optional[int],
        written: Optional[Path],
    ) -> None:
        """Converts the model to FLOAT16 where the release is strongly typed and its types are FLOAT, and reads shared parameters directly.

        Args:
            mode: as in `check`. written: file for the converted model; None: nothing reads its weights.

        Raises:
            ModelError: unreadable, external data missing, or too large for one message.
        """
        typed, shared = platform.release.strongly_typed, shared_parameters(self.file.model.graph)
        if self.converted or not (typed or shared):
            return
        # That of the user's file, before it is replaced.
        self._identity = self.identity
        try:
            whole = self.file.model if written is None else load_model(self.path, most_bytes=MOST_WEIGHT_BYTES)
        except ModelError:
            if typed:
                raise
            # A script needs no weights: what it builds is the file as it is.
            return
        read_directly(whole, shared)
        source = replace(self.file, model=whole)
        self.halved = half_model(source, platform, mode, shapes=shapes, batch=batch) if typed else None
        if self.halved is None and not shared:
            return
        self._file = source if self.halved is None else half_source(source, self.halved)
        self.converted = written is not None
        if written is None:
            return
        write_atomic(written, self._file.model.SerializeToString(), follow=False)
        self.path = written
        # A placement or a report of the user's file holds for its conversion.
        self._file = replace(read(written), name=self._file.name, notes=self._file.notes, sha256=self._file.sha256)

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

    def original(self, shapes: Mapping[str, Tuple[int, ...]]) -> Optional[ModelProto]:
        """The user's own model with weights and inputs of these sizes, where `static` is its conversion; else None."""
        if self.halved is None:
            return None
        model: ModelProto = read_model(self._original)
        if lacks_half(model):
            # ONNX Runtime computes in neither.
            model, _ = in_float32(model)
        fix_inputs(model, shapes)
        return model
