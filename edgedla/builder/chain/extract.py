"""An ONNX model for every stage of a chain, out of the model as a whole; tensor names stay what they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.builder.chain.onnx_proto import inferred_types, reads, sized, without_graph
from edgedla.errors import BuildError
from edgedla.graph import LayerGraph
from edgedla.importers.node import readable
from edgedla.importers.node_order import topological

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

#: TensorRT's type -> ONNX's (TensorProto.DataType), where ONNX's own shape inference does not tell a border tensor's.
_ELEMENT_TYPE = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "INT32": 6, "INT64": 7, "BOOL": 9, "HALF": 10, "BF16": 16,
}  # fmt: skip


@dataclass(frozen=True)
class StageModel:
    """One stage's ONNX model; inputs and outputs by name: the network's in its order, then what passes between stages."""

    model: ModelProto
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


def node_groups(graph: LayerGraph) -> Tuple[Tuple[int, ...], ...]:
    """Layers by ONNX node of the main graph, in the order of the walk; what subgraphs and functions hold is their node's."""
    groups: List[List[int]] = []
    for node in graph.nodes:
        if node.nested and groups:
            groups[-1] += node.layers
        else:
            groups.append(list(node.layers))
    return tuple(tuple(g) for g in groups)


def extract(
    model: ModelProto, graph: LayerGraph, stages: Sequence[Sequence[int]], *, sizes_known: bool = True
) -> Tuple[StageModel, ...]:
    """The models of the stages.

    Each holds the nodes of its layers, and by themselves the nodes that become no layer but that these read: constants
    and shape arithmetic stand in every stage that needs them. The Shape of a tensor of another stage becomes a constant.

    Args:
        model: onnx.ModelProto, the one that `graph` was read from; its weights may be missing.
        stages: layer indices of every stage, as `split_stages` gives them.
        sizes_known: False hands such a tensor over instead: the parser knows numbers that stand in the model better than
            those of a Shape, and may make other layers of them.

    Raises:
        BuildError: a stage cannot be a model of its own: a tensor of unknown size passes to it, nothing reads what it makes,
            or an input is an output.
    """
    extractor = _Extractor(model, graph, stages, sizes_known)
    return tuple(extractor.stage(k) for k in range(len(stages)))


class _Extractor:
    def __init__(
        self, model: ModelProto, graph: LayerGraph, stages: Sequence[Sequence[int]], sizes_known: bool
    ) -> None:
        self.model, self.graph, self.sizes_known = model, graph, sizes_known
        self.nodes = topological(model.graph.node)
        groups = node_groups(graph)
        if len(groups) != len(self.nodes):
            raise BuildError(
                f"{len(self.nodes)} ONNX nodes gave {len(groups)} groups of layers", where=graph.name,
                hint="that is a fault of edgedla: please report it",
            )  # fmt: skip
        stage_of_layer = {i: k for k, layers in enumerate(stages) for i in layers}
        self.stage_of = [stage_of_layer[g[0]] if g else None for g in groups]
        self.stage_of_layer = stage_of_layer
        self.producer = {t: i for i, node in enumerate(self.nodes) for t in node.output if t}
        self.initializers = {i.name: i for i in model.graph.initializer}
        self.sparse = {i.values.name: i for i in model.graph.sparse_initializer}
        self.inputs = {i.name: i for i in model.graph.input if i.name not in self.initializers}
        self.network_outputs = {o.name: o for o in model.graph.output}
        both = sorted(set(self.inputs) & set(self.network_outputs))
        if both:
            raise BuildError(f"input {both[0]!r} is also an output, and no stage computes it", where=graph.name)
        self.types = inferred_types(model)
        self.parts = [_Part(self, k) for k in range(len(stages))]
        for part in self.parts:
            part.collect()
        handed: Dict[int, List[str]] = {}
        for part in self.parts:
            for name, source in part.borders.items():
                if name not in handed.setdefault(source, []):
                    handed[source].append(name)
        order = {name: i for i, name in enumerate(self.producer)}
        for name in self.network_outputs:
            # What only constants make belongs to no stage.
            self.parts[self.source(name) or 0].results.append(name)
        for k, names in handed.items():
            part = self.parts[k]
            part.results += sorted((n for n in names if n not in part.results), key=order.__getitem__)
        for part, layers in zip(self.parts, stages):
            if not part.results:
                first_names = ", ".join(graph.layers[i].name for i in layers[:3]) + ("..." if len(layers) > 3 else "")
                raise BuildError(
                    f"these layers would form a separate stage whose outputs nothing reads: {first_names}", where=graph.name,
                    hint="take the nodes out of the model, or put them on the core before them: --layer-devices NAME:DLA0",
                )  # fmt: skip
        read = {name for part in self.parts for name in part.inputs}
        for part in self.parts:
            part.collect()
        # An input that nothing reads stays an input of the network, as it does in one engine.
        self.parts[0].inputs.update(dict.fromkeys(n for n in self.inputs if n not in read))

    def source(self, name: str) -> Optional[int]:
        """The stage whose layer writes the tensor; None for an input, and for what is known when an engine is built."""
        layer = self.graph.producer(readable(name))
        return None if layer is None else self.stage_of_layer[layer]

    def dims(self, name: str) -> Optional[Tuple[int, ...]]:
        tensor = self.graph.tensors.get(readable(name))
        return tensor.dims if tensor is not None and all(d >= 0 for d in tensor.dims) else None

    def stage(self, k: int) -> StageModel:
        import onnx
        from onnx import helper

        part = self.parts[k]
        made = onnx.ModelProto()
        made.CopyFrom(without_graph(self.model))
        graph = made.graph
        graph.name = f"{self.graph.name}_stage{k}"
        graph.doc_string = self.model.graph.doc_string
        for i in sorted(part.nodes):
            graph.node.append(self.nodes[i])
        names = {t for node in graph.node for t in (*reads(node), *node.output)} | set(part.results)
        graph.initializer.extend(t for name, t in self.initializers.items() if name in part.initializers)
        graph.initializer.extend(part.constants.values())
        graph.sparse_initializer.extend(t for name, t in self.sparse.items() if name in part.initializers)
        inputs = [n for n in self.inputs if n in part.inputs]
        borders = sorted(part.borders, key=lambda n: (part.borders[n], self.producer[n]))
        for name in inputs:
            graph.input.append(sized(self.inputs[name], self.dims(name)))
        for name in borders:
            graph.input.append(helper.make_tensor_value_info(name, self._type(name), self._static(name)))
        for name in part.results:
            if name in self.network_outputs:
                graph.output.append(self.network_outputs[name])
            else:
                graph.output.append(helper.make_tensor_value_info(name, self._type(name), self._static(name)))
        typed = {v.name for v in (*graph.input, *graph.output)}
        graph.value_info.extend(v for v in self.model.graph.value_info if v.name in names - typed)
        graph.quantization_annotation.extend(
            a for a in self.model.graph.quantization_annotation if a.tensor_name in names
        )
        return StageModel(made, (*inputs, *borders), tuple(part.results))

    def _static(self, name: str) -> Tuple[int, ...]:
        dims = self.dims(name)
        if dims is None:
            raise BuildError(
                f"{name!r} goes from one stage to another, and its size is known only at run time",
                where=self.graph.name,
                hint="pin the layers around it to one core: edgedla place --layer-device-types",
            )
        return dims

    def _type(self, name: str) -> int:
        known = self.types.get(name, 0)
        return known or _ELEMENT_TYPE[self.graph.tensors[readable(name)].dtype]


