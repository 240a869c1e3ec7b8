"""What a rewrite answers for one place of a network: a Site to rewrite, a refusal with its reason, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Tuple


class Refused(Exception):
    """The pattern is there, a precondition is not. The text is the reason that users read."""


@dataclass(frozen=True)
class Cut:
    """Where a network ends earlier: values that become its outputs, and outputs that go away with the nodes behind them."""

    heads: Tuple[Any, ...]
    outputs: Tuple[Any, ...]


@dataclass(frozen=True)
class Site:
    """One place where a rewrite holds.

    Attributes:
        output: the onnx_ir.Value that gets a new producer. It keeps its name.
        nodes: the nodes of the pattern; those whose outputs nobody else reads go away.
        build: gets a network.editor.Editor, makes the replacement and returns its last value, which has the shape of `output`.
        note: what to know about it, shown to users.
        new_interface: what changes for whoever reads the model's outputs, where something does.
        cut: set where nothing is built: the network ends in front of `nodes`.
    """

    output: Any
    nodes: Tuple[Any, ...]
    build: Callable[[Any], Any]
    note: str = ""
    new_interface: Optional[str] = None
    cut: Optional[Cut] = None


@dataclass(frozen=True)
class Rewrite:
    """One rewrite. Its summary, equality class and sources stand in rules/fixes.yaml under the same id.

    Attributes:
        operators: of the node that `match` is asked about: the last of the pattern; () for any.
        match: (network, node) -> Site, or None where the pattern is not there. Raises Refused with a reason.
        examples: data for tests: where it holds, and near misses.
    """

    id: str
    operators: Tuple[str, ...]
    match: Callable[[Any, Any], Optional[Site]]
    examples: Tuple[Example, ...] = ()
    asked_for: bool = False


@dataclass(frozen=True)
class Example:
    """A small model around one pattern.

    Attributes:
        inputs: "x 1x8x7x7" several separated by commas. Names that begin with w are constants with seeded values.
        body: nodes in ONNX's text form; the last one makes `y`.
        refused: a part of the reason, where the rewrite has to refuse; "" where it holds; None where it is no such
            pattern at all.
        opset: of the default domain.
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
