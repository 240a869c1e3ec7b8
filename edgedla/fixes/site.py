"""What a rewrite's `match` returns for one place of a network: a Site, a refusal with its reason, or None."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

if TYPE_CHECKING:
    from onnx_ir import Node as Node
else:
    # onnx_ir is there only with edgedla[fix].
    Node = Any


class Refused(Exception):
    """The pattern is there, but a precondition is not met. The text is the reason that users read."""


@dataclass(frozen=True)
class Cut:
    """A shorter end of the network: values that become its outputs, and outputs that are removed with the nodes before them."""

    heads: Tuple[Any, ...]
    outputs: Tuple[Any, ...]


@dataclass(frozen=True)
class Site:
    """One place that a rewrite can change.

    Attributes:
        output: the onnx_ir.Value that gets a new producer. It keeps its name.
        nodes: the nodes of the pattern; those whose outputs nothing else reads are removed.
        build: (network.editor.Editor) -> the last value of the replacement, which has the shape of `output`; with `others` a
            tuple, one value for each.
        note: shown to users with the site.
        new_interface: what changes for readers of the model's outputs; "" if nothing does.
        cut: set if nothing is built, and the network ends before `nodes` instead.
        others: further values of the pattern that get new producers at the same time, and keep their names.
    """

    output: Any
    nodes: Tuple[Any, ...]
    build: Callable[[Any], Any]
    note: str = ""
    new_interface: Optional[str] = None
    cut: Optional[Cut] = None
    others: Tuple[Any, ...] = ()

    @property
    def outputs(self) -> Tuple[Any, ...]:
        return (self.output, *self.others)


@dataclass(frozen=True)
class Rewrite:
    """One rewrite. rules/fixes.yaml has its summary, equality class and sources under the same id.

    Attributes:
        operators: operators of the node that `match` gets, which is the last of the pattern; () for any.
        match: (network, node) -> Site, or None if the pattern is not there. Raises Refused with a reason.
        examples: data for tests: models that it changes, and near misses.
    """

    id: str
    operators: Tuple[str, ...]
    match: Callable[[Any, Any], Optional[Site]]
    examples: Tuple[Example, ...] = ()


@dataclass(frozen=True)
class Example:
    """A small model around one pattern.

    Attributes:
        inputs: "x 1x8x7x7" several separated by commas. Names that begin with w are constants with seeded values.
        body: nodes in ONNX's text form; the last one makes `y`.
        refused: a part of the reason if the rewrite must refuse; "" if it applies; None if the pattern is not there.
        opset: version of the default domain.
        goal: fields of network.Goal that differ from its defaults.
    """

    inputs: str
    body: str
    refused: Optional[str] = ""
    opset: int = 13
    goal: Tuple[Tuple[str, Any], ...] = field(default=())


def holds(inputs: str, body: str, opset: int = 13, **goal: Any) -> Example:
    return Example(inputs, body, "", opset, tuple(goal.items()))


def refuses(inputs: str, body: str, reason: str, opset: int = 13, **goal: Any) -> Example:
    return Example(inputs, body, reason, opset, tuple(goal.items()))


def no_pattern(inputs: str, body: str, opset: int = 13, **goal: Any) -> Example:
    return Example(inputs, body, None, opset, tuple(goal.items()))
