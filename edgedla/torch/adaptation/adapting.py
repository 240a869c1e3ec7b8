"""`adapt`: a module adapted to the DLA before training, with the changes made, those refused, and the reasons."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch import nn

from edgedla.errors import UsageError
from edgedla.regions import CheckReport, check_graph
from edgedla.targets import platform_for
from edgedla.torch.adaptation.forms import DenseConv, EndingAt
from edgedla.torch.adaptation.heads import Head, find_head
from edgedla.torch.adaptation.observing import ObservedCall, observe
from edgedla.torch.adaptation.rewrites import ACTIVATIONS, BY_FUNCTION, Form, Refused
from edgedla.torch.adaptation.surgery import CallInputs, Edit, edit_part, inputs_of_parts, replaced
from edgedla.torch.calls import tensors_in
from edgedla.torch.exporting import OPSET, Inputs, export, forward_inputs


@dataclass(frozen=True)
class Change:
    """One change. `place`: module path and line. `exact`: same results, except for the order of rounding."""

    place: str
    name: str
    why: str
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.place}: {self.name}: {self.why}" + ("" if self.exact else " (computes something else)")


@dataclass(frozen=True)
class Adapted:
    """An adapted module.

    Attributes:
        module: the new module; the original is unchanged. Unchanged parts keep their parameters' names.
        changes: the changes made. refusals: (place, reason) of each call that the DLA refuses and adapt cannot change.
        before, after: the checks of both modules.
    """

    module: nn.Module
    changes: Tuple[Change, ...]
    refusals: Tuple[Tuple[str, str], ...]
    before: CheckReport
    after: CheckReport

    @property
    def exact(self) -> bool:
        """True if both modules compute the same with the same weights."""
        return all(change.exact for change in self.changes)

    def __str__(self) -> str:
        lines = [
            f"layers on the GPU: {self.before.totals.layers_gpu} to {self.after.totals.layers_gpu}, "
            f"loadables: {self.before.totals.regions} to {self.after.totals.regions}"
        ]
        lines += [str(change) for change in self.changes]
        lines += [f"{place}: not changed: {reason}" for place, reason in self.refusals]
        return "\n".join(lines)


def adapt(
    module: nn.Module,
    example_inputs: Inputs,
    *,
    target: str,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: str = "int8",
    activations: Optional[Mapping[str, str]] = None,
    outputs_4d: bool = False,
    ending_at: Sequence[str] = (),
) -> Adapted:
    """A copy of the module, changed so that the DLA runs its calls; weights and parameter names stay.

    Exact changes, made where the DLA refuses a call: a global average becomes a depthwise convolution (INT8) or poolings,
    HardSigmoid and HardSwish become scale, clip and product, a gate N x C x 1 x 1 is enlarged, channel slices become
    Splits, and Linears after the last flatten become convolutions, with the flatten after them.

    Args:
        activations: replacements that need training, for example {"silu": "relu"}; see rewrites.ACTIVATIONS.
        outputs_4d: classifiers return N x K x 1 x 1: without the last flatten, a standalone loadable can be built.
        ending_at: paths of parts whose results become the outputs, for heads that end before box decoding.

    Raises:
        UsageError: an unknown replacement or path. ModelError: the module cannot be exported.
    """
    platform = platform_for(target, jetpack=jetpack, trt=trt)
    args, names = forward_inputs(module, example_inputs)
    work = _Work(copy.deepcopy(module), args)
    before = _checked(work.module, args, platform, precision)[1]
    if ending_at:
        work.end_at(ending_at)
    work.exchange(activations or {})
    exported, report = _checked(work.module, args, platform, precision)
    calls, outputs = observe(work.module, args, exported, report)
    work.change(calls, outputs, precision, outputs_4d)
    after = _checked(work.module, args, platform, precision)[1]
    return Adapted(work.module, tuple(work.changes), tuple(work.refusals), before, after)


def _checked(module: nn.Module, args: Tuple[Any, ...], platform: Any, precision: str) -> Tuple[Any, CheckReport]:
    from edgedla.importers import load_onnx

    exported = export(module, args, opset=OPSET)
    graph = load_onnx(exported.model.SerializeToString(), trt=platform.release.trt)
    return exported, check_graph(graph, platform, precision, "fallback")


class _Work:
    """The copy being changed, and the changes so far."""

    def __init__(self, module: nn.Module, args: Tuple[Any, ...]) -> None:
        self.module, self.args = module, args
        self.changes: List[Change] = []
        self.refusals: List[Tuple[str, str]] = []

    def end_at(self, paths: Sequence[str]) -> None:
        parts = {name for name, _ in self.module.named_modules() if name}
        unknown = [path for path in paths if path not in parts]
        if unknown:
            raise UsageError(f"the module has no part {unknown[0]!r}", where="ending_at", allowed=", ".join(sorted(parts)[-20:]))
        self.module = EndingAt(self.module, paths)
        for path in paths:
            self.changes.append(Change(path, "output", "what follows runs on the host", exact=False))

    def exchange(self, wanted: Mapping[str, str]) -> None:
        unknown = [f"{old}: {new}" for old, new in wanted.items() if (old, new) not in ACTIVATIONS]
        if unknown:
            allowed = ", ".join(f"{old}: {new}" for old, new in ACTIVATIONS)
            raise UsageError(f"{unknown[0]} is not an exchange of activations", where="activations", allowed=allowed)
        for old, new in wanted.items():
            row = ACTIVATIONS[old, new]
            for path, part in list(self.module.named_modules()):
                if type(part) in row.replace:
                    self.module = replaced(self.module, path, row.by())
                    self.changes.append(Change(path, f"{old} to {new}", row.why, exact=False))

    def change(self, calls: Sequence[ObservedCall], outputs: Set[int], precision: str, outputs_4d: bool) -> None:
        edits: Dict[str, List[Tuple[ObservedCall, Edit]]] = {}
        head = self._head(calls, outputs)
        if head is not None:
            calls = _as_maps(calls, head)
            call = calls[head.flatten]
            # A mean over H and W is an average too; dims that it only drops need no change.
            if call.function != "mean":
                edits.setdefault(call.key[0], []).append((call, Edit(call.key, None)))
        for i, call in enumerate(calls):
            form = self._form(call, precision)
            if form is None:
                continue
            if head is not None and i == head.flatten:
                form = replace(form, flat=False)
            edits.setdefault(call.key[0], []).append((call, Edit(call.key, form)))
        # Innermost parts first: the parts that contain them are then traced with the new parts inside.
        inputs = inputs_of_parts(self.module, edits, self.args)
        for path in sorted(edits, key=lambda p: -p.count(".") - bool(p)):
            self._edit(path, edits[path], inputs[path])
        if head is not None:
            self._to_convolutions(calls, head, outputs_4d)

    def _head(self, calls: Sequence[ObservedCall], outputs: Set[int]) -> Optional[Head]:
        try:
            return find_head(calls, outputs, self.module)
        except Refused as e:
            self.refusals.append(("head", str(e)))
            return None

    def _form(self, call: ObservedCall, precision: str) -> Optional[Form]:
        if not call.refused:
            return None
        rewrite = BY_FUNCTION.get(call.function)
        try:
            with next(tensors_in(self.args)).device:
                form = rewrite(call, precision) if rewrite is not None else None
        except Refused as e:
            self.refusals.append((_place(call), str(e)))
            return None
        if form is None and call.function not in ("flatten", "linear", "view", "reshape"):
            self.refusals.append((_place(call), call.refused))
        return form

    def _edit(self, path: str, rows: Sequence[Tuple[ObservedCall, Edit]], inputs: CallInputs) -> None:
        part = self.module.get_submodule(path)
        try:
            if type(part).__module__.startswith("torch.nn.") and len({tuple(c.shapes) for c, _ in rows}) > 1:
                raise Refused("it is used on maps of several sizes")
            distinct = rows[:1] if type(part).__module__.startswith("torch.nn.") and not list(part.children()) else rows
            self.module = edit_part(self.module, path, [edit for _, edit in distinct], inputs)
        except Refused as e:
            self.refusals += [(_place(call), str(e)) for call, _ in rows]
            return
        self.changes += [Change(_place(call), edit.form.name, edit.form.why, edit.form.exact) for call, edit in rows if edit.form]

    def _to_convolutions(self, calls: Sequence[ObservedCall], head: Head, outputs_4d: bool) -> None:
        for number, (index, chw) in enumerate(head.linears):
            path = calls[index].key[0]
            linear = self.module.get_submodule(path)
            assert isinstance(linear, nn.Linear)
            last = number == len(head.linears) - 1
            flat = last and not outputs_4d
            self.module = replaced(self.module, path, DenseConv(linear, chw, flat).to(linear.weight.device))
            after = "the flatten follows it" if flat else f"its result is N x {linear.out_features} x 1 x 1"
            self.changes.append(Change(_place(calls[index]), "dense", f"a convolution; {after}"))


def _as_maps(calls: Sequence[ObservedCall], head: Head) -> Tuple[ObservedCall, ...]:
    """The calls after the flatten with their future shapes: N x C becomes N x C x 1 x 1."""
    changed = []
    for i, call in enumerate(calls):
        if head.flatten < i <= head.last and call.function != "linear":
            args = tuple(torch.Size((*a, 1, 1)) if isinstance(a, torch.Size) and len(a) == 2 else a for a in call.args)
            call = replace(call, args=args)
        changed.append(call)
    return tuple(changed)


def _place(call: ObservedCall) -> str:
    return str(call.call).partition(" in ")[2]
