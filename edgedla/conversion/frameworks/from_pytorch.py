"""PyTorch to ONNX: torch.export programs, TorchScript, pickled modules. Run as `python from_pytorch.py REQUEST.json`."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, Dict, Iterator, List, Tuple


def main(request: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    import torch

    warnings.simplefilter("ignore")
    module, args, names = loaded(request, torch)
    args = tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in args)
    feeds = seeded(args, request["seed"], torch)
    with torch.no_grad():
        result = module(*feeds)
        outputs = list(named(result, torch))
        if not outputs:
            raise ValueError("it gives no tensor")
        if any(tensor.dtype is torch.bfloat16 for tensor in (*feeds, *(tensor for _, tensor in outputs))):
            raise ValueError("it computes in bfloat16, which the DLA does not: export module.float()")
        if request["kind"] == "torchscript" and isinstance(result, dict):
            module = without_dict(module, feeds, torch)
        exporter = exported(module, feeds, names, request, torch)
    about = {"framework": f"torch {torch.__version__}", "exporter": exporter, "outputs": [name for name, _ in outputs]}
    return about, {n: f.numpy() for n, f in zip(names, feeds)}, [tensor.numpy() for _, tensor in outputs]


def loaded(request: Dict[str, Any], torch: Any) -> Tuple[Any, Tuple[Any, ...], List[str]]:
    """(module in evaluation mode, example arguments, their names)."""
    path, kind, shapes = request["source"], request["kind"], request["shapes"]
    if kind == "pt2":
        program = torch.export.load(path)
        module, leaves = program.module(), torch.utils._pytree.tree_leaves(program.example_inputs or ())
        # An exported program keeps its module's mode and refuses to change it, but exporters try to.
        module.train = module.eval = lambda mode=False: module
        tensors = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        names = [str(name) for name, is_tensor in zip(program.graph_signature.user_inputs, tensors) if is_tensor]
        sizes = in_order(shapes, names)
        args = [leaf for leaf, is_tensor in zip(leaves, tensors) if is_tensor]
        args = [arg.new_zeros(sizes[name]) if name in sizes else arg for name, arg in zip(names, args)]
        return on_tensors(module, program.example_inputs, torch), tuple(args), names
    if kind == "torchscript":
        module = torch.jit.load(path, map_location="cpu")
        names = [argument.name for argument in module.forward.schema.arguments[1:]]
    else:
        module = torch.load(path, map_location="cpu", weights_only=False)
        if not isinstance(module, torch.nn.Module):
            raise ValueError(f"the file holds a {type(module).__name__}, not a module: weights alone have no graph")
        names = list(inspect.signature(module.forward).parameters)
    sizes = in_order(shapes, names, own=True)
    return module.eval(), tuple(torch.zeros(*dims) for dims in sizes.values()), list(sizes)


def on_tensors(module: Any, example: Any, torch: Any) -> Any:
    """The module as a function of tensors only, if it also takes lists, dicts, keyword arguments or plain numbers."""
    args, kwargs = example or ((), {})
    if not kwargs and all(isinstance(arg, torch.Tensor) for arg in args):
        return module
    leaves, structure = torch.utils._pytree.tree_flatten((args, kwargs))

    class OnTensors(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *tensors: Any) -> Any:
            given = iter(tensors)
            filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            args, kwargs = torch.utils._pytree.tree_unflatten(filled, structure)
            return self.module(*args, **kwargs)

    return OnTensors()


def in_order(shapes: Dict[str, Any], names: List[str], own: bool = False) -> Dict[str, Any]:
    """Sizes by name, in the order of forward's parameters.

    Args:
        own: if nothing else gives the sizes, other names may be used, in order.
    """
    if set(shapes) <= set(names):
        return {name: shapes[name] for name in names if name in shapes}
    if set(shapes) == {""} and (own or len(names) == 1):
        return {(names or ["input"])[0]: shapes[""]}
    if not own or set(shapes) & set(names):
        raise ValueError(f"--shapes names {', '.join(n or 'no input' for n in shapes)}; its inputs: {', '.join(names)}")
    return dict(shapes)


def seeded(args: Tuple[Any, ...], seed: int, torch: Any) -> Tuple[Any, ...]:
    """Random input like the example: normal for floats, 0 and 1 for other types."""
    made: List[Any] = []
    for i, arg in enumerate(args):
        if not isinstance(arg, torch.Tensor):
            raise ValueError(f"argument {i} is a {type(arg).__name__}, not a tensor")
        random = torch.Generator().manual_seed(seed + i)
        if arg.is_floating_point():
            made.append(torch.randn(arg.shape, generator=random).to(arg.dtype))
        else:
            made.append(torch.randint(0, 2, arg.shape, generator=random).to(arg.dtype))
    return tuple(made)


def named(value: Any, torch: Any, prefix: str = "") -> Iterator[Tuple[str, Any]]:
    """(name, tensor) of each result in the order in which exporters name outputs: dicts by key, tuples by index."""
    if isinstance(value, torch.Tensor):
        yield prefix or "output", value
    elif isinstance(value, dict) or hasattr(value, "_fields"):
        for key, part in value.items() if isinstance(value, dict) else zip(value._fields, value):
            yield from named(part, torch, f"{prefix}_{key}" if prefix else str(key))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from named(part, torch, (prefix or "output") + (f"_{i}" if len(value) > 1 else ""))


def without_dict(module: Any, feeds: Tuple[Any, ...], torch: Any) -> Any:
    """The module with its dict's values as outputs: ONNX has no dicts, and the exporter refuses them."""

    class Values(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *args: Any) -> Any:
            return tuple(tensor for _, tensor in named(self.module(*args), torch))

    traced = torch.jit.freeze(torch.jit.trace(Values().eval(), feeds, strict=False))
    torch._C._jit_pass_inline(traced.graph)
    torch._C._jit_pass_peephole(traced.graph, True)
    return traced


def exported(module: Any, feeds: Tuple[Any, ...], names: List[str], request: Dict[str, Any], torch: Any) -> str:
    """Writes the model; returns the exporter that succeeded."""
    if request["exporter"] != "dynamo":
        try:
            options: Dict[str, Any] = {"opset_version": request["opset"], "input_names": names}
            try:
                torch.onnx.export(module, feeds, request["model"], dynamo=False, **options)
            except TypeError:
                # PyTorch before 2.5 has only one exporter here.
                torch.onnx.export(module, feeds, request["model"], **options)
            return "torchscript"
        except Exception:
            if request["exporter"] == "torchscript" or request["kind"] == "torchscript":
                raise
    torch.onnx.export(
        module,
        feeds,
        request["model"],
        dynamo=True,
        external_data=False,
        input_names=names,
        opset_version=max(request["opset"], 18),
        verbose=False,
    )
    return "dynamo"


if __name__ == "__main__":
    # Beside this file, not in edgedla, which this interpreter may lack.
    from answering import answer

    answer(main)