class _Part:
    """What belongs into one stage's model."""

    def __init__(self, whole: _Extractor, k: int) -> None:
        self.whole, self.k = whole, k
        self.live = [i for i, stage in enumerate(whole.stage_of) if stage == k]
        self.nodes: Set[int] = set()
        self.initializers: Set[str] = set()
        self.inputs: Dict[str, None] = {}
        self.borders: Dict[str, int] = {}
        self.constants: Dict[str, Any] = {}
        self.results: List[str] = []

    def collect(self) -> None:
        """Everything that the stage's nodes and results read, by backward closure."""
        whole = self.whole
        # Network inputs that layers read; for a Shape alone none is added.
        near = {t for i in self.live for t in reads(whole.nodes[i]) if t in whole.inputs}
        waiting = list(self.live)
        waiting += [whole.producer[n] for n in self.results if n in whole.producer]
        while waiting:
            i = waiting.pop()
            if i in self.nodes:
                continue
            self.nodes.add(i)
            for name in reads(whole.nodes[i]):
                producer = self._needed(name, near)
                if producer is not None:
                    waiting.append(producer)
        for name in self.results:
            if name in whole.initializers or name in whole.sparse:
                self.initializers.add(name)

    def _needed(self, name: str, near: Set[str]) -> Optional[int]:
        """Notes where a tensor comes from; the node to add where it is this stage's own."""
        whole = self.whole
        if name in whole.initializers or name in whole.sparse:
            self.initializers.add(name)
            return None
        if name in whole.inputs:
            self.inputs[name] = None
            return None
        if name not in whole.producer:
            # A subgraph's own tensor.
            return None
        i = whole.producer[name]
        source = whole.source(name)
        if source is not None and source != self.k:
            if source > self.k:
                raise BuildError(
                    f"{name!r} comes from a later stage than what reads its size",
                    where=whole.graph.name,
                    hint="pin what reads it to the same core: edgedla place --layer-device-types",
                )
            self.borders[name] = source
            return None
        if source is None and whole.stage_of[i] not in (None, self.k):
            raise BuildError(
                f"{name!r} is known when the engine is built, but comes from a node of another stage",
                where=whole.nodes[i].name or name,
                hint="pin what reads it to the same core: edgedla place --layer-device-types",
            )
        if whole.nodes[i].op_type in ("Shape", "Size") and self._measured(whole.nodes[i], near):
            return None
        return i

    def _measured(self, node: NodeProto, near: Set[str]) -> bool:
        """Shape or Size of a tensor that is not at hand here, as a constant."""
        from onnx import numpy_helper

        read, name = node.input[0], node.output[0]
        source = self.whole.source(read)
        is_mine = source == self.k if source is not None else read not in self.whole.inputs or read in near
        dims = self.whole.dims(read)
        # A later stage's size may be read: no layer waits for it.
        at_hand = source is None or source < self.k
        if is_mine or dims is None or (at_hand and not self.whole.sizes_known):
            return False
        if node.op_type == "Size":
            value = np.asarray(int(np.prod(dims, dtype=np.int64)), np.int64)
        else:
            attributes = {a.name: a.i for a in node.attribute}
            value = np.asarray(dims[slice(attributes.get("start", 0), attributes.get("end"))], np.int64)
        self.constants[name] = numpy_helper.from_array(value, name)
        return True
