"""How far a simulated network is from ONNX Runtime in FP32."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.builder.plan.plan import BuildPlan, Calibration
from edgedla.errors import RunError
from edgedla.preprocess.pictures import open_samples
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.samples import InputSpec, Samples
from edgedla.quantization.session import model_input_specs

if TYPE_CHECKING:
    from onnx import ModelProto

#: Stated tolerance: relative L2 error ||y - y_fp32|| / ||y_fp32|| of each output. FP16 rounds to 11 bits, so a deep
#: network stays well below one percent; INT8 by absmax has 8 bits for the largest value ever seen.
TOLERANCE_REL_L2 = {"fp16": 0.005, "int8": 0.1}


#: Samples that the error is measured on; other seeds than those of synthetic calibration.
CHECK_SAMPLES, CHECK_SEED = 2, 1000


@dataclass(frozen=True)
class OutputError:
    """How far one output is from ONNX Runtime in FP32, over all checked samples.

    Attributes:
        rel_l2: ||y - y_fp32|| / ||y_fp32||. max_abs: largest absolute difference. cosine: similarity, 1 is equal.
        same: share of equal elements, for integer outputs (indices, classes); None for floats.
    """

    name: str
    rel_l2: float
    max_abs: float
    cosine: float
    same: Optional[float] = None

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "rel_l2": _rounded(self.rel_l2),
            "max_abs": _rounded(self.max_abs),
            "cosine": _rounded(self.cosine),
            "same": self.same,
        }


def accuracy_of(
    errors: List[OutputError],
    checked: Samples,
    plan: BuildPlan,
    calibration: Calibration,
    own_types: Set[type],
    nodes: Mapping[str, int],
) -> Dict[str, Any]:
    """The measured errors as an artifact states them.

    Args:
        own_types: NumPy types of the model's floating-point inputs. nodes: ONNX nodes by simulated precision.
    """
    tolerance = TOLERANCE_REL_L2[plan.precision]
    worst = max((e.rel_l2 for e in errors), default=0.0)
    # Scales of real data clip random input, which says nothing about either.
    comparable = not (checked.synthetic and calibration.source in ("data", "cache"))
    # Few samples are better used for the scales than held back from them, but then it is to be said.
    seen = "" if checked.synthetic or calibration.source != "data" else "; the scales were measured on them too"
    return {
        "reference": "ONNX Runtime FP32" if own_types <= {np.float32} else "ONNX Runtime in the model's own types",
        "samples": checked.detail + seen,
        "synthetic_samples": checked.synthetic,
        "tolerance_rel_l2": tolerance,
        "worst_rel_l2": _rounded(worst),
        "within": bool(worst <= tolerance) if comparable else None,
        "outputs": [e.to_dict() for e in errors],
        "nodes": dict(nodes),
    }


def check_samples(
    static: ModelProto, data: Optional[Path], preprocess: Optional[PreprocessSettings] = None
) -> Optional[Samples]:
    """The last of the user's samples, where there are any: those that the error is measured on."""
    if data is None:
        return None
    return loaded_samples(data, model_input_specs(static), preprocess)


def loaded_samples(data: Path, specs: Sequence[InputSpec], preprocess: Optional[PreprocessSettings] = None) -> Samples:
    """The last of the user's samples, for inputs of these types and sizes."""
    loaded = open_samples(data, specs, preprocess)
    last = loaded.feeds[-CHECK_SAMPLES:]
    return Samples(tuple(last), False, f"the last {len(last)} of {loaded.detail}")


def outputs_of(session: Any, feeds: Sequence[Dict[str, np.ndarray]]) -> Dict[str, List[np.ndarray]]:
    """Every output of a session by name, one array for each feed."""
    names = [o.name for o in session.get_outputs()]
    values = [session.run(names, feed) for feed in feeds]
    return {name: [np.asarray(v[k]) for v in values] for k, name in enumerate(names)}


def output_errors(
    wanted: Mapping[str, List[np.ndarray]], session: Any, feeds: Sequence[Dict[str, np.ndarray]]
) -> List[OutputError]:
    """The error of every output, over all feeds together.

    Args:
        wanted: what `outputs_of` gives for the reference.
    """
    names = list(wanted)
    values = [session.run(names, feed) for feed in feeds]
    return [
        output_error(name, list(zip(wanted[name], (np.asarray(v[k]) for v in values)))) for k, name in enumerate(names)
    ]


def output_error(name: str, pairs: List[Tuple[np.ndarray, np.ndarray]]) -> OutputError:
    """Raises RunError where shapes differ or a value is not finite where the reference's is."""
    if any(w.shape != g.shape for w, g in pairs):
        # Box selection (NMS) gives another number of rows as soon as one score moves.
        return OutputError(name, 1.0, float("inf"), 0.0, 0.0)
    want = np.concatenate([w.reshape(-1) for w, _ in pairs])
    got = np.concatenate([g.reshape(-1) for _, g in pairs])
    if not np.issubdtype(want.dtype, np.floating):
        same = float(np.mean(want == got)) if want.size else 1.0
        return OutputError(name, 1.0 - same, 0.0 if same == 1.0 else float("inf"), same, same)
    want, got = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(want)
    if not np.isfinite(got[finite]).all():
        raise RunError(f"output {name!r} is not finite in the simulated precision", hint="values exceed FP16's 65504")
    want, got = want[finite], got[finite]
    norm = float(np.linalg.norm(want))
    difference = got - want
    rel = float(np.linalg.norm(difference)) / norm if norm > 0 else float(np.linalg.norm(difference))
    product = norm * float(np.linalg.norm(got))
    cosine = float(np.dot(want, got)) / product if product > 0 else float(norm == 0)
    return OutputError(name, rel, float(np.abs(difference).max()) if want.size else 0.0, cosine)


def _rounded(value: float) -> Optional[float]:
    """Six digits; infinity, which JSON lacks, becomes None."""
    return float(f"{value:.6g}") if np.isfinite(value) else None
