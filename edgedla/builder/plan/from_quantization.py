"""Takes a build's scales from a folder of `edgedla quantize`: its cache, its layers in FP16, its report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.builder.request import BuildRequest
from edgedla.errors import DocumentError, UsageError
from edgedla.io.documents import require
from edgedla.io.files import sha256_of
from edgedla.io.strict_documents import read_json
from edgedla.preprocess.settings import PreprocessSettings, agreed, settings_of
from edgedla.targets import Platform

CACHE, PRECISIONS, REPORT, MODEL = "calib.cache", "layer-precisions.txt", "quantization.json", "model.onnx"
PAGE = "report.html"
#: One part of trtexec's --layerPrecisions; names may hold commas and colons.
_PRECISION = re.compile(r"(.+?):(fp16|int8)(?:,|\Z)")


def is_quantization(calib: Optional[Path]) -> bool:
    """True if `calib` is a folder."""
    return calib is not None and Path(calib).is_dir()


def with_quantization(request: BuildRequest, model: Path, identity: Mapping[str, Any], platform: Platform) -> BuildRequest:
    """The request with cache and layers from the folder `request.calib`; unchanged if `calib` is not a folder.

    Precisions and devices of the request itself win.

    Args:
        model: path of the model that is built. identity: its identity, see model_identity.

    Raises:
        DocumentError: the folder holds no whole result.
        UsageError: scales, or options to make them, in a build that uses none; or scales of another model. Tensors of
            two networks often have equal names, and ranges of one would be silently wrong for the other.
    """
    _refuse_unused(request, platform)
    if request.calib is None:
        return request
    _require_taker(request, platform)
    if not is_quantization(request.calib):
        return request
    folder = Path(request.calib)
    document = _translated(folder) if _is_translated(folder) else _document(folder)
    typed = platform.release.strongly_typed
    if not typed and not (folder / CACHE).is_file():
        raise DocumentError("no calibration cache beside the report", where=str(folder), hint="run `edgedla quantize` again")
    _require_same_model(folder, document, model, identity)
    dead, forced = _dead(document, str(folder / REPORT))
    if dead and not forced:
        raise UsageError(
            f"these scales round {dead} away",
            where=str(folder / REPORT),
            hint="`edgedla quantize` with more samples or another --method; its --force takes them all the same",
        )
    options, where = request.options, str(folder / REPORT)
    return replace(
        request,
        calib=None if typed else folder / CACHE,
        options=replace(
            options,
            precisions={**_by_layer(document, "precisions", where), **options.precisions},
            devices={**_by_layer(document, "devices", where), **options.devices},
        ),
    )


def pictures_of(request: BuildRequest) -> Optional[PreprocessSettings]:
    """How pictures become inputs: as where the scales of the folder `request.calib` were measured, else as the request says.

    Raises:
        DocumentError: the folder holds no whole result. UsageError: the request says otherwise.
    """
    made_for = measured_with(request.calib)
    if made_for is None or request.preprocess is None:
        return made_for or request.preprocess
    return agreed(
        made_for, request.preprocess.to_dict(), "preprocess", f"the scales in {request.calib}, which were measured with"
    )


def measured_with(calib: Optional[Path]) -> Optional[PreprocessSettings]:
    """How pictures became inputs when the scales of the folder `calib` were measured; None if nothing there says it."""
    if calib is None or not is_quantization(calib) or _is_translated(calib):
        return None
    values, where = _document(calib).get("preprocess", {}), str(calib / REPORT)
    if not isinstance(values, dict):
        raise DocumentError("preprocess is not a table", where=where, hint="run `edgedla quantize` again")
    return settings_of(values, where) if values else None


def _refuse_unused(request: BuildRequest, platform: Platform) -> None:
    """Raises UsageError for options about measuring or passing scales in a build without scales."""
    typed = platform.release.strongly_typed
    measured = request.calib_method.lower() != "auto"
    for where, given in (("calib_method", measured), ("set_ranges", request.options.set_ranges)):
        if not given:
            continue
        if request.precision != "int8":
            raise UsageError(f"{request.precision.upper()} takes no scales", where=where, allowed="--precision int8")
        if typed:
            raise UsageError(_IN_MODEL.format(platform.release.trt_text), where=where, allowed="TensorRT below 11")
    if measured and request.calib is not None:
        raise UsageError("--calib gives the scales: there is nothing to measure", where="calib_method", allowed="without --calib")


def samples_without_scales(request: BuildRequest, simulated: bool) -> Optional[str]:
    """A line about the use of --calib-data in a build without own scales; None if they calibrate, or are not given.

    Raises:
        UsageError: nothing reads the samples, as only a simulation is measured on them.
    """
    if request.calib_data is None or request.precision == "int8":
        return None
    no_scales = f"{request.precision.upper()} takes no scales"
    if not simulated:
        allowed = "--precision int8, or --backend host, which shows its error on them"
        raise UsageError(no_scales, where="calib_data", allowed=allowed)
    return f"{no_scales}: the samples of --calib-data show the simulation's error alone"


#: Error for releases that have no other INT8.
_IN_MODEL = "TensorRT {} takes INT8 scales only as Q/DQ nodes of the model"


def _require_taker(request: BuildRequest, platform: Platform) -> None:
    """Refuses scales without INT8, and with TensorRT 11, which takes scales only inside the model."""
    if request.precision != "int8":
        raise UsageError(f"{request.precision.upper()} takes no scales", where="--calib", allowed="--precision int8")
    if platform.release.strongly_typed and not is_quantization(request.calib):
        raise UsageError(
            _IN_MODEL.format(platform.release.trt_text),
            where="--calib",
            hint=f"`edgedla quantize MODEL --calib {request.calib} -o FOLDER` writes that model",
        )


def _require_same_model(folder: Path, document: Mapping[str, Any], model: Path, identity: Mapping[str, Any]) -> None:
    """Checks that the scales were measured on this model, or that `quantize` wrote this model beside them."""
    changed = folder / MODEL
    if changed.is_file():
        if sha256_of(changed) != identity["sha256"]:
            raise UsageError(
                "the scales are for the model that `edgedla quantize` wrote, not for this one",
                where=str(model),
                hint=f"build {changed}",
            )
        return
    of = document.get("model")
    if not isinstance(of, dict):
        # A report of version 0.1 does not name its model.
        return
    weights = of.get("external") or {}
    others = [name for name, digest in identity["external"].items() if weights.get(name, digest) != digest]
    if of.get("sha256") == identity["sha256"] and not others:
        return
    raise UsageError(
        f"the scales in {folder} are those of another model ({of.get('name')}, SHA-256 {str(of.get('sha256'))[:12]}"
        f"{'; other weights in ' + ', '.join(others) if others else ''})",
        where=str(model),
        hint=f"run `edgedla quantize` on this model; --calib {folder / CACHE} takes the scales all the same",
    )


def _by_layer(document: Dict[str, Any], key: str, where: str) -> Dict[str, str]:
    """One of the document's tables of layers; empty where it has none."""
    table = document.get(key, {})
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise DocumentError(f"{key} is not a table of layers", where=where, hint="run `edgedla quantize` again")
    return table


