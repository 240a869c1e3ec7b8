"""Activation checkpointing inside rounding: what is computed again in the backward pass is rounded again."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List

import torch
import torch.utils.checkpoint as library

from edgedla.torch.calls import tensors_in

#: Makes, from a checkpointed function, the one that computes it again; `own_graph` where its gradients are computed apart.
Resume = Callable[..., Callable[..., Any]]
#: PyTorch's inner functions, newest first: they get the function that is run again, not the run of the forward itself.
_GENERATORS = ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator")


@contextlib.contextmanager
def checkpoints_resumed(resume: Resume) -> Iterator[None]:
    """Within the `with` block each torch.utils.checkpoint, of either form, computes again by `resume(function)`.

    PyTorch has `context_fn` for it, which the caller of checkpoint would have to give; timm's and torchvision's do not.
    """
    name = _generator()
    generator, reentrant = getattr(library, name, None), library.CheckpointFunction

    def again(function: Any, *args: Any, **kwargs: Any) -> Any:
        return generator(resume(function), *args, **kwargs)  # type: ignore[misc]

    class Reentrant:
        @staticmethod
        def apply(function: Any, *args: Any) -> Any:
            return reentrant.apply(_after_the_first(function, resume), *args)

    with _replaced(again, Reentrant):
        yield


@contextlib.contextmanager
def without_checkpoints() -> Iterator[None]:
    """Within the `with` block checkpointed functions are plain calls: a trace cannot see into PyTorch's autograd function."""

    class Plain:
        @staticmethod
        def apply(function: Any, _preserve: bool, *args: Any) -> Any:
            return function(*args)

    def plain(*_: Any, **__: Any) -> Iterator[None]:
        yield

    # PyTorch 2.11 applies an autograd function in its generator even where no gradient is asked for.
    with _replaced(plain, Plain):
        yield


@contextlib.contextmanager
def _replaced(generator: Callable[..., Any], reentrant: Any) -> Iterator[None]:
    """Within the `with` block both forms of PyTorch's checkpoint use these two in place of its own."""
    others = {_generator(): generator, "CheckpointFunction": reentrant}
    own = {name: getattr(library, name) for name in others if name}
    for name in own:
        setattr(library, name, others[name])
    try:
        yield
    finally:
        for name, value in own.items():
            setattr(library, name, value)


def _generator() -> str:
    """Name of PyTorch's inner function; "" where it has none."""
    return next((n for n in _GENERATORS if hasattr(library, n)), "")


def _after_the_first(function: Callable[..., Any], resume: Resume) -> Callable[..., Any]:
    """The function itself on its first call, and the resumed one later, on inputs stored as in the first."""
    again = resume(function, own_graph=True)
    stored: List[Any] = []

    def run(*args: Any) -> Any:
        if not stored:
            stored.append([getattr(t, "edgedla_stored", None) for t in tensors_in(args)])
            return function(*args)
        # Detached copies of the inputs.
        for tensor, state in zip(tensors_in(args), stored[0]):
            if isinstance(tensor, torch.Tensor) and state is not None:
                tensor.edgedla_stored = state  # type: ignore[attr-defined]
        return again(*args)

    return run
