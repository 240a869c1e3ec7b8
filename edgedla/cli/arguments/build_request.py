"""The options of `build` as a BuildRequest."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from edgedla.cli.arguments.preprocess import preprocess_settings
from edgedla.errors import UsageError

if TYPE_CHECKING:
    from edgedla.builder.request import BuildRequest


def build_request(given: Dict[str, Any]) -> BuildRequest:
    from edgedla.builder.plan.from_quantization import measured_with
    from edgedla.builder.plan.pools import parse_pools
    from edgedla.builder.request import BuildRequest, PlanOptions
    from edgedla.quantization.numerics import parse_numerics

    options = PlanOptions(
        dla_core=given["dla_core"] or 0,
        devices=_pairs(given["layer_devices"], "--layer-devices", str.upper),
        precisions=_pairs(given["layer_precisions"], "--layer-precisions", str.lower),
        input_formats=_formats(given["input_formats"]),
        output_formats=_formats(given["output_formats"]),
        reformat_free=given["reformat_free"],
        pools=parse_pools(given["pools"] or ""),
        concurrent_engines=given["engines"],
        sparsity=given["sparsity"] == "enable",
        obey_precision=given["obey_precision"],
        set_ranges=given["set_ranges"],
        timing_cache=not given["no_timing_cache"],
        allow_unknown=given["allow_unknown"],
        numerics=parse_numerics(given["numerics"] or ""),
    )
    return BuildRequest(
        target=given["target"],
        jetpack=given["jetpack"],
        trt=given["trt"],
        precision=given["precision"] or "",
        mode=given["mode"] or "hybrid",
        backend="auto" if given["backend"] == "trtexec" else given["backend"],
        shapes=given["shapes"],
        batch=given["batch"],
        calib=_path(given["calib"]),
        calib_data=_path(given["calib_data"]),
        calib_method=given["calib_method"],
        preprocess=preprocess_settings(given, measured_with(_path(given["calib"]))),
        placement=_path(given["placement"]),
        options=options,
        allow_drift=given["allow_drift"],
        force=given["force"],
    )


def with_own_scales(model: str, source: str, request: BuildRequest) -> BuildRequest:
    """The request with the scales of a quantised model of another framework, unless the request names scales itself.

    Args:
        model: the ONNX file of `source`, which the user named.

    Raises:
        UsageError: the release takes scales only as Q/DQ nodes of the model.
    """
    from edgedla.builder.request import resolved
    from edgedla.conversion.cached import kept_scales
    from edgedla.targets import platform_for

    whole = resolved(request)
    if whole.precision != "int8" or (whole.calib, whole.calib_data) != (None, None):
        return request
    scales = kept_scales(model)
    if scales is None:
        return request
    if platform_for(whole.target, jetpack=whole.jetpack, trt=whole.trt).release.strongly_typed:
        raise UsageError(
            "this TensorRT takes INT8 scales only as Q/DQ nodes of the model",
            where=source,
            hint=f"`edgedla convert {shlex.quote(source)} --target {whole.target} --trt {whole.trt} -o MODEL.onnx` writes one with them",
        )
    return replace(request, calib=scales)


def _path(text: Optional[str]) -> Optional[Path]:
    return None if text is None else Path(text)


def _formats(text: Optional[str]) -> Tuple[Any, ...]:
    from edgedla.formats import parse_io_formats

    return parse_io_formats(text) if text else ()


def _pairs(text: Optional[str], option: str, spell: Any) -> Dict[str, str]:
    """`name:value,...`; a name ends at the last colon of its entry."""
    pairs: Dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, colon, value = part.rpartition(":")
        if not colon or not name:
            raise UsageError(f"{part!r} is not NAME:VALUE", where=option, allowed="name:value, several separated by commas")
        pairs[name] = spell(value)
    return pairs
