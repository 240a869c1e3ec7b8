"""A model with plugins: scales are measured on the part in front of them, which is all that ONNX Runtime can run."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from edgedla.accuracy.plain.float32_model import Turned
from edgedla.accuracy.request import QuantizeRequest
from edgedla.errors import ModelError, UsageError
from edgedla.importers.model_file.onnx_file import read
from edgedla.importers.model_file.plugins import Front, part_in_front, plugin_names

#: Settings that change the model. Tensors that a plugin reads must keep their values.
_CHANGES = ("equalize", "bias_correction", "repair_fp16")


def before_plugins(path: Path, request: QuantizeRequest, turned: Optional[Turned]) -> Optional[Front]:
    """The part of the model in this file that can be quantised; None if it is all of it.

    Raises:
        ModelError: nothing stands in front of the plugins, or the model has other types than FLOAT.
        UsageError: the request asks for a change of the model, or for a metric of its outputs.
    """
    from edgedla.builder.onnx_input import read_model

    plugins = plugin_names(read(path).model)
    if not plugins:
        return None
    what = f"the model holds {', '.join(plugins)}, which ONNX Runtime lacks"
    if turned is not None:
        raise ModelError(
            f"{what}, and {turned.own.text}: nothing here proves that they do so in FLOAT",
            hint="`edgedla fix MODEL --precision int8 -o OUT` turns the types without a proof",
        )
    changes = [name for name in _CHANGES if getattr(request, name)]
    if changes:
        raise UsageError(
            f"{what}: the model is not changed in front of one", where=", ".join(changes), hint="leave the option out"
        )
    if request.metric is not None:
        raise UsageError(
            f"{what}, so nothing here computes the outputs that {request.metric.name} judges",
            where="metric",
            hint="--min-sqnr judges the tensors in front of it, and `edgedla deploy` judges them by a metric",
        )
    return part_in_front(read_model(path))


def front_note(front: Front) -> str:
    """What is not quantised, and what follows."""
    names, several = ", ".join(front.handed_over), front.left_out > 1
    rest = f"{front.left_out} nodes from there on get" if several else "node from there on gets"
    return (
        f"ONNX Runtime lacks {', '.join(front.plugins)}: scales and errors are of the part in front of it, up to {names}. The {rest} no "
        f"scale and run{'' if several else 's'} in FP16 or FP32; `edgedla help plugins` says how to give scales there"
    )
