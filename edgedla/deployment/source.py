"""The model of a deployment as one ONNX file with its weights, from any form it came in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from edgedla.accuracy.plain.float32_model import Turned, turned
from edgedla.conversion.cached import conversion_line, converted, kept_scales
from edgedla.conversion.objects import object_kind
from edgedla.deployment.claim import model_name
from edgedla.deployment.request import RANDOM, DeployRequest
from edgedla.errors import EdgedlaError, UsageError
from edgedla.importers.model_file.float32_types import lacks_half
from edgedla.importers.model_file.plugins import Front, part_in_front
from edgedla.importers.shared_parameters import read_directly, shared_parameters
from edgedla.io.files import write_atomic
from edgedla.placement.check_cost import check
from edgedla.regions.check import untrained_note
from edgedla.targets import platform_for

#: Facts of a conversion; None if the model came as ONNX.
Facts = Optional[Dict[str, Any]]


def as_source(
    model: Any, example_inputs: Any, folder: Path, request: DeployRequest, say: Optional[Callable[[str], None]]
) -> Tuple[Path, Facts, Optional[Turned], Optional[Front], str]:
    """(ONNX file in the folder, named as the model; facts of its conversion; what was converted to FLOAT in it; the part in front of
    plugins, if the file holds that alone; a note if it was exported untrained).

    An untrained model's parameters that PyTorch shares are read directly, so that every step sees the layers after training.

    Plugins are left out with what reads their results: ONNX Runtime lacks them, and each step is judged by outputs.

    From TensorRT 11 on, a model's types decide the precision, and the DLA runs FP16: there FLOAT16 types stay.

    Args:
        model, example_inputs: as for `deploy`.

    Raises:
        ModelError, UsageError, EnvironmentMissing: as `convert`.
    """
    from edgedla.builder.building import as_file
    from edgedla.builder.onnx_input import read_model

    name = model_name(model)
    facts: Facts = None
    if object_kind(model) is not None:
        from edgedla.conversion.convert import convert

        made = convert(model, example_inputs=example_inputs, shapes=request.shapes, **request.platform)
        model, facts = made.model, made.to_dict()
        if say is not None:
            say(conversion_line(facts))
    elif example_inputs is not None:
        raise UsageError(
            "example inputs for a model that states its own sizes",
            where="example_inputs",
            allowed="with a PyTorch module, a Keras model or a TensorFlow module",
            hint="shapes= fixes the sizes of an ONNX model",
        )
    elif isinstance(model, (str, os.PathLike)):
        model, facts = converted(os.fspath(model), shapes=request.shapes, say=say, **request.platform)
        if say is not None and facts is not None and kept_scales(model) is not None:
            say(f"the INT8 scales in {facts['source']} are not used: the samples give others; `edgedla convert` writes them")
    with as_file(model) as path:
        proto = read_model(path)
    front = part_in_front(proto)
    if front is not None:
        proto = front.model
        if say is not None:
            say(front_text(front))
    untrained = _untied(proto, request)
    if untrained and say is not None:
        say(untrained)
    typed = platform_for(**request.platform).release.strongly_typed
    wide = turned(proto) if not typed or lacks_half(proto) else None
    if wide is not None and say is not None:
        say(f"types converted to FLOAT: {wide.own.text}")
    source = proto if wide is None else wide.model
    return (write_atomic(folder / f"{name}.onnx", source.SerializeToString(), follow=False), facts, wide, front, untrained)


def _untied(proto: Any, request: DeployRequest) -> str:
    """Reads shared parameters directly; what that changes, "" without any."""
    if not shared_parameters(proto.graph):
        return ""
    report = check(proto.SerializeToString(), **request.platform, **request.sizes)
    read_directly(proto)
    return "" if report.as_exported is None else untrained_note(report.as_exported)


def front_text(front: Front) -> str:
    """Which part of a model with plugins is deployed."""
    return (
        f"ONNX Runtime lacks {', '.join(front.plugins)}: deployed is the part in front of it, whose outputs are "
        f"{', '.join(o.name for o in front.model.graph.output)}"
    )


def check_sizes(model: str, requests: Sequence[DeployRequest]) -> None:
    """Reads the model and a sample at the sizes of each request, before the first one is deployed.

    Raises:
        ModelError, UsageError, DataError, EnvironmentMissing: the model or the samples do not accept one of the sizes; the message
            names which.
    """
    from edgedla.builder.onnx_input import read_model, with_static_inputs
    from edgedla.importers import load_onnx
    from edgedla.preprocess.pictures import open_samples
    from edgedla.quantization.session import model_input_specs

    for request in requests:
        size = ", ".join(f"{name}:{'x'.join(map(str, dims))}".lstrip(":") for name, dims in (request.shapes or {}).items())
        try:
            source, _ = converted(model, shapes=request.shapes, **request.platform)
            graph = load_onnx(
                source, trt=platform_for(**request.platform).release.trt, shapes=request.shapes, batch=request.batch
            )
            for data in (request.data, request.holdout):
                if data is not None and str(data) != RANDOM:
                    static = with_static_inputs(read_model(Path(source)), {n: graph.tensors[n].dims for n in graph.inputs})
                    open_samples(data, model_input_specs(static), request.preprocess, 1, like=request.data)
        except EdgedlaError as e:
            raise type(e)(e.what, where=f"--shapes {size}, {e.where}", allowed=e.allowed, hint=e.hint) from e
