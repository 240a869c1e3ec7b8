"""prepare_qat and export_qat: prepare a module for training with the DLA's rounding, and export it for a build."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Callable, Dict, Iterable, Mapping, Sequence, Tuple, Union

import torch
from torch import nn

from edgedla.accuracy.translate import PRODUCER, Translated, translate
from edgedla.errors import ModelError, UsageError
from edgedla.quantization.collect import collect
from edgedla.quantization.methods import DEFAULT, thresholds
from edgedla.targets import Platform
from edgedla.torch.calls import Key, Paths, Recorder
from edgedla.torch.exporting import OPSET, Inputs, evaluating, export, forward_inputs
from edgedla.torch.qat.calibrate import samples_of
from edgedla.torch.qat.mode import WEIGHT_AXIS, fold, operands
from edgedla.torch.qat.module import QatModule
from edgedla.torch.qat.places import Places, places_of
from edgedla.torch.qat.rounding import rounded_weight

RANGES = ("learned", "observed")


def prepare_qat(
    module: nn.Module,
    example_inputs: Inputs,
    platform: Union[str, Platform],
    *,
    calibration: Union[None, Iterable[Any], Mapping[str, float]] = None,
    method: str = DEFAULT,
    ranges: str = "learned",
    freeze_statistics: bool = True,
    integer_sums: bool = False,
    fp16: Sequence[str] = (),
    opset: int = OPSET,
) -> QatModule:
    """A module that computes like the host backend: train it as usual, then call export_qat.

    Values are rounded where the DLA stores or reads INT8 and FP16; convolution, BatchNormalization and activation count as
    one layer. Tensors that share a scale on the DLA share a range. Weights are rounded per output channel.

    Args:
        example_inputs: as for check. Their first dim is the export's batch; batches in training may differ.
        platform: a Platform, or a target's name for its newest release with DLA.
        calibration: batches for the initial ranges (a DataLoader; tuples begin with the inputs), or ranges by ONNX tensor,
            for example `edgedla.quantize(...).absmax`. None uses the example inputs.
        method: of `edgedla quantize`, for batches.
        ranges: "learned" trains them with the weights; "observed" follows the batches by a moving average.
        freeze_statistics: BatchNormalization keeps its initial statistics. Use False for modules not yet trained, or for
            many epochs of large batches.
        integer_sums: evaluation mode sums INT8 products as integers, independent of the order: the levels are those of a
            host artifact built with `--numerics int8-accumulation=int32`, also on a GPU. With FP32 sums, the default of
            both sides, values halfway between two levels may fall to either.
        fp16: patterns of module paths whose layers stay in FP16, for example ("head.*",).

    Raises:
        UsageError, ModelError, DataError, EnvironmentMissing.
    """
    if ranges not in RANGES:
        raise UsageError(f"unknown ranges {ranges!r}", allowed=", ".join(RANGES))
    exported = export(module, example_inputs, opset=opset)
    places = places_of(exported, platform, fp16)
    _refuse_unmergeable(module, places)
    prepared = QatModule(module, places, ranges == "learned", freeze_statistics, integer_sums)
    prepared.train(module.training)
    if isinstance(calibration, Mapping):
        prepared.set_ranges(calibration)
    else:
        batches: Iterable[Any] = calibration if calibration is not None else [forward_inputs(module, example_inputs)[0]]
        calibrate(prepared, batches, method)
    parameter = next(module.parameters(), None)
    return prepared if parameter is None else prepared.to(parameter.device)


def calibrate(prepared: QatModule, batches: Iterable[Any], method: str = DEFAULT) -> None:
    """Chooses all ranges anew from batches, as `edgedla quantize` would, with the present weights; of zeros alone range 1.

    Raises:
        DataError: no batch, or a batch of another size.
    """
    model = export_plain(prepared)
    chosen = thresholds(collect(model, samples_of(model, batches)), method)
    prepared.set_ranges({name: chosen.get(name, 0.0) or 1.0 for name in prepared.places.tensors})


def _refuse_unmergeable(module: nn.Module, places: Places) -> None:
    for key in places.folded.values():
        part = module.get_submodule(key[0])
        if not isinstance(part, nn.modules.batchnorm._BatchNorm) or part.running_mean is None:
            raise ModelError(
                f"{places.calls[key]} is a batch normalization without statistics of its own",
                hint="use nn.BatchNorm2d with track_running_stats",
            )


def export_qat(prepared: QatModule) -> Translated:
    """The trained network for a build: plain ONNX, calibration cache, layer precisions; Q/DQ for TensorRT 11.

    Its weights are those that the DLA will compute with, so rounding them again changes nothing.

    Raises:
        ModelError: the module's forward makes other calls than when it was prepared.
    """
    places = prepared.places
    model = export_plain(prepared, rounded=True)
    result = translate(model, places.platform, prepared.ranges())
    if not places.fp16_layers or places.platform.release.strongly_typed:
        return result
    from dataclasses import replace

    precisions = ",".join(f"{name}:fp16" for name in places.fp16_layers)
    return replace(result, precisions=precisions, fp16_layers=places.fp16_layers)


def export_plain(prepared: QatModule, rounded: bool = False) -> Any:
    """The module as an onnx.ModelProto without rounding of activations.

    Args:
        rounded: export the weights that the DLA computes with.

    Raises:
        ModelError: the module's forward makes other calls than when it was prepared.
    """
    places, module = prepared.places, prepared.module
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    inputs = {
        i.name: torch.zeros([d.dim_value for d in i.type.tensor_type.shape.dim], device=device) for i in places.model.graph.input
    }
    opset = next(o.version for o in places.model.opset_import if o.domain in ("", "ai.onnx"))

    def recorder(paths: Paths) -> Recorder:
        return _WithWeights(paths, module, places)

    names = [o.name for o in places.model.graph.output]
    with evaluating(prepared):
        exported = export(
            module, list(inputs.values()), opset=opset, output_names=names, make_recorder=recorder if rounded else Recorder
        )
    nodes, before = (
        [(node.name, node.op_type) for node in model.graph.node if node.op_type != "Constant"]
        for model in (exported.model, places.model)
    )
    if nodes != before:
        other = next((a or b for a, b in zip_longest(nodes, before) if a != b), ("", ""))
        raise ModelError("the module's forward was changed after prepare_qat", where=other[0] or None)
    exported.model.producer_name = PRODUCER
    return exported.model


class _WithWeights(Recorder):
    """Traces an export with the weights that the DLA computes with, BatchNormalization merged into them."""

    def __init__(self, paths: Paths, module: nn.Module, places: Places) -> None:
        super().__init__(paths)
        self.module, self.places = module, places
        self.merged = set(places.folded.values())

    def on_call(self, key: Key, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        place = self.places.by_call.get(key)
        if key in self.merged:
            return super().on_call(key, lambda *values, **_: values[0], args, kwargs)
        norm = self.places.folded.get(key)
        if place is None or key[1] not in WEIGHT_AXIS or (norm is None and place.mode != "int8"):
            return super().on_call(key, func, args, kwargs)
        weight, bias, rest = operands(args, kwargs)
        if hasattr(weight, "edgedla_call") or weight.dim() < 2:
            return super().on_call(key, func, args, kwargs)
        # What is computed without a tracing state becomes a constant of the trace.
        tracing, axis = torch._C._get_tracing_state(), WEIGHT_AXIS[key[1]]
        torch._C._set_tracing_state(None)
        try:
            if norm is None:
                weight = rounded_weight(weight, axis)
            else:
                weight, bias = fold(weight, bias, self.module.get_submodule(norm[0]), axis, place.mode)
            weight, bias = weight.detach(), None if bias is None else bias.detach()
        finally:
            torch._C._set_tracing_state(tracing)
        if key[1] in ("matmul", "__matmul__"):
            return super().on_call(key, func, (args[0], weight), rest)
        return super().on_call(key, func, (args[0], weight, bias, *args[3:]), rest)
