"""Source locations of ONNX nodes, from the metadata and names that exporters write.

PyTorch's dynamo exporter writes `pkg.torch.onnx.name_scopes` and `pkg.torch.onnx.stack_trace` into each node's metadata
(torch/onnx/_internal/exporter/_core.py, PyTorch 2.5 and later). Its older exporter writes the module path into the
node's name, as "/features/features.0/features.0.2/Clip"; tf2onnx does alike, without the first slash.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, List, Optional, Tuple

from edgedla.graph.source import SourceLocation

SCOPES = "pkg.torch.onnx.name_scopes"
STACK = "pkg.torch.onnx.stack_trace"
_FRAME = r'File "([^"\n]+)", line (\d+)(?:, in ([^\s]+))?'
_SCOPE = r"'([^']*)'|\"([^\"]*)\""
#: PyTorch's own files, between the user's code and the operator.
_FRAMEWORK = r"[/\\]torch[/\\](?:nn|_dynamo|fx|export|onnx|_ops|utils)\b|[/\\]torch[/\\][^/\\]+\.py$"


def source_of(proto: Any) -> Optional[SourceLocation]:
    """Source location of a node; None where the exporter wrote none."""
    if proto is None:
        # A layer of the parser's own.
        return None
    # ONNX 1.15 and before know no metadata of nodes.
    metadata = getattr(proto, "metadata_props", ())
    if not metadata:
        return _of_module(proto.name.rpartition("/")[0]) if isinstance(proto.name, str) else None
    scopes = stack = ""
    for entry in metadata:
        if entry.key == SCOPES:
            scopes = entry.value
        elif entry.key == STACK:
            stack = entry.value
    module = module_of_scopes(scopes) or module_of_name(proto.name)
    file, line, function = user_frame(stack)
    return SourceLocation(module, file, line, function) if module or file else None


@lru_cache(maxsize=4096)
def _of_module(folder: str) -> Optional[SourceLocation]:
    """Most nodes share their module with others."""
    module = module_of_name(folder + "/")
    return SourceLocation(module) if module else None


def module_of_scopes(text: str) -> str:
    """The innermost module of "['', 'features', 'features.0', 'conv2d']"; the last entry is the operator's own name."""
    names = [a or b for a, b in re.findall(_SCOPE, text)]
    return next((name for name in reversed(names[:-1]) if name), "")


def module_of_name(name: Any) -> str:
    """The module path of a node called after it: "/blocks/blocks.1/conv/conv.0/Conv" is in blocks.1.conv.0."""
    if not isinstance(name, str) or "/" not in name:
        return ""
    path: List[str] = []
    for part in name.lstrip("/").split("/")[:-1]:
        # A child of a Sequential repeats its parent's name: features, features.0.
        if path and part.startswith(path[-1] + "."):
            path[-1] = part
        else:
            path.append(part)
    return ".".join(path)


def user_frame(stack: str) -> Tuple[str, int, str]:
    """The innermost frame of a Python stack that is not PyTorch's own: (file, line, function)."""
    if not stack:
        return "", 0, ""
    frames = re.findall(_FRAME, stack)
    users = [frame for frame in frames if not re.search(_FRAMEWORK, frame[0])]
    for file, line, function in reversed(users or frames):
        return file, int(line), function
    return "", 0, ""