def _dead(document: Mapping[str, Any], where: str) -> Tuple[str, bool]:
    """(the groups of channels that the scales round away, in words; whether the user took them all the same)."""
    try:
        found = document.get("channels", {})
        many = [(len(g["channels"]), str(g["tensor"])) for g in found.get("dead", ())]
        forced = bool(found.get("forced"))
    except (AttributeError, KeyError, TypeError) as e:
        raise DocumentError("its channels are not those of a report", where=where, hint="run `edgedla quantize` again") from e
    return ", ".join(f"{n} channel{'s' * (n != 1)} of {tensor}" for n, tensor in many), forced


def forced_notes(request: BuildRequest) -> Tuple[str, ...]:
    """The note of an artifact whose scales were taken in spite of dead channels."""
    for content in (data for (_, name), data in report_of(request).items() if name == REPORT):
        dead, _ = _dead(json.loads(content), REPORT)
        if dead:
            return (f"INT8 rounds {dead} away: taken all the same (`edgedla quantize --force`)",)
    return ()


def report_of(request: BuildRequest) -> Dict[Tuple[str, str], bytes]:
    """quantization.json and, if present, report.html of the folder `request.calib`, for the artifact to keep.

    Empty if `calib` is not a folder, or if its model had Q/DQ, for which nothing was measured.
    """
    if request.calib is None or not is_quantization(request.calib) or _is_translated(Path(request.calib)):
        return {}
    folder = Path(request.calib)
    files = {("quantization", REPORT): (folder / REPORT).read_bytes()}
    if (folder / PAGE).is_file():
        files[("report", PAGE)] = (folder / PAGE).read_bytes()
    return files


def _is_translated(folder: Path) -> bool:
    """True if `quantize` took the scales from a model with Q/DQ: nothing was measured, so there is no report."""
    return (folder / CACHE).is_file() and (folder / MODEL).is_file() and not (folder / REPORT).exists()


def _translated(folder: Path) -> Dict[str, Any]:
    path = folder / PRECISIONS
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return {"precisions": dict(_PRECISION.findall(text))}


def _document(folder: Path) -> Dict[str, Any]:
    path = folder / REPORT
    document = read_json(
        path, wrong="not a result of `edgedla quantize`", hint="give a cache, or the folder that `edgedla quantize` wrote"
    )
    require(document, "edgedla.quantization", str(path))
    return dict(document)
