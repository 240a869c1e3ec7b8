"""Searches the levels in order: tries, predicts and scores each step, and keeps it only if it helps."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, List, Mapping, Optional, Tuple

from edgedla.arguments import Progress
from edgedla.deployment.budget import Budget
from edgedla.deployment.candidate import WORTH_ACCURACY, Candidate
from edgedla.deployment.request import APPROXIMATE
from edgedla.deployment.steps import MODEL, PLACEMENT, Steps
from edgedla.deployment.store import Step
from edgedla.errors import BudgetSpent, BuildError, DataError, EnvironmentMissing, ModelError, RunError, UsageError
from edgedla.io.files import sha256_of
from edgedla.regions.float16_model import AS_FP16
from edgedla.targets import platform_for
from edgedla.text.printable import Fields

#: Newest opset that all releases read correctly: parsers before TensorRT 10 read reductions of opset 18 wrongly.
SAFE_OPSET = 17
#: Errors that end a step but not the deployment.
_MAY_FAIL = (BudgetSpent, EnvironmentMissing, BuildError, DataError, RunError, UsageError)


@dataclass(frozen=True)
class Trial(Fields):
    """One step that was tried.

    Attributes:
        outcome: "kept", "undone" (it does not help), "rejected" (the metric fell too far), "skipped" (not tried) or
            "failed".
        before, after: the objective's value without and with the step; None if unknown.
        drop: drop of the metric on the search samples, against FP32.
        commands: commands that repeat the step by hand.
    """

    name: str
    level: int
    outcome: str
    reason: str
    before: Optional[float] = None
    after: Optional[float] = None
    drop: Optional[float] = None
    commands: Tuple[str, ...] = ()


class Search:
    """One search over the levels of a request. `run` returns the best candidate; `trials` lists the steps."""

    def __init__(self, steps: Steps, budget: Budget, progress: Progress) -> None:
        self.steps, self.request, self.budget = steps, steps.request, budget
        self.trials: List[Trial] = []
        self.first: Optional[Candidate] = None
        self.best: Optional[Candidate] = None
        self.passed: List[Candidate] = []
        self._progress = progress
        self._refusal: Optional[ModelError] = None
        self._failure: Optional[RunError] = None
        self._one_s = self._final_s = 0.0

    def run(self) -> Candidate:
        """The best candidate within the level and the budget.

        Raises:
            ModelError: the target's parser refuses the model, and no rewrite that the level allows changes that.
            RunError: its outputs are not finite in FP16, and nothing that the level allows changes that.
        """
        self._as_it_is()
        # Level 0 always runs to its end: without it there would be no result.
        for level, work in ((1, self._exact), (2, self._int8), (APPROXIMATE, self._approximate)):
            if int(self.request.level or 0) >= level:
                self._guarded(level, work)
        if self.best is None:
            no_way = ModelError("no way to build the model was found", where=str(self.steps.source))
            raise self._refusal or self._failure or no_way
        return self.best

    def _guarded(self, level: int, work: Callable[[], None]) -> None:
        names = {1: "exact rewrites", 2: "INT8", 3: "approximate rewrites"}
        store = self.steps.store
        store.failed_in = ""
        try:
            # What this level keeps and what was kept before is scored on the final samples too; then the result is published.
            self.budget.reserve_s = self._final_s * len(self.passed) + self._one_s
            with self.budget.bound():
                work()
        except _MAY_FAIL as e:
            skipped = isinstance(e, (BudgetSpent, EnvironmentMissing))
            step = "" if skipped or not store.failed_in else f"{store.failed_in}: "
            self._note(names[level], level, "skipped" if skipped else "failed", (step + str(e)).replace("\n", " "))

    def _as_it_is(self) -> None:
        model = self.steps.source
        name = f"the model {AS_FP16}" if self.steps.converted else "the model as it is"
        try:
            candidate = self._candidate(name, 0, model, "fp16", None)
        except ModelError as e:
            if not self.request.level:
                raise
            self._refusal = e
            self._note(name, 0, "failed", e.what)
            return
        began = time.monotonic()
        try:
            candidate = self.steps.built(candidate)
        except RunError as e:
            # For example values beyond FP16's range. INT8, or other layers on the DLA, may still work.
            if not self.request.level:
                raise
            self._failure = e
            self._note(name, 0, "failed", e.what)
            return
        self._one_s = time.monotonic() - began
        if self.budget.seconds is not None:
            # Needed in any case; done now, it shows how long the others' will take: intervals of mAP take longer than the runs.
            self.steps.final_score(candidate)
            self._final_s = time.monotonic() - began - self._one_s
        self.first = self.best = candidate
        self.passed.append(candidate)
        self._note(
            candidate.name,
            0,
            "kept",
            "where every other step begins",
            after=candidate.value(self.request.objective),
            drop=_drop(candidate),
        )

    def _exact(self) -> None:
        fixed = self._fixed("fp16", "rewriting (exact)")
        if not fixed.file(MODEL).is_file():
            why = "nothing to rewrite: none applies, or none lowers the predicted cost"
            self._note("exact rewrites", 1, "undone", why)
            return
        self._offer(self._candidate("exact rewrites", 1, fixed.file(MODEL), "fp16", fixed), _fix_command(fixed))

    def _int8(self) -> None:
        if platform_for(**self.request.platform).release.strongly_typed:
            self._note(
                "INT8",
                2,
                "skipped",
                "from TensorRT 11 on INT8 is Q/DQ in the model, and whether the DLA computes in INT8 then is " "not known",
            )
            return
        if self.steps.parts.calibration is None:
            self._note("INT8", 2, "skipped", "INT8 needs samples to calibrate on (--data)")
            return
        offered = [self._candidate("INT8", 2, self.steps.source, "int8", None)] if self._refusal is None else []
        try:
            fixed = self._fixed("int8", "rewriting for INT8 (exact)")
            if fixed.file(MODEL).is_file():
                offered.insert(0, self._candidate("INT8 and exact rewrites", 2, fixed.file(MODEL), "int8", fixed))
        except EnvironmentMissing as e:
            # Rewriting needs a newer Python than calibration.
            self._note("exact rewrites for INT8", 2, "skipped", e.what)
        # The best predicted candidate first. The other is also calibrated if layers that the first one needs in FP16
        # make it slower than the prediction of the other.
        for candidate in sorted(offered, key=lambda c: c.rank(self.request.objective)):
            self._offer_int8(candidate)

    def _approximate(self) -> None:
        from edgedla.rules.remedies import rewrite_entries

        for rewrite in (entry.id for entry in rewrite_entries().values() if entry.equality == "approximate"):
            base = self.best
            if base is None:
                return
            name = f"approximate: {rewrite}"
            fixed = self.steps.fix(
                base.model, base.precision, f"rewriting ({rewrite})", approximate=self.request.approximate or 0.0, only=(rewrite,)
            )
            if not fixed.value["rewrites"]:
                self._note(name, APPROXIMATE, "undone", "it matches nothing here, or lowers no predicted cost")
                continue
            candidate = self._candidate(name, APPROXIMATE, fixed.file(MODEL), base.precision, fixed)
            candidate = replace(candidate, rewrites={**base.rewrites, **candidate.rewrites})
            if base.precision == "int8":
                self._offer_int8(candidate)
            else:
                self._offer(candidate, _fix_command(fixed))

    def _fixed(self, precision: str, title: str) -> Step:
        """The rewritten source; converted to an older opset if the target's parser still refuses it."""
        fixed = self.steps.fix(self.steps.source, precision, title)
        if not fixed.value["refused"]:
            return fixed
        return self.steps.fix(self.steps.source, precision, f"{title}, operator set {SAFE_OPSET}", opset=SAFE_OPSET)

    def _candidate(
        self, name: str, level: int, model: Path, precision: str, fixed: Optional[Step], scales: Mapping[str, Any] = {}
    ) -> Candidate:
        predicted = self.steps.predict(model, precision, name, scales)
        return Candidate(
            name,
            level,
            model,
            sha256_of(model),
            precision,
            {} if fixed is None else fixed.value["rewrites"],
            {} if fixed is None else fixed.value["proof"],
            predicted.value,
            predicted.folder,
            predicted.file(PLACEMENT) if self.request.place == "best" else None,
        )

    def _offer(self, candidate: Candidate, commands: Tuple[str, ...]) -> None:
        """Keeps the candidate if it is better and the metric holds."""
        why = self._no_gain(candidate)
        if why:
            self._note(candidate.name, candidate.level, "undone", why, candidate, commands=commands)
            return
        candidate = self.steps.built(candidate)
        drop = _drop(candidate)
        # Rewrites proven exact change only the last bits; the metric is checked anyway.
        if drop > self.request.max_drop:
            assert candidate.score is not None
            why = f"{candidate.score['metric']} falls by {drop:.4g}, more than {self.request.max_drop:g}"
            self._note(candidate.name, candidate.level, "rejected", why, candidate, drop, commands)
            return
        self._note(candidate.name, candidate.level, "kept", self._gain(candidate), candidate, drop, commands)
        self.best = candidate
        self.passed.append(candidate)
        if self.first is None:
            self.first = candidate

    def _offer_int8(self, candidate: Candidate) -> None:
        why = self._no_gain(candidate)
        if why:
            # Skips calibration: layers that stay in FP16 could only make it slower.
            self._note(candidate.name, candidate.level, "undone", why, candidate)
            return
        scales = self.steps.quantize(candidate.model, self._watched)
        within = f"the metric within {self.request.max_drop:g}"
        if self.request.metric in (None, "l2"):
            within += "; l2 counts every deviation: try --metric top1, miou or map with labels, or a larger --max-drop"
        if scales.value["met"] is False:
            why = f"no scales and no mix with FP16 keep {within}"
        elif scales.value["dead"]:
            why = f"INT8 rounds channels away, and no layers in FP16 bring them back: {', '.join(scales.value['dead'])}"
        # Steps of an earlier version lack "int8_nodes".
        elif scales.value["precisions"] and not scales.value.get("int8_nodes", 1):
            why = f"every layer on the DLA would have to stay in FP16 to keep {within}"
        if why:
            self._note(candidate.name, candidate.level, "rejected", why, candidate)
            return
        candidate = replace(
            candidate, quantization=scales.folder, quantization_key=scales.key, extra_us=max(0.0, scales.value["extra_us"])
        )
        moved = scales.value.get("devices", {})
        if scales.value["changed"] or moved:
            model = scales.file(MODEL) if scales.value["changed"] else candidate.model
            # The figures are those of what is built: with the layers that leave the DLA for the metric.
            now = self._candidate(candidate.name, candidate.level, model, "int8", None, scales.value)
            candidate = replace(
                candidate,
                model=model,
                model_sha256=now.model_sha256,
                predicted=now.predicted,
                placed=now.placed,
                placement=now.placement,
                extra_us=float(now.predicted["fp16_extra_us"]) if moved else candidate.extra_us,
            )
        self._offer(candidate, ("edgedla quantize MODEL --data DATA -o quantization",))

    def _watched(self, phase: str, done: int, of: int) -> None:
        self.budget.check()
        self._progress(phase, done, of)

    def _no_gain(self, candidate: Candidate) -> str:
        """Why the candidate's prediction is no better than the best so far; "" if it is better."""
        best = self.best
        if best is None:
            return ""
        objective = self.request.objective
        if not candidate.better_than(best, objective):
            why = f"predicted {_text(candidate, objective)}, no better than {_text(best, objective)}"
            if not candidate.may_cost_accuracy(best):
                return why
            if candidate.value(objective) < best.value(objective):
                less = f"predicted {_text(candidate, objective)}, hardly better than {_text(best, objective)}"
                return f"{less}: a change that may cost accuracy has to lower the cost by {WORTH_ACCURACY:.0%}"
            coarser = candidate.rank(objective) < best.rank(objective)
            return f"{why}: a change that may cost accuracy has to lower the cost itself" if coarser else why
        share, before = candidate.share_macs_dla, best.share_macs_dla
        if candidate.precision == best.precision and share < before - 1e-9:
            return f"{share:.1%} of the MACs can run on the DLA, {before:.1%} without it"
        return ""

    def _gain(self, candidate: Candidate) -> str:
        if self.best is None:
            return "it can be built now"
        return f"predicted {_text(candidate, self.request.objective)} instead of {_text(self.best, self.request.objective)}"

    def _note(
        self,
        name: str,
        level: int,
        outcome: str,
        reason: str,
        candidate: Optional[Candidate] = None,
        drop: Optional[float] = None,
        commands: Tuple[str, ...] = (),
        after: Optional[float] = None,
    ) -> None:
        before = None if self.best is None or after is not None else self.best.value(self.request.objective)
        if candidate is not None:
            after = candidate.value(self.request.objective)
        self.trials.append(Trial(name, level, outcome, reason, before, after, drop, commands))


def _drop(candidate: Candidate) -> float:
    assert candidate.score is not None
    return float(candidate.score["drop"])


def _text(candidate: Candidate, objective: str) -> str:
    """The objective's value, and the same as TensorRT places it where that differs."""
    units = {"throughput": "us between frames", "energy": "mJ", "gpu-time": "us of the GPU", "loadables": "loadables"}
    _, value, as_tensorrt_places = candidate.rank(objective)
    text = f"{value:.5g} {units.get(objective, 'us')}"
    if objective != "loadables" and as_tensorrt_places != value and as_tensorrt_places != float("inf"):
        text += f" ({as_tensorrt_places:.5g} as TensorRT places it)"
    return text


def _fix_command(fixed: Step) -> Tuple[str, ...]:
    rewrites: Mapping[str, int] = fixed.value["rewrites"]
    return (f"edgedla fix MODEL -o model.onnx --only {','.join(rewrites)}",) if rewrites else ()
