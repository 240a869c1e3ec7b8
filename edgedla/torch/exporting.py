"""A PyTorch module as ONNX, by either exporter; each node has its module path and the user's own line."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import re
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple, Union

import torch
from torch import nn

from edgedla.errors import EnvironmentMissing, ModelError, UsageError, own_code
from edgedla.importers.model_file.port_names import name_ports
from edgedla.importers.model_file.value_names import graphs_in
from edgedla.importers.shared_parameters import read_directly
from edgedla.importers.source_location import SCOPES, STACK, source_of
from edgedla.processes.malloc import paused_garbage_collection
from edgedla.torch.calls import MARK, Call, Paths, Recorder
from edgedla.torch.export_failures import export_failure
from edgedla.torch.qat.checkpointing import without_checkpoints
from edgedla.vocabulary import one_of

#: A tensor, several in order, or a mapping by forward's parameters.
Inputs = Union[torch.Tensor, Sequence[Any], Mapping[str, Any]]

EXPORTERS = ("torchscript", "dynamo")
#: The newest opset that TensorRT 8.5 (JetPack 5) reads and TorchScript's exporter writes.
OPSET = 17


@dataclass(frozen=True)
class Exported:
    """An ONNX model and the calls that made its nodes.

    Attributes:
        model: onnx.ModelProto. calls: every call of the forward, in order.
        call_of: node name -> index in `calls`; empty if the dynamo exporter wrote the model.
    """

    model: Any
    calls: Tuple[Call, ...] = ()
    call_of: Mapping[str, int] = ()  # type: ignore[assignment]


def to_onnx(
    module: nn.Module,
    example_inputs: Inputs,
    *,
    exporter: str = "torchscript",
    opset: int = OPSET,
    output_names: Sequence[str] = (),
) -> Any:
    """The module in evaluation mode as an onnx.ModelProto with source locations; the module is left unchanged.

    Args:
        example_inputs: one tensor, a sequence in the order of forward's parameters, or a mapping by their names; they fix
            the sizes.
        exporter: "torchscript" (fast, opset 7 to 20) or "dynamo" (PyTorch's newer one, opset 18 or newer, needs onnxscript).
        opset: ONNX opset; 17 is the newest that TensorRT 8.5 reads.
        output_names: names of the outputs; by default "output", or "output_0" and so on.

    Raises:
        UsageError: inputs or opset do not fit. ModelError: the exporter fails; the message names the place in the module.
        EnvironmentMissing: onnxscript is missing.
    """
    return export(module, example_inputs, exporter=exporter, opset=opset, output_names=output_names).model


def export(
    module: nn.Module,
    example_inputs: Inputs,
    *,
    exporter: str = "torchscript",
    opset: int = OPSET,
    output_names: Sequence[str] = (),
    make_recorder: Callable[[Paths], Recorder] = Recorder,
) -> Exported:
    """`to_onnx`, with the calls that made the nodes.

    Args:
        make_recorder: makes the recorder of calls while TorchScript's exporter traces.
    """
    one_of("exporter", exporter, EXPORTERS)
    args, names = forward_inputs(module, example_inputs)
    with evaluating(module), torch.no_grad(), _quiet(), without_checkpoints(), paused_garbage_collection():
        if exporter == "torchscript":
            exported = _torchscript(module, args, names, opset, make_recorder)
        else:
            exported = _dynamo(module, args, names, opset)
    _name_outputs(exported.model, output_names)
    exported.model.graph.name = type(module).__name__
    return exported


def forward_inputs(module: nn.Module, example_inputs: Inputs) -> Tuple[Tuple[Any, ...], Tuple[str, ...]]:
    """(arguments in order, their names) for the module's forward.

    Raises:
        UsageError: not a module, not a tensor, a name that forward does not have, or too many inputs. ModelError: forward is
            no function whose arguments can be read.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(f"it is a {type(module).__name__}", allowed="an nn.Module")
    try:
        parameters = inspect.signature(module.forward).parameters
    except (TypeError, ValueError) as e:
        raise ModelError(f"the arguments of forward cannot be read: {e}", where=type(module).__name__) from e
    positional = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    if isinstance(example_inputs, Mapping):
        unknown = sorted(set(example_inputs) - set(positional))
        count = len(example_inputs)
        if unknown or list(positional[:count]) != [n for n in positional if n in example_inputs]:
            raise UsageError(f"example inputs {sorted(example_inputs)}", allowed=", ".join(positional))
        return tuple(example_inputs[n] for n in positional[:count]), tuple(positional[:count])
    one = isinstance(example_inputs, torch.Tensor) or not isinstance(example_inputs, Iterable)
    args = (example_inputs,) if one else tuple(example_inputs)
    if not args or not all(isinstance(a, torch.Tensor) for a in args):
        raise UsageError("example inputs are tensors", allowed="a tensor, a sequence of them, or a mapping by name")
    if len(args) > len(positional) and not many:
        raise UsageError(f"{len(args)} example inputs", allowed=f"{len(positional)}: {', '.join(positional)}")
    names = [*positional, *(f"input_{i}" for i in range(len(positional), len(args)))]
    return args, tuple(names[: len(args)])


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Sets evaluation mode within the `with` block; afterwards each part has its former mode again.

    Raises:
        ModelError: the module's own eval() fails.
    """
    before = [(m, m.training) for m in module.modules()]
    with own_code(lambda e: ModelError(f"eval() of the module fails: {type(e).__name__}: {e}")):
        module.eval()
    try:
        yield
    finally:
        for m, training in before:
            m.training = training


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the exporters' warnings, which do not concern an export with static sizes."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    # On failure TorchScript's exporter prints the whole graph to standard output, whatever its own switch says (PyTorch 2.14).
    log = torch._C._jit_onnx_log
    torch._C._jit_onnx_log = lambda *_: None
    try:
        # So does dynamo's, to standard error.
        sink = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        torch._C._jit_onnx_log = log


def _torchscript(
    module: nn.Module,
    args: Tuple[Any, ...],
    names: Sequence[str],
    opset: int,
    make_recorder: Callable[[Paths], Recorder] = Recorder,
) -> Exported:
    import onnx

    stream = io.BytesIO()
    paths = Paths(module)
    recorder = make_recorder(paths)
    with own_code(lambda e: export_failure(e, recorder.calls[-1] if recorder.calls else None)), paths, recorder:
        torch.onnx.export(
            module, args, stream, dynamo=False, opset_version=opset, input_names=list(names), do_constant_folding=True
        )
    model = onnx.load_model_from_string(stream.getvalue())
    if recorder.autocast:
        raise UsageError(
            f"{type(module).__name__} computes under autocast",
            allowed="a forward in FP32",
            hint="leave torch.autocast, or take the module by accelerator.unwrap_model(module, keep_fp32_wrapper=False)",
        )
    call_of = _unmark(model)
    read_directly(model)
    for node in model.graph.node:
        if node.name in call_of:
            _write_source(node, recorder.calls[call_of[node.name]])
    return Exported(model, tuple(recorder.calls), call_of)


def _dynamo(module: nn.Module, args: Tuple[Any, ...], names: Sequence[str], opset: int) -> Exported:
    try:
        import onnx_ir  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as e:
        raise EnvironmentMissing("the dynamo exporter needs onnxscript", hint="pip install 'edgedla[torch]'") from e
    try:
        program = _exported(torch.export.export(module, args, strict=False), args, names, opset)
    except KeyboardInterrupt:
        raise
    except BaseException:
        # Given the module itself, torch.onnx.export has other ways to capture it, and names what fails.
        with own_code(lambda e: export_failure(e, None)):
            program = _exported(module, args, names, opset)
    model = program.model_proto
    _mend_places(model, _places(module, args))
    return Exported(model)


def _exported(source: Any, args: Tuple[Any, ...], names: Sequence[str], opset: int) -> Any:
    """torch.onnx.export by dynamo.

    Dead nodes are removed first, half of what the optimizer would visit: each batch normalization has training results, which
    cost four nodes for empty tensors.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    program: Any = torch.onnx.export(
        source, args, dynamo=True, input_names=list(names), verbose=False, opset_version=max(opset, 18), optimize=False
    )
    RemoveUnusedNodesPass()(program.model)
    program.optimize()
    return program


def _places(module: nn.Module, args: Tuple[Any, ...]) -> Dict[str, List[Call]]:
    """Module path -> its calls with distinct places."""
    with Paths(module) as paths, Recorder(paths) as recorder:
        module(*args)
    places: Dict[str, List[Call]] = {}
    for call in recorder.calls:
        calls = places.setdefault(call.module, [])
        if call.file and (call.file, call.line) not in [(k.file, k.line) for k in calls]:
            calls.append(call)
    return places


def _mend_places(model: Any, places: Mapping[str, Sequence[Call]]) -> None:
    """Corrects places: the dynamo exporter only keeps frames of functions named forward, so it gives the line that calls a helper.

    If all calls of a module are at one place, and the exporter gives another, the node gets the former.
    """
    for node in model.graph.node:
        source = source_of(node)
        calls = places.get(source.module, ()) if source is not None else ()
        if source is None or len(calls) != 1 or (source.file, source.line) == (calls[0].file, calls[0].line):
            continue
        for entry in node.metadata_props:
            if entry.key == STACK:
                entry.value = f'File "{calls[0].file}", line {calls[0].line}, in {calls[0].function}'


_MARKED = re.compile(rf"/{MARK}(\d+)(?=/)")


def _unmark(model: Any) -> Dict[str, int]:
    """Removes the calls' numbers from all names, as in a plain export. Returns node name -> number.

    The bodies of If and Loop read values of the graph around them, so both are renamed together. A name that carries no number,
    for example of a constant that PyTorch adds after the trace, stays as it is, and no other node gets it.
    """
    nodes = [node for graph in graphs_in(model.graph) for node in graph.node]
    renamed: Dict[str, str] = {}
    used: Dict[str, int] = {}
    call_of: Dict[str, int] = {}
    ports = {v.name for v in (*model.graph.input, *model.graph.output, *model.graph.initializer)}
    taken = {n.name for n in nodes} | {o for n in nodes for o in n.output} | ports
    for node in nodes:
        match = _MARKED.search(node.name)
        if match is None:
            continue
        # Numbered as PyTorch does: Relu, Relu_1, Relu_2 in one scope.
        base = re.sub(r"_\d+$", "", _MARKED.sub("", node.name))
        count = used.get(base, 0)
        while (name := f"{base}_{count}" if count else base) in taken or f"{name}_output_0" in taken:
            count += 1
        used[base] = count + 1
        for i, output in enumerate(node.output):
            if output and output not in ports:
                renamed[output] = f"{name}_output_{i}"
        node.name = name
        call_of[name] = int(match.group(1))
    for graph in graphs_in(model.graph):
        for node in graph.node:
            for values in (node.input, node.output):
                for i, value in enumerate(values):
                    values[i] = renamed.get(value, value)
        for value in (*graph.value_info, *graph.output):
            value.name = renamed.get(value.name, value.name)
    return call_of


def _write_source(node: Any, call: Call) -> None:
    """Writes the call's module path and place into the node, in the form of PyTorch's dynamo exporter."""
    if not hasattr(node, "metadata_props"):
        # ONNX up to 1.15 has no node metadata; the node's name still gives the module.
        return
    node.metadata_props.add(key=SCOPES, value=str(["", call.module, call.key[1]]))
    if call.file:
        node.metadata_props.add(key=STACK, value=f'File "{call.file}", line {call.line}, in {call.function}')


def _name_outputs(model: Any, output_names: Sequence[str]) -> None:
    """Names the outputs: as requested, or "output" where the exporter only numbered them."""
    outputs = [o.name for o in model.graph.output]
    if output_names and len(output_names) != len(outputs):
        raise UsageError(f"{len(output_names)} output names", allowed=f"{len(outputs)}, one for each output")
    names = list(output_names) or (["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))])
    name_ports(model, {}, names)
