"""PyTorch to ONNX: torch.export programs, TorchScript, pickled modules. Run as `python from_pytorch.py REQUEST.json`."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Tuple


def main(request: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    import torch

    warnings.simplefilter("ignore")
    module, args = loaded(request, torch)
    args = tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in args)
    feeds = seeded(args, request["seed"], torch)
    names = [f"input_{i}" if len(feeds) > 1 else "input" for i in range(len(feeds))]
    with torch.no_grad():
        result = module(*feeds)
        wanted = flat(result, torch)
        if request["kind"] == "torchscript" and isinstance(result, dict):
            module = without_dict(module, feeds, torch)
        exporter = exported(module, feeds, names, request, torch)
    about = {"framework": f"torch {torch.__version__}", "exporter": exporter}
    return about, {n: f.numpy() for n, f in zip(names, feeds)}, [w.numpy() for w in wanted]


def loaded(request: Dict[str, Any], torch: Any) -> Tuple[Any, Tuple[Any, ...]]:
    """(module in evaluation mode, example arguments)."""
    path, kind = request["source"], request["kind"]
    if kind == "pt2":
        program = torch.export.load(path)
        args, kwargs = program.example_inputs or ((), {})
        if kwargs:
            raise ValueError("the program takes keyword arguments; export it with positional ones")
        module = program.module()
        # A program is exported in the mode that its module was in, and refuses another; exporters ask for one.
        module.train = module.eval = lambda mode=False: module
        return module, tuple(args)
    if kind == "torchscript":
        module = torch.jit.load(path, map_location="cpu")
    else:
        module = torch.load(path, map_location="cpu", weights_only=False)
        if not isinstance(module, torch.nn.Module):
            raise ValueError(f"the file holds a {type(module).__name__}, not a module: weights alone have no graph")
    return module.eval(), tuple(torch.zeros(*dims) for dims in request["shapes"].values())


def seeded(args: Tuple[Any, ...], seed: int, torch: Any) -> Tuple[Any, ...]:
    """Random input like the example: normal for floats, 0 and 1 for the rest."""
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


def flat(value: Any, torch: Any) -> List[Any]:
    """Tensors of a result in the order in which exporters name outputs."""
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    return [tensor for part in values for tensor in flat(part, torch)]


def without_dict(module: Any, feeds: Tuple[Any, ...], torch: Any) -> Any:
    """The module with the values of its dict as outputs: ONNX has no dicts, and the exporter refuses them."""

    class Values(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *args: Any) -> Any:
            return tuple(flat(self.module(*args), torch))

    traced = torch.jit.freeze(torch.jit.trace(Values().eval(), feeds, strict=False))
    torch._C._jit_pass_inline(traced.graph)
    torch._C._jit_pass_peephole(traced.graph, True)
    return traced


def exported(module: Any, feeds: Tuple[Any, ...], names: List[str], request: Dict[str, Any], torch: Any) -> str:
    """Writes the model; the exporter that did."""
    if request["exporter"] != "dynamo":
        try:
            options: Dict[str, Any] = {"opset_version": request["opset"], "input_names": names}
            try:
                torch.onnx.export(module, feeds, request["model"], dynamo=False, **options)
            except TypeError:
                # PyTorch before 2.5 has one exporter here.
                torch.onnx.export(module, feeds, request["model"], **options)
            return "torchscript"
        except Exception:
            if request["exporter"] == "torchscript" or request["kind"] == "torchscript":
                raise
    torch.onnx.export(module, feeds, request["model"], dynamo=True, external_data=False, input_names=names,
                      opset_version=max(request["opset"], 18), verbose=False)  # fmt: skip
    return "dynamo"


if __name__ == "__main__":
    # Beside this file, not below edgedla, which this interpreter may lack.
    from answering import answer

    answer(main)
