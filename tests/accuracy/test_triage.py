"""Errors tensor by tensor: tensors tied by the rules change together, and the drawing follows the network's order."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import pytest

from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.triage import TensorError, with_output_shares
from edgedla.quantization.samples import Samples
from edgedla.reports.quantization.drawing import error_drawing

Data = Tuple[Samples, Samples]


class Recorder:
    """A simulation that keeps which ranges and which rounded tensors it was asked for."""

    tensors = ("a", "b", "c")

    def __init__(self) -> None:
        self.asked: List[Tuple[Dict[str, float], Tuple[str, ...]]] = []

    def noise(self, feeds: Any, absmax: Mapping[str, float], rounded: Sequence[str]) -> Any:
        self.asked.append((dict(absmax), tuple(rounded)))

        class Share:
            share = 0.5

        return Share()


def suspect(name: str) -> TensorError:
    return TensorError(name, 1.0, 4.0, 3.0, 30.0)


def test_only_tensors_of_one_scale_group_are_widened_together() -> None:
    ranges = {"a": 1.0, "b": 1.0, "c": 1.0}
    simulation: Any = Recorder()
    with_output_shares([suspect("a")], simulation, [{}], ranges, [("a", "c")])
    # b has the range of a by chance: it stays, c goes along.
    assert ({"a": 4.0, "b": 1.0, "c": 4.0}, ("a", "c")) in simulation.asked
    simulation = Recorder()
    with_output_shares([suspect("b")], simulation, [{}], ranges, [("a", "c")])
    assert ({"a": 1.0, "b": 4.0, "c": 1.0}, ("b",)) in simulation.asked


def test_tensors_with_equal_ranges_are_judged_separately(network: Any, data: Data) -> None:
    """r0 and r1 get one range, too large for both."""
    good = quantize(network, data[0], QuantizeRequest(method="mse"), holdout=data[1]).absmax
    broken = {**good, "r0": 8 * good["r0"], "r1": 8 * good["r0"]}
    judged = quantize(network, data[0], QuantizeRequest(), holdout=data[1], absmax=broken)
    errors = {e.tensor: e for e in judged.errors}
    assert errors["r0"].suspect
    assert errors["r1"].suspect
    assert not errors["p"].suspect


def test_the_error_drawing_is_in_network_order(network: Any, data: Data) -> None:
    result = quantize(network, data[0], QuantizeRequest(method="minmax"), holdout=data[1])
    order = [t.tensor for t in result.coverage.tensors]
    drawn = re.findall(r"<title>(\w+): ", error_drawing(tuple(reversed(result.errors)), order))
    assert drawn == [name for name in order if name in drawn]
    assert drawn.index("r0") < drawn.index("r1") < drawn.index("p")
    # A name is text, whatever it holds.
    assert "<b>" not in error_drawing([suspect("<b>")], [])


def test_noise_counts_the_finite_elements_of_tensors_with_a_signal() -> None:
    """By hand: of [1, 2] against [1, 1] the error is 1 of 5; zeros have no share, and a small signal has."""
    from edgedla.accuracy.simulation import Noise

    noise = Noise(["a", "zero", "small"])
    noise.add(
        [np.array([1.0, 2.0, np.inf]), np.zeros(2), np.array([0.5])], [np.array([1.0, 1.0, 7.0]), np.ones(2), np.array([0.5])]
    )
    assert noise.share == pytest.approx((1 / 5 + 0) / 2)
    assert noise.of(0) == (pytest.approx(10 * np.log10(5)), pytest.approx(3 / np.sqrt(5 * 2)))
    assert noise.of(1) == (np.inf, 1.0)
    assert noise.of(2)[1] == 1.0
