"""A simulated network in segments, each a session of its own: a run begins at the first segment whose scales changed."""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

import numpy as np

from edgedla.builder.chain.onnx_proto import without_graph
from edgedla.importers.model_file.value_names import read_names
from edgedla.quantization.samples import Feed
from edgedla.quantization.session import OnnxSession, open_session

#: Most bytes of tensors held between segments, over all samples.
MOST_BYTES = 96 << 20
#: Most segments of a search, and fewest scales of one: more sessions cost more than they save.
SEARCHED, _FEWEST = 8, 4
#: For bytes of a tensor of unknown type or size, at which no segment begins.
_UNKNOWN = 1e18
#: Tensor -> (onnx.TensorProto.DataType, dims), see tensor_types.
Types = Mapping[str, Tuple[int, Tuple[int, ...]]]


class Segments:
    """Sessions of a model, one behind the other. Holds the tensors between them for the last list of samples."""

    def __init__(self, model: Any, outputs: Collection[str], scalars: Collection[str], types: Types, most: int) -> None:
        """Args:
        model: onnx.ModelProto. outputs: the tensors to give. scalars: its inputs that change from run to run.
        types: of the tensors at which a segment may begin. most: most segments.
        """
        nodes = list(model.graph.node)
        read = [read_names(node) for node in nodes]
        ends = _ends(nodes, read, set(scalars), types, most)
        #: (session, the tensors it reads, those it gives, the scalars among the former)
        self._parts: List[Tuple[OnnxSession, List[str], List[str], List[str]]] = []
        for first, end in zip([0, *ends], [*ends, len(nodes)]):
            here = set().union(*read[first:end])
            gives = _made(nodes[first:end]) & set(outputs).union(*read[end:])
            if gives:
                part = _part(model, nodes[first:end], here, gives, types)
                needs = [i.name for i in part.graph.input]
                session = open_session(part.SerializeToString(), estimate=not ends)
                self._parts.append((session, needs, sorted(gives), [n for n in needs if n in scalars]))
        self._feeds: Any = None
        self._held: Dict[int, List[Tuple[bytes, Feed]]] = {}
        self._bytes = 0

    def runs(self, feeds: Sequence[Feed], scalars: Feed) -> Iterator[Feed]:
        """Per sample its outputs, among other tensors."""
        if feeds is not self._feeds:
            self._feeds, self._held, self._bytes = feeds, {}, 0
        keys = [b"".join(scalars[name].tobytes() for name in of_part) for *_, of_part in self._parts]
        for i, feed in enumerate(feeds):
            held, values, done = self._held.get(i, []), {**feed, **scalars}, []
            for k, (session, needs, gives, _) in enumerate(self._parts):
                if len(held) <= k or held[k][0] != keys[k]:
                    held = []
                    made = dict(zip(gives, session.run(gives, {name: values[name] for name in needs})))
                    done.append((keys[k], made))
                else:
                    done.append(held[k])
                values.update(done[-1][1])
            size = 0 if i in self._held else sum(np.asarray(v).nbytes for _, made in done for v in made.values())
            if self._bytes + size <= MOST_BYTES:
                self._held[i], self._bytes = done, self._bytes + size
            yield values


def _made(nodes: Sequence[Any]) -> Set[str]:
    return {name for node in nodes for name in node.output if name}


def _ends(nodes: Sequence[Any], read: Sequence[Set[str]], scalars: Set[str], types: Types, most: int) -> List[int]:
    """The first nodes of all segments but the first: about as many scales in each, and few bytes between them."""
    made = {name: i for i, node in enumerate(nodes) for name in node.output}
    if any(made.get(name, -1) >= i for i, names in enumerate(read) for name in names):
        # A node reads what a later one writes: ONNX Runtime sorts such a model.
        return []
    first, last = ({n: i for i in order for n in read[i]} for order in (range(len(nodes))[::-1], range(len(nodes))))
    # In front of each node: scales that were read, and bytes that are still to be read.
    scales, size = np.zeros(len(nodes) + 1), np.zeros(len(nodes) + 1)
    for name in scalars & set(first):
        scales[first[name] + 1] += 1
    for name in set(made) & set(last):
        bytes_made = float(np.prod(types[name][1])) if all(types.get(name, (0, (0,)))[1]) else _UNKNOWN
        size[made[name] + 1] += bytes_made
        size[last[name] + 1] -= bytes_made
    read_before, held = scales.cumsum(), size.cumsum()
    count = min(most, int(scales.sum()) // _FEWEST)
    ends: List[int] = []
    for k in range(1, count):
        near = (np.abs(read_before * count / read_before[-1] - k) < 0.5) & (held < _UNKNOWN / 2)
        ends += [int(np.flatnonzero(near)[np.argmin(held[near])])] if near.any() else []
    return ends


def _part(model: Any, nodes: Sequence[Any], read: Set[str], gives: Set[str], types: Types) -> Any:
    from onnx import helper

    part = without_graph(model)
    part.graph.name = "segment"
    part.graph.node.extend(nodes)
    part.graph.initializer.extend(i for i in model.graph.initializer if i.name in read)
    part.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    inside = _made(nodes).union(i.name for i in part.graph.initializer)
    inside.update(i.values.name for i in part.graph.sparse_initializer)
    given = {i.name: i for i in model.graph.input}
    for name in sorted(read - inside):
        part.graph.input.append(given[name] if name in given else helper.make_tensor_value_info(name, *types[name]))
    for name in sorted(gives):
        part.graph.output.add().name = name
    return part
