"""Network inputs with open sizes: the one text, for every command, on what is open and which option fixes it."""

from __future__ import annotations

import shlex
from numbers import Integral
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.errors import UsageError
from edgedla.graph.layer_graph import LayerGraph
from edgedla.graph.tensor import dims_text

#: trtexec's size for an open dimension without a given shape (sampleOptions, DEFAULT_DIMENSION).
TRTEXEC_BATCH = 1
#: Largest size of one axis that TensorRT takes.
MAX_DIM = (1 << 31) - 1
_SHAPES = "--shapes "
#: Letters for the open axes of an image tensor.
_IMAGE_AXES = ("N", "C", "H", "W")


def batch_taken(batch: int) -> str:
    """The note about an open batch, for which edgedla takes the size that trtexec builds."""
    return f"batch ? taken as {batch}, as trtexec does; --batch N for another"


def shape_text(name: str, dims: Sequence[Any]) -> str:
    """One input's part of --shapes: the name is quoted where it would not be read as it is."""
    if "," in name or name[:1] in ("'", '"') or name != name.strip():
        quote = "'" if '"' in name else '"'
        name = f"{quote}{name}{quote}"
    return ":".join(filter(None, (name, "x".join(map(str, dims)))))


def open_inputs(graph: LayerGraph) -> Tuple[str, ...]:
    """Names of the network inputs with an open dim."""
    return tuple(name for name in graph.inputs if graph.tensors[name].is_dynamic)


def no_shape_text(name: str) -> str:
    """The note about an input of which the model does not even say how many dims it has."""
    return f"input {name!r} has no shape; give {GivenSizes().options([_no_shape_option(name)])}"


def _no_shape_option(name: str) -> str:
    return _SHAPES + shape_text(name, _IMAGE_AXES)


def has_no_shape(graph: LayerGraph, name: str) -> bool:
    """True for a network input without a shape; its tensor stands in the graph with one open dim."""
    return no_shape_text(name) in graph.notes


def data_sizes_text(graph: LayerGraph) -> str:
    """Names the first layer whose output size (NonMaxSuppression, NonZero) or number of runs (Loop) depends on the data; "" if none."""
    for layer in graph.layers:
        if graph.runs.get(layer.index, 1) is None and layer.index not in graph.unread:
            return (
                f"how often the loop around layer {layer.name!r} [{layer.type}] runs depends on the data, so nothing can be predicted from "
                "that layer on"
            )
        for tensor in graph.output_tensors(layer):
            if tensor.is_dynamic and layer.index not in graph.unread:
                return (
                    f"the size of {tensor.name!r} depends on the data ({dims_text(tensor.dims)}), so nothing can be predicted from "
                    f"layer {layer.name!r} [{layer.type}] on"
                )
    return ""


class GivenSizes(NamedTuple):
    """Sizes of inputs that the user gave. `shapes`: by name ("" names the only input). `batch`: for all inputs."""

    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None

    def options(self, closing: Sequence[str] = ()) -> str:
        """The command-line options for these sizes; "" for none.

        Args:
            closing: `closing_option` of each input that is still open; letters in them stand for numbers that the user has to choose.
        """
        shapes = [shape_text(name, dims) for name, dims in (self.shapes or {}).items()]
        shapes += [option[len(_SHAPES) :] for option in closing if option.startswith(_SHAPES)]
        options = [_SHAPES + shlex.quote(",".join(shapes))] if shapes else []
        options += [f"--batch {self.batch}"] if self.batch is not None else []
        return " ".join(dict.fromkeys([*options, *(o for o in closing if not o.startswith(_SHAPES))]))


def require_given(shapes: Any, batch: Any, where: Optional[str] = None) -> None:
    """Checks the sizes that the user gave.

    Raises:
        UsageError: shapes do not map names to whole numbers of 0 or more, batch is not a whole number of 1 or more, or one of
            them is above MAX_DIM.
    """
    if batch is not None and not (isinstance(batch, Integral) and int(batch) >= 1):
        raise UsageError(f"a batch of {batch}", allowed="a whole number of 1 or more")
    if batch is not None and int(batch) > MAX_DIM:
        raise UsageError(f"a batch of {batch}", allowed=f"at most {MAX_DIM}")
    if shapes is not None and not isinstance(shapes, Mapping):
        raise UsageError(f"shapes are {shapes!r}", where=where, allowed="dims by input name: {'x': [1, 3, 640, 640]}")
    for name, dims in (shapes or {}).items():
        if isinstance(dims, str) or not all(isinstance(d, Integral) for d in dims):
            raise UsageError(f"the shape of {name} is {dims!r}", where=where, allowed="whole numbers, as [1, 3, 640, 640]")
        if any(int(d) < 0 for d in dims):
            raise UsageError(f"--shapes {name}: {list(dims)} holds a negative dim", where=where)
        if any(int(d) > MAX_DIM for d in dims):
            raise UsageError(f"the shape of {name} is {list(dims)}", where=where, allowed=f"at most {MAX_DIM} each")


def closing_option(name: str, dims: Sequence[int]) -> str:
    """The option that fixes the open sizes: --batch if only the batch is open, else --shapes in full."""
    if all(d >= 0 for d in dims[1:]):
        return "--batch N"
    letters = _IMAGE_AXES if len(dims) == 4 else tuple(f"D{i}" for i in range(len(dims)))
    return _SHAPES + shape_text(name, [letters[i] if d < 0 else str(d) for i, d in enumerate(dims)])


def what_is_open(name: str, dims: Sequence[int]) -> str:
    """What an input leaves open, for example "height and width"."""
    if len(dims) == 4:
        names = ("batch", "channels", "height", "width")
        opened = [names[i] for i, d in enumerate(dims) if d < 0]
        return " and ".join(filter(None, (", ".join(opened[:-1]), opened[-1])))
    count = sum(d < 0 for d in dims)
    return "a size" if count == 1 else f"{count} sizes"


def closing_options(graph: LayerGraph) -> Tuple[str, ...]:
    """For each open input the option that fixes its sizes."""
    return tuple(
        _no_shape_option(name) if has_no_shape(graph, name) else closing_option(name, graph.tensors[name].dims)
        for name in open_inputs(graph)
    )


def open_sizes_text(graph: LayerGraph) -> str:
    """The one sentence about open inputs, with the option that closes them; "" where none is open."""
    names = open_inputs(graph)
    if not names:
        return ""
    parts: List[str] = []
    for name in names:
        dims = graph.tensors[name].dims
        if has_no_shape(graph, name):
            parts.append(no_shape_text(name).partition("; give ")[0])
        else:
            parts.append(f"input {name!r} leaves {what_is_open(name, dims)} open ({dims_text(dims)})")
    return f"{'; '.join(parts)}: nothing can be placed before it is fixed; give {GivenSizes().options(closing_options(graph))}"
