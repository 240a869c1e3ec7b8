"""TensorFlow, Keras and TFLite to ONNX by tf2onnx. Run as `python from_tensorflow.py REQUEST.json`."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple


class Loaded(NamedTuple):
    """A model in memory.

    Attributes:
        run: its outputs for arrays. inputs: (name, sizes, type) of each. outputs: their names.
        renamed: tf2onnx's name of an input -> its own name, if different. exported: for TFLite, tf2onnx's names of outputs.
        trace: its outputs as symbolic tensors; None for TFLite. keep: objects that must live as long as this.
        path: for TFLite, the file that tf2onnx reads. notes: on parts of the source that are missing here.
    """

    run: Callable[[List[Any]], List[Any]]
    inputs: List[Tuple[str, Tuple[int, ...], str]]
    outputs: List[str]
    renamed: Dict[str, str] = {}
    exported: Sequence[str] = ()
    trace: Any = None
    keep: Any = None
    path: str = ""
    notes: Sequence[str] = ()


def main(request: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    import tf2onnx

    # Beside this file, like answering.
    from opened_graph import erfc, opened

    loaders = {"tflite": tflite, "keras": keras, "h5": keras, "savedmodel": saved_model, "graphdef": frozen_graph}
    loaded = loaders[request["kind"]](request, tf)
    # Before running it, because that changes the variables of a model with state.
    function = None if loaded.trace is None else opened(loaded.trace, loaded.inputs, tf)
    inputs = {name: seeded(shape, dtype, request["seed"] + i) for i, (name, shape, dtype) in enumerate(loaded.inputs)}
    outputs = loaded.run(list(inputs.values()))
    turned_in = turned("input", request["inputs_as_nchw"], {name: x.ndim for name, x in inputs.items()})
    turned_out = turned("output", request["outputs_as_nchw"], {n: x.ndim for n, x in zip(loaded.outputs, outputs)})
    options = {"opset": request["opset"], "output_path": request["model"]}

    def layouts(given: Sequence[str], made: Sequence[str]) -> Dict[str, List[str]]:
        """Layouts for tf2onnx, which has its own names for inputs and outputs."""
        return {
            "inputs_as_nchw": [theirs for theirs, name in zip(given, inputs) if name in turned_in],
            "outputs_as_nchw": [theirs for theirs, name in zip(made, loaded.outputs) if name in turned_out],
        }

    if function is None:
        tf2onnx.convert.from_tflite(loaded.path, **options, **layouts(list(loaded.renamed), loaded.exported))
    else:
        # Unique names: those of the imported graph are taken.
        signature = [tf.TensorSpec(s, d, name=f"convert_{i}") for i, (_, s, d) in enumerate(loaded.inputs)]
        plain = tf.function(function, input_signature=signature, autograph=False)
        graph = plain.get_concrete_function()
        names = layouts([t.name for t in graph.inputs], [t.name for t in graph.outputs])
        tf2onnx.convert.from_function(
            plain, input_signature=signature, custom_op_handlers={"Erfc": (erfc, [])}, **options, **names
        )
    about = {
        "framework": f"tensorflow {tf.__version__}",
        "exporter": f"tf2onnx {tf2onnx.__version__}",
        "inputs": loaded.renamed or {f"convert_{i}": name for i, name in enumerate(inputs)},
        "outputs": loaded.outputs,
        "notes": list(loaded.notes),
    }
    inputs = {name: nchw(x) if name in turned_in else x for name, x in inputs.items()}
    return about, inputs, [nchw(x) if name in turned_out else x for name, x in zip(loaded.outputs, outputs)]


def turned(what: str, requested: Sequence[str], ranks: Mapping[str, int]) -> List[str]:
    """The inputs, or outputs, to make N x C x H x W: those requested by name, or all with four dimensions."""
    if list(requested) == ["all"]:
        return [name for name, rank in ranks.items() if rank == 4]
    for name in requested:
        if name not in ranks:
            raise ValueError(f"no {what} is called {name}: {', '.join(ranks)}")
        if ranks[name] != 4:
            raise ValueError(f"{what} {name} is not N x H x W x C: it has {ranks[name]} dimensions")
    return list(requested)


def nchw(values: Any) -> Any:
    import numpy as np

    return np.ascontiguousarray(np.transpose(values, (0, 3, 1, 2)))


def keras(request: Dict[str, Any], tf: Any) -> Loaded:
    options = {"compile": False}
    if request["kind"] == "keras":
        # Lambda layers contain code.
        options["safe_mode"] = not request["trust"]
    model = tf.keras.models.load_model(request["source"], **options)
    names = [tensor.name.split(":")[0] for tensor in model.inputs]
    specs = [(n, sizes(n, t.shape, request), str(t.dtype)) for n, t in zip(names, model.inputs)]

    def trace(values: Any) -> List[Any]:
        given = values[0] if len(values) == 1 else list(values)
        return list(tf.nest.flatten(model(given, training=False)))

    def run(values: List[Any]) -> List[Any]:
        return [x.numpy() for x in trace(values)]

    return Loaded(run, specs, output_names(model, tf), trace=trace, keep=model)


def output_names(model: Any, tf: Any) -> List[str]:
    """Names in the order of tf.nest.flatten, which sorts dicts by key."""
    structure = getattr(model, "_outputs_struct", None)
    if isinstance(structure, dict):
        keys = tf.nest.flatten({key: [key] * len(tf.nest.flatten(value)) for key, value in structure.items()})
        return [str(key) for key in keys]
    # Keras 3 gives a Sequential no output names.
    names = getattr(model, "output_names", None) or [model.layers[-1].name]
    return [str(name) for name in names]


def saved_model(request: Dict[str, Any], tf: Any) -> Loaded:
    model = tf.saved_model.load(request["source"])
    signatures = model.signatures
    if not signatures:
        raise ValueError("the SavedModel has no signature; save it with model.export, or with signatures=")
    chosen = request["signature"] or ("serving_default" if "serving_default" in signatures else "")
    if chosen not in signatures and (chosen or len(signatures) > 1):
        what = f"no signature is called {chosen}" if chosen else "several signatures, none of them serving_default"
        raise ValueError(f"{what}: {', '.join(sorted(signatures))}; --signature names one")
    signature = signatures[chosen] if chosen else next(iter(signatures.values()))
    # In a loaded file the names are in random order.
    named = {n: signature.structured_input_signature[1][n] for n in by_number(signature.structured_input_signature[1])}
    specs = [(n, sizes(n, named[n].shape, request), named[n].dtype.name) for n in named]
    outputs = by_number(signature.structured_outputs)

    def trace(values: Any) -> List[Any]:
        made = signature(**dict(zip(named, values)))
        return [made[name] for name in outputs]

    def run(values: List[Any]) -> List[Any]:
        return [x.numpy() for x in trace([tf.constant(v) for v in values])]

    # Without a reference to the model, the signature's variables would be deleted.
    return Loaded(run, specs, outputs, trace=trace, keep=model)


def frozen_graph(request: Dict[str, Any], tf: Any) -> Loaded:
    # Beside this file, like answering.
    from frozen_graph import frozen_part, port

    part = frozen_part(request, tf)
    specs = [(port(t), sizes(port(t), t.shape, request), t.dtype.name) for t in part.starts]

    def run(values: List[Any]) -> List[Any]:
        return [x.numpy() for x in part.run(*map(tf.constant, values))]

    return Loaded(run, specs, [port(tensor) for tensor in part.ends], trace=part.trace, keep=part)


def by_number(names: Iterable[str]) -> List[str]:
    """Sorted with numbers in order: output_2 before output_10."""
    return sorted(names, key=lambda name: [p.zfill(9) if p.isdigit() else p for p in re.split(r"(\d+)", name)])


def tflite(request: Dict[str, Any], tf: Any) -> Loaded:
    # Beside this file, like answering.
    from tflite_weights import with_float_weights

    source = request["source"]
    with open(source, "rb") as f:
        floats, count = with_float_weights(f.read())
    own = interpreter_of(source, request, tf)
    if floats is None:
        return own
    path = os.path.join(os.path.dirname(request["model"]), "floats.tflite")
    with open(path, "wb") as f:
        f.write(floats)
    loaded = interpreter_of(path, request, tf)
    arrays = [seeded(shape, dtype, request["seed"] + i) for i, (_, shape, dtype) in enumerate(loaded.inputs)]
    error = max(map(relative, own.run(arrays), loaded.run(arrays)))
    note = (
        f"{count} weights were integers, which floats stand for exactly; the source, which rounds activations as it runs, "
        f"differs from that by relative L2 {error:.2g}. It holds no scales of activations: `edgedla quantize` makes them"
    )
    return loaded._replace(notes=[note])


def relative(values: Any, exact: Any) -> float:
    """The relative L2 difference of two arrays."""
    import numpy as np

    norm = float(np.linalg.norm(exact.astype(np.float64)))
    return float(np.linalg.norm(values.astype(np.float64) - exact)) / (norm or 1.0)


def interpreter_of(path: str, request: Dict[str, Any], tf: Any) -> Loaded:
    interpreter = tf.lite.Interpreter(model_path=path)
    names = signature_names(interpreter)
    for detail in interpreter.get_input_details():
        own = names.get(detail["index"], detail["name"])
        interpreter.resize_tensor_input(detail["index"], sizes(own, detail["shape"], request))
    interpreter.allocate_tensors()
    details, results = interpreter.get_input_details(), interpreter.get_output_details()
    specs = [(names.get(d["index"], d["name"]), tuple(map(int, d["shape"])), d["dtype"].__name__) for d in details]

    def run(values: List[Any]) -> List[Any]:
        for detail, value in zip(details, values):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in results]

    outputs = [names.get(d["index"], d["name"].split(":")[0]) for d in results]
    renamed = {d["name"]: spec[0] for d, spec in zip(details, specs)}
    return Loaded(run, specs, outputs, renamed, [d["name"] for d in results], path=path)


def signature_names(interpreter: Any) -> Dict[int, str]:
    """Tensor index -> its name in the model's only signature; a converter's own names are of the kind "Identity_1"."""
    if len(interpreter.get_signature_list()) != 1:
        return {}
    runner = interpreter.get_signature_runner()
    both = (runner.get_input_details(), runner.get_output_details())
    return {int(detail["index"]): str(name) for details in both for name, detail in details.items()}


def sizes(name: str, shape: Any, request: Dict[str, Any]) -> Tuple[int, ...]:
    """Static dims: as requested, else the model's own with batch 1."""
    given = request["shapes"].get(name) or request["shapes"].get("")
    if given:
        return tuple(given)
    if getattr(shape, "rank", 0) is None:
        raise ValueError(f"input {name} has no sizes: give them with --shapes {name}:1x224x224x3")
    dims = [None if d is None else int(d) for d in shape]
    open_dims = [i for i, d in enumerate(dims) if d is None]
    if open_dims not in ([], [0]):
        raise ValueError(f"input {name} has open dims {dims}: give them with --shapes {name}:1x224x224x3")
    return tuple(1 if d is None else d for d in dims)


def seeded(shape: Tuple[int, ...], dtype: str, seed: int) -> Any:
    import numpy as np

    if dtype in ("string", "bfloat16"):
        raise ValueError(f"it has an input of {dtype}, which neither TensorRT nor the DLA takes")
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    if kind not in _LEVELS:
        return rng.integers(0, 2, shape).astype(kind)
    # Mostly mid-range levels; few at the ends, where a quantised network clips what its samples lacked.
    ends = np.iinfo(kind)
    middle, spread = (int(ends.min) + int(ends.max) + 1) // 2, (int(ends.max) - int(ends.min)) / 8
    return np.clip(np.rint(rng.normal(middle, spread, shape)), ends.min, ends.max).astype(kind)


_LEVELS = ("int8", "uint8", "int16")


if __name__ == "__main__":
    # Beside this file, not in edgedla, which this interpreter may lack.
    from answering import answer

    answer(main)
