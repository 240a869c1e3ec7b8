"""Extracts an ONNX model for each stage of a chain from the whole model. Tensor names stay unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.builder.chain.onnx_proto import inferred_types, sized, without_graph
from edgedla.errors import BuildError
from edgedla.graph import LayerGraph
from edgedla.importers.model_file.value_names import read_names
from edgedla.importers.node import readable
from edgedla.importers.node_order import topological

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

#: TensorRT type -> ONNX type (TensorProto.DataType), for border tensors whose type ONNX's shape inference lacks.
_ELEMENT_TYPE = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "INT32": 6, "INT64": 7, "BOOL": 9, "HALF": 10, "BF16": 16}


@dataclass(frozen=True)
class StageModel:
    """One stage's ONNX model. Inputs and outputs by name: first the network's own, then tensors between stages."""

    model: ModelProto
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


def node_groups(graph: LayerGraph) -> Tuple[Tuple[int, ...], ...]:
    """Layer indices per ONNX node of the main graph, in parse order. A node owns the layers in its subgraphs."""
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

    Each holds the nodes of its layers and a copy of the constants and shape arithmetic that they read, which become no
    layer. The Shape of another stage's tensor becomes a constant.

    Args:
        model: onnx.ModelProto, the one that `graph` was read from; its weights may be missing.
        stages: layer indices of every stage, as `split_stages` gives them.
        sizes_known: False makes such a tensor an input of the stage and keeps the Shape: from a constant the parser may
            make other layers.

    Raises:
        BuildError: a stage cannot be a model of its own: a tensor of unknown size enters it, nothing reads its results,
            or one of its inputs is also an output.
    """
    extractor = _Extractor(model, graph, stages, sizes_known)
    return tuple(extractor.stage(k) for k in range(len(stages)))


class _Extractor:
    def __init__(self, model: ModelProto, graph: LayerGraph, stages: Sequence[Sequence[int]], sizes_known: bool) -> None:
        self.model, self.graph, self.sizes_known = model, graph, sizes_known
        self.nodes = topological(model.graph.node)
        groups = node_groups(graph)
        if len(groups) != len(self.nodes):
            raise BuildError(
                f"{len(self.nodes)} ONNX nodes gave {len(groups)} groups of layers",
                where=graph.name,
                hint="that is a fault of edgedla: please report it",
            )
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
            # A result computed from constants alone belongs to no stage; the first one writes it.
            self.parts[self.source(name) or 0].results.append(name)
        for k, names in handed.items():
            part = self.parts[k]
            part.results += sorted((n for n in names if n not in part.results), key=order.__getitem__)
        for part, layers in zip(self.parts, stages):
            if not part.results:
                first_names = ", ".join(graph.layers[i].name for i in layers[:3]) + ("..." if len(layers) > 3 else "")
                raise BuildError(
                    f"these layers would form a separate stage whose outputs nothing reads: {first_names}",
                    where=graph.name,
                    hint="take the nodes out of the model, or put them on the core before them: --layer-devices NAME:DLA0",
                )
        read = {name for part in self.parts for name in part.inputs}
        for part in self.parts:
            part.collect()
        # An input that nothing reads stays an input of the network, as it does in one engine.
        self.parts[0].inputs.update(dict.fromkeys(n for n in self.inputs if n not in read))

    def source(self, name: str) -> Optional[int]:
        """The stage whose layer writes the tensor; None for inputs and for values known at build time."""
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
        names = {t for node in graph.node for t in (*read_names(node), *node.output)} | set(part.results)
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
        graph.quantization_annotation.extend(a for a in self.model.graph.quantization_annotation if a.tensor_name in names)
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
        inferred = self.types.get(name, 0)
        return inferred or _ELEMENT_TYPE[self.graph.tensors[readable(name)].dtype]


class _Part:
    """The nodes, inputs and results of one stage's model."""

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
        """Collects backward every node that the stage's nodes and results depend on."""
        whole = self.whole
        # Network inputs that layers read. A Shape alone adds no input: it becomes a constant.
        near = {t for i in self.live for t in read_names(whole.nodes[i]) if t in whole.inputs}
        waiting = list(self.live)
        waiting += [whole.producer[n] for n in self.results if n in whole.producer]
        while waiting:
            i = waiting.pop()
            if i in self.nodes:
                continue
            self.nodes.add(i)
            for name in sorted(read_names(whole.nodes[i])):
                producer = self._needed(name, near)
                if producer is not None:
                    waiting.append(producer)
        for name in self.results:
            if name in whole.initializers or name in whole.sparse:
                self.initializers.add(name)

    def _needed(self, name: str, near: Set[str]) -> Optional[int]:
        """Records the source of a tensor. Returns the node to add if this stage computes it, else None."""
        whole = self.whole
        if name in whole.initializers or name in whole.sparse:
            self.initializers.add(name)
            return None
        if name in whole.inputs:
            self.inputs[name] = None
            return None
        if name not in whole.producer:
            # A tensor inside a subgraph.
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
        """Replaces Shape or Size of a tensor that the stage does not have with a constant; True if it did."""
        from onnx import numpy_helper

        read, name = node.input[0], node.output[0]
        source = self.whole.source(read)
        is_mine = source == self.k if source is not None else read not in self.whole.inputs or read in near
        dims = self.whole.dims(read)
        # The node may measure a later stage's tensor: its size is fixed, so no layer waits for it.
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
