"""`build --calib-search`: chooses a build's scales with `quantize` and not from each tensor's histogram alone."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Iterator, Optional

from edgedla.accuracy.phases.job import Say
from edgedla.arguments import Progress
from edgedla.builder.request import BuildRequest, Model, resolved
from edgedla.errors import ModelError, UsageError

if TYPE_CHECKING:
    from edgedla.accuracy.result import Quantized

_OPTION = "--calib-search"


@contextmanager
def searched(
    model: Model,
    request: BuildRequest,
    say: Optional[Say] = None,
    progress: Optional[Progress] = None,
    page: Optional[Callable[[Quantized], str]] = None,
) -> Iterator[BuildRequest]:
    """The request with scales that `quantize` chooses on its samples, by the error at the outputs on held-out samples.

    The folder with the scales is temporary; the artifact keeps cache and report.

    Args:
        page: makes report.html from the result.

    Raises:
        UsageError: the build measures no scales: no INT8, no samples, given scales, or a release that takes Q/DQ.
        Errors of `quantize`.
    """
    request = resolved(request)
    _refuse(request)
    result = _quantized(model, request, say, progress)
    with tempfile.TemporaryDirectory(prefix="edgedla-") as folder:
        result.save(folder, {} if page is None else {"report.html": page(result)})
        yield replace(request, calib=Path(folder), calib_method="auto")


def _refuse(request: BuildRequest) -> None:
    from edgedla.targets import platform_for

    if request.precision != "int8":
        raise UsageError(f"{request.precision.upper()} has no scales to search", where=_OPTION, allowed="--precision int8")
    if request.calib_data is None or request.calib is not None:
        what = "there are no samples to search on" if request.calib is None else "the scales are given by --calib"
        raise UsageError(what, where=_OPTION, allowed="--calib-data without --calib")
    platform = platform_for(request.target, jetpack=request.jetpack, trt=request.trt)
    if platform.release.strongly_typed:
        raise UsageError(
            f"TensorRT {platform.release.trt_text} takes INT8 scales only as Q/DQ nodes of the model",
            where=_OPTION,
            hint="`edgedla quantize` writes that model",
        )


def _require_float32(path: Path) -> None:
    """Raises:
    ModelError: the search needs a model in FP32, and the build takes the model as it is.
    """
    from edgedla.importers.model_file.float32_types import own_types
    from edgedla.importers.model_file.onnx_file import read

    own = own_types(read(path).model)
    if own is not None:
        raise ModelError(
            f"{own.text}: edgedla measures and simulates INT8 only on models in FP32",
            where=str(path),
            hint="`edgedla quantize` converts the types to FP32 and writes the model with its scales: build that one",
        )


def _quantized(model: Model, request: BuildRequest, say: Optional[Say], progress: Optional[Progress]) -> Quantized:
    from edgedla.accuracy.quantize import quantize
    from edgedla.accuracy.request import QuantizeRequest
    from edgedla.builder.building import as_file
    from edgedla.importers.model_file.embedded_preprocess import embedded_preprocess
    from edgedla.importers.model_file.onnx_file import read
    from edgedla.preprocess.pictures import open_samples
    from edgedla.preprocess.settings import with_embedded

    data = request.calib_data
    assert data is not None
    with as_file(model) as path:
        _require_float32(path)
        pictures = with_embedded(request.preprocess, embedded_preprocess(read(path).model, str(path)))
        quantize_request = QuantizeRequest(
            target=request.target,
            jetpack=request.jetpack,
            trt=request.trt,
            method=request.calib_method,
            shapes=request.shapes,
            batch=request.batch,
        )
        return quantize(path, lambda specs: open_samples(data, specs, pictures), quantize_request, say=say, progress=progress)
