"""The networks behind the published figures as compact layer tables: rules/evidence/networks/*.csv.

A table holds layer types, dims and parameters, no weights and no names. `python -m edgedla.costs.networks FOLDER` makes the
tables anew from ONNX files. References in the column `inputs`: `@0` is network input 0, `12` the first output of layer 12,
`12.1` its second, `=1000x512` a constant of these dims.
"""

from __future__ import annotations

import csv
import io
import json
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Tuple

import click

from edgedla.errors import DocumentError
from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.io.data import rules_dir
from edgedla.io.files import write_atomic

_COLUMNS = ("layer", "type", "inputs", "outputs", "params")
#: Parameters that no cost depends on.
_DROPPED = ("bias_weights", "kernel_weights", "epsilon")


def networks_dir() -> Path:
    return rules_dir() / "evidence" / "networks"


@lru_cache(maxsize=None)
def network(name: str) -> LayerGraph:
    """One of the carried networks.

    Raises:
        DocumentError: there is no such table, or it is broken.
    """
    path = networks_dir() / f"{name}.csv"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise DocumentError(f"cannot read the layer table: {e}", where=str(path)) from e
    return from_table(text, name)


def to_table(graph: LayerGraph, source: str) -> str:
    """The graph as a table; `source` is one line on where the network comes from."""
    place: Dict[str, str] = {name: f"@{i}" for i, name in enumerate(graph.inputs)}
    for layer in graph.layers:
        for slot, name in enumerate(layer.outputs):
            place[name] = f"{layer.index}.{slot}" if slot else str(layer.index)
    out = io.StringIO()
    out.write(f"# {source}\n")
    out.write("# inputs: " + " ".join(_dims(graph.tensors[t]) for t in graph.inputs) + "\n")
    out.write("# outputs: " + " ".join(place[t] for t in graph.outputs) + "\n")
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for layer in graph.layers:
        inputs = (place.get(t) or "=" + _dims(graph.tensors[t]) for t in layer.inputs if t)
        params = {k: v for k, v in layer.params.items() if v is not None and k not in _DROPPED}
        rows.writerow(
            (
                layer.index,
                layer.type,
                " ".join(inputs),
                " ".join(_dims(t) for t in graph.output_tensors(layer)),
                json.dumps(params, sort_keys=True, separators=(",", ":")),
            )
        )
    return out.getvalue()


def from_table(text: str, name: str) -> LayerGraph:
    """The graph of a table. Tensors are named by their references.

    Raises:
        DocumentError: a line has the wrong form; `where` is file:line.
    """
    lines = text.splitlines()
    head = {k: v for k, _, v in (line[1:].strip().partition(":") for line in lines if line.startswith("#"))}
    body = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    tensors: Dict[str, Tensor] = {}
    layers: List[Layer] = []
    line_number = 1
    try:
        for i, dims in enumerate(head["inputs"].split()):
            tensors[f"@{i}"] = _tensor(f"@{i}", dims)
        rows = csv.reader(line for _, line in body)
        if tuple(next(rows)) != _COLUMNS:
            raise ValueError("the columns are not " + ",".join(_COLUMNS))
        for place, row in zip(body[1:], rows):
            line_number = place[0]
            index, kind, inputs, outputs, params = row
            if int(index) != len(layers):
                raise ValueError(f"layer {index} is at position {len(layers)}")
            names = tuple(_input(ref, len(layers), i, tensors) for i, ref in enumerate(inputs.split()))
            written = tuple(f"{index}.{s}" if s else index for s in range(len(outputs.split())))
            tensors.update({n: _tensor(n, dims) for n, dims in zip(written, outputs.split())})
            layers.append(Layer(int(index), kind, f"{kind} {index}", "", "", names, written, json.loads(params)))
        outputs_of = tuple(head["outputs"].split())
        for ref in outputs_of:
            tensors[ref]
    except (KeyError, ValueError, TypeError, StopIteration) as e:
        raise DocumentError(f"not a layer table: {e}", where=f"{name}.csv:{line_number}") from e
    return LayerGraph(name, tuple(layers), tensors, tuple(f"@{i}" for i in range(len(head["inputs"].split()))), outputs_of)


def _input(ref: str, layer: int, slot: int, tensors: Dict[str, Tensor]) -> str:
    if not ref.startswith("="):
        tensors[ref]  # a KeyError names a reference to nothing
        return ref
    name = f"constant {layer}.{slot}"
    tensors[name] = _tensor(name, ref[1:], is_constant=True)
    return name


def _dims(tensor: Tensor) -> str:
    dims = "x".join(str(d) for d in tensor.dims) or "scalar"
    return dims if tensor.dtype == "FLOAT" else f"{dims}:{tensor.dtype}"


def _tensor(name: str, text: str, is_constant: bool = False) -> Tensor:
    dims, _, dtype = text.partition(":")
    shape: Tuple[int, ...] = () if dims == "scalar" else tuple(int(d) for d in dims.split("x"))
    return Tensor(name, shape, dtype or "FLOAT", is_constant)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def main(folder: str) -> None:
    """Make the layer tables of all ONNX files in FOLDER."""
    from edgedla.importers import load_onnx  # onnx is needed for this command alone

    for path in sorted(Path(folder).glob("*.onnx")):
        graph = load_onnx(path)
        source = f"{path.stem}: layers as TensorRT {graph.lowering} parses them, architecture only, no weights."
        click.echo(write_atomic(networks_dir() / f"{path.stem}.csv", to_table(graph, source)))


if __name__ == "__main__":
    main()
