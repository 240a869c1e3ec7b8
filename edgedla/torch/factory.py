"""PyTorch modules on the command line: `package.module:factory`, a function in the user's code; `timm:NAME`; `torchvision:NAME`."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import sys
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import EnvironmentMissing, ModelError, UsageError, own_code
from edgedla.text.printable import Printed
from edgedla.vocabulary import did_you_mean

_NAME = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
#: Libraries whose networks have names of their own: `timm:resnet18.a1_in1k`, `torchvision:resnet18`, `torchvision.models:resnet18`.
_LIBRARY = re.compile(r"^(timm|torchvision|torchvision\.models(?:\.[a-z]+)?):([A-Za-z_][\w.\-]*)$")


def is_factory(text: str) -> bool:
    """True for a name of a module that names no file; a single drive letter is not a package."""
    named = _NAME.match(text) or _LIBRARY.match(text)
    return bool(named) and not os.path.exists(text) and not re.match(r"^[A-Za-z]:\w+$", text)


def has_random_weights(text: str) -> bool:
    """True for a library's network: it is made without a download, so its weights are random, the same in each call."""
    return _LIBRARY.match(text) is not None


def file_of_factory(text: str) -> str:
    """The file that an export of this module is written to by default: "resnet18.onnx" of "timm:resnet18"."""
    return f"{text.partition(':')[2]}.onnx"


def onnx_of_factory(text: str, shapes: Optional[Mapping[str, Sequence[int]]] = None, batch: Optional[int] = None) -> bytes:
    """The serialised ONNX model of the factory's module.

    The factory is called without arguments and returns a module, or (module, example inputs). A subclass of nn.Module is a
    factory too, and so is a module object in the file. A network of timm or torchvision has the input size of its published
    weights.

    Args:
        shapes: dims by input name, "" for a single input; required if the factory returns no example inputs.
        batch: replaces the first dim of every input.

    Raises:
        UsageError: no such package or name, or no inputs. ModelError: the factory fails, or the export does.
        EnvironmentMissing: no PyTorch.
    """
    from edgedla.torch.library import import_torch

    torch = import_torch()
    library = _LIBRARY.match(text)
    # What the user's code prints is no part of our answer.
    own: Any = Printed(sys.stderr)
    with contextlib.redirect_stdout(own), contextlib.redirect_stderr(own), _no_lower_recursion_limit():
        made = _of_library(text, library, torch) if library else _made(text, torch)
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"it gives {type(module).__name__}", where=text, allowed="an nn.Module, or (nn.Module, example inputs)")
    from edgedla.torch.exporting import forward_inputs, to_onnx

    if inputs is not None and not shapes:
        args, names = forward_inputs(module, inputs)
    else:
        args, names = example_from_shapes(module, shapes, text, torch)
    if batch is not None:
        args = tuple(torch.zeros((batch, *a.shape[1:]), dtype=a.dtype, device=a.device) for a in args)
    from edgedla.accuracy.translate import PRODUCER

    model = to_onnx(module, dict(zip(names, args)))
    model.producer_name = PRODUCER
    if library:
        model.graph.name = library[2]
    return bytes(model.SerializeToString())


@contextlib.contextmanager
def _no_lower_recursion_limit() -> Iterator[None]:
    """What edgedla calls after the user's code needs the limit that stood before; a higher one is meant."""
    before = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(max(before, sys.getrecursionlimit()))


def _of_library(text: str, match: Any, torch: Any) -> Any:
    """(module with seeded random weights, zeros of its published input size), or the module where no size is published."""
    library, name = match[1].partition(".")[0], match[2]
    try:
        package = importlib.import_module(library)
    except Exception as e:
        # Not only where it is missing: made for another PyTorch, it fails.
        raise EnvironmentMissing(f"cannot import {library}: {e}", where=text, hint=f"pip install torch {library}") from e
    models = package if library == "timm" else package.models
    known = models.list_models()
    plain = name.partition(".")[0] if library == "timm" else name.lower()
    if plain not in known:
        raise UsageError(f"{library} has no network {name!r}", where=text, hint=did_you_mean(plain, known))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if library == "timm":
            module = package.create_model(name)
            size = module.pretrained_cfg.get("input_size")
        else:
            # A detector's backbone would be downloaded otherwise.
            weights = {"weights": None, "weights_backbone": None}
            takes = inspect.signature(models.get_model_builder(plain)).parameters
            module = models.get_model(plain, **{k: v for k, v in weights.items() if k in takes or k == "weights"})
            size = _published_size(models, plain)
    return module if size is None else (module, torch.zeros(1, *size))


def _published_size(models: Any, name: str) -> Any:
    """(3, H, W) of the transforms that belong to torchvision's default weights; None if they keep the picture's size."""
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    side = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    if not side:
        return None
    side = list(side) if isinstance(side, (list, tuple)) else [side]
    return (3, *(side * 2 if len(side) == 1 else side))


def _made(text: str, torch: Any) -> Any:
    name, _, attribute = text.partition(":")
    if os.getcwd() not in sys.path:
        # As with `python -m`: the user's package is in the current folder.
        sys.path.insert(0, os.getcwd())
    with own_code(lambda e: ModelError(f"{name} cannot be imported: {type(e).__name__}: {e}", where=text)):
        try:
            value: Any = importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name is not None and (name == e.name or name.startswith(e.name + ".")):
                raise UsageError(f"there is no Python module {name}", where=text, hint="see sys.path, or install it") from e
            raise ModelError(f"{name} cannot be imported: {e}", where=text) from e
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise UsageError(f"{name} has no {attribute}", where=text, allowed=", ".join(_functions(value)[:12]) or None)
        value = getattr(value, part)
    if isinstance(value, torch.nn.Module):
        return value
    if not callable(value):
        raise UsageError(f"{attribute} is {type(value).__name__}", where=text, allowed="a function without arguments")
    with own_code(lambda e: ModelError(f"{attribute}() fails: {type(e).__name__}: {e}", where=text)):
        return value()


def _functions(module: Any) -> List[str]:
    held = getattr(module, "__dict__", {})
    own = (n for n, v in held.items() if inspect.isfunction(v) and v.__module__ == held.get("__name__"))
    return sorted(n for n in own if n[0] != "_")


def example_from_shapes(
    module: Any, shapes: Optional[Mapping[str, Sequence[int]]], text: str, torch: Any
) -> Tuple[Tuple[Any, ...], Tuple[str, ...]]:
    """(zeros of these sizes, forward's names for them).

    Raises:
        UsageError: no shapes, or a name that forward does not have.
    """
    if not shapes:
        raise UsageError(
            "the factory gives a module without example inputs",
            where=text,
            hint="give their sizes with --shapes 1x3x224x224, or let the factory return (module, inputs)",
        )
    from edgedla.torch.exporting import forward_inputs

    if set(shapes) == {""}:
        return forward_inputs(module, torch.zeros(tuple(shapes[""])))
    return forward_inputs(module, {name: torch.zeros(tuple(dims)) for name, dims in shapes.items()})
