"""Converted: a model of another framework as ONNX, and its error against the source."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.errors import ModelError, UsageError
from edgedla.importers.model_file.port_names import without_identities
from edgedla.importers.model_file.shape_inference import inferred
from edgedla.io.files import special_file, write_atomic
from edgedla.io.publishing import publication

#: The newest operator set that all parsers read correctly: those of TensorRT 8 ignore the axes of operator set 18's
#: reductions (sources in rules/, parser releases).
OPSET = 17
#: Largest relative L2 difference that counts as rounding; above it, the conversion is not the same network.
TOLERANCE = 1e-4
#: The same for a network in FP16, with 11 bits of precision: ResNet-18 reaches 1e-3.
TOLERANCE_FP16 = 1e-2
#: Seed of the input for the comparison.
SEED = 7


def cache_path(model: Union[str, Path]) -> Path:
    """The path of a converted model's calibration cache: beside it, with a name that no other tool uses."""
    return Path(model).with_suffix(".scales.cache")


@dataclass(frozen=True)
class Converted:
    """A converted model.

    Attributes:
        model: serialised onnx.ModelProto. opset: its operator set.
        rel_l2, max_abs: error of the worst output against the source framework on seeded input; None if not compared.
        framework, exporter: with their versions. tolerance: the largest rel_l2 that counts as rounding.
        cache: text of the calibration cache of a quantised source, for `--calib`; "" without scales.
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
    tolerance: float = TOLERANCE
    cache: str = ""

    @property
    def within(self) -> Optional[bool]:
        """Whether the difference is only rounding; None if not compared."""
        return None if self.rel_l2 is None else self.rel_l2 <= self.tolerance

    @typed
    def save(self, path: Union[str, Path]) -> Path:
        """Writes the model and, for a quantised source, its calibration cache beside it (see cache_path).

        Raises:
            UsageError: the path is a device or a pipe, so that the cache has no place. Else as `write_atomic`.
        """
        if not self.cache:
            return write_atomic(path, self.model)
        if special_file(os.path.realpath(path), True) and not os.path.isdir(path):
            raise UsageError(
                "the scales of the model need a file beside it, and this is not a file", where=str(path), allowed="a file"
            )
        with publication() as out:
            out.write(path, self.model)
            out.write(cache_path(path), self.cache)
        return Path(path)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "source": self.source,
            "kind": self.kind,
            "framework": self.framework,
            "exporter": self.exporter,
            "opset": self.opset,
            "rel_l2": self.rel_l2,
            "max_abs": self.max_abs,
            "within": self.within,
            "notes": list(self.notes),
        }


def opset_of(model: Any) -> int:
    """The operator set of ONNX's own domain; 0 if the onnx.ModelProto names none."""
    return next((int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx")), 0)


def tolerance_of(model: Any) -> float:
    """The error that rounding alone may cause in an onnx.ModelProto."""
    from onnx import TensorProto

    half = any(value.type.tensor_type.elem_type == TensorProto.FLOAT16 for value in model.graph.output)
    return TOLERANCE_FP16 if half else TOLERANCE


def parser_notes(model: Any, platform: Any) -> Tuple[str, ...]:
    """Notes on what the platform's parser refuses in the model, or reads wrongly in its operator set."""
    from edgedla.importers import load_onnx

    trt, opset = platform.release.trt_text, opset_of(model)
    try:
        load_onnx(model, trt=platform.release.trt, open_batch=1)
    except ModelError as e:
        quantised = any(node.op_type in _QUANTISED for node in model.graph.node)
        instead = "; convert the float model, and quantize that: `edgedla quantize`" if quantised else ""
        return (f"{e.what}{instead}",)
    if opset <= OPSET or platform.release.trt >= (10,):
        return ()
    return (
        f"operator set {opset}: TensorRT {trt} reads reductions of 18 and newer wrongly; "
        f"`edgedla fix --opset {OPSET}` converts it",
    )


_QUANTISED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")


#: Operators of one activation that keep every element in its position.
_IN_PLACE = frozenset("Abs Add Cast Clip Div Identity Mul Neg Pad Relu Sub".split())
_TO_NCHW, _TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


def layout_notes(model: Any, options: bool = True) -> Tuple[str, ...]:
    """Notes on inputs and outputs that are transposed between N x H x W x C and N x C x H x W.

    Args:
        options: True if the source supports --inputs-as-nchw and --outputs-as-nchw.
    """
    graph = model.graph
    made = {name: node for node in graph.node for name in node.output}
    constants = {tensor.name for tensor in graph.initializer}
    notes = []
    for node in graph.node:
        perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), []) if node.op_type == "Transpose" else []
        source = node.input[0] if perm in (_TO_NCHW, _TO_NHWC) else ""
        while source in made and made[source].op_type in _IN_PLACE:
            source = next((name for name in made[source].input if name not in constants), "")
        if any(value.name == source for value in graph.input):
            notes.append(
                f"input {source} is N x H x W x C, which a transpose turns and `run` does not feed"
                + (f": --inputs-as-nchw {source} changes it" if options else "")
                if perm == _TO_NCHW
                else f"input {source} is turned to N x H x W x C in the network: what reads it wants that layout"
            )
        if perm == _TO_NHWC and any(value.name == node.output[0] for value in graph.output):
            notes.append(
                f"output {node.output[0]} is N x H x W x C, which costs a transpose"
                + (f": --outputs-as-nchw {node.output[0]} leaves it out" if options else "")
            )
    return tuple(notes)


def tidied(model: Any, inputs: Mapping[str, Sequence[int]], outputs: Sequence[Sequence[int]]) -> Any:
    """An onnx.ModelProto without no-op nodes, with fixed sizes, and with inferred shapes where possible.

    Args:
        inputs: sizes by name used for the run. outputs: sizes in order. Both empty if nothing ran.

    Raises:
        ModelError: too large for one ONNX file.
    """
    _require_one_file(model)
    without_identities(model)
    graph = model.graph
    if any(value.name in inputs and not _is_fixed(value) for value in graph.input):
        for value in graph.input:
            _fix(value, inputs.get(value.name))
        for value, dims in zip(graph.output, outputs):
            _fix(value, dims)
        # These were inferred from open sizes.
        del graph.value_info[:]
    # protobuf, and so in-memory shape inference, is limited to 2 GiB.
    with_shapes = inferred(model) if model.ByteSize() < (1 << 30) else None
    # Shapes are optional: the importer infers them itself.
    return model if with_shapes is None else with_shapes


#: protobuf's limit for one file, less room for its own fields.
_MOST_BYTES = (1 << 31) - (1 << 20)


def _require_one_file(model: Any) -> None:
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size > _MOST_BYTES:
        raise ModelError(
            f"its weights are {size / 1e9:.1f} GB, more than one ONNX file holds",
            allowed="less than 2 GiB",
            hint="export it with external data by the framework's own exporter: the other commands take such files",
        )


def _is_fixed(value: Any) -> bool:
    kind = value.type.tensor_type
    return kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim)


def _fix(value: Any, dims: Optional[Sequence[int]]) -> None:
    if dims is not None:
        del value.type.tensor_type.shape.dim[:]
        # An empty shape is a scalar's.
        value.type.tensor_type.shape.SetInParent()
        for size in dims:
            value.type.tensor_type.shape.dim.add(dim_value=size)
