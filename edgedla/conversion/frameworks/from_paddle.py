"""Paddle to ONNX by paddle2onnx. Run as `python from_paddle.py REQUEST.json`."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple


def main(request: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    if request["source"].endswith(".pdmodel"):
        # Paddle 3 expects its own .json programs, unless told otherwise before it is imported.
        os.environ.update(FLAGS_enable_pir_api="0")
    import paddle
    import paddle2onnx

    stem = os.path.splitext(request["source"])[0]
    if not os.path.isfile(stem + ".pdiparams"):
        raise ValueError(f"{os.path.basename(stem)}.pdiparams is not beside the model")
    # paddle2onnx's optimizers install packages by pip while they run.
    paddle2onnx.export(
        request["source"], stem + ".pdiparams", request["model"], opset_version=request["opset"], optimize_tool="None"
    )
    versions: Dict[str, Any] = {
        "framework": f"paddle {paddle.__version__}",
        "exporter": f"paddle2onnx {getattr(paddle2onnx, '__version__', '')}".strip(),
    }
    inputs, outputs = reference(request, stem, paddle)
    # The program's own names are fetch_name_0 and so on.
    names = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
    return {**versions, "outputs": names}, inputs, outputs


def reference(request: Dict[str, Any], stem: str, paddle: Any) -> Tuple[Dict[str, Any], List[Any]]:
    """(seeded inputs by name, the model's outputs)."""
    module = paddle.jit.load(stem)
    module.eval()
    inputs = {
        spec.name: seeded(sizes(spec, request["shapes"]), str(spec.dtype).split(".")[-1], request["seed"] + i)
        for i, spec in enumerate(module._input_spec())
    }
    with paddle.no_grad():
        result = module(*(paddle.to_tensor(value) for value in inputs.values()))
    values = list(result) if isinstance(result, (list, tuple)) else [result]
    return inputs, [value.numpy() for value in values]


def sizes(spec: Any, shapes: Dict[str, Any]) -> Tuple[int, ...]:
    """Static dims: as requested, else the model's own with batch 1."""
    given = shapes.get(spec.name) or shapes.get("")
    if given:
        return tuple(given)
    dims = [int(d) if d is not None and int(d) > 0 else None for d in spec.shape]
    if None in dims[1:]:
        raise ValueError(f"input {spec.name} has open dims {dims}: give them with --shapes {spec.name}:1x3x224x224")
    return tuple(1 if d is None else d for d in dims)


def seeded(shape: Tuple[int, ...], dtype: str, seed: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    return rng.standard_normal(shape).astype(kind) if kind.kind == "f" else rng.integers(0, 2, shape).astype(kind)


if __name__ == "__main__":
    # Beside this file, not in edgedla, which this interpreter may lack.
    from answering import answer

    answer(main)
