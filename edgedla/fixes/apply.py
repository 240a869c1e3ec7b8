"""Applies rewrites to a network, in their order, until none applies any more; only at sites that `wanted` accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.fixes.fold import remove_dead_nodes
from edgedla.fixes.network.editor import Editor
from edgedla.fixes.network.network import Network
from edgedla.fixes.site import Cut, Node, Refused, Rewrite, Site
from edgedla.importers.model_file.changed_outputs import ChangedOutput
from edgedla.importers.operator_schema import DEFAULT_DOMAINS

#: A rewrite may create the pattern of an earlier one, so each round starts again from the first rewrite.
MOST_ROUNDS = 6
#: Exceptions of arithmetic with impossible sizes, which a model may state. The site then stays and is reported.
NO_NUMBERS = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)
UNWORKABLE = "its numbers do not describe a valid layer"

#: (rewrite, name of the value that gets a new producer): the same in every trial on the same model.
Key = Tuple[str, str]


@dataclass(frozen=True)
class Applied:
    """One site that was rewritten.

    Attributes:
        output: name of the value that has a new producer.
        before, after: names of the removed nodes, and of the new ones.
        fragment: both forms of the site, for the proof; None if not recorded.
        changed: outputs of the model that got another shape, or that a decoder now makes.
        decoder: onnx.ModelProto from the new outputs to the original ones; None if there is none, if it was not recorded, or
            if its constants are not in the file.
    """

    rewrite: str
    output: str
    before: Tuple[str, ...]
    after: Tuple[str, ...]
    note: str = ""
    new_interface: Optional[str] = None
    fragment: Optional[Fragment] = None
    changed: Tuple[ChangedOutput, ...] = ()
    decoder: Optional[Any] = None

    @property
    def key(self) -> Key:
        return self.rewrite, self.output


@dataclass(frozen=True)
class Fragment:
    """Both forms of one site, for its proof.

    Attributes:
        before, after: lists of onnx NodeProto.
        constants: onnx_ir tensors of both forms, by name.
        inputs: run-time values that both forms read: name -> (DataType, dims or None).
        outputs: names of each result, in the form before and in the form after.
        opsets: (domain, version) of the model.
    """

    before: Tuple[Any, ...]
    after: Tuple[Any, ...]
    constants: Dict[str, Any]
    inputs: Dict[str, Tuple[Any, Optional[Tuple[int, ...]]]]
    outputs: Tuple[Tuple[str, str], ...]
    opsets: Tuple[Tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A pattern that was not rewritten: where, and why."""

    rewrite: str
    node: str
    reason: str


@dataclass(frozen=True)
class Changes:
    applied: Tuple[Applied, ...]
    refused: Tuple[Refusal, ...]
    skipped: Tuple[Key, ...]

    @property
    def decoder(self) -> Optional[Any]:
        """The decoder that was cut off, an onnx.ModelProto; None if none was."""
        return next((a.decoder for a in self.applied if a.decoder is not None), None)

    @property
    def decoder_bytes(self) -> Optional[bytes]:
        return None if self.decoder is None else bytes(self.decoder.SerializeToString(deterministic=True))


def apply_rewrites(
    network: Network, rewrites: Sequence[Rewrite], accepts: Callable[[Key], bool] = lambda key: True, record: bool = False
) -> Changes:
    """Changes the network in place.

    Args:
        accepts: (key) -> whether to rewrite this site. Other sites stay and count as skipped.
        record: keep fragments and cut-off decoders, for proofs and the result.
    """
    applied: List[Applied] = []
    refused: Dict[Tuple[str, str], Tuple[Any, Refusal]] = {}
    skipped: Dict[Key, None] = {}
    for _ in range(MOST_ROUNDS):
        count = len(applied)
        nodes: Dict[str, List[Tuple[int, Any]]] = {}
        indexed = -1
        for rewrite in rewrites:
            if indexed != len(applied):
                nodes, indexed = _by_operator(network), len(applied)
            for node in _in_order(nodes, rewrite.operators):
                if node.graph is None:
                    continue
                try:
                    site = rewrite.match(network, node)
                    if site is None:
                        continue
                    key = (rewrite.id, site.output.name)
                    if accepts(key):
                        applied.append(rewrite_site(network, rewrite.id, site, record))
                    else:
                        skipped[key] = None
                except (Refused, *NO_NUMBERS) as e:
                    why = str(e) if isinstance(e, Refused) else f"{UNWORKABLE}: {e}"
                    refused[rewrite.id, node.outputs[0].name] = (node, Refusal(rewrite.id, _label(node), why))
        if len(applied) == count:
            break
    remove_dead_nodes(network.model)
    done = {a.output for a in applied}
    still_refused = tuple(r for (_, output), (node, r) in refused.items() if output not in done and node.graph is not None)
    return Changes(tuple(applied), still_refused, tuple(skipped))


def _by_operator(network: Network) -> Dict[str, List[Tuple[int, Any]]]:
    """Operator -> [(position in the network, node), ...]."""
    nodes: Dict[str, List[Tuple[int, Any]]] = {}
    for place, node in enumerate(network.graph):
        if node.domain in DEFAULT_DOMAINS:
            nodes.setdefault(node.op_type, []).append((place, node))
    return nodes


