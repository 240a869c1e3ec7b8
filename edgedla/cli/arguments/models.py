"""Models as the command line names them: files, folders, patterns, standard input, or a PyTorch module's factory."""

from __future__ import annotations

import glob
import os
import sys
from pathlib import Path
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from edgedla.cli.output import echo
from edgedla.errors import UsageError
from edgedla.text.pasted import STANDARD_INPUT


class ModelSource(NamedTuple):
    """A model to read. `file` is its path as shown; `source` the path, or the bytes where they came by a pipe."""

    file: str
    source: Union[str, bytes]


def model_sources(
    names: Sequence[str], shapes: Optional[Mapping[str, Sequence[int]]] = None, batch: Optional[int] = None
) -> Tuple[ModelSource, ...]:
    """The models that the names stand for, each once, in order.

    A folder is searched with its subfolders, except those whose names begin with a dot and those that edgedla wrote; a
    line on stderr names the latter.

    Args:
        shapes, batch: input sizes of a PyTorch module that is named as `package.module:factory`.

    Raises:
        ModelError: a folder without a model, or an artifact.
        UsageError: a pattern that matches no file, or empty standard input.
    """
    sources: List[ModelSource] = []
    for name in names:
        if name == "-":
            sources += _from_stdin()
        elif os.path.isdir(name):
            sources += [ModelSource(path, path) for path in _in_folder(name)]
        elif not os.path.exists(name) and glob.has_magic(name):
            paths = sorted(p for p in glob.glob(name, recursive=True) if os.path.isfile(p))
            if not paths:
                raise UsageError("no file matches the pattern", where=name)
            sources += [ModelSource(path, path) for path in paths]
        elif ":" in name:
            sources.append(_from_factory(name, shapes, batch))
        else:
            sources.append(ModelSource(name, name))
    return tuple({s.file: s for s in sources}.values())


def _from_factory(name: str, shapes: Optional[Mapping[str, Sequence[int]]], batch: Optional[int]) -> ModelSource:
    """The model that a PyTorch factory makes; a name with a colon that names no factory is a file."""
    from edgedla.torch.factory import is_factory, onnx_of_factory

    return ModelSource(name, onnx_of_factory(name, shapes, batch) if is_factory(name) else name)


def as_file(name: str, shapes: Optional[Mapping[str, Sequence[int]]] = None, batch: Optional[int] = None) -> str:
    """The model's file. A PyTorch module that is named as a factory is exported to one in the current folder first.

    Raises:
        UsageError: another file has the name of the export.
    """
    if ":" not in name:
        return name
    from edgedla.torch.factory import file_of_factory, has_random_weights, is_factory, onnx_of_factory

    if not is_factory(name):
        return name
    from edgedla.accuracy.translate import exported_by_torch
    from edgedla.io.files import write_atomic

    file = Path(file_of_factory(name))
    if file.exists() and not exported_by_torch(file):
        raise UsageError(
            f"its export would replace {file}, which edgedla did not write",
            where=name,
            hint=f"move {file} away, or name it instead",
        )
    content = onnx_of_factory(name, shapes, batch)
    write_atomic(file, content)
    random = "; its weights are random: no accuracy follows from them" if has_random_weights(name) else ""
    echo(f"edgedla: {name} exported to {file}{random}", err=True)
    return str(file)


def _in_folder(folder: str) -> Tuple[str, ...]:
    from edgedla.inspection.models_below import models_below

    below = models_below(folder)
    if below.note:
        echo(f"edgedla: {below.note}", err=True)
    return below.models


def _from_stdin() -> List[ModelSource]:
    """A model itself, or paths, one per line, as `find` prints them."""
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise UsageError("standard input is empty", where="-", allowed="a model, or paths of models, one per line")
    try:
        lines = [line.strip() for line in content.decode("utf-8").splitlines()]
    except UnicodeDecodeError:
        lines = []
    paths = [line for line in lines if line]
    if paths and all("\0" not in p and p.isprintable() for p in paths):
        return [ModelSource(p, p) for p in paths]
    return [ModelSource(STANDARD_INPUT, content)]
