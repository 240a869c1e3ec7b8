"""Compares the importer with what TensorRT's own library made of ONNX models: a record of ask_parser.py.

A layer agrees if its name, type, outputs (dims, and type where the library says it before a build) and the parameters that
both sides know are equal. The library also lists layers of build-time arithmetic, which the importer leaves out: constants, and
what is computed of constants and of shapes alone.

usage: python tests/contract/score_real.py RECORD.jsonl.gz MODELS --trt 8.5.2 [--show N]
"""

from __future__ import annotations

import argparse
import collections
import difflib
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any, Counter, Dict, List, Optional, Set, Tuple

from edgedla.errors import ModelError
from edgedla.graph.layer_graph import LayerGraph
from edgedla.importers import load_onnx

#: The library's names of parameters -> the importer's, where they differ.
NAMES = {
    "type": "op",
    "window_size_nd": "window",
    "stride_nd": "stride",
    "num_output_maps": "nb_output_maps",
    "kernel_size_nd": "kernel",
    "dilation_nd": "dilation",
    "num_groups": "groups",
    "resize_mode": "mode",
    "selector_for_single_pixel": "selector",
    "nearest_rounding": "rounding",
}
#: Parameters of which the library says only a default: its SHUFFLE has eight places, whatever the rank; a REDUCE's axes are bits.
TRANSPOSES = ("first_transpose", "second_transpose")
Layer = Dict[str, Any]


def live_layers(layers: List[Layer], keeps_fill: bool) -> List[Layer]:
    """The layers that are not build-time arithmetic. A layer may stand before the constants that it reads.

    Args:
        keeps_fill: numbers in a row, of constants, count as live: the importer keeps those of Trilu and folds those of Range.
    """
    constants: Set[str] = set()
    live = layers
    while True:
        rest = [layer for layer in live if not is_constant(layer, constants, keeps_fill)]
        constants.update(name for layer in live if layer not in rest for name, *_ in layer["outputs"])
        if len(rest) == len(live):
            return rest
        live = rest


def is_constant(layer: Layer, constants: Set[str], keeps_fill: bool) -> bool:
    inputs = [name for name, _ in filter(None, layer["inputs"])]
    if layer["type"] == "SHAPE":
        return -1 not in layer["inputs"][0][1]
    if layer["type"] == "FILL" and (keeps_fill or layer.get("params", {}).get("operation", "LINSPACE") != "LINSPACE"):
        return False
    if layer["type"] == "FILL" and layer["outputs"][0][2] != "INT32":
        return False
    return layer["type"] not in ("RECURRENCE", "LOOP_OUTPUT") and all(name in constants for name in inputs)


def bits(mask: int) -> List[int]:
    return [axis for axis in range(mask.bit_length()) if mask >> axis & 1]


def near(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-4 * max(1.0, abs(a), abs(b))
    return bool(a == b)


def differing_parameters(real: Layer, ours: Any) -> Dict[str, Tuple[Any, Any]]:
    found = {}
    for name, value in real.get("params", {}).items():
        mine = ours.params.get(NAMES.get(name, name))
        if name in TRANSPOSES:
            order = list(mine) if mine else list(range(8))
            value = value[: len(order)]
            mine = order
        if name == "scales" and mine is not None and all(isinstance(x, int) for x in value):
            # Recorded as whole numbers.
            mine = [int(x) for x in mine] if value else None
        if name == "k" and value == -1:
            # Given by a tensor.
            continue
        if name == "axes":
            value = bits(value)
            mine = sorted(mine) if isinstance(mine, (list, tuple)) else mine
        if mine is not None and not near(value, mine):
            found[name] = (value, mine)
    return found


def key_of(kind: str, outputs: List[Any]) -> str:
    return f"{kind} {outputs}"


def unnumbered(name: str) -> str:
    """A layer's name without the numbers that the parser counts: constants have numbers, too."""
    return re.sub(r"_\d+$", "", re.sub(r"^\(Unnamed Layer\* \d+\)", "(Unnamed)", name))


def differences(real: List[Layer], graph: LayerGraph) -> List[str]:
    """What the importer makes otherwise, layer by layer in the network's order; nothing where it agrees."""
    expected = [key_of(x["type"], [[dims, dtype] for _, dims, dtype in x["outputs"]]) for x in real]
    made = [
        key_of(x.type, [[list(graph.tensors[name].dims), graph.tensors[name].dtype] for name in x.outputs]) for x in graph.layers
    ]
    found = []
    for tag, a, a_end, b, b_end in difflib.SequenceMatcher(None, expected, made, autojunk=False).get_opcodes():
        if tag != "equal":
            found += [f"missing: {expected[i]} {real[i]['name']}" for i in range(a, a_end)]
            found += [f"too much: {made[i]} {graph.layers[i].name}" for i in range(b, b_end)]
            continue
        for layer, mine in zip(real[a:a_end], graph.layers[b:b_end]):
            for name, (value, other) in differing_parameters(layer, mine).items():
                found.append(f"{layer['name']}: {name} {value}, not {other}")
            if unnumbered(layer["name"]) != unnumbered(mine.name):
                found.append(f"{layer['name']}: named {mine.name}")
    return found


def compare(row: Dict[str, Any], models: Path, trt: str) -> Tuple[Counter[str], List[str]]:
    """Counts, and what differs, for one model of a record."""
    graph: Optional[LayerGraph] = None
    reason = ""
    try:
        graph = load_onnx(models / row["model"], trt=trt)
    except ModelError as e:
        reason = str(e).splitlines()[0]
    if not row["parsed"]:
        agrees = graph is None
        why = [] if agrees else [f"taken; the library: {row['errors'][0]['code']} {row['errors'][0]['desc']}"]
        return collections.Counter(refusals=1, refusals_agreed=int(agrees)), why
    layers = live_layers(row["layers"], graph is not None and any(layer.type == "FILL" for layer in graph.layers))
    if graph is None:
        return collections.Counter(models=1, layers=len(layers)), [f"refused, and the library takes it: {reason}"]
    found = differences(layers, graph)
    wrong = sum(not text.startswith("too much") for text in found)
    return collections.Counter(
        models=1,
        identical=int(not found),
        layers=len(layers),
        agreed=max(0, len(layers) - wrong),
        arithmetic=len(row["layers"]) - len(layers),
    ), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record"), parser.add_argument("models", type=Path)
    parser.add_argument("--trt", default="8.5.2"), parser.add_argument("--show", type=int, default=5)
    given = parser.parse_args()
    total: Counter[str] = collections.Counter()
    with gzip.open(given.record, "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    for row in rows:
        if not (given.models / row["model"]).exists():
            total["absent"] += 1
            continue
        if "crashed" in row:
            total["crashed"] += 1
            continue
        counts, found = compare(row, given.models, given.trt)
        total += counts
        if found:
            print("\n    ".join([row["model"], *found[: given.show]]))
    print(
        f"models {total['models']}, identical {total['identical']}; layers {total['layers']}, agreed {total['agreed']}, and "
        f"{total['arithmetic']} of build-time arithmetic; refusals {total['refusals']}, agreed {total['refusals_agreed']}; "
        f"crashes of the library {total['crashed']}; models not here {total['absent']}"
    )
    return int(total["identical"] < total["models"] or total["refusals_agreed"] < total["refusals"])


if __name__ == "__main__":
    sys.exit(main())
