"""Refuses outputs and scores that hold NaN or infinity, and finds the layer where they begin."""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping, Optional, Type

import numpy as np

from edgedla.errors import DataError, EdgedlaError, RunError
from edgedla.quantization.samples import Feed

#: A feed -> the first layer whose output is not finite, in words; "" if that cannot be told.
FirstFault = Callable[[Feed], str]
#: What rounding puts in front of a tensor's name (see builder.host.rounding).
_ADDED = re.compile(r"^edgedla\w*/(?:(?:unrounded|half|levels|fp16|int8)/)+")


def error_of(basis: str) -> Type[EdgedlaError]:
    """The error for outputs that are not finite: in FP32 the model or the data is bad; elsewhere the run failed."""
    return DataError if basis == "fp32" else RunError


def require_finite(
    outputs: Mapping[str, np.ndarray], where: str, basis: str, sample: int, feed: Feed, first: Optional[FirstFault] = None
) -> None:
    """Raises DataError (basis "fp32") or RunError: an output holds NaN or infinity.

    Args:
        where: the network's name. sample: its number. first: names the layer where NaN or infinity begins.
    """
    for name, values in outputs.items():
        array = np.asarray(values)
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        count = int(array.size - np.isfinite(array).sum())
        kind = "NaN" if np.isnan(array).any() else "infinite"
        began = first(feed) if first is not None else ""
        raise error_of(basis)(
            f"output {name!r} holds NaN or infinity in sample {sample}: {count} of {array.size} values, {kind} among them"
            + (f"; it begins at {began}" if began else ""),
            where=where,
            hint="are the weights and the preprocessing right?"
            if basis == "fp32"
            else "a value beyond 65504 is infinite in FP16; `edgedla quantize --repair-fp16` names the tensors",
        )


def require_score(value: Any, metric: str, where: str, basis: str, sample: Optional[int] = None) -> None:
    """Raises DataError (basis "fp32") or RunError: a metric is NaN or infinite, of one sample or (None) of all together."""
    if isinstance(value, (int, float)) and not np.isfinite(value):
        raise error_of(basis)(
            f"{metric} is not a number{'' if sample is None else f' in sample {sample}'}: {value}",
            where=where,
            hint="a metric of your own must give a finite number for every sample; mAP needs frames with an object",
        )


def first_not_finite(model: Any) -> FirstFault:
    """Of an onnx.ModelProto, or of a function that reads one: names the first layer that makes NaN or infinity.

    Runs the network once more, with every tensor as an output.
    """

    def first(feed: Feed) -> str:
        from edgedla.accuracy.measured_outputs import output_fields
        from edgedla.importers.model_file.tensor_types import float_activations
        from edgedla.quantization.session import open_session

        try:
            proto = model() if callable(model) else model
            names = tuple(n for n in float_activations(proto) if n not in feed)
            session = open_session(proto.SerializeToString() + output_fields(proto, names), optimize=False)
            values = dict(zip(names, session.run(names, feed)))
        except EdgedlaError:
            return ""
        for node in proto.graph.node:
            for name in node.output:
                if name in values and not np.isfinite(values[name]).all():
                    shown = _ADDED.sub("", name)
                    return f"{node.op_type} {_ADDED.sub('', node.name) or shown!r}, tensor {shown!r}"
        return ""

    return first
