"""The result of `quantize`: scales, coverage, errors by tensor and steps, and its document and files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.accuracy.channels.measure import ChannelGroup
from edgedla.accuracy.evaluate import Score
from edgedla.accuracy.fp16_care import Fp16Finding
from edgedla.accuracy.state import Step
from edgedla.accuracy.triage import TensorError
from edgedla.arguments import typed
from edgedla.builder.plan.from_quantization import CACHE, MODEL, PAGE, PRECISIONS, REPORT
from edgedla.errors import UsageError
from edgedla.io.documents import document_in, header
from edgedla.io.files import sha256_of, sha256_of_bytes, usable_folder
from edgedla.io.publishing import publication
from edgedla.quantization.coverage import Coverage
from edgedla.text.printable import digits
from edgedla.text.shown import Shown

#: Most groups of channels that the document lists.
WORST_GROUPS = 20
#: What the document says of a tensor's error, and of its scale.
_OF_ERRORS = tuple("tensor absmax best alone_db best_db loss_db output_share accumulated_db cosine suspect".split())
_OF_TENSORS = ("tensor", "absmax", "origin", "rule", "why")
#: Name in place of a calibration method if the ranges come from a cache or the model itself.
GIVEN = "given ranges"


@dataclass(frozen=True)
class HistogramPicture:
    """Counts of |x| in equal bins over [0, top], for a drawing; `thresholds` by method."""

    tensor: str
    top: float
    counts: Tuple[float, ...]
    thresholds: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class Quantized(Shown):
    """A network's INT8 scales for one platform and what they cost. Every error is simulated with ONNX Runtime.

    Attributes:
        absmax: tensor -> range for the DLA; scale = range / 127. method: how the ranges were chosen.
        precisions: layer -> "fp16". devices: layer -> "GPU".
        sqnr_db: SQNR of the outputs on held-out samples. methods: the same by calibration method, for comparison.
        scores: the metric in FP32 and of the simulated network; None without a metric.
        channels: groups of channels at the outputs, the worst first; dead: those below the floor that was asked for. forced: the
            user takes the result in spite of them. revived: those that `split-shared-scale` gave back, with their figures before it.
        met: whether the samples show that the goal is met; None without a goal. not_shown: why they do not, if no figure
            misses it.
        predicted_us: predicted times: "int8": all layers as built; "extra": added by the steps; "missing": lost by missing
            scales; "fp16": all layers in FP16 on the DLA.
        missing_us: tensor without a scale -> predicted time that its layers lose in FP16; layers on the GPU lose nothing.
        cache: text of the calibration cache; "" for TensorRT 11. model: the changed ONNX model, serialised; None if unchanged.
        preprocess: how the pictures became inputs (PreprocessSettings.to_dict); None for arrays. `build` takes it from the folder.
        judged: the samples that decided on steps. If they are those of `holdout`, its numbers are optimistic.
        identity: {"name", "sha256", "external"} of the original model, see model_identity.
    """

    network: str
    platform: Mapping[str, Any]
    method: str
    samples: str
    synthetic: bool
    holdout: str
    absmax: Mapping[str, float]
    coverage: Coverage
    errors: Tuple[TensorError, ...]
    fp16: Tuple[Fp16Finding, ...]
    steps: Tuple[Step, ...]
    sqnr_db: float
    methods: Mapping[str, float]
    nodes: Mapping[str, int]
    precisions: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    scores: Tuple[Score, ...] = ()
    goal: str = ""
    met: Optional[bool] = None
    not_shown: str = ""
    channels: Tuple[ChannelGroup, ...] = ()
    dead: Tuple[ChannelGroup, ...] = ()
    revived: Tuple[ChannelGroup, ...] = ()
    forced: bool = False
    predicted_us: Mapping[str, float] = field(default_factory=dict)
    missing_us: Mapping[str, float] = field(default_factory=dict)
    histograms: Tuple[HistogramPicture, ...] = ()
    notes: Tuple[str, ...] = ()
    cache: str = ""
    model: Optional[bytes] = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    judged: str = ""
    preprocess: Optional[Mapping[str, Any]] = None

    def to_dict(self) -> Dict[str, Any]:
        """The document edgedla.quantization/1."""
        return {
            **header("edgedla.quantization"),
            "network": self.network,
            **({"model": self._built_model()} if self.identity else {}),
            "platform": dict(self.platform),
            "basis": "simulated",
            "method": self.method,
            "samples": {
                "calibration": self.samples,
                "held_out": self.holdout,
                "synthetic": self.synthetic,
                **({"judged": self.judged} if self.judged else {}),
            },
            **({} if self.preprocess is None else {"preprocess": dict(self.preprocess)}),
            "sqnr_db": digits(self.sqnr_db),
            "methods": {name: digits(value) for name, value in self.methods.items()},
            "goal": {"text": self.goal, "met": self.met, "not_shown": self.not_shown},
            "channels": {
                "worst": [g.to_dict() for g in self.channels[:WORST_GROUPS]],
                "dead": [g.to_dict() for g in self.dead],
                "revived": [g.to_dict() for g in self.revived],
                "forced": self.forced and bool(self.dead),
            },
            "scores": [s.to_dict() for s in self.scores],
            "nodes": dict(self.nodes),
            "precisions": dict(self.precisions),
            "devices": dict(self.devices),
            "predicted_us": {name: digits(value) for name, value in self.predicted_us.items()},
            "coverage": {
                "counts": dict(self.coverage.counts),
                "tensors": [
                    {**_row(t, _OF_TENSORS), "layers": list(t.layers), "lost_us": digits(self.missing_us.get(t.tensor, 0.0))}
                    for t in self.coverage.tensors
                ],
            },
            **self._rows(),
            "notes": list(self.notes),
        }

    def _rows(self) -> Dict[str, Any]:
        """Errors by tensor, findings in FP16, steps of the repair, and histograms."""
        return {
            "errors": [_row(e, _OF_ERRORS) for e in self.errors],
            "fp16": [_row(f, ("tensor", "problem", "absmax", "sqnr_db", "shift")) for f in self.fp16],
            "steps": [_row(s, ("name", "detail", "before_db", "sqnr_db", "kept", "extra_us")) for s in self.steps],
            "histograms": [
                {
                    "tensor": h.tensor,
                    "top": digits(h.top),
                    "counts": [digits(c) for c in h.counts],
                    "thresholds": {k: digits(v) for k, v in h.thresholds.items()},
                }
                for h in self.histograms
            ],
        }

    def _built_model(self) -> Dict[str, Any]:
        """Identity of the model that the scales are for: the original or the changed one."""
        if self.model is None:
            return {key: self.identity[key] for key in ("name", "sha256", "external")}
        return {"name": self.identity["name"], "sha256": sha256_of_bytes(self.model), "external": {}}

    @property
    def layer_precisions(self) -> str:
        """trtexec's --layerPrecisions argument; "" if all layers are in INT8."""
        return ",".join(f"{name}:{value}" for name, value in sorted(self.precisions.items()))

    @typed
    def save(self, folder: Union[str, Path], more: Mapping[str, str] = {}) -> Tuple[Path, ...]:
        """Writes calib.cache, layer-precisions.txt, model.onnx (if it changed) and quantization.json.

        Args:
            more: file name -> text, for example the report as a page.

        Returns:
            The paths; all appear together, quantization.json last.

        Raises:
            UsageError: the folder holds a model.onnx that `quantize` did not write.
        """
        require_no_foreign_model(Path(folder), self.model)
        root = usable_folder(folder)
        files: Dict[str, Union[str, bytes]] = {}
        if self.cache:
            files[CACHE] = self.cache
        if self.precisions:
            files[PRECISIONS] = self.layer_precisions + "\n"
        if self.model is not None:
            files[MODEL] = self.model
        files.update(more)
        files[REPORT] = json.dumps(self.to_dict(), indent=1) + "\n"
        return publish_result(root, files)


