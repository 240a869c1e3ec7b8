"""BuildPlan: everything a backend needs to know, decided before anything is built."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.errors import DocumentError
from edgedla.io.documents import header, require
from edgedla.text.printable import Fields
from edgedla.vocabulary import GPU, PRECISIONS


@dataclass(frozen=True)
class LayerPlan:
    """Where one TensorRT layer runs.

    Attributes:
        name: TensorRT's layer name. type: LayerType name.
        device: "GPU", "DLA0" or "DLA1".
        precision: "fp16", "int8", or None where TensorRT is free to choose (or the tensor types decide).
        capable: the rules' verdict on the layer alone: "dla", "gpu" or "unknown".
        outputs: names of the tensors it writes.
        onnx_node: the ONNX node that it comes from, "" for none.
        folded: the layer is predicted to be folded away at build time; `device` is passed to the builder anyway.
    """

    name: str
    type: str
    device: str
    precision: Optional[str] = None
    capable: str = "unknown"
    outputs: Tuple[str, ...] = ()
    onnx_node: str = ""
    folded: bool = False


@dataclass(frozen=True)
class IoPlan:
    """One network input or output at the border of the engine.

    Attributes:
        name: tensor name. shape_nchw: its static sizes. dtype: TensorRT DataType name at the border.
        format: edgedla.formats.TensorFormat name. scale: real = scale * stored for INT8, else None.
        dynamic: the model leaves sizes open, which the build fixes.
    """

    name: str
    is_input: bool
    shape_nchw: Tuple[int, ...]
    dtype: str
    format: str
    scale: Optional[float] = None
    dynamic: bool = False


@dataclass(frozen=True)
class Pools:
    """Upper bounds of the builder's memory pools in bytes; set explicitly because the defaults differ by release.

    `workspace_bytes` None leaves TensorRT's default (all device memory).
    """

    dla_sram_bytes: int
    dla_local_dram_bytes: int
    dla_global_dram_bytes: int
    workspace_bytes: Optional[int] = None


@dataclass(frozen=True)
class Calibration:
    """Where INT8 scales come from.

    Attributes:
        source: "cache" (a TensorRT calibration cache), "data" (measured on samples), "synthetic" (measured on random
            input: fine to try the flow, meaningless for accuracy), "qdq" (the model's Q/DQ nodes state them), "none".
        absmax: tensor name -> largest magnitude; scale = absmax / 127.
        detail: one line for people: file name, number of samples.
        apply: "calibrator" (an entropy 2 cache) or "ranges" (setDynamicRange, tensor by tensor).
        rules: tensor name -> id of the rule (rules/int8_scales.yaml) that changed its range or gave it one.
    """

    source: str = "none"
    absmax: Mapping[str, float] = field(default_factory=dict)
    detail: str = ""
    apply: str = "calibrator"
    rules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildPlan(Fields):
    """What to build, for which platform, and how. Pure data: equal plans give equal calls of TensorRT.

    Attributes:
        model: {"name", "sha256"}.
        platform: Platform.to_dict().
        mode: "hybrid" (TensorRT engine) or "standalone" (one DLA loadable).
        precision: "fp16" or "int8" (INT8 with FP16 allowed).
        dla_core: the DLA core for the builder; None if no layer runs on the DLA.
        gpu_fallback: whether any layer or reformat may run on the GPU.
        strongly_typed: whether tensor types decide the precision (TensorRT 11), without precision flags and calibrator.
        sparsity: whether to allow 2:4 structured sparsity.
        obey_precision: whether layer precisions are constraints, not preferences.
        concurrent_engines: how many engines share the core's (Orin) or the chip's (Xavier) SRAM.
        regions: expected DLA subgraphs as (first layer, last layer, number of layers).
        timing_cache: whether builds into this folder share kernel timings.
        numerics: feature -> variant of rules/numerics.yaml, for features whose simulation departs from the default.
        notes: what the user should know.
    """

    model: Mapping[str, str]
    platform: Mapping[str, Any]
    mode: str
    precision: str
    dla_core: Optional[int]
    gpu_fallback: bool
    strongly_typed: bool
    layers: Tuple[LayerPlan, ...]
    io: Tuple[IoPlan, ...]
    pools: Pools
    calibration: Calibration = field(default_factory=Calibration)
    sparsity: bool = False
    obey_precision: bool = False
    concurrent_engines: int = 1
    timing_cache: bool = True
    regions: Tuple[Tuple[str, str, int], ...] = ()
    notes: Tuple[str, ...] = ()
    numerics: Mapping[str, str] = field(default_factory=dict)

    @property
    def trt(self) -> Tuple[int, ...]:
        return tuple(int(n) for n in str(self.platform["trt"]).split("."))

    @property
    def direct_io(self) -> bool:
        """Whether inputs and outputs need no reformat: without GPU fallback it would be GPU work (developer guide 8.6.1, 12)."""
        return not self.gpu_fallback

    @property
    def running(self) -> Tuple[LayerPlan, ...]:
        """The layers that remain at run time; counts and placements cover only these."""
        return tuple(layer for layer in self.layers if not layer.folded)

    @property
    def dla_layers(self) -> Tuple[LayerPlan, ...]:
        return tuple(layer for layer in self.running if layer.device != GPU)

    @property
    def inputs(self) -> Tuple[IoPlan, ...]:
        return tuple(io for io in self.io if io.is_input)

    @property
    def outputs(self) -> Tuple[IoPlan, ...]:
        return tuple(io for io in self.io if not io.is_input)

    def to_dict(self) -> Dict[str, Any]:
        document = {**header("edgedla.plan"), **super().to_dict()}
        # Written only where they depart from the default, so that other plans keep their text.
        if not self.numerics:
            del document["numerics"]
        for layer in document["layers"]:
            if not layer["folded"]:
                del layer["folded"]
        return document

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, sort_keys=True) + "\n"


def plan_from_dict(document: Mapping[str, Any], where: str = "plan") -> BuildPlan:
    """The plan from its document.

    Raises:
        DocumentError: another schema, a missing or unknown field, a value of the wrong form.
    """
    require(document, "edgedla.plan", where)
    values = {k: v for k, v in document.items() if k not in ("document", "schema_version", "schema")}
    try:
        values["layers"] = tuple(LayerPlan(**{**v, "outputs": tuple(v["outputs"])}) for v in values["layers"])
        values["io"] = tuple(IoPlan(**{**v, "shape_nchw": tuple(v["shape_nchw"])}) for v in values["io"])
        values["pools"] = Pools(**values["pools"])
        values["calibration"] = Calibration(**values["calibration"])
        values["regions"] = tuple((first, last, size) for first, last, size in values["regions"])
        values["notes"] = tuple(values["notes"])
        plan = BuildPlan(**values)
        if plan.mode not in ("hybrid", "standalone") or plan.precision not in PRECISIONS or not plan.trt:
            raise ValueError(f"mode {plan.mode!r}, precision {plan.precision!r}")
        return plan
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise DocumentError(f"the plan lacks, repeats or misnames a field: {e}", where=where) from e
