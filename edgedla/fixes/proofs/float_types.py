"""Proof that a model whose types become FLOAT computes the same: node by node, on the values that the model as it came has there.

The outputs alone would show the network's own sensitivity instead: rounding every tensor to 11 bits moves a deep one by percents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import EdgedlaError, ModelError
from edgedla.fixes.proofs.comparison import ROUND, distance
from edgedla.fixes.proofs.plain_session import described
from edgedla.fixes.site import Node
from edgedla.importers.model_file.float32_types import turn_types
from edgedla.importers.model_file.port_names import free_prefix
from edgedla.importers.model_file.tensor_types import tensor_types
from edgedla.importers.model_file.value_names import read_names
from edgedla.quantization.session import open_session

#: Values that are held at a time; a larger network runs once for each part of it.
MOST_HELD_BYTES = 256_000_000
#: Bytes of an element, and copies: as it came, as FLOAT, and the result.
_BYTES_HELD = 2 + 4 + 4
#: Random by themselves.
_RANDOM = frozenset("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli".split())
#: The smallest positive FLOAT16: relative errors below it are meaningless.
_LEAST_STEP = 2.0**-24


@dataclass(frozen=True)
class TypesProof:
    """The result of running every node in both types.

    Attributes:
        nodes: that were compared. worst: largest relative L2 difference of one.
        overflow: the first node whose result is no number in the model's own type and one in FLOAT; "" for none.
        failed: the first node that computes something else, and by how much; "" for none.
        outputs: of the whole network, relative L2: its own rounding, added up. None where there is none to compare.
    """

    nodes: int
    worst: float
    overflow: str
    failed: str
    outputs: Optional[float]

    @property
    def text(self) -> str:
        if self.overflow:
            return f"not proven: on this input {self.overflow!r} is not a number in the model's own type, but is one in FLOAT"
        ends = "" if self.outputs is None else f"; the outputs differ by {self.outputs:.1e}, the rounding of all together"
        return (
            f"proven on {self.nodes} nodes, each on the values that it had: they differ by {self.worst:.1e} at most "
            f"(relative L2), the rounding of one{ends}"
        )


def proof_text(model: Any, turned: Any, feed: Mapping[str, np.ndarray]) -> str:
    """How far `prove_types` gets, in words.

    Raises:
        ModelError: a node computes something else in FLOAT.
    """
    try:
        proof = prove_types(model, turned, feed)
    except EdgedlaError as e:
        return f"not proven: {e.what}"
    if proof.failed:
        raise ModelError(
            f"in FLOAT the model computes something else: {proof.failed}",
            where=model.graph.name or "<model>",
            hint="`edgedla fix --skip float32-types` leaves the types as they are; else export the model again in FP32",
        )
    return proof.text


def prove_types(model: Any, turned: Any, feed: Mapping[str, np.ndarray]) -> TypesProof:
    """Args:
        model: onnx.ModelProto as it came, with weights and fixed sizes. turned: the same in FLOAT, of which the outputs are run.
        feed: inputs of `model`.

    Raises:
        ModelError, RunError: ONNX Runtime does not run one of them. EnvironmentMissing: they would not fit into memory.
    """
    import onnx

    narrow, wide = onnx.ModelProto(), onnx.ModelProto()
    narrow.CopyFrom(model)
    wide.CopyFrom(model)
    turn_types(wide)
    constants = {t.name: t for t in wide.graph.initializer}
    nodes, worst, overflow, failed = 0, 0.0, "", ""
    for part in parts_of(wide):
        names = sorted({name for node in part for name in (*read_names(node), *node.output) if name} - set(constants))
        values = {**feed, **run_values(narrow, [name for name in names if name not in feed], feed)}
        for node, gaps in _compared(wide, part, constants, values):
            nodes += 1
            label = node.name or node.op_type
            if gaps is None:
                overflow = overflow or label
            if gaps is None or (overflow and _holds_no_number(node, values)):
                continue
            worst = max(worst, gaps[0])
            if gaps[0] > gaps[1]:
                failed = failed or f"{label} differs by {gaps[0]:.2g} (relative L2), allowed is {gaps[1]:.2g}"
    return TypesProof(nodes, worst, overflow, failed, _outputs(narrow, turned, feed))


def parts_of(model: Any) -> Iterator[List[Any]]:
    """The nodes of the main graph in parts whose values can be held together."""
    types = tensor_types(model)
    part: List[Any] = []
    held = 0
    for node in model.graph.node:
        if node.op_type in _RANDOM:
            continue
        size = sum(_BYTES_HELD * math.prod(types[o][1]) for o in node.output if o in types)
        if part and held + size > MOST_HELD_BYTES:
            yield part
            part, held = [], 0
        part.append(node)
        held += size
    if part:
        yield part


def run_values(model: Any, names: Sequence[str], feed: Mapping[str, np.ndarray]) -> Dict[str, Any]:
    """Values of the original model, each rounded to its type: ONNX Runtime rounds only values that are outputs."""
    import onnx

    own_outputs = [o.name for o in model.graph.output]
    # Converters leave the types of other tensors there, which ONNX Runtime believes; it infers them by itself.
    del model.graph.value_info[:]
    inner = dict.fromkeys(o for node in model.graph.node for o in node.output if o)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner if name not in own_outputs)
    try:
        session = open_session(model.SerializeToString(), optimize=False)
    finally:
        del model.graph.output[len(own_outputs) :]
    return dict(zip(names, session.run(list(names), feed)))


def _compared(
    model: Any, part: Sequence[Any], constants: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[Tuple[Any, Optional[Tuple[float, float]]]]:
    """(node, (its difference, the allowed one)) for each whose inputs are arrays; (node, None) for one that overflows."""
    import onnx

    nodes, read, prefix = [], {}, free_prefix("float32", model.graph)
    proto = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    proto.functions.extend(model.functions)
    proto.graph.name = "nodes"
    for node in part:
        inputs = read_names(node)
        arrays = {name: values[name] for name in inputs - set(constants)}
        results = [o for o in node.output if o and isinstance(values.get(o), np.ndarray)]
        if not results or not all(isinstance(v, np.ndarray) for v in arrays.values()):
            continue
        nodes.append((node, results))
        read.update({name: _wide(value) for name, value in arrays.items()})
        copy = proto.graph.node.add()
        copy.CopyFrom(node)
        for i, name in enumerate(copy.output):
            copy.output[i] = name and prefix + name
        proto.graph.output.extend(onnx.ValueInfoProto(name=prefix + name) for name in results)
    names = {name for node, _ in nodes for name in read_names(node)}
    proto.graph.initializer.extend(constants[name] for name in sorted(names & set(constants)))
    proto.graph.input.extend(described(name, array) for name, array in read.items())
    output_names = [o.name for o in proto.graph.output]
    if not output_names:
        return
    made = dict(zip(output_names, open_session(proto.SerializeToString(), optimize=False).run(output_names, read)))
    for node, results in nodes:
        levels = node.op_type == "QuantizeLinear"
        gaps = [_gap(values[name], np.asarray(made[prefix + name]), levels) for name in results]
        yield node, None if None in gaps else max((g for g in gaps if g is not None), key=lambda g: g[0] - g[1])


def _holds_no_number(node: Node, values: Mapping[str, Any]) -> bool:
    """Whether it reads what an earlier node could not hold: what follows from that is compared with nothing."""
    read = [values[name] for name in read_names(node) if name in values]
    return any(v.dtype.kind == "f" and not np.all(np.isfinite(v)) for v in read if isinstance(v, np.ndarray))


def _wide(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32) if value.dtype in (np.float16, np.float64) else value


def _gap(narrow: np.ndarray, wide: np.ndarray, levels: bool) -> Optional[Tuple[float, float]]:
    """(relative L2, allowed); None where only the narrow type holds no number. Whole numbers have to be the same.

    Args:
        levels: they are levels of a scale: the quotient, rounded to the narrow type, may fall on the next one.
    """
    if narrow.shape != wide.shape:
        return math.inf, 0.0
    if narrow.dtype.kind != "f":
        far, most = distance(narrow, wide)
        return (0.0 if levels and most <= 1 else far), 0.0
    numbers, expected = np.isfinite(narrow), np.isfinite(wide)
    if np.any(expected & ~numbers):
        return None
    # NaN in both outputs comes from a NaN input, so it is no error.
    same = np.array_equal(numbers, expected)
    bound = ROUND.get(str(narrow.dtype), ROUND["float32"])
    difference = distance(narrow[numbers], wide[numbers])[0] if same else math.inf
    size = float(np.linalg.norm(narrow[numbers].astype(np.float64)))
    steps = _LEAST_STEP * math.sqrt(narrow.size) if narrow.dtype == np.float16 else 0.0
    return difference, bound + (steps / size if size else math.inf if steps else 0.0)


def _outputs(model: Any, turned: Any, feed: Mapping[str, np.ndarray]) -> Optional[float]:
    names = [o.name for o in model.graph.output]
    before = run_values(model, names, feed)
    after = open_session(turned.SerializeToString(), optimize=False).run(names, {k: _wide(v) for k, v in feed.items()})
    worst = None
    for name, value in zip(names, after):
        a, b = np.asarray(before[name]), np.asarray(value)
        if a.dtype.kind != "f":
            continue
        if a.shape != b.shape or not np.all(np.isfinite(a)):
            return None
        worst = max(worst or 0.0, distance(a, b)[0])
    return worst
