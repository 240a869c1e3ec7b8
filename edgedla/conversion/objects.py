"""Models in memory as ONNX: PyTorch modules and programs, Keras models, TensorFlow modules."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.conversion.comparison import worst_difference
from edgedla.conversion.converted import SEED, Converted, opset_of, parser_notes, tidied, tolerance_of
from edgedla.errors import ModelError, UsageError, own_code

Shapes = Optional[Mapping[str, Sequence[int]]]
#: Class -> kind, subclasses first: a ScriptModule is a Module too. As names, so that nothing is imported.
_CLASSES: Tuple[Tuple[str, str], ...] = (
    ("torch.export.exported_program.ExportedProgram", "program"),
    ("torch.jit._script.ScriptModule", "script"),
    ("torch.nn.modules.module.Module", "module"),
    ("keras.Model", "keras"),
    ("tensorflow.python.module.module.Module", "tensorflow"),
)


def object_kind(model: Any) -> Optional[str]:
    """ "module", "program", "script", "keras" or "tensorflow"; None for a path, ONNX, and everything else."""
    names = {_class_name(c) for c in type(model).__mro__}
    return next((kind for name, kind in _CLASSES if name in names), None)


def _class_name(of: type) -> str:
    """The dotted name; for Keras, whose modules vary by release, `keras.Model`."""
    parts = of.__module__.split(".")
    return (
        "keras.Model"
        if "keras" in parts and of.__qualname__ in ("Model", "Functional")
        else (f"{of.__module__}.{of.__qualname__}")
    )


@contextlib.contextmanager
def saved(model: Any, kind: str, example_inputs: Any) -> Iterator[Tuple[Path, Shapes]]:
    """(a temporary file or folder with the model, sizes of its inputs), within the `with` block.

    Args:
        kind: from object_kind, except "module". example_inputs: None if the model states its sizes.

    Raises:
        ModelError: the framework cannot save it.
    """
    with tempfile.TemporaryDirectory(prefix="edgedla-model-") as folder:
        where = type(model).__name__
        path = Path(folder) / f"{where}{_ENDINGS[kind]}"
        with own_code(lambda e: ModelError(f"it cannot be saved: {type(e).__name__}: {e}", where=where)):
            _save(model, kind, path)
        yield path, _sizes(model, kind, example_inputs)


_ENDINGS: Mapping[str, str] = {"program": ".pt2", "script": ".ts", "keras": "", "tensorflow": ""}


def _save(model: Any, kind: str, path: Path) -> None:
    if kind == "program":
        import torch

        torch.export.save(model, path)
    elif kind == "script":
        model.save(str(path))
    elif kind == "keras" and hasattr(model, "export"):
        # A SavedModel: unlike a .keras file, it loads without the user's classes.
        _export(model, path)
    else:
        import tensorflow

        tensorflow.saved_model.save(model, str(path))


def _export(model: Any, path: Path) -> None:
    try:
        model.export(str(path), verbose=False)
    except (TypeError, ValueError):
        # Keras 2 has no `verbose` argument.
        model.export(str(path))


def _sizes(model: Any, kind: str, example_inputs: Any) -> Shapes:
    """Sizes of the inputs by name, in order; a program states its own."""
    if example_inputs is None or kind == "program":
        return None
    if isinstance(example_inputs, Mapping):
        return {name: tuple(value.shape) for name, value in example_inputs.items()}
    values = list(example_inputs) if isinstance(example_inputs, (list, tuple)) else [example_inputs]
    if len(values) == 1:
        return {"": tuple(values[0].shape)}
    names = list(getattr(model, "input_names", None) or (f"input_{i}" for i in range(len(values))))
    return {name: tuple(value.shape) for name, value in zip(names, values)}


def convert_module(module: Any, example_inputs: Any, shapes: Shapes, exporter: str, opset: int, platform: Any) -> Converted:
    """A PyTorch module as ONNX with its module paths and Python lines, compared with the module on seeded input.

    It is exported in this process, in evaluation mode, and left unchanged.

    Args:
        example_inputs: a tensor, several in order, or by name of forward's parameters. shapes: their sizes instead.
        exporter: "torchscript", "dynamo", or "auto": the first, else the second. platform: the platform that has to read it.

    Raises:
        UsageError: no sizes, or inputs that do not fit. ModelError: both exporters fail. EnvironmentMissing: no PyTorch.
    """
    from edgedla.torch.exporting import forward_inputs
    from edgedla.torch.factory import example_from_shapes
    from edgedla.torch.library import import_torch

    torch = import_torch()
    # torch.compile wraps the module; exporters need the inner one.
    module = getattr(module, "_orig_mod", module)
    where = type(module).__name__
    if example_inputs is None and not shapes:
        raise UsageError(
            "a PyTorch module does not say the sizes of its inputs",
            where=where,
            hint="give example_inputs=torch.zeros(1, 3, 224, 224), or shapes=",
        )
    if example_inputs is None:
        args, names = example_from_shapes(module, shapes or {}, where, torch)
    else:
        args, names = forward_inputs(module, example_inputs)
    feeds = tuple(_seeded(value, index, torch) for index, value in enumerate(args))
    outputs = _outputs(module, feeds, torch)
    onnx_model, wrote = _exported(module, dict(zip(names, feeds)), exporter, opset, [name for name, _ in outputs])
    inputs = {name: feed.numpy() for name, feed in zip(names, feeds)}
    model = tidied(onnx_model, {n: x.shape for n, x in inputs.items()}, [array.shape for _, array in outputs])
    rel_l2, max_abs = worst_difference(model, inputs, [array for _, array in outputs])
    return Converted(
        model.SerializeToString(),
        where,
        kind="module",
        framework=f"torch {torch.__version__}",
        exporter=wrote,
        opset=opset_of(model),
        rel_l2=rel_l2,
        max_abs=max_abs,
        notes=parser_notes(model, platform),
        tolerance=tolerance_of(model),
    )


def _exported(module: Any, feeds: Dict[str, Any], exporter: str, opset: int, outputs: Sequence[str]) -> Tuple[Any, str]:
    from edgedla.torch.exporting import OPSET, to_onnx

    if exporter != "dynamo":
        try:
            return to_onnx(module, feeds, opset=opset, output_names=outputs), "torchscript"
        except ModelError:
            if exporter == "torchscript":
                raise
    newer = max(opset, OPSET + 1)
    return to_onnx(module, feeds, exporter="dynamo", opset=newer, output_names=outputs), "dynamo"


def _seeded(value: Any, index: int, torch: Any) -> Any:
    """Random floats of the example's size; integers unchanged, because they may be indices."""
    value = value.detach().cpu()
    if not value.is_floating_point():
        return value
    generator = torch.Generator().manual_seed(SEED + index)
    return torch.randn(value.shape, generator=generator).to(value.dtype)


def _outputs(module: Any, feeds: Sequence[Any], torch: Any) -> List[Tuple[str, np.ndarray]]:
    """(name, values) of each output, named like those of a saved program."""
    from edgedla.conversion.frameworks.from_pytorch import named
    from edgedla.torch.exporting import evaluating

    parameter = next(iter(module.parameters()), None)
    device = parameter.device if parameter is not None else torch.device("cpu")
    with evaluating(module), torch.no_grad():
        result = module(*(feed.to(device) for feed in feeds))
    tensors = [(name, tensor.cpu().numpy()) for name, tensor in named(result, torch)]
    if not tensors:
        raise ModelError("the module gives no tensor", where=type(module).__name__)
    return tensors
