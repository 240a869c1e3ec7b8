"""TensorRT's Python bindings on this machine. The only file of the builder that imports tensorrt.

The naming rule of builder/tensorrt/api.py holds here too.
"""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType
from typing import Any, List, Optional, Sequence

from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.tensorrt.callbacks import overheard, process_logger
from edgedla.errors import BuildError, EnvironmentMissing
from edgedla.processes.guard import device_work
from edgedla.records.build_log_prefix import split_prefix
from edgedla.targets.installed import asked_for_a_builder

#: A line that names a failure: it says more than Python's "factory function returned nullptr".
_FAILURE = re.compile(r"fail|error|unable|cannot|insufficient", re.IGNORECASE)


def installed_version() -> Optional[str]:
    """Version of the TensorRT bindings that can be imported here; None where there are none or they do not load."""
    try:
        return str(importlib.import_module("tensorrt").__version__)
    except (AttributeError, ImportError, OSError):
        # A folder named tensorrt imports too.
        return None


def why_missing() -> str:
    """What Python says when it imports the bindings; "" where it can."""
    try:
        str(importlib.import_module("tensorrt").__version__)
    except (AttributeError, ImportError, OSError) as e:
        return str(e)
    return ""


def bindings_remedy() -> str:
    """What brings the bindings to this Jetson."""
    venv = "; make the venv with --system-site-packages" if sys.prefix != sys.base_prefix else ""
    return f"they come with JetPack (apt install python3-libnvinfer){venv}"


def dla_cores() -> int:
    """How many DLA cores TensorRT sees here; 0 where it cannot be imported or makes no builder."""
    try:
        trt = importlib.import_module("tensorrt")
        with device_work(BuildError):
            builder = trt.Builder(process_logger(trt))
            return int(builder.num_DLA_cores)
    except (AttributeError, ImportError, OSError, TypeError, RuntimeError):
        return 0


def why_no_builder() -> str:
    """Why the installed TensorRT, which can be imported, makes no builder, in its own words; "" where it makes one."""
    asked = asked_for_a_builder()
    if asked is None:
        return "it does not answer"
    code, output, messages = asked
    if code == 0:
        return ""
    said, _, raised = messages.partition("Traceback (most recent call last)")
    own = reason_in(f"{output}\n{said}".splitlines())
    return own or raised.strip().rpartition("\n")[2] or f"its process ends with code {code}"


def reason_in(lines: Sequence[str]) -> str:
    """The last line of TensorRT that names a failure, without its prefix and without advice behind it; "" where none does."""
    texts = (split_prefix(line)[1].strip() for line in reversed(lines))
    found = next((text for text in texts if _FAILURE.search(text) and not text.startswith(("TypeError", "Traceback"))), "")
    return found.partition(". Please")[0]


def checked_module(plan: BuildPlan) -> Any:
    """The tensorrt module, of the release that the plan is for.

    Raises:
        EnvironmentMissing: there is none, or another.
    """
    try:
        trt = importlib.import_module("tensorrt")
        require_release(str(trt.__version__), plan.trt)
        process_logger(trt)
    except (AttributeError, ImportError, OSError) as e:
        raise EnvironmentMissing(
            f"TensorRT's Python bindings cannot be imported: {e}",
            hint=f"on a Jetson {bindings_remedy()}; on a laptop use --backend host or trtexec",
        ) from e
    return trt


def require_release(installed: str, planned: Sequence[int]) -> None:
    """
    Raises:
        EnvironmentMissing: the plan is for another minor release than the installed one.
    """
    if tuple(installed.split(".")[:2]) != tuple(str(n) for n in planned[:2]):
        raise EnvironmentMissing(
            f"the plan is for TensorRT {'.'.join(map(str, planned))}, this is {installed}",
            hint=f"rules and placement differ by release: plan again with --trt {installed}",
        )


def checked_builder(trt: ModuleType, logger: object, plan: BuildPlan) -> Any:
    """A builder that sees the DLA core that the plan uses.

    Raises:
        EnvironmentMissing: there is no CUDA device, or no such core.
    """
    said: List[str] = []
    try:
        with overheard(logger) as said:
            builder = trt.Builder(logger)
    except (TypeError, RuntimeError) as e:
        # pybind11 reports a factory that returned nothing, which is how a missing CUDA device shows, as TypeError.
        raise EnvironmentMissing(
            f"TensorRT {trt.__version__} imports, cannot make a builder: {reason_in(said) or e}",
            hint="is there a CUDA device? `edgedla doctor` checks, `edgedla explain LINE` says what the line means",
        ) from e
    cores = builder.num_DLA_cores
    if plan.dla_core is not None and plan.dla_core >= cores:
        raise EnvironmentMissing(
            f"the plan uses DLA core {plan.dla_core}, TensorRT sees {cores} DLA cores here",
            hint="`edgedla doctor` says why; in a container the DLA devices must be passed in",
        )
    return builder