def _in_order(nodes: Mapping[str, Sequence[Tuple[int, Any]]], operators: Sequence[str]) -> List[Any]:
    """Nodes of these operators, or all nodes if none is named, in the order of the network."""
    selected = [pair for operator in dict.fromkeys(operators or nodes) for pair in nodes.get(operator, ())]
    return [node for _, node in sorted(selected, key=lambda pair: pair[0])]


def rewrite_site(network: Network, rewrite: str, site: Site, record: bool = False) -> Applied:
    """Puts the replacement of one site into the graph. The site's outputs keep their names."""
    if site.cut is not None:
        return _end_earlier(network, rewrite, site, site.cut, record)
    name = site.output.name
    shape = network.shape(site.output)
    editor = Editor(network, name)
    # The network changes only below this line, so that a failure above leaves it unchanged.
    built = site.build(editor)
    results = tuple(zip(site.outputs, built if site.others else (built,)))
    fragment = _fragment(network, site, editor.nodes, results) if record else None
    if editor.nodes:
        producers = tuple(dict.fromkeys(output.producer() for output in site.outputs))
        network.graph.insert_before(_backwards(network, producers)[-1], editor.nodes)
    for output, new in results:
        if output.dtype is not None and new.producer() in editor.nodes:
            new.type = output.type
        _take_over(network, output, new)
    before = tuple(_label(n) for n in site.nodes)
    for node in _backwards(network, site.nodes):
        if node.graph is not None and not any(v.uses() or v.is_graph_output() for v in node.outputs):
            network.graph.remove(node, safe=True)
    changed = (ChangedOutput(name, shape, (name,)),) if site.new_interface and shape is not None else ()
    return Applied(
        rewrite, name, before, tuple(_label(n) for n in editor.nodes), site.note, site.new_interface, fragment, changed
    )


def _end_earlier(network: Network, rewrite: str, site: Site, cut: Cut, record: bool) -> Applied:
    """Ends the network at the heads; the nodes after them become a separate model."""
    graph = network.graph
    decoder = fragment = None
    if record:
        from edgedla.fixes.decoder import decoder_model

        decoder = decoder_model(network, cut, site.nodes)
        fragment = _fragment(network, site, (), ((cut.outputs[0],) * 2,))
    before = tuple(_label(n) for n in site.nodes)
    heads = [v for v in cut.heads if not v.is_graph_output()]
    first = list(graph.outputs).index(cut.outputs[0])
    other_outputs = [v for v in graph.outputs if v not in cut.outputs]
    graph.outputs[:] = [*other_outputs[:first], *heads, *other_outputs[first:]]
    for node in reversed(site.nodes):
        graph.remove(node, safe=True)
    network.cut_off = True
    names = tuple(v.name for v in cut.heads)
    changed = tuple(
        ChangedOutput(v.name, tuple(d if isinstance(d, int) else -1 for d in v.shape or ()), names, decoder=True)
        for v in cut.outputs
    )
    return Applied(rewrite, cut.outputs[0].name, before, (), site.note, site.new_interface, fragment, changed, decoder)


def _take_over(network: Network, output: Any, new: Any) -> None:
    name = output.name
    is_output = output.is_graph_output()
    if new.producer() is not None and new.name.startswith(f"{name}/") or is_output:
        output.name = network.fresh_name(f"{name}/replaced")
        output.replace_all_uses_with(new, replace_graph_outputs=True)
        new.name = name
    else:
        output.replace_all_uses_with(new)


def _backwards(network: Network, nodes: Sequence[Any]) -> List[Any]:
    """The nodes, the last one first."""
    if len(nodes) == 1:
        return list(nodes)
    order = {id(n): i for i, n in enumerate(network.graph)}
    return sorted(nodes, key=lambda node: order.get(id(node), -1), reverse=True)


def _label(node: Node) -> str:
    return node.name or (node.outputs and node.outputs[0].name) or node.op_type


def _fragment(network: Network, site: Site, added: Sequence[Any], results: Sequence[Tuple[Any, Any]]) -> Fragment:
    """Both forms of a site; `results`: the value of the form before and the one of the form after, for each output."""
    from edgedla.fixes.network.library import onnx_ir

    ir = onnx_ir()
    removed = _backwards(network, site.nodes)[::-1]
    made = {id(v) for n in [*removed, *added] for v in n.outputs}
    constants: Dict[str, Any] = {}
    inputs: Dict[str, Tuple[Any, Optional[Tuple[int, ...]]]] = {}
    for node in [*removed, *added]:
        for value in node.inputs:
            if value is None or id(value) in made:
                continue
            if network.is_constant(value):
                constants[value.name] = value.const_value
            else:
                inputs[value.name] = (value.dtype, network.shape(value))
    for _, new in results:
        if id(new) not in made:
            # The replacement is a value of the original network: the proof compares both forms on it.
            inputs[new.name] = (new.dtype, network.shape(new))
    return Fragment(
        tuple(ir.serde.serialize_node(n) for n in removed),
        tuple(ir.serde.serialize_node(n) for n in added),
        constants,
        inputs,
        tuple((old.name, new.name) for old, new in results),
        tuple(network.graph.opset_imports.items()),
    )
