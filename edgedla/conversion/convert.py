"""`convert`: a model of another framework as ONNX that the target's parser reads, compared with its source."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.arguments import typed
from edgedla.conversion.comparison import worst_difference
from edgedla.conversion.converted import OPSET, SEED, Converted, layout_notes, opset_of, parser_notes, tidied, tolerance_of
from edgedla.conversion.kinds import KINDS, Kind, damage_of, kind_of
from edgedla.conversion.objects import convert_module, object_kind, saved
from edgedla.conversion.quantised import Finished, finished
from edgedla.errors import EnvironmentMissing, ModelError, UsageError
from edgedla.importers.model_file.port_names import name_ports
from edgedla.quantization.qdq import has_qdq
from edgedla.targets import platform_for
from edgedla.vocabulary import one_of

EXPORTERS = ("auto", "torchscript", "dynamo")
_ALLOWED = ", ".join(kind.title for kind in KINDS.values())
_ERROR_CHARACTERS = 400


@typed
def convert(
    source: Union[str, Path, Any],
    *,
    example_inputs: Any = None,
    target: str = "agx-orin-64gb",
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    opset: Optional[int] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    trust: bool = False,
    exporter: str = "auto",
    inputs_as_nchw: Union[str, Sequence[str]] = (),
    outputs_as_nchw: Union[str, Sequence[str]] = (),
    inputs: Union[str, Sequence[str]] = (),
    outputs: Union[str, Sequence[str]] = (),
    signature: str = "",
    python: Optional[str] = None,
    timeout_s: float = 900.0,
) -> Converted:
    """Converts a model of another framework to ONNX. A separate process loads a file.

    Args:
        source: .pt2, TorchScript (.pt, .ts), a checkpoint of Ultralytics (.pt), a pickled module (.pt, .pth), a SavedModel
            folder, a frozen graph (.pb), .keras, .h5, .tflite, .pdmodel, Paddle's .json; or the model itself: a PyTorch
            module, ScriptModule or ExportedProgram, a Keras model, a tf.Module.
        example_inputs: for a model itself: a tensor, several in order, or by name of forward's parameters. Their sizes become
            static.
        target, jetpack, trt: the platform that has to read the ONNX file; decides the operator set.
        opset: another operator set.
        shapes: sizes of inputs by name, in order; "" names the only input. Required if the source leaves them open.
        trust: load a file although loading it runs code in it.
        exporter: for PyTorch: "torchscript", "dynamo" (operator set 18 or newer), or "auto": torchscript, else dynamo.
        inputs_as_nchw, outputs_as_nchw: for TensorFlow: inputs and outputs to make N x C x H x W without transposes, by name,
            or "all" of four dimensions.
        inputs, outputs: for a frozen graph: its inputs and outputs; by default its placeholders, and tensors that no node
            reads. signature: for a SavedModel with several; by default serving_default.
        python: interpreter that has the framework; this one by default.

    Raises:
        UsageError: not a model of another framework, missing shapes, or a file that runs code without `trust`.
        EnvironmentMissing: the framework is not installed. ModelError: the model is missing, or cannot be loaded or converted.
    """
    one_of("exporter", exporter, EXPORTERS)
    platform = platform_for(target, jetpack=jetpack, trt=trt)
    settings: Dict[str, Any] = {"opset": opset if opset is not None else OPSET, "exporter": exporter}
    layouts = {"inputs_as_nchw": _names(inputs_as_nchw), "outputs_as_nchw": _names(outputs_as_nchw)}
    parts = {"inputs": _names(inputs), "outputs": _names(outputs), "signature": signature}
    in_memory = object_kind(source)
    if in_memory == "module":
        _refuse_layouts(layouts, "PyTorch")
        _refuse_parts(parts, "")
        return convert_module(source, example_inputs, shapes, platform=platform, **settings)
    interpreter = _Interpreter(python or sys.executable, timeout_s)
    if in_memory is not None:
        with saved(source, in_memory, example_inputs) as (path, sizes):
            # The object's code is already in this process.
            kind = _checked(path, shapes or sizes, trust=True)
            settings.update(layouts, **parts, trust=True, shapes=shapes or sizes)
            made = _of_file(path, kind, settings, platform, interpreter)
        return replace(made, source=type(source).__name__)
    kind = _checked(source, shapes, trust)
    settings.update(layouts, **parts, trust=trust, shapes=shapes)
    return _of_file(Path(source), kind, settings, platform, interpreter)


def _names(given: Union[str, Sequence[str]]) -> List[str]:
    return [name.strip() for name in (given.split(",") if isinstance(given, str) else given) if name.strip()]


def _refuse_layouts(layouts: Mapping[str, Sequence[str]], framework: str) -> None:
    """Raises UsageError if a layout change is requested for a framework that already has that layout."""
    for where, names in layouts.items():
        if names:
            raise UsageError(
                f"a model of {framework} is N x C x H x W already", where=where, allowed="of TensorFlow, Keras and TFLite"
            )


#: Option that selects a part of a source -> (kind that has such parts, its description).
_OF: Mapping[str, Tuple[str, str]] = {
    "inputs": ("graphdef", "of a frozen graph"),
    "outputs": ("graphdef", "of a frozen graph"),
    "signature": ("savedmodel", "of a SavedModel"),
}


def _refuse_parts(parts: Mapping[str, Any], kind: str) -> None:
    """Raises UsageError if a part is selected of a source that is taken as a whole."""
    for where, (allowed_kind, allowed) in _OF.items():
        if parts[where] and kind != allowed_kind:
            raise UsageError("this kind of source does not take this option", where=where, allowed=allowed)


class _Interpreter(NamedTuple):
    python: str
    timeout_s: float


def _of_file(source: Path, kind: Kind, settings: Mapping[str, Any], platform: Any, interpreter: _Interpreter) -> Converted:
    import onnx

    _refuse_parts(settings, kind.name)
    if kind.framework != "tf2onnx":
        _refuse_layouts({k: settings[k] for k in ("inputs_as_nchw", "outputs_as_nchw")}, _TITLES[kind.framework])
    with tempfile.TemporaryDirectory(prefix="edgedla-convert-") as folder:
        request = {
            **settings,
            "source": str(source.resolve()),
            "kind": kind.name,
            "seed": SEED,
            "shapes": {k: list(v) for k, v in (settings["shapes"] or {}).items()},
            "model": str(Path(folder, "model.onnx")),
            "reference": str(Path(folder, "reference.npz")),
            "answer": str(Path(folder, "answer.json")),
        }
        answer = _run(kind, request, interpreter)
        model = onnx.load(str(request["model"]))
        _refuse_unknown(model, source)
        name_ports(model, answer.get("inputs", {}), answer.get("outputs", ()))
        inputs, outputs = ran_with(Path(str(request["reference"])))
        model = tidied(model, {name: x.shape for name, x in inputs.items()}, [x.shape for x in outputs])
        made = _compared(model, inputs, outputs, kind, platform)
    notes = (
        *answer.get("notes", ()),
        *made.notes,
        *layout_notes(made.model, kind.framework == "tf2onnx"),
        *parser_notes(made.model, platform),
    )
    return Converted(
        made.model.SerializeToString(),
        str(source),
        kind.name,
        answer["framework"],
        answer["exporter"],
        opset_of(made.model),
        made.rel_l2,
        made.max_abs,
        notes,
        made.tolerance,
        made.cache,
    )


def _refuse_unknown(model: Any, source: Path) -> None:
    """Raises ModelError if the exporter left operators of the framework: tf2onnx only logs them and continues."""
    import onnx

    unknown = {n.op_type: n.name for n in model.graph.node if n.domain in _ONNX and not onnx.defs.has(n.op_type)}
    if unknown:
        raise ModelError(
            f"ONNX has no operators for {', '.join(f'{kind} ({name})' for kind, name in sorted(unknown.items()))}",
            where=str(source),
            hint="--outputs ends a frozen graph before them; of another format, save the network without them",
        )


_ONNX = ("", "ai.onnx")


def _compared(model: Any, inputs: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray], kind: Kind, platform: Any) -> Finished:
    if not outputs:
        return Finished(model, None, None, tolerance_of(model), notes=("not compared with its source",))
    if kind.framework == "tf2onnx" and has_qdq(model):
        return finished(model, inputs, outputs, platform)
    return Finished(model, *worst_difference(model, inputs, outputs), tolerance_of(model))


def _checked(source: Union[str, Path, Any], shapes: Optional[Mapping[str, Sequence[int]]], trust: bool) -> Kind:
    if not isinstance(source, (str, os.PathLike)):
        raise UsageError(f"a {type(source).__name__} is not a model that can be converted", allowed=_ALLOWED)
    path = Path(source)
    if not path.exists():
        raise ModelError("no such file or folder", where=str(path), hint=f"the current folder is {Path.cwd()}")
    kind = kind_of(path)
    if kind is None:
        hint = "a SavedModel's folder holds saved_model.pb" if path.is_dir() else None
        if path.name == "saved_model.pb":
            hint = f"name the SavedModel's folder: {path.parent}"
        raise UsageError("not a model of another framework", where=str(path), allowed=_ALLOWED, hint=hint)
    damage = damage_of(path, kind)
    if damage is not None:
        raise ModelError(f"not {kind.title}: {damage}", where=str(path), hint="save or copy it again")
    if kind.runs_code and not trust:
        raise UsageError(
            f"{kind.title}: loading it runs code in the file",
            where=str(path),
            hint="`edgedla convert --trust` loads it; or save it as a program: "
            'torch.export.save(torch.export.export(module, inputs), "model.pt2"), or model.save("model.keras")',
        )
    if kind.needs_shapes and not shapes:
        raise UsageError(
            f"{kind.title} does not say the sizes of its inputs", where=str(path), hint="give them: --shapes 1x3x224x224"
        )
    return kind


def _run(kind: Kind, request: Mapping[str, Any], interpreter: _Interpreter) -> Dict[str, Any]:
    """Runs the framework's program and returns its answer."""
    python, timeout_s = interpreter
    program = Path(__file__).with_name("frameworks") / kind.program
    request_file = Path(str(request["answer"])).with_name("request.json")
    request_file.write_text(json.dumps(request), encoding="utf-8")
    try:
        done = subprocess.run(
            [python, str(program), str(request_file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            cwd=request_file.parent,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"its conversion took longer than {timeout_s:g} s",
            where=str(request["source"]),
            hint="export it to ONNX by the framework's own exporter, or give more time: edgedla.convert(timeout_s=...)",
        ) from None
    except OSError as e:
        raise EnvironmentMissing(f"the interpreter cannot be started: {e.strerror}", where=python) from e
    last = _reason(done.stdout.decode("utf-8", "replace")) or f"exit code {done.returncode}"
    if done.returncode == 0 and Path(str(request["answer"])).is_file() and Path(str(request["model"])).is_file():
        answer: Dict[str, Any] = json.loads(Path(str(request["answer"])).read_text(encoding="utf-8"))
        return answer
    if "ModuleNotFoundError" in last or "ImportError" in last:
        raise EnvironmentMissing(
            f"{kind.title} needs {kind.framework}: {last}",
            where=python,
            hint=f"pip install {_INSTALLS[kind.framework]}, or name an interpreter that has it: " "edgedla convert --python",
        )
    hint = next((hint for form, hint in _HINTS if re.search(form, last)), _OPEN_SIZES if kind.name == "paddle" else None)
    raise ModelError(f"it cannot be converted: {last}", where=str(request["source"]), hint=hint)


def _reason(output: str) -> str:
    """The last line about an error, else the last line; paddle2onnx prints its errors in colour, and warnings after them."""
    lines = [_COLOURS.sub("", line).strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\w*(Error|Exception)\b|\[ERROR\]", line) and not _ABORTED.search(line)]
    return (errors or lines or [""])[-1][:_ERROR_CHARACTERS].replace("ValueError: ", "")


#: Pattern of an error -> what to do.
_HINTS: Sequence[Tuple[str, str]] = (
    ("Could not locate class", "save it by model.export(FOLDER): a SavedModel needs none of the classes"),
    ("weights alone have no graph", "export where its code is: optimum-cli export onnx, or tools/deploy.py of MMDeploy"),
    ("`Lambda` layer|holds more than a network", "`edgedla convert --trust` loads it"),
)
_OPEN_SIZES = (
    "paddle2onnx lacks some operators where sizes are open; if they are, save the model with fixed ones: "
    "paddle.jit.save(..., input_spec=[paddle.static.InputSpec([1, 3, 224, 224])])"
)
#: Lines that paddle2onnx prints after the reason when its C++ code aborts.
_ABORTED = re.compile("`Process abort signal`|Error Message Summary")
_COLOURS = re.compile(r"\x1b?\[[0-9;]*m")
_TITLES: Mapping[str, str] = {"torch": "PyTorch", "paddle2onnx": "Paddle", "ultralytics": "Ultralytics"}
_INSTALLS: Mapping[str, str] = {
    "torch": "'edgedla[torch]'",
    "tf2onnx": "'edgedla[tensorflow]'",
    "paddle2onnx": "'edgedla[paddle]'",
    "ultralytics": "ultralytics onnx (Ultralytics is under the AGPL)",
}


def ran_with(reference: Path) -> Tuple[Dict[str, np.ndarray], List[np.ndarray]]:
    """(inputs by name, outputs) of the framework's run; ({}, []) if it did not run."""
    if not reference.is_file():
        return {}, []
    arrays = np.load(str(reference), allow_pickle=False)
    inputs = {n[3:]: arrays[n] for n in arrays.files if n.startswith("in:")}
    return inputs, [arrays[n] for n in arrays.files if n.startswith("out:")]
