"""`package.module:factory` on the command line: a PyTorch module made by a function in the user's code."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import ModelError, UsageError

_NAME = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")


def is_factory(text: str) -> bool:
    """True for `package.module:factory` that names no file; a single drive letter is not a package."""
    return bool(_NAME.match(text)) and not os.path.exists(text) and not re.match(r"^[A-Za-z]:\w+$", text)


def onnx_of_factory(
    text: str, shapes: Optional[Mapping[str, Sequence[int]]] = None, batch: Optional[int] = None
) -> bytes:
    """The serialised ONNX model of the factory's module.

    The factory is called without arguments and returns a module, or (module, example inputs). A subclass of nn.Module is a
    factory too, and so is a module object in the file.

    Args:
        shapes: dims by input name, "" for a single input; required if the factory returns no example inputs.
        batch: replaces the first dim of every input.

    Raises:
        UsageError: no such package or name, or no inputs. ModelError: the factory fails, or the export does.
        EnvironmentMissing: no PyTorch.
    """
    from edgedla.torch.library import import_torch

    torch = import_torch()
    made = _made(text, torch)
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"it gives {type(module).__name__}", where=text, allowed="an nn.Module, or (nn.Module, example inputs)"
        )
    from edgedla.torch.exporting import forward_inputs, to_onnx

    if inputs is not None and not shapes:
        args, names = forward_inputs(module, inputs)
    else:
        args, names = example_from_shapes(module, shapes, text, torch)
    if batch is not None:
        args = tuple(torch.zeros((batch, *a.shape[1:]), dtype=a.dtype, device=a.device) for a in args)
    return bytes(to_onnx(module, dict(zip(names, args))).SerializeToString())


def _made(text: str, torch: Any) -> Any:
    name, _, attribute = text.partition(":")
    if os.getcwd() not in sys.path:
        # As with `python -m`: the user's package is in the current folder.
        sys.path.insert(0, os.getcwd())
    try:
        value: Any = importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (name == e.name or name.startswith(e.name + ".")):
            raise UsageError(f"there is no Python module {name}", where=text, hint="see sys.path, or install it") from e
        raise ModelError(f"{name} cannot be imported: {e}", where=text) from e
    except Exception as e:
        raise ModelError(f"{name} cannot be imported: {type(e).__name__}: {e}", where=text) from e
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise UsageError(
                f"{name} has no {attribute}", where=text, allowed=", ".join(_functions(value)[:12]) or None
            )
        value = getattr(value, part)
    if isinstance(value, torch.nn.Module):
        return value
    if not callable(value):
        raise UsageError(f"{attribute} is {type(value).__name__}", where=text, allowed="a function without arguments")
    try:
        return value()
    except Exception as e:
        raise ModelError(f"{attribute}() fails: {type(e).__name__}: {e}", where=text) from e


def _functions(module: Any) -> List[str]:
    name = getattr(module, "__name__", "")
    return sorted(n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == name and n[0] != "_")


def example_from_shapes(
    module: Any, shapes: Optional[Mapping[str, Sequence[int]]], text: str, torch: Any
) -> Tuple[Tuple[Any, ...], Tuple[str, ...]]:
    """(zeros of these sizes, forward's names for them).

    Raises:
        UsageError: no shapes, or a name that forward does not have.
    """
    if not shapes:
        raise UsageError(
            "the factory gives a module without example inputs", where=text,
            hint="give their sizes with --shapes 1x3x224x224, or let the factory return (module, inputs)",
        )  # fmt: skip
    from edgedla.torch.exporting import forward_inputs

    if set(shapes) == {""}:
        return forward_inputs(module, torch.zeros(tuple(shapes[""])))
    return forward_inputs(module, {name: torch.zeros(tuple(dims)) for name, dims in shapes.items()})
