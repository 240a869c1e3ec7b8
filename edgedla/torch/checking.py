"""`check` of a PyTorch module before training, and the same as an assertion for tests."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import List, Optional, Sequence

from torch import nn

from edgedla.placement.check_cost import check as check_model
from edgedla.regions import CheckReport
from edgedla.regions.report import LayerReport
from edgedla.regions.values import Placed
from edgedla.torch.exporting import OPSET, Inputs, to_onnx

_SHOWN = 8


class NotOnDla(AssertionError):
    """A module does not run on the DLA as required; see `report`."""

    def __init__(self, text: str, report: CheckReport) -> None:
        super().__init__(text)
        self.report = report


def check(
    module: nn.Module,
    example_inputs: Inputs,
    *,
    target: Optional[str] = None,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
    mode: str = "fallback",
    exporter: str = "torchscript",
    opset: int = OPSET,
) -> CheckReport:
    """Predicts what TensorRT will run on the DLA once the module is trained, with module paths and Python lines.

    The module is exported in evaluation mode and left unchanged; its weights do not matter.

    Args:
        example_inputs: one tensor, a sequence in the order of forward's parameters, or a mapping by their names.
        target, jetpack, trt, precision, mode: as for edgedla.check.
        exporter: "torchscript" or "dynamo": the exporter to be used for the trained network.

    Raises:
        UsageError, ModelError, EnvironmentMissing: as edgedla.check and to_onnx.
    """
    model = to_onnx(module, example_inputs, exporter=exporter, opset=opset)
    return check_model(model, target=target, jetpack=jetpack, trt=trt, precision=precision, mode=mode)


def assert_dla(
    module: nn.Module,
    example_inputs: Inputs,
    *,
    target: Optional[str] = None,
    max_loadables: Optional[int] = None,
    max_gpu_layers: int = 0,
    gpu: Sequence[str] = (),
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
    mode: str = "fallback",
    exporter: str = "torchscript",
) -> CheckReport:
    """Asserts in a test that a module runs on the DLA. Layers with an unknown verdict count as GPU layers.

    Args:
        max_loadables: maximum number of DLA loadables, each of which costs time. max_gpu_layers: maximum layers on the GPU.
        gpu: patterns of module paths whose layers may run on the GPU and are not counted, for example "classifier*".
        mode: "strict" and "standalone" must also pass as a whole.

    Raises:
        NotOnDla (an AssertionError): with the layers, their lines and reasons.
        UsageError, ModelError, EnvironmentMissing: as check.
    """
    report = check(
        module, example_inputs, target=target, jetpack=jetpack, trt=trt, precision=precision, mode=mode, exporter=exporter
    )
    offences = _offences(report, max_loadables, max_gpu_layers, gpu)
    if offences:
        raise NotOnDla("\n".join((f"{type(module).__name__} on {report.platform.module.title}:", *offences)), report)
    return report


def in_short(report: CheckReport) -> str:
    """The answer in a few lines: how much runs on the DLA, and the causes of the rest with their places."""
    if not report.platform.has_dla:
        return f"{report.model}: {report.platform.no_dla}"
    totals = report.totals
    head = (
        f"{report.model} on {report.platform.module.title}, {report.precision}: {totals.layers_dla} of "
        f"{totals.layers_dla + totals.layers_gpu} layers on the DLA, loadables: {totals.regions}"
    )
    return "\n".join((head, *(f"  {_line(report.layers[i])}" for i in _cutting(report)[:_SHOWN])))


def _offences(report: CheckReport, max_loadables: Optional[int], max_gpu_layers: int, gpu: Sequence[str]) -> List[str]:
    if not report.platform.has_dla:
        return [report.platform.no_dla or "there is no DLA"]
    lines: List[str] = []
    excused = [any(fnmatchcase(x.source.module if x.source else "", pattern) for pattern in gpu) for x in report.layers]
    on_gpu = [x for x, may in zip(report.layers, excused) if x.placed is Placed.GPU and not may]
    if len(on_gpu) > max_gpu_layers:
        lines.append(f"layers on the GPU: {len(on_gpu)}, allowed: {max_gpu_layers}")
        # Causes first: layers that are on the GPU because of another layer are fixed with it.
        ordered = sorted(on_gpu, key=lambda x: not x.cause.is_root)
        lines += [f"  {_line(x)}" for x in ordered[:_SHOWN]]
        if len(ordered) > _SHOWN:
            lines.append(f"  and {len(ordered) - _SHOWN} more")
    if max_loadables is not None and report.totals.regions > max_loadables:
        cuts = [report.layers[i] for i in _cutting(report)]
        lines.append(f"loadables: {report.totals.regions}, allowed: {max_loadables}; cut at:")
        lines += [f"  {_line(x)}" for x in cuts[:_SHOWN]]
    if report.strict is not None and report.strict.passes is not True:
        word = "fails" if report.strict.passes is False else "may fail"
        lines.append(f"a {report.mode} build {word}")
    return lines


def _cutting(report: CheckReport) -> List[int]:
    return [i for i, x in enumerate(report.layers) if x.placed is Placed.GPU and x.cause.is_root]


def _line(layer: LayerReport) -> str:
    place = f"{layer.source.module or 'top module'}" if layer.source is not None else layer.name
    if layer.source is not None and layer.source.file:
        place += f" ({layer.source.file}:{layer.source.line})"
    return f"{place}: {layer.type}: {layer.reason or 'on the GPU'}"