def _row(value: object, names: Sequence[str]) -> Dict[str, Any]:
    """Attributes of a value by their names, numbers with a fraction to six digits."""
    found = {name: getattr(value, name) for name in names}
    return {name: digits(float(x)) if isinstance(x, (float, np.floating)) else x for name, x in found.items()}


def publish_result(folder: Path, files: Mapping[str, Union[str, bytes]]) -> Tuple[Path, ...]:
    """Writes the files, all together, in place of those of an earlier run; returns their paths."""
    # Without its report a page is none of `quantize`.
    earlier = (CACHE, PRECISIONS, MODEL, *((PAGE, REPORT) if (folder / REPORT).is_file() else ()))
    with publication() as out:
        for name in earlier:
            if name not in files:
                # It would be mistaken for part of this result.
                out.remove(folder / name)
        for name, content in files.items():
            out.write(folder / name, content, follow=False)
    return tuple(out.paths)


def scores_of(names: Sequence[Tuple[str, str]], metric: Any, values: Sequence[Sequence[Any]]) -> Tuple[Score, ...]:
    """One Score per network. `names`: (name, basis)."""
    scores = []
    for (name, basis), column in zip(names, values):
        low, high = metric.interval(column)
        scores.append(Score(name, basis, metric.name, metric.figure(column), low, high, len(column), tuple(column)))
    return tuple(scores)


def require_no_foreign_model(folder: Path, written: Optional[bytes] = None) -> None:
    """Checks that a save does not replace a model.onnx that edgedla did not write.

    Args:
        written: the bytes to write; a model.onnx with the same content is accepted.

    Raises:
        UsageError: the folder holds a model.onnx that no earlier result wrote.
    """
    model = folder / MODEL
    if not model.is_file():
        return
    of_report = (document_in(str(folder / REPORT)) or {}).get("model")
    ours = of_report.get("sha256") if isinstance(of_report, dict) else None
    if sha256_of(model) not in (ours, None if written is None else sha256_of_bytes(written)):
        raise UsageError(
            f"the folder holds a {MODEL} that `edgedla quantize` did not write, and may have to write its own there",
            where=str(folder),
            hint=f"-o {folder / 'scales'}, or another folder",
        )
