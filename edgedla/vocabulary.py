"""The closed lists of words: devices, precisions, modes, backends, objectives, methods, metrics. Each has one spelling, written here.

People type words in many ways ("INT8", "dla:0"); `one_of` and `device` return the one spelling, or name the nearest.
"""

from __future__ import annotations

import re
from typing import Iterable, Optional, Sequence, Tuple, Union

from edgedla.errors import UsageError

GPU = "GPU"
DLA_CORES: Tuple[str, ...] = ("DLA0", "DLA1")
#: What TensorRT's ONNX parser puts before the name of an input that is an output too: the ports of an engine have names
#: of their own.
HANDED_ON = "__"

#: Engines of a module, in the order in which every table names them.
DEVICES: Tuple[str, ...] = (GPU, *DLA_CORES)
#: What costs and formats depend on.
DEVICE_KINDS: Tuple[str, ...] = (GPU, "DLA")

#: "int8" is INT8 with FP16 allowed, as trtexec --int8 --fp16 builds.
PRECISIONS: Tuple[str, ...] = ("fp16", "int8")
#: trtexec --allowGPUFallback, without it, and --buildDLAStandalone.
CHECK_MODES: Tuple[str, ...] = ("fallback", "strict", "standalone")
#: A TensorRT engine, and a DLA loadable for cuDLA.
BUILD_MODES: Tuple[str, ...] = ("hybrid", "standalone")
BACKENDS: Tuple[str, ...] = ("auto", "tensorrt", "host")
OBJECTIVES: Tuple[str, ...] = ("latency", "throughput", "energy", "gpu-time", "makespan")
#: Frames of each model that are under way at one time.
IN_FLIGHT: Tuple[str, ...] = ("many", "one")

#: How INT8 scales follow from what was measured; `percentile` takes a number of its own (percentile:99.9).
CALIBRATION_METHODS: Tuple[str, ...] = ("auto", "minmax", "entropy", "percentile", "mse")
#: Forms of Q/DQ for a strongly typed release: signed with FLOAT or FLOAT16 scales, and unsigned around 128.
QDQ_FORMS: Tuple[str, ...] = ("int8", "int8-fp16", "uint8")
#: SQNR in dB below which a group of channels counts as dead: noise of a quarter of its own signal.
LEAST_CHANNEL_DB = 6.0
#: What accuracy is measured by; map needs a decoder. Functions of the user's own are beside these.
METRICS: Tuple[str, ...] = ("top1", "top5", "miou", "map", "cosine", "l2")

_CORE = re.compile(r"dla[:\s_-]?([0-9]{1,3})", re.IGNORECASE)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> Optional[str]:
    """The known name that `word` is most like; letter case does not count. None where it is like none."""
    by_fold = {name.casefold(): name for name in known}
    import difflib

    near = difflib.get_close_matches(word.strip().casefold(), by_fold, n=1, cutoff=cutoff)
    return by_fold[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> Optional[str]:
    """The question that names the nearest, for the hint of an error; None where nothing is near."""
    near = nearest(word, known)
    return f"did you mean {near}?" if near else None


def one_of(what: str, value: object, allowed: Sequence[str], where: Optional[str] = None) -> str:
    """The spelling in `allowed` that `value` stands for; letter case does not count.

    Args:
        what: the noun for the message, "precision". where: the option or the layer; default `what`.

    Raises:
        UsageError: none of them; the nearest is named first.
    """
    by_fold = {word.casefold(): word for word in allowed}
    text = value.strip().casefold() if isinstance(value, str) else ""
    if text in by_fold:
        return by_fold[text]
    near = did_you_mean(text, allowed)
    raise UsageError(f"unknown {what} {value!r}" + (f"; {near}" if near else ""), where=where or what, allowed=", ".join(allowed))


def require_map(metric: Optional[str], *, decode: Optional[str], **numbers: Optional[float]) -> None:
    """Raises UsageError for a decoder, or a number of one, that another metric would ignore."""
    for name, value in {"decode": decode, **numbers}.items():
        if value is not None and metric != "map":
            raise UsageError("only the metric map uses a decoder", where=name, allowed="with --metric map")


def device(value: object, allowed: Sequence[str] = DEVICES, where: Optional[str] = None) -> str:
    """The device that `value` names: "GPU", "DLA0", also "gpu", "dla:0", "dla 0".

    Raises:
        UsageError: none of `allowed`.
    """
    match = _CORE.fullmatch(value.strip()) if isinstance(value, str) else None
    return one_of("device", f"DLA{int(match[1])}" if match else value, allowed, where)


def devices(value: Union[str, Sequence[str]], allowed: Sequence[str] = DEVICES) -> Tuple[str, ...]:
    """Devices by name, each once, in the order of `allowed`: from a list, or from text with commas ("GPU,DLA0").

    Raises:
        UsageError: none is named, or one that is none of `allowed`.
    """
    names = value.split(",") if isinstance(value, str) else value
    chosen = {device(name, allowed, "devices") for name in names}
    if not chosen:
        raise UsageError("no device is named", where="devices", allowed=", ".join(allowed))
    return tuple(name for name in allowed if name in chosen)
