"""The error of a simulated network against ONNX Runtime in FP32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Set

import numpy as np

from edgedla.builder.plan.plan import BuildPlan, Calibration
from edgedla.errors import RunError
from edgedla.preprocess.pictures import open_samples
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.dot import dot
from edgedla.quantization.samples import InputSpec, Samples
from edgedla.quantization.session import model_input_specs
from edgedla.text.printable import digits

if TYPE_CHECKING:
    from onnx import ModelProto

#: Stated tolerance: relative L2 error ||y - y_fp32|| / ||y_fp32|| of each output. FP16 rounds to 11 bits, so a deep
#: network stays well below one percent; INT8 by absmax has 8 bits for the largest value ever seen.
TOLERANCE_REL_L2 = {"fp16": 0.005, "int8": 0.1}


#: Number of samples for the error, and their first seed, which differs from the seeds of synthetic calibration.
CHECK_SAMPLES, CHECK_SEED = 2, 1000
#: Elements per comparison step, which bounds the memory.
PIECE_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class OutputError:
    """The error of one output against ONNX Runtime in FP32, over all checked samples.

    Attributes:
        rel_l2: ||y - y_fp32|| / ||y_fp32||. max_abs: largest absolute difference. cosine: similarity, 1 is equal.
        same: share of equal elements, for integer outputs (indices, classes); None for floats.
        All are NaN if the FP32 output itself has no finite values to compare with.
    """

    name: str
    rel_l2: float
    max_abs: float
    cosine: float
    same: Optional[float] = None

    def to_dict(self) -> Dict[str, Any]:
        return {**vars(self), **{name: digits(getattr(self, name)) for name in ("rel_l2", "max_abs", "cosine")}}


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
    finite = [e.rel_l2 for e in errors if not math.isnan(e.rel_l2)]
    worst = max(finite, default=math.nan if errors else 0.0)
    # Scales of real data clip random input, so this error says nothing about real accuracy.
    comparable = not (checked.synthetic and calibration.source in ("data", "cache", "qdq"))
    # An all-NaN output, for example from NaN weights, cannot be compared. The other outputs can still show a failure.
    comparable = comparable and (len(finite) == len(errors) or worst > tolerance)
    # Few samples serve calibration better than a held-back test set, but the report must say so.
    same_samples = "" if checked.synthetic or calibration.source != "data" else "; the scales were measured on them too"
    return {
        "reference": "ONNX Runtime FP32" if own_types <= {np.float32} else "ONNX Runtime in the model's own types",
        "samples": checked.detail + same_samples,
        "synthetic_samples": checked.synthetic,
        "tolerance_rel_l2": tolerance,
        "worst_rel_l2": digits(worst),
        "within": bool(worst <= tolerance) if comparable else None,
        "outputs": [e.to_dict() for e in errors],
        "nodes": dict(nodes),
    }


def check_samples(static: ModelProto, data: Optional[Path], preprocess: Optional[PreprocessSettings] = None) -> Optional[Samples]:
    """The user's last samples, on which the error is measured; None if there are none."""
    if data is None:
        return None
    return loaded_samples(data, model_input_specs(static), preprocess)


def loaded_samples(data: Path, specs: Sequence[InputSpec], preprocess: Optional[PreprocessSettings] = None) -> Samples:
    """The user's last samples, for inputs of these types and sizes."""
    loaded = open_samples(data, specs, preprocess)
    last = loaded.feeds[-CHECK_SAMPLES:]
    return Samples(tuple(last), False, f"the last {len(last)} of {loaded.detail}")


def outputs_of(session: Any, feeds: Sequence[Dict[str, np.ndarray]]) -> Dict[str, List[np.ndarray]]:
    """Every output of a session by name, one array for each feed."""
    names = [o.name for o in session.get_outputs()]
    values = [session.run(names, feed) for feed in feeds]
    return {name: [np.asarray(v[k]) for v in values] for k, name in enumerate(names)}


def output_errors(
    expected: Mapping[str, List[np.ndarray]], session: Any, feeds: Sequence[Dict[str, np.ndarray]]
) -> List[OutputError]:
    """The error of every output, over all feeds together.

    Args:
        expected: the reference's outputs, from `outputs_of`.
    """
    sums = {name: ErrorSum(name) for name in expected}
    for i, feed in enumerate(feeds):
        for name, got in zip(sums, session.run(list(sums), feed)):
            sums[name].add(expected[name][i], np.asarray(got))
    return [total.error() for total in sums.values()]


class ErrorSum:
    """Adds up the error of one output per sample and in pieces: segmentation outputs have millions of elements."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = self.equal = 0
        self.floating = self.same_shapes = True
        #: True if the reference has a value that is NaN or infinite.
        self.blind = False
        self.want2 = self.got2 = self.difference2 = self.product = self.most = 0.0

    def add(self, want: np.ndarray, got: np.ndarray) -> None:
        """Raises RunError if a value is NaN or infinite where the reference's is finite."""
        # Box selection (NMS) may give another number of rows after a small change of one score.
        self.same_shapes = self.same_shapes and want.shape == got.shape
        self.floating = self.floating and bool(np.issubdtype(want.dtype, np.floating))
        want, got = want.reshape(-1), got.reshape(-1)
        for at in range(0, want.size if self.same_shapes else 0, PIECE_ELEMENTS):
            piece = slice(at, at + PIECE_ELEMENTS)
            (self._add_floats if self.floating else self._add_others)(want[piece], got[piece])

    def _add_others(self, want: np.ndarray, got: np.ndarray) -> None:
        self.count += want.size
        self.equal += int(np.count_nonzero(want == got))

    def _add_floats(self, want: np.ndarray, got: np.ndarray) -> None:
        want, got = want.astype(np.float64), got.astype(np.float64)
        finite = np.isfinite(want)
        if not np.isfinite(got[finite]).all():
            raise RunError(
                f"output {self.name!r} is not finite in the simulated precision",
                hint="values exceed FP16's 65504; for TensorRT 11 `edgedla fix MODEL --data SAMPLES` leaves such nodes in FP32",
            )
        self.blind = self.blind or not finite.all()
        want, got = want[finite], got[finite]
        if want.size:
            self.count += want.size
            difference = got - want
            self.most = max(self.most, float(np.abs(difference).max()))
            self.want2 += dot(want, want)
            self.got2 += dot(got, got)
            self.difference2 += dot(difference, difference)
            self.product += dot(want, got)

    def error(self) -> OutputError:
        if not self.same_shapes:
            return OutputError(self.name, 1.0, float("inf"), 0.0, 0.0)
        if not self.floating:
            same = self.equal / self.count if self.count else 1.0
            return OutputError(self.name, 1.0 - same, 0.0 if same == 1.0 else float("inf"), same, same)
        if self.blind and not self.count:
            return OutputError(self.name, math.nan, math.nan, math.nan)
        norm, norms = math.sqrt(self.want2), math.sqrt(self.want2) * math.sqrt(self.got2)
        rel = math.sqrt(self.difference2) / norm if norm > 0 else math.sqrt(self.difference2)
        return OutputError(self.name, rel, self.most, self.product / norms if norms > 0 else float(norm == 0))
