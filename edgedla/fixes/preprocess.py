"""Preprocessing in the model: it takes pixel values 0 to 255 as they come from a camera, and scales and swaps by itself.

Where the first layer is a convolution, mean, std and the order of the channels go into its weights and cost nothing. Zeros
of its padding then mean a pixel value of `mean`, which a folded mean would change: so with padding the mean and std
become a BatchNormalization in front, and only the order of the channels is folded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.errors import ModelError, RunError, UsageError
from edgedla.fixes.network.editor import Editor
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Goal, Network, attribute
from edgedla.fixes.network.write_model import whole_proto
from edgedla.fixes.proofs.comparison import ROUND, distance
from edgedla.fixes.site import Refused
from edgedla.importers.model_file.embedded_preprocess import METADATA, EmbeddedPreprocess
from edgedla.quantization.session import open_session

#: First release that takes images of 8 bits as network input (NvInfer.h 8.5: kUINT8 for inputs and outputs).
FIRST_UINT8 = (8, 5)
#: A pixel value of 0 in the steps of a signed byte.
MIDDLE = 128
ORDERS = ("rgb", "bgr")
FORM = "mean=123.7:116.3:103.5,std=58.4:57.1:57.4,colour=rgb,takes=bgr,uint8 (or int8)"


@dataclass(frozen=True)
class Embedded:
    """A pixel p of channel c becomes (p - mean[c]) / std[c], in the order of `colour`, as in a pipeline's preprocessing.

    Attributes:
        mean, std: in pixel values, in the order of `colour`; one number each for a grey image.
        colour: the order that the network was trained with.
        takes: the order that its input has afterwards.
        uint8: the input's elements are unsigned bytes.
        int8: the input takes pixel value - 128: with an INT8 scale of 1 these are a camera's bytes with one bit turned, so a DLA
            input of INT8 loses nothing.
    """

    mean: Tuple[float, ...] = (0.0, 0.0, 0.0)
    std: Tuple[float, ...] = (255.0, 255.0, 255.0)
    colour: str = "rgb"
    takes: str = "rgb"
    uint8: bool = False
    int8: bool = False

    @property
    def swaps(self) -> bool:
        return self.colour != self.takes


def parse_preprocess(text: str) -> Embedded:
    """`mean=..,std=..,colour=..,takes=..,uint8` (or `int8`), each part once and in any order.

    Raises:
        UsageError: another form.
    """
    values: dict = {}
    for part in text.split(","):
        key, separator, value = part.strip().partition("=")
        if key in values:
            raise UsageError(f"{key!r} appears twice", where="--embed-preprocess", allowed=FORM)
        if key in ("mean", "std") and separator:
            values[key] = _numbers(key, value)
        elif key in ("colour", "takes") and value in ORDERS:
            values[key] = value
        elif key in ("uint8", "int8") and not separator:
            values[key] = True
        else:
            raise UsageError(f"{part!r} is not part of a preprocessing", where="--embed-preprocess", allowed=FORM)
    if "uint8" in values and "int8" in values:
        raise UsageError("uint8 and int8 exclude each other", where="--embed-preprocess", allowed=FORM)
    values.setdefault("takes", values.get("colour", "rgb"))
    return Embedded(**values)


def _numbers(key: str, text: str) -> Tuple[float, ...]:
    try:
        numbers = tuple(float(n) for n in text.split(":"))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 3) or (key == "std" and 0.0 in numbers) or not np.all(np.isfinite(numbers)):
        raise UsageError(f"{key}={text}", where="--embed-preprocess", allowed="one number or three, std not 0")
    return numbers


def embed(model: Any, wanted: Embedded, goal: Goal) -> str:
    """Changes the onnx_ir.Model in place; returns what its input takes now, in a sentence.

    Raises:
        UsageError: the release takes no 8-bit input, the model holds its preprocessing, or has another count of channels.
        ModelError: the model has several inputs, or one that is no image.
    """
    if wanted.uint8 and goal.trt < FIRST_UINT8:
        raise UsageError(
            f"TensorRT {'.'.join(map(str, goal.trt))} takes no 8-bit image as input",
            where="--embed-preprocess",
            allowed="uint8 from TensorRT 8.5 on",
        )
    if METADATA in model.metadata_props:
        raise UsageError(
            "the model holds its preprocessing already, and would scale twice",
            where="--embed-preprocess",
            hint="put it into the model as it was before",
        )
    network = Network(model, goal)
    x, channels, dtype = _image(network)
    mean, std = (_of_channels(v, channels) for v in (wanted.mean, wanted.std))
    if wanted.int8:
        mean = mean - MIDDLE
    order = np.arange(channels)[::-1] if wanted.swaps and channels == 3 else np.arange(channels)
    uses = [(use.node, use.idx) for use in x.uses()]
    editor = Editor(network, f"{x.name}/preprocess")
    value = x
    if wanted.uint8:
        ir = onnx_ir()
        target = ir.DataType.from_numpy(dtype)
        x.type = ir.TensorType(ir.DataType.UINT8)
        value = editor.op("Cast", x, to=int(target))
    conv = _first_conv(network, uses)
    if conv is not None and not (_pads(conv) and np.any(mean)):
        _fold(editor, conv, order, mean, std, value)
    elif conv is not None:
        # Channels arrive in the order that is taken; the weights follow it.
        scaled = editor.batch_norm(value, (1 / std)[order], (-mean / std)[order], channels)
        _fold(editor, conv, order, np.zeros(channels), np.ones(channels), scaled)
    else:
        weight = np.zeros((channels, channels, 1, 1))
        weight[np.arange(channels), order, 0, 0] = 1 / std
        constants = editor.constant(weight, dtype, "weight"), editor.constant(-mean / std, dtype, "bias")
        ready = editor.conv(value, *constants)
        for node, place in uses:
            node.replace_input_with(place, ready)
    first = next(iter(network.graph))
    network.graph.insert_before(first, editor.nodes)
    embedded = EmbeddedPreprocess(
        x.name,
        float(MIDDLE) if wanted.int8 else 0.0,
        1.0,
        wanted.takes,
        "uint8" if wanted.uint8 else str(dtype),
        1.0 if wanted.int8 else None,
    )
    model.metadata_props[METADATA] = embedded.to_text()
    kind = "8-bit pixel values" if wanted.uint8 else "pixel values - 128" if wanted.int8 else "pixel values 0 to 255"
    return f"{x.name} takes {kind} in {wanted.takes.upper()} order; mean, std and colour order are in the model"


def _of_channels(numbers: Tuple[float, ...], channels: int) -> np.ndarray:
    """One for each channel; three that are equal serve a grey image too.

    Raises:
        UsageError: another count.
    """
    given = numbers[:1] if len(set(numbers)) == 1 else numbers
    if len(given) not in (1, channels):
        raise UsageError(
            f"{':'.join(f'{n:g}' for n in numbers)} for {channels} channel{'s' * (channels > 1)}",
            where="--embed-preprocess",
            allowed="one number, or one for each channel",
        )
    result: np.ndarray = np.broadcast_to(np.asarray(given, np.float64), (channels,))
    return result


def _image(network: Network) -> Tuple[Any, int, np.dtype]:
    inputs = list(network.graph.inputs)
    where = network.graph.name or "<model>"
    if len(inputs) != 1:
        raise ModelError(f"the model has {len(inputs)} inputs", where=where, allowed="one image")
    try:
        dtype = network.dtype(inputs[0])
    except Refused as e:
        raise ModelError(str(e), where=where) from e
    dims = list(inputs[0].shape) if inputs[0].shape is not None else []
    if len(dims) != 4 or dims[1] not in (1, 3):
        raise ModelError(f"{inputs[0].name} has the dims {dims}", where=where, allowed="N x 3 x H x W or N x 1 x H x W")
    return inputs[0], int(dims[1]), dtype


def _first_conv(network: Network, uses: List[Tuple[Any, int]]) -> Optional[Any]:
    """The Conv with constant weights that alone reads the input."""
    if len(uses) != 1 or uses[0][0].op_type != "Conv" or attribute(uses[0][0], "group", 1) != 1:
        return None
    conv = uses[0][0]
    constants = [v for v in conv.inputs[1:] if v is not None]
    return conv if conv.graph is network.graph and all(map(network.is_constant, constants)) else None


def _pads(conv: Any) -> bool:
    return attribute(conv, "auto_pad", "NOTSET") not in ("NOTSET", "VALID") or any(attribute(conv, "pads", [0]))


def _fold(editor: Editor, conv: Any, order: np.ndarray, mean: np.ndarray, std: np.ndarray, value: Any) -> None:
    """Scale, offset and order in the weights and bias; the Conv reads `value`."""
    weight = conv.inputs[1]
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    dims = editor.network.weight_shape(weight)

    def scaled(w: np.ndarray) -> np.ndarray:
        return (w.astype(np.float64) / std[None, :, None, None])[:, order]

    def moved(w: np.ndarray, *b: np.ndarray) -> np.ndarray:
        offset = (w.astype(np.float64).sum((2, 3)) * (mean / std)).sum(1)
        return (b[0].astype(np.float64) if b else 0.0) - offset

    weights = editor.derived((weight,), dims, scaled, "weight")
    conv.replace_input_with(0, value)
    if np.any(mean):
        added = editor.derived((weight, bias), dims[:1], moved, "bias")
        conv.resize_inputs(3)
        conv.replace_input_with(2, added)
    conv.replace_input_with(1, weights)


def prove_embedding(original: Any, embedded: Any, wanted: Embedded, seed: int = 3) -> float:
    """Relative L2 between the original on preprocessed pixel values and the embedded model on the pixel values.

    Raises:
        RunError: they differ by more than rounding.
    """
    shape = [int(d) for d in original.graph.inputs[0].shape]
    name, dtype = original.graph.inputs[0].name, original.graph.inputs[0].dtype.numpy()
    grey = np.random.default_rng(seed).integers(0, 256, shape)
    mean, std = (_of_channels(v, shape[1])[None, :, None, None] for v in (wanted.mean, wanted.std))
    ordered = grey[:, ::-1] if wanted.swaps and shape[1] == 3 else grey
    ready = ((ordered - mean) / std).astype(dtype)
    outputs = [v.name for v in original.graph.outputs]
    before, after = (open_session(whole_proto(m).SerializeToString(), optimize=False) for m in (original, embedded))
    reference = before.run(outputs, {name: ready})
    given = (grey - MIDDLE if wanted.int8 else grey).astype(np.uint8 if wanted.uint8 else dtype)
    embedded_outputs = after.run(outputs, {name: given})
    fused = open_session(whole_proto(original).SerializeToString()).run(outputs, {name: ready})
    worst = max(distance(np.asarray(a), np.asarray(b))[0] for a, b in zip(reference, embedded_outputs))
    noise = max(distance(np.asarray(a), np.asarray(b))[0] for a, b in zip(reference, fused))
    # Sums of pixel values are larger than those of scaled ones, and cancel more.
    if worst > max(10 * ROUND[str(dtype)], 30 * noise):
        raise RunError(f"the model with its preprocessing inside differs by {worst:.2g} (relative L2), noise {noise:.2g}")
    return float(worst)
