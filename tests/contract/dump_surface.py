"""Prints the surface of a TensorRT Python module as JSON: classes, methods with their parameters, properties, enums.

Runs in a process of its own, because two releases of one extension module cannot live in one process. Everything is
read from the module itself: pybind11 writes each signature into the docstring.

usage: dump_surface.py MODULE
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import warnings
from typing import Any, Dict, List

#: The classes that the builder and the runtime use. A class that a release lacks is simply not in its surface.
CLASSES = (
    "Builder",
    "BuilderFlag",
    "DLAWorkspaceAllocationStrategy",
    "DataType",
    "DeviceType",
    "EngineCapability",
    "EngineInspector",
    "HardwareCompatibilityLevel",
    "IBuilderConfig",
    "ICudaEngine",
    "IExecutionContext",
    "IHostMemory",
    "IInt8EntropyCalibrator2",
    "ILayer",
    "ILogger",
    "INetworkDefinition",
    "IOptimizationProfile",
    "IProfiler",
    "IProgressMonitor",
    "ITensor",
    "ITimingCache",
    "LayerInformationFormat",
    "LayerType",
    "Logger",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "OnnxParser",
    "OnnxParserFlag",
    "ParserError",
    "ProfilingVerbosity",
    "QuantizationFlag",
    "Runtime",
    "TensorFormat",
    "TensorIOMode",
)
FUNCTIONS = ("init_libnvinfer_plugins",)

_SIGNATURE = re.compile(r"^(?:\d+\. )?(\w+)\((.*)\)(?: -> .*)?$")


def parameters(doc: str, name: str) -> List[List[str]]:
    """One list an overload: parameter names without self, `=` behind those with a default value."""
    found = []
    for line in (doc or "").splitlines():
        match = _SIGNATURE.match(line.strip())
        if not match or match.group(1) != name or match.group(2).startswith("*args"):
            continue
        names = []
        for part in split_top_level(match.group(2)):
            name_and_type, has_default, _ = part.partition(" = ")
            parameter = name_and_type.split(":")[0].strip()
            if parameter not in ("self", ""):
                names.append(parameter + ("=" if has_default else ""))
        found.append(names)
    return found


def split_top_level(text: str) -> List[str]:
    """Splits at commas outside brackets: types such as Tuple[int, int] and defaults such as <Severity.WARNING: 2>."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "[(<":
            depth += 1
        elif c in "])>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def describe(cls: Any) -> Dict[str, Any]:
    members = getattr(cls, "__members__", None)
    if members is not None:
        return {"members": {name: int(value) for name, value in sorted(members.items())}}
    methods: Dict[str, Any] = {}
    properties: Dict[str, str] = {}
    constants: List[str] = []
    for name in sorted(dir(cls)):
        value = getattr(cls, name)
        if name.startswith("_") and name != "__init__":
            continue
        if hasattr(type(value), "__members__"):
            # A member of an enum that the class repeats, such as Logger.WARNING.
            constants.append(name)
        elif isinstance(value, property):
            properties[name] = "r" if value.fset is None else "rw"
        elif callable(value) and not isinstance(value, type):
            # Only real signatures: object.__init__ has none, so the class cannot be made from Python.
            overloads = parameters(value.__doc__, name)
            if overloads or name != "__init__":
                methods[name] = overloads
    return {"constants": constants, "methods": methods, "properties": properties}


def surface(module: Any) -> Dict[str, Any]:
    return {
        "version": module.__version__,
        "classes": {name: describe(getattr(module, name)) for name in CLASSES if hasattr(module, name)},
        "functions": {name: parameters(getattr(module, name).__doc__, name) for name in FUNCTIONS if hasattr(module, name)},
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(surface(importlib.import_module(sys.argv[1])), sys.stdout, indent=1, sort_keys=True)
