"""Translates Q/DQ to a calibration cache and back, for the TensorRT release of the build. Needs no samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from edgedla.accuracy.plain.qdq_form import form_note, quantised_model
from edgedla.accuracy.result import publish_result, require_no_foreign_model
from edgedla.builder.plan.from_quantization import CACHE, MODEL, PRECISIONS
from edgedla.errors import UsageError
from edgedla.io.files import usable_folder
from edgedla.quantization.calibration_cache import write_cache
from edgedla.quantization.qdq import has_qdq, strip_qdq
from edgedla.quantization.unify import dla_scales
from edgedla.targets import Platform

#: producer_name of models that edgedla.torch writes; a later export may replace them.
PRODUCER = "edgedla.torch"


@dataclass(frozen=True)
class Translated:
    """A model in the form that a release takes for INT8.

    Attributes:
        form: "cache" (plain ONNX, calibration cache, layer precisions) or "qdq" (one ONNX file with Q/DQ).
        model: serialised ONNX. cache, precisions: text; "" if the form has none.
        absmax: tensor -> range. fp16_layers: TensorRT layers that stay in FP16.
    """

    form: str
    model: bytes
    absmax: Mapping[str, float]
    cache: str = ""
    precisions: str = ""
    fp16_layers: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = field(default=())

    def save(self, folder: Union[str, Path]) -> Tuple[Path, ...]:
        """Writes model.onnx and, for the form "cache", calib.cache and layer-precisions.txt. Returns the paths.

        Raises:
            UsageError: the folder holds a model.onnx that edgedla did not write.
        """
        root = usable_folder(folder)
        if not exported_by_torch(root / MODEL):
            require_no_foreign_model(root, self.model)
        files: Dict[str, Union[bytes, str]] = {MODEL: self.model}
        if self.cache:
            files[CACHE] = self.cache
        if self.precisions:
            files[PRECISIONS] = self.precisions + "\n"
        return publish_result(root, files)


def exported_by_torch(path: Path) -> bool:
    """True for a model that edgedla.torch wrote: the producer's name is the second field of a ModelProto."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return b"\x12" + bytes([len(PRODUCER)]) + PRODUCER.encode() in stream.read(32)


def translate(model: Any, platform: Platform, absmax: Optional[Mapping[str, float]] = None, form: str = "int8") -> Translated:
    """INT8 of an onnx.ModelProto in the form that the platform's TensorRT takes for the DLA.

    - Up to TensorRT 10: removes Q/DQ and writes the scales into a calibration cache of that release.
    - TensorRT 11: keeps Q/DQ, or inserts it from `absmax`.

    Args:
        absmax: ranges of a model without Q/DQ, for example of a cache. form: of the Q/DQ that is inserted, one of QDQ_FORMS.

    Raises:
        UsageError: neither Q/DQ nor ranges. ModelError: a cache cannot express a Q/DQ node; names the node.
    """
    typed = platform.release.strongly_typed
    if has_qdq(model):
        if absmax is not None:
            raise UsageError("the model holds Q/DQ, and a cache gives scales too", allowed="one of them")
        if not typed:
            return _without(model, platform)
        return Translated("qdq", model.SerializeToString(), {}, notes=("the model holds Q/DQ already: written as it is",))
    if absmax is None:
        raise UsageError(
            "the model holds no Q/DQ, and there are no samples",
            where="--data",
            hint="give samples with --data, or the scales of a cache with --calib",
        )
    if typed:
        ranges = dict(absmax)
        made = quantised_model(model, ranges, (), form, platform)
        return Translated("qdq", made.SerializeToString(), ranges, notes=(form_note(form),))
    return Translated("cache", model.SerializeToString(), dict(absmax), write_cache(absmax, platform.release.trt))


def _without(model: Any, platform: Platform) -> Translated:
    from edgedla.builder.building import as_file
    from edgedla.importers import load_onnx

    stripped = strip_qdq(model)
    with as_file(stripped.model) as path:
        graph = load_onnx(path, trt=platform.release.trt)
    scales = dla_scales(graph, stripped.ranges, platform)
    nodes = set(stripped.fp16_nodes)
    layers = tuple(x.name for x in graph.layers if x.onnx_node in nodes)
    notes = [f"{stripped.pairs} Q/DQ pairs and {stripped.weights} quantised weights removed"]
    if stripped.rounded_anew:
        most = max(stripped.rounded_anew.values())
        notes.append(
            f"{len(stripped.rounded_anew)} weights have scales above absmax / 127 (by up to {most:.1%}): "
            "TensorRT rounds them to other levels than the model does"
        )
    moved = sum(c.before is None for c in scales.changes)
    if moved:
        tensors = "1 tensor" if moved == 1 else f"{moved} tensors"
        notes.append(f"{tensors} between them got a scale by rule (rules/int8_scales.yaml)")
    if layers:
        notes.append(f"{len(layers)} layers read or write a tensor without Q/DQ and stay in FP16")
    # The model's own scales stay bit for bit; rules only fill in tensors without one.
    absmax = {**{c.tensor: c.after for c in scales.changes if c.before is None}, **stripped.ranges}
    return Translated(
        "cache",
        stripped.model.SerializeToString(),
        absmax,
        write_cache(absmax, platform.release.trt),
        ",".join(f"{name}:fp16" for name in layers),
        layers,
        tuple(notes),
    )
