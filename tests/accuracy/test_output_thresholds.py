"""Thresholds by the error at the outputs: used if a tensor's own error misleads, not if ranges were given."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.repairs.salient_noise import SalientNoise
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.state import Step
from edgedla.quantization.samples import Samples

Data = Tuple[Samples, Samples]
STEP = "thresholds of smallest output error"


@pytest.fixture
def deaf(network: Any) -> Any:
    """The first channel of r0 is 20 times as large as it was, and what reads it hardly hears it."""
    changed = onnx.ModelProto()
    changed.CopyFrom(network)
    for tensor in changed.graph.initializer:
        values = numpy_helper.to_array(tensor).copy()
        if tensor.name == "w0":
            values[0] *= 20
        elif tensor.name == "w1":
            values[:, 0] *= 1e-3
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return changed


def steps(result: Any) -> List[Step]:
    return [s for s in result.steps if s.name == STEP]


def test_values_without_effect_on_the_outputs_are_clipped(deaf: Any, data: Data) -> None:
    plain = quantize(deaf, data[0], QuantizeRequest(method="mse"), holdout=data[1])
    result = quantize(deaf, data[0], QuantizeRequest(), holdout=data[1])
    (step,) = steps(result)
    assert step.kept
    assert "r0" in step.detail
    # The SQNR beside it may fall while it is kept.
    assert step.detail.startswith("3 tensors (r0, r2, p); judged by the noise where outputs vary: ")
    assert step.detail.endswith(" dB less")
    assert result.sqnr_db > step.before_db + 3
    assert result.sqnr_db > plain.sqnr_db + 3
    assert result.absmax["r0"] < 0.6 * plain.absmax["r0"]
    # Histograms show the threshold that the cache holds.
    drawn = next(h for h in result.histograms if h.tensor == "r0")
    assert drawn.thresholds["in use"] == pytest.approx(result.absmax["r0"])


def test_given_ranges_and_named_methods_are_not_tuned(deaf: Any, data: Data) -> None:
    auto = quantize(deaf, data[0], QuantizeRequest(), holdout=data[1])
    given = quantize(deaf, data[0], QuantizeRequest(), holdout=data[1], absmax=auto.absmax)
    assert not steps(given)
    assert given.absmax == auto.absmax
    assert not steps(quantize(deaf, data[0], QuantizeRequest(method="minmax"), holdout=data[1]))


def test_tensors_that_share_a_scale_are_tuned_together(network: Any, data: Data) -> None:
    result = quantize(network, data[0], QuantizeRequest(), holdout=data[1])
    # p is the pooling of r2: the DLA wants one scale for both.
    assert result.absmax["r2"] == result.absmax["p"]


def test_ranges_stated_by_operators_are_not_tuned(deaf: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.accuracy.repairs import output_thresholds as module

    seen: List[Any] = []

    def unchanged(noise: Any, group: Any, ranges: Any, step: float, least: float) -> Tuple[float, float]:
        seen.append(group)
        return ranges[group[0]], least

    monkeypatch.setattr(module, "_best", unchanged)
    asked = module.output_thresholds

    def with_stated(state: Any, errors: Any, few: Any, held: Any, fixed: Any, progress: Any) -> None:
        asked(state, errors, few, held, ("x", "r0"), progress)

    monkeypatch.setattr(module, "output_thresholds", with_stated)
    quantize(deaf, data[0], QuantizeRequest(), holdout=data[1])
    assert seen
    assert not {"x", "r0"} & {name for group in seen for name in group}


def test_a_tensor_clipped_for_the_outputs_is_no_suspect(deaf: Any, data: Data) -> None:
    auto = quantize(deaf, data[0], QuantizeRequest(), holdout=data[1])
    judged = quantize(deaf, data[0], QuantizeRequest(), holdout=data[1], absmax=auto.absmax)
    clipped = next(e for e in judged.errors if e.tensor == "r0")
    assert clipped.loss_db > 6
    assert not clipped.suspect


def test_salient_noise_detects_what_plain_noise_does_not() -> None:
    """An error at the few elements that differ from their mean counts more than the same error elsewhere."""

    class Constant:
        """A simulation whose outputs miss by 1 at one element."""

        outputs = ("y",)

        def __init__(self, missed: int) -> None:
            self.missed = missed

        def reference(self, feeds: Any) -> Any:
            quiet = np.array([5.0, 1.0, 0.0], np.float32)
            return [[quiet + np.array([0, 0, 8.0 * (k == 0)], np.float32)] for k in range(len(feeds))]

        def runs(self, feeds: Any, absmax: Any) -> Any:
            for feed in feeds:
                exact = self.reference([feed] * 4)[0 if feed == "loud" else 1][0].copy()
                exact[self.missed] += 1.0
                yield [exact]

    feeds: Any = ("loud", "quiet", "quiet", "quiet")
    at_object, elsewhere = (sum(SalientNoise(Constant(k), feeds).parts()) for k in (2, 0))  # type: ignore[arg-type]
    # m = 2 at the third element: distances 6, -2, -2, -2; sum (y - m)**2 = 48, sum (y - m)**4 = 1344.
    assert at_object == pytest.approx(48 / 1344)
    assert elsewhere == 0.0


@pytest.mark.parametrize(("factor", "runs"), [(1.0, 4), (1.05, 2), (1.3, 1), (0.5, 4)])
def test_ranges_that_are_worse_on_the_first_samples_are_given_up(factor: float, runs: int) -> None:
    ran: list = []

    class Noisy:
        outputs = ("y",)

        def reference(self, feeds: Any) -> Any:
            return [[np.array([float(k), 1.0], np.float32)] for k in range(len(feeds))]

        def runs(self, feeds: Any, absmax: Any) -> Any:
            for k, _ in enumerate(feeds):
                ran.append(k)
                yield [np.array([k + (absmax or 1.0), 1.0], np.float32)]

    noise = SalientNoise(Noisy(), ("a", "b", "c", "d"))  # type: ignore[arg-type]
    known = noise.parts(None)
    ran.clear()
    # The noise is the square of what is added.
    found = noise.parts(factor**0.5, known)  # type: ignore[arg-type]
    assert len(ran) == runs
    assert sum(found) == (pytest.approx(sum(known) * factor) if runs == 4 else float("inf"))
