"""Turns the examples of rewrites into models and applies a rewrite to one."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.fixes.apply import Changes, apply_rewrites
from edgedla.fixes.fold import fold_constants
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Goal, Network
from edgedla.fixes.proofs.comparison import Proof
from edgedla.fixes.proofs.sites import prove_sites
from edgedla.fixes.site import Example, Rewrite
from edgedla.quantization.samples import InputSpec, synthetic_samples
from edgedla.rules.remedies import rewrite_entries


@dataclass(frozen=True)
class Outcome:
    """What a rewrite changed in one model: sites, refusals, and a proof of each site."""

    changes: Changes
    proofs: Tuple[Proof, ...]
    model: Any


def example_model(example: Example) -> Any:
    """An onnx.ModelProto. Names that begin with w become initializers, the last value is `y`."""
    import onnx

    inputs: List[str] = []
    weights = []
    for entry in example.inputs.split(","):
        name, _, dims = entry.strip().partition(" ")
        shape = [int(d) for d in dims.split("x")]
        if name.startswith("w"):
            rng = np.random.default_rng([3, zlib.crc32(name.encode())])
            # Away from 0, so that a division by them is defined.
            elements = (0.5 + rng.random(shape)).astype(np.float32)
            weights.append(onnx.numpy_helper.from_array(elements, name))
        else:
            inputs.append(f"float[{','.join(map(str, shape))}] {name}")
    text = (
        f'<ir_version: 8, opset_import: ["" : {example.opset}]> '
        f"example ({', '.join(inputs)}) => (float y) {{ {example.body} }}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(weights)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.graph.output[0].CopyFrom(inferred.graph.output[0])
    return model


def applied(rewrite: Rewrite, model: Any, goal: Optional[Goal] = None) -> Tuple[Changes, Any, Any]:
    """(changes, the model before, the model after): one rewrite wherever its pattern occurs in the folded onnx.ModelProto."""
    work = onnx_ir().from_proto(model)
    fold_constants(work)
    fixed = work.clone()
    return apply_rewrites(Network(fixed, goal or Goal()), [rewrite], record=True), work, fixed


def outcome(rewrite: Rewrite, model: Any, goal: Optional[Goal] = None, seed: int = 0) -> Outcome:
    """Applies one rewrite wherever its pattern occurs, and proves each site on seeded input.

    Args:
        model: onnx.ModelProto with weights.
    """
    goal = goal or Goal()
    changes, work, fixed = applied(rewrite, model, goal)
    specs = [InputSpec(v.name, tuple(int(d) for d in v.shape), v.dtype.numpy().type) for v in work.graph.inputs]
    feeds = synthetic_samples(specs, 1, seed).feeds
    equality = {entry.id: entry.equality for entry in rewrite_entries().values()}
    return Outcome(changes, prove_sites(work, changes.applied, equality, feeds, False, goal.approximate), fixed)
