"""Matches a loadable's tensors to the manifest's bindings: cuDLA's names differ from the network's."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Callable, Dict, Hashable, List, Sequence

from edgedla.builder.artifact.artifact import Binding
from edgedla.errors import RunError
from edgedla.runtime.cuda.cudla_abi import NAME_BYTES, ModuleTensor

log = logging.getLogger("edgedla.runtime.cudla")


def match(tensors: Sequence[ModuleTensor], bindings: Sequence[Binding], kind: str, where: str) -> List[Binding]:
    """The bindings in the loadable's order.

    First by name: boards print names with a trailing apostrophe (cuda-samples issue 192: `input'`), and cudla.h cuts them at 80
    bytes. Then by sizes and dims if these are unique on both sides. Then, if all sizes agree, in the manifest's order, with a
    warning.

    Args:
        kind: "inputs" or "outputs". where: the runner's name.

    Raises:
        RunError: no such pairing, or a pair with different sizes in bytes; the text lists both sides.
    """
    if len(tensors) != len(bindings):
        raise _mismatch(f"the loadable has {len(tensors)} {kind}, the manifest {len(bindings)}", tensors, bindings, where)
    pairs: Dict[int, Binding] = {}
    for i, tensor in enumerate(tensors):
        named = [b for b in bindings if is_name_of(tensor.name, b.name)]
        if len(named) == 1 and named[0] not in pairs.values():
            pairs[i] = named[0]
    _pair_unique(pairs, tensors, bindings, lambda t: (t.nchw, t.size_bytes), lambda b: (_nchw(b), b.size_bytes))
    open_bindings = [b for b in bindings if b not in pairs.values()]
    open_tensors = [i for i in range(len(tensors)) if i not in pairs]
    if [tensors[i].size_bytes for i in open_tensors] == [b.size_bytes for b in open_bindings]:
        pairs.update(zip(open_tensors, open_bindings))
        if len(open_bindings) > 1:
            order = ", ".join(f"{tensors[i].name} is {b.name}" for i, b in zip(open_tensors, open_bindings))
            log.warning(
                "%s: the loadable's %s do not have the manifest's names; matched in the manifest's order: %s", where, kind, order
            )
    for i, tensor in enumerate(tensors):
        binding = pairs.get(i)
        if binding is None:
            raise _mismatch(f"no tensor of the manifest fits {tensor.name} of the loadable", tensors, bindings, where)
        if binding.size_bytes != tensor.size_bytes:
            text = f"{tensor.name} has {tensor.size_bytes} bytes in the loadable, {binding.size_bytes} in the manifest"
            raise _mismatch(text, tensors, bindings, where)
    return [pairs[i] for i in range(len(tensors))]


def is_name_of(theirs: str, name: str) -> bool:
    """True if a descriptor's name can stand for the network's tensor `name`."""
    # A character cut at the limit reads as U+FFFD.
    raw = theirs.rstrip("\ufffd").encode("utf-8", "replace")
    full = name.encode("utf-8", "replace")
    if len(theirs.encode("utf-8", "replace")) >= NAME_BYTES - 1:
        return full.startswith(raw) or full + b"'" == raw
    return raw.rstrip(b"'") == full.rstrip(b"'")


def _pair_unique(
    pairs: Dict[int, Binding],
    tensors: Sequence[ModuleTensor],
    bindings: Sequence[Binding],
    key: Callable[[ModuleTensor], Hashable],
    binding_key: Callable[[Binding], Hashable],
) -> None:
    paired = list(pairs.values())
    theirs = Counter(key(t) for i, t in enumerate(tensors) if i not in pairs)
    ours = Counter(binding_key(b) for b in bindings if b not in paired)
    for i, tensor in enumerate(tensors):
        same = [b for b in bindings if b not in paired and binding_key(b) == key(tensor)]
        if i not in pairs and theirs[key(tensor)] == ours[key(tensor)] == 1:
            pairs[i] = same[0]


def _nchw(binding: Binding) -> tuple:
    """Four sizes, as in the descriptors; missing ones are 1, wherever they belong."""
    shape = tuple(binding.shape_nchw)
    return shape + (1,) * (4 - len(shape))


def _mismatch(what: str, tensors: Sequence[ModuleTensor], bindings: Sequence[Binding], where: str) -> RunError:
    lines = [
        f"loadable: {t.name} {_dims(t.nchw)}, {t.size_bytes} bytes, strides {_dims(t.strides)}, "
        f"format {t.data_format}, type {t.data_type}"
        for t in tensors
    ]
    lines += [
        f"manifest: {b.name} {_dims(b.shape_nchw)}, {b.size_bytes} bytes, "
        f"strides {' '.join(f'{axis}={step}' for axis, step in b.strides_bytes.items()) or 'unknown'}, {b.format}, {b.dtype}"
        for b in bindings
    ]
    return RunError(what, where=where, hint="\n  ".join([*lines, "build the artifact again"]))


def _dims(sizes: Sequence[int]) -> str:
    return "x".join(str(n) for n in sizes)
