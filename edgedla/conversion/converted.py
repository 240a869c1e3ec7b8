"""Converted: a model of another framework as ONNX, and how far it is from its source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Tuple, Union

from edgedla.files import write_atomic

#: The newest operator set that all parsers read rightly: those of TensorRT 8 take the axes of operator set 18's reductions
#: for absent (sources in rules/, parser releases).
OPSET = 17
#: Largest relative L2 difference that is rounding; above it the conversion is not the same network.
TOLERANCE = 1e-4
#: Of the input that both are run on.
SEED = 7


@dataclass(frozen=True)
class Converted:
    """A converted model.

    Attributes:
        model: serialised onnx.ModelProto. opset: of it.
        rel_l2, max_abs: against the source framework on seeded input, the worst output; None where nothing was compared.
        framework, exporter: with their versions.
    """

    model: bytes
    source: str
    kind: str
    framework: str
    exporter: str
    opset: int
    rel_l2: Optional[float]
    max_abs: Optional[float]
    notes: Tuple[str, ...] = ()

    @property
    def within(self) -> Optional[bool]:
        """Whether the difference is rounding; None where nothing was compared."""
        return None if self.rel_l2 is None else self.rel_l2 <= TOLERANCE

    def save(self, path: Union[str, Path]) -> Path:
        return write_atomic(path, self.model)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "source": self.source, "kind": self.kind, "framework": self.framework, "exporter": self.exporter,
            "opset": self.opset, "rel_l2": self.rel_l2, "max_abs": self.max_abs, "within": self.within,
            "notes": list(self.notes),
        }  # fmt: skip


def opset_of(model: Any) -> int:
    """The operator set of ONNX's own domain; 0 where an onnx.ModelProto names none."""
    return next((int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx")), 0)


def opset_notes(model: Any, platform: Any) -> Tuple[str, ...]:
    """What the platform's parser reads wrongly in the model's operator set."""
    if opset_of(model) <= OPSET or platform.release.trt >= (10,):
        return ()
    return (
        f"operator set {opset_of(model)}: TensorRT {platform.release.trt_text} reads reductions of 18 and newer wrongly; "
        f"`edgedla fix --opset {OPSET}` converts it",
    )


def tidied(model: Any) -> Any:
    """An onnx.ModelProto with its shapes worked out where they can be."""
    import onnx

    try:
        # 2 GiB is protobuf's limit, and so that of shape inference in memory.
        return onnx.shape_inference.infer_shapes(model) if model.ByteSize() < (1 << 30) else model
    except Exception:
        # Shapes are a convenience: the importer works them out itself.
        return model
