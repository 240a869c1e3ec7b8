"""TensorFlow, Keras and TFLite to ONNX by tf2onnx. Run as `python from_tensorflow.py REQUEST.json`."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Tuple


def main(request: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    import tf2onnx

    run, specs = {"tflite": tflite, "keras": keras, "h5": keras, "savedmodel": saved_model}[request["kind"]](
        request, tf
    )
    inputs = {name: seeded(shape, dtype, request["seed"] + i) for i, (name, shape, dtype) in enumerate(specs)}
    outputs = run([inputs[name] for name, _, _ in specs])
    if request["kind"] == "tflite":
        tf2onnx.convert.from_tflite(request["source"], opset=request["opset"], output_path=request["model"])
    else:
        signature = [tf.TensorSpec(shape, dtype, name=name) for name, shape, dtype in specs]
        function = tf.function(lambda *args: run_graph(request, tf, args), input_signature=signature)
        tf2onnx.convert.from_function(
            function, input_signature=signature, opset=request["opset"], output_path=request["model"]
        )
    return {"framework": f"tensorflow {tf.__version__}", "exporter": f"tf2onnx {tf2onnx.__version__}"}, inputs, outputs


_LOADED: List[Any] = []


def run_graph(request: Dict[str, Any], tf: Any, args: Tuple[Any, ...]) -> Any:
    """The model's outputs as symbolic tensors."""
    model, names = _LOADED[0]
    if request["kind"] == "savedmodel":
        return list(model(**dict(zip(names, args))).values())
    return model(args[0] if len(args) == 1 else list(args), training=False)


Loaded = Tuple[Callable[[List[Any]], List[Any]], List[Tuple[str, Tuple[int, ...], str]]]


def keras(request: Dict[str, Any], tf: Any) -> Loaded:
    options = {"compile": False}
    if request["kind"] == "keras":
        # Lambda layers hold code.
        options["safe_mode"] = not request["trust"]
    model = tf.keras.models.load_model(request["source"], **options)
    _LOADED.append((model, []))
    specs = [
        (tensor.name.split(":")[0], sizes(tensor.name.split(":")[0], tensor.shape, request), str(tensor.dtype))
        for tensor in model.inputs
    ]

    def run(values: List[Any]) -> List[Any]:
        outputs = model(values[0] if len(values) == 1 else values, training=False)
        return [x.numpy() for x in tf.nest.flatten(outputs)]

    return run, specs


def saved_model(request: Dict[str, Any], tf: Any) -> Loaded:
    model = tf.saved_model.load(request["source"])
    signatures = model.signatures
    if not signatures:
        raise ValueError("the SavedModel has no signature; save it with model.export, or with signatures=")
    signature = signatures["serving_default"] if "serving_default" in signatures else next(iter(signatures.values()))
    named = signature.structured_input_signature[1]
    names = list(named)
    # Without the model the signature's variables would go.
    _LOADED.extend([(signature, names), model])
    specs = [(n, sizes(n, named[n].shape, request), named[n].dtype.name) for n in names]

    def run(values: List[Any]) -> List[Any]:
        outputs = signature(**{n: tf.constant(v) for n, v in zip(names, values)})
        return [x.numpy() for x in outputs.values()]

    return run, specs


def tflite(request: Dict[str, Any], tf: Any) -> Loaded:
    interpreter = tf.lite.Interpreter(model_path=request["source"])
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    specs = [(d["name"], tuple(int(x) for x in d["shape"]), d["dtype"].__name__) for d in details]

    def run(values: List[Any]) -> List[Any]:
        for detail, value in zip(details, values):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run, specs


def sizes(name: str, shape: Any, request: Dict[str, Any]) -> Tuple[int, ...]:
    """Static dims: those asked for, else the model's own with a batch of 1."""
    given = request["shapes"].get(name) or request["shapes"].get("")
    if given:
        return tuple(given)
    dims = [None if d is None else int(d) for d in shape]
    open_dims = [i for i, d in enumerate(dims) if d is None]
    if open_dims not in ([], [0]):
        raise ValueError(f"input {name} has open dims {dims}: give them with --shapes {name}:1x224x224x3")
    return tuple(1 if d is None else d for d in dims)


def seeded(shape: Tuple[int, ...], dtype: str, seed: int) -> Any:
    import numpy as np

    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    low, high = (-128, 128) if kind == np.int8 else (0, 256) if kind == np.uint8 else (0, 2)
    return rng.integers(low, high, shape).astype(kind)


if __name__ == "__main__":
    # Beside this file, not below edgedla, which this interpreter may lack.
    from answering import answer

    answer(main)
