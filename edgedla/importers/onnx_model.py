"""From a model in any form to a LayerGraph: reads the file, walks the graph, keeps the layers that run at inference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import EdgedlaError, ModelError, ModelTooLarge, UsageError
from edgedla.graph import Layer, LayerGraph, OnnxNode, Tensor
from edgedla.graph.layer_graph import GPU_ALONE, HALVED, SPARSE
from edgedla.graph.named import no_such_input
from edgedla.graph.open_sizes import GivenSizes, require_given
from edgedla.graph.source import SourceLocation
from edgedla.graph.tensor import dims_text
from edgedla.importers.context import Context
from edgedla.importers.model_file.described_shapes import described_tensors
from edgedla.importers.model_file.onnx_file import OnnxFile, read
from edgedla.importers.model_file.port_names import free_name
from edgedla.importers.model_file.sparse_weights import reads_of
from edgedla.importers.model_file.tensor_data import TensorReader
from edgedla.importers.network.core import NetTensor, TooLarge
from edgedla.importers.node import readable
from edgedla.importers.operator_schema import DEFAULT_DOMAINS
from edgedla.importers.parser_releases import newest_opset, stands_in_for
from edgedla.importers.ports import Batch, contradicted_outputs, import_inputs, output_tensors
from edgedla.importers.refuse import CannotTell, Refused
from edgedla.importers.shared_parameters import shared_parameters
from edgedla.importers.source_location import source_of
from edgedla.importers.walk import Walk
from edgedla.processes.malloc import paused_garbage_collection
from edgedla.vocabulary import HANDED_ON

#: Note for a model that was exported before training.
SHARED_NOTE = (
    "equal parameters are shared through Identity nodes, as PyTorch exports a model that was never trained; they keep "
    "normalisations and convolutions from having constant weights: export after training. `check` answers for the trained model"
)
#: Constants of up to this many elements keep their value in the LayerGraph.
MAX_VALUE_ELEMENTS = 64


def import_model(
    model: Any,
    *,
    trt: Tuple[int, ...],
    shapes: Optional[Mapping[str, Sequence[int]]],
    batch: Optional[int],
    open_batch: Optional[int] = None,
    as_trained: bool = False,
) -> LayerGraph:
    source = read(model)
    sizes = Batch(batch, open_batch)
    with paused_garbage_collection():
        shared = shared_parameters(source.model.graph)
        try:
            exported = _import(source, trt, shapes, sizes)
        except ModelError as e:
            if isinstance(e, ModelTooLarge) or (batch is None and not shapes):
                raise
            blamed = _blamed(e, source, trt, GivenSizes(shapes, batch))
            if blamed is None:
                raise
            raise blamed from e
        if not shared:
            return exported
        if not as_trained:
            return replace(exported, notes=(*exported.notes, SHARED_NOTE))
        trained = _import(source, trt, shapes, sizes, shared)
    if _shapes_of(trained) == _shapes_of(exported):
        return exported
    return replace(trained, as_exported=exported)


def _shapes_of(graph: LayerGraph) -> List[Tuple[str, int]]:
    """What sharing of parameters can change: the layers, and inputs that take the place of constant weights."""
    return [(layer.type, len(layer.inputs)) for layer in graph.layers]


def _blamed(error: ModelError, source: OnnxFile, trt: Tuple[int, ...], given: GivenSizes) -> Optional[ModelError]:
    """The error with the given sizes as its cause; None where the import fails without them too."""
    try:
        alone = _import(source, trt, None, Batch(None, None))
    except EdgedlaError:
        return None
    own = ", ".join(f"{name} {dims_text(alone.tensors[name].dims)}" for name in alone.inputs)
    hint = (
        f"{given.options()} breaks it: with its own sizes ({own}) the model is read. Something in it is fixed to the sizes that "
        "it was exported with: export it with the sizes wanted, or leave the option out"
    )
    return ModelError(error.what, where=error.where, allowed=error.allowed, hint="\n  ".join(filter(None, (hint, error.hint))))


def _import(
    source: OnnxFile,
    trt: Tuple[int, ...],
    shapes: Optional[Mapping[str, Sequence[int]]],
    batch: Batch,
    shared: FrozenSet[str] = frozenset(),
) -> LayerGraph:
    proto = source.model
    opset = _opset(source)
    ctx = Context(trt, opset)
    ctx.shared_parameters = shared
    reader = TensorReader(ctx, source.folder, source.where)
    walk = Walk(ctx, source.where, reader.weights, lambda: described_tensors(ctx, proto))
    graph = proto.graph
    for function in proto.functions:
        ctx.functions[function.name] = function
    fixed_shapes = _fixed_shapes(source, shapes, batch.given)
    try:
        for output in graph.output:
            # The parser reserves the outputs' names, so that other tensors get different ones.
            ctx.set(output.name, None)
        inputs, notes = import_inputs(ctx, graph, fixed_shapes, batch)
        walk.parse_graph(graph)
        outputs = output_tensors(ctx, graph)
        if not fixed_shapes and batch.given is None:
            notes += contradicted_outputs(graph, outputs)
    except Refused as e:
        raise walk.refuse(str(e), hint=e.hint) from e
    except TooLarge as e:
        raise ModelTooLarge(str(e), where=source.where) from e
    except CannotTell as e:
        raise ModelError(str(e), where=source.where) from e
    except RecursionError as e:
        raise ModelError("subgraphs are nested too deeply", where=source.where) from e
    notes += source.notes + reader.notes() + _newer_opset(ctx) + ctx.departures()
    return _collect(ctx, source, inputs, outputs, notes)


def _newer_opset(ctx: Context) -> List[str]:
    """One note where the model's opset is above what the release's parser was made for."""
    newest, source = newest_opset(ctx.trt)
    if ctx.opset <= newest:
        return []
    release = ".".join(str(part) for part in ctx.trt[:2])
    return [
        f"opset {ctx.opset} is newer than {newest}, the newest that the ONNX parser of TensorRT {release} was made for "
        f"({source}): it may refuse operators, or read them with an older meaning; export with opset {newest} or before"
    ]


def _opset(source: OnnxFile) -> int:
    for entry in source.model.opset_import:
        if entry.domain in DEFAULT_DOMAINS:
            return int(entry.version)
    return 1 if not source.model.opset_import else 0


def _fixed_shapes(
    source: OnnxFile, shapes: Optional[Mapping[str, Sequence[int]]], batch: Optional[int]
) -> Dict[str, Tuple[int, ...]]:
    require_given(shapes, batch, source.where)
    graph = source.model.graph
    initializers = {i.name for i in graph.initializer}
    ranks = {
        v.name: len(v.type.tensor_type.shape.dim) if v.type.tensor_type.HasField("shape") else None
        for v in graph.input
        if v.name not in initializers
    }
    fixed: Dict[str, Tuple[int, ...]] = {}
    outputs = {v.name for v in graph.output}
    for name, dims in (shapes or {}).items():
        if name.startswith(HANDED_ON) and name not in ranks and name[len(HANDED_ON) :] in outputs:
            # The engine's name of an input that is an output too, which hints give.
            name = name[len(HANDED_ON) :]
        if not name and len(ranks) == 1:
            # A shape without a name belongs to the only input.
            (name,) = ranks
        if name not in ranks:
            raise no_such_input(name, ranks, source.where)
        if ranks[name] is not None and ranks[name] != len(dims):
            raise UsageError(
                f"--shapes {name}: {'x'.join(str(d) for d in dims)} has {len(dims)} dims, the input has {ranks[name]}",
                where=source.where,
            )
        fixed[name] = tuple(int(d) for d in dims)
    return fixed


class _Names:
    """The readable name of each tensor of the network, and the tensors by these names."""

    def __init__(self) -> None:
        self.tensors: Dict[str, Tensor] = {}
        self._seen: Dict[int, str] = {}

    def of(self, t: NetTensor) -> str:
        name = self._seen.get(id(t))
        if name is None:
            # The parser renames an input that it hands on, and TensorRT does not mind that another tensor has that name.
            name = self._seen[id(t)] = free_name(readable(t.name), self.tensors)
            dims = (-1,) if t.dims is None else t.dims
            if t.const:
                value = t.value.array if t.value is not None and t.value.size <= MAX_VALUE_ELEMENTS else None
                self.tensors[name] = Tensor(name, dims, t.dtype, True, readable(t.source or name), value)
            else:
                self.tensors[name] = Tensor(name, dims, t.dtype)
        return name

    def constants_of(self, inputs: Sequence[Optional[NetTensor]]) -> Dict[str, None]:
        """The constants that a layer reads, each once."""
        names = [self.of(t) for t in inputs if t is not None and t.const]
        return {self.tensors[name].constant_of or name: None for name in names}


def _collect(
    ctx: Context, source: OnnxFile, inputs: List[NetTensor], outputs: List[NetTensor], notes: Sequence[str]
) -> LayerGraph:
    names = _Names()
    users: Dict[str, int] = {}
    layers: List[Layer] = []
    of_node: Dict[int, List[int]] = {}
    input_names = tuple(names.of(t) for t in inputs)
    output_names = tuple(names.of(t) for t in outputs)
    sources: Dict[int, Optional[SourceLocation]] = {}
    sparse = reads_of(source.sparse, source.model.graph.node) if source.sparse else ()
    for index, made in enumerate(ctx.net.layers):
        if id(made.node) not in sources:
            sources[id(made.node)] = source_of(made.node.proto)
        reads = tuple("" if t is None else names.of(t) for t in made.inputs)
        if sparse and made.type == "CONVOLUTION" and any(name in sparse for name in made.node.proto.input[1:2]):
            made.params[SPARSE] = True
        for constant in names.constants_of(made.inputs):
            users[constant] = users.get(constant, 0) + 1
        layers.append(
            Layer(
                index,
                made.type,
                readable(made.name),
                made.node.name,
                made.node.op,
                reads,
                tuple(names.of(t) for t in made.outputs),
                made.params,
                sources[id(made.node)],
            )
        )
        of_node.setdefault(id(made.node), []).append(index)
    nodes = tuple(
        OnnxNode(r.name, r.op, tuple(of_node.get(id(r), ())), tuple(r.constant_layers), r.unknown, r.nested) for r in ctx.nodes
    )
    return LayerGraph(
        name=source.name,
        layers=tuple(layers),
        tensors=names.tensors,
        inputs=input_names,
        outputs=output_names,
        nodes=nodes,
        lowering=ctx.lowering,
        stands_in_for=stands_in_for(ctx.trt),
        opset=ctx.opset,
        sha256=source.sha256,
        gpu_alone=next((p.value for p in source.model.metadata_props if p.key == GPU_ALONE), ""),
        halved=any(p.key == HALVED for p in source.model.metadata_props),
        notes=tuple(notes),
        constant_users=users,
    )
