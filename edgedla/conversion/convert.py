"""`convert`: a model of another framework as ONNX that the target's parser reads, compared with its source."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.conversion.kinds import KINDS, Kind, kind_of
from edgedla.errors import EnvironmentMissing, ModelError, UsageError
from edgedla.files import write_atomic
from edgedla.targets import platform_for

#: The newest operator set that all parsers read rightly: those of TensorRT 8 take the axes of operator set 18's reductions
#: for absent (sources in rules/, parser releases).
OPSET = 17
SEED = 7
#: Largest relative L2 difference that is rounding; above it the conversion is not the same network.
TOLERANCE = 1e-4
EXPORTERS = ("auto", "torchscript", "dynamo")
_ERROR_CHARACTERS = 400


@dataclass(frozen=True)
class Converted:
    """A converted model.

    Attributes:
        model: serialised onnx.ModelProto. opset: of it.
        rel_l2, max_abs: against the source framework on seeded input, the worst output; None where nothing was compared.
        framework, exporter: with their versions.
    """

    model: bytes
    source: str
    kind: str
    framework: str
    exporter: str
    opset: int
    rel_l2: Optional[float]
    max_abs: Optional[float]
    notes: Tuple[str, ...] = ()

    @property
    def within(self) -> Optional[bool]:
        """Whether the difference is rounding; None where nothing was compared."""
        return None if self.rel_l2 is None else self.rel_l2 <= TOLERANCE

    def save(self, path: Union[str, Path]) -> Path:
        return write_atomic(path, self.model)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "source": self.source, "kind": self.kind, "framework": self.framework, "exporter": self.exporter,
            "opset": self.opset, "rel_l2": self.rel_l2, "max_abs": self.max_abs, "within": self.within,
            "notes": list(self.notes),
        }  # fmt: skip


def convert(
    source: Union[str, Path],
    *,
    target: str = "agx-orin-64gb",
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    opset: Optional[int] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    trust: bool = False,
    exporter: str = "auto",
    python: Optional[str] = None,
    timeout_s: float = 900.0,
) -> Converted:
    """A model of another framework as ONNX. It is loaded in a process of its own.

    Args:
        source: .pt2, TorchScript (.pt, .ts), a pickled module (.pt, .pth), a SavedModel folder, .keras, .h5, .tflite,
            .pdmodel.
        target, jetpack, trt: what has to read it; decides the operator set.
        opset: another operator set.
        shapes: sizes of inputs by name, in order; "" names the only one. Where the source says none, they are needed.
        trust: load a file whose loading runs code that stands in it.
        exporter: of PyTorch: "torchscript", "dynamo" (operator set 18 or newer), "auto": the first, else the second.
        python: interpreter that has the framework; this one by default.

    Raises:
        UsageError: no such model, missing shapes, or a file that runs code without `trust`.
        EnvironmentMissing: the framework is not installed. ModelError: it cannot be loaded or converted.
    """
    kind = _checked(source, shapes, trust, exporter)
    platform = platform_for(target, jetpack=jetpack, trt=trt)
    wanted = opset if opset is not None else OPSET
    with tempfile.TemporaryDirectory(prefix="edgedla-convert-") as folder:
        request = {
            "source": str(Path(source).resolve()), "kind": kind.name, "opset": wanted, "seed": SEED, "trust": trust,
            "exporter": exporter, "shapes": {k: list(v) for k, v in (shapes or {}).items()},
            "model": str(Path(folder, "model.onnx")), "reference": str(Path(folder, "reference.npz")),
            "answer": str(Path(folder, "answer.json")),
        }  # fmt: skip
        answer = _run(kind, request, python or sys.executable, timeout_s)
        model = _tidied(Path(str(request["model"])))
        rel_l2, max_abs = _compared(model, Path(str(request["reference"])))
    found = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 0)
    notes: List[str] = []
    if found > OPSET and platform.release.trt < (10,):
        notes.append(
            f"operator set {found}: TensorRT {platform.release.trt_text} reads reductions of 18 and newer wrongly; "
            f"`edgedla fix --opset {OPSET}` converts it"
        )
    if rel_l2 is None:
        notes.append("not compared with its source")
    return Converted(
        model.SerializeToString(), str(source), kind.name, answer["framework"], answer["exporter"], found, rel_l2,
        max_abs, tuple(notes),
    )  # fmt: skip


def _checked(
    source: Union[str, Path], shapes: Optional[Mapping[str, Sequence[int]]], trust: bool, exporter: str
) -> Kind:
    path = Path(source)
    if not path.exists():
        raise UsageError("no such file or folder", where=str(path))
    kind = kind_of(path)
    if kind is None:
        raise UsageError("no model of another framework", where=str(path),
                         allowed=", ".join(k.title for k in KINDS.values()))  # fmt: skip
    if exporter not in EXPORTERS:
        raise UsageError(f"unknown exporter {exporter!r}", where="--exporter", allowed=", ".join(EXPORTERS))
    if kind.runs_code and not trust:
        raise UsageError(
            f"{kind.title}: loading it runs code that stands in the file", where=str(path),
            hint="--trust loads it; or save it as a program: torch.export.save(torch.export.export(module, inputs), "
            '"model.pt2"), or model.save("model.keras")',
        )  # fmt: skip
    if kind.needs_shapes and not shapes:
        raise UsageError(f"{kind.title} does not say the sizes of its inputs", where=str(path),
                         hint="give them: --shapes 1x3x224x224")  # fmt: skip
    return kind


def _run(kind: Kind, request: Mapping[str, Any], python: str, timeout_s: float) -> Dict[str, str]:
    """Runs the framework's program; its answer."""
    program = Path(__file__).with_name("frameworks") / kind.program
    asked = Path(str(request["answer"])).with_name("request.json")
    asked.write_text(json.dumps(request), encoding="utf-8")
    try:
        done = subprocess.run(
            [python, str(program), str(asked)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=timeout_s,
            cwd=asked.parent, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ModelError(f"its conversion took longer than {timeout_s:g} s", where=str(request["source"])) from None
    except OSError as e:
        raise EnvironmentMissing(f"the interpreter cannot be started: {e.strerror}", where=python) from e
    lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1][:_ERROR_CHARACTERS] if lines else f"exit code {done.returncode}"
    if done.returncode == 0 and Path(str(request["answer"])).is_file() and Path(str(request["model"])).is_file():
        answer: Dict[str, str] = json.loads(Path(str(request["answer"])).read_text(encoding="utf-8"))
        return answer
    if "ModuleNotFoundError" in last or "ImportError" in last:
        raise EnvironmentMissing(
            f"{kind.title} needs {kind.framework}: {last}", where=python,
            hint=f"pip install 'edgedla[{_EXTRAS[kind.framework]}]', or name an interpreter that has it: --python",
        )  # fmt: skip
    raise ModelError(f"it cannot be converted: {last}", where=str(request["source"]))


_EXTRAS: Mapping[str, str] = {"torch": "torch", "tf2onnx": "tensorflow", "paddle2onnx": "paddle"}


def _tidied(path: Path) -> Any:
    """The model with its shapes worked out; one file, with its weights."""
    import onnx

    model = onnx.load(str(path))
    try:
        # 2 GiB is protobuf's limit, and so that of shape inference in memory.
        return onnx.shape_inference.infer_shapes(model) if path.stat().st_size < (1 << 30) else model
    except Exception:
        # Shapes are a convenience: the importer works them out itself.
        return model


def _compared(model: Any, reference: Path) -> Tuple[Optional[float], Optional[float]]:
    """(relative L2, largest difference) of the worst output; (None, None) where the framework gave no reference."""
    if not reference.is_file():
        return None, None
    from edgedla.quantization.session import open_session

    arrays = np.load(str(reference), allow_pickle=False)
    given = [arrays[n] for n in arrays.files if n.startswith("in:")]
    wanted = [arrays[n] for n in arrays.files if n.startswith("out:")]
    session = open_session(model.SerializeToString())
    names = [entry.name for entry in session.get_inputs()]
    by_name = {n[3:]: arrays[n] for n in arrays.files if n.startswith("in:")}
    feed = by_name if set(names) == set(by_name) else dict(zip(names, given))
    found = session.run(None, feed)
    if sorted(f.shape for f in found) != sorted(w.shape for w in wanted):
        raise ModelError(
            f"the converted model gives {[list(f.shape) for f in found]}, its source {[list(w.shape) for w in wanted]}"
        )
    worst, largest = 0.0, 0.0
    for want in wanted:
        # tf2onnx keeps the names of outputs, not always their order.
        pairs = [_difference(want, f) for f in found if f.shape == want.shape]
        rel_l2, max_abs = min(pairs)
        worst, largest = max(worst, rel_l2), max(largest, max_abs)
    return float(f"{worst:.3g}"), float(f"{largest:.3g}")


def _difference(want: np.ndarray, found: np.ndarray) -> Tuple[float, float]:
    a, b = want.astype(np.float64), found.astype(np.float64)
    norm, error = float(np.linalg.norm(a)), float(np.linalg.norm(b - a))
    return (error / norm if norm > 0 else error), float(np.abs(b - a).max()) if a.size else 0.0
