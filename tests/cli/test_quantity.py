"""One way to write numbers with units, for every option that takes them."""

from __future__ import annotations

import math

import pytest

from edgedla.cli.arguments.option import DROP, DURATION_S, ENERGY_MJ, LATENCY_US, SHARE, Quantity
from edgedla.cli.arguments.place_values import latency_bounds
from edgedla.errors import UsageError

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (LATENCY_US, "5000", 5000.0),
        (LATENCY_US, " 5 ms ", 5000.0),
        (LATENCY_US, "0.5S", 5e5),
        (LATENCY_US, "1e+06", 1e6),
        (LATENCY_US, "0", 0.0),
        (LATENCY_US, "8.41 \u00b5s", 8.41),
        (LATENCY_US, "8.41\u03bcs", 8.41),
        (SHARE, "95%", 0.95),
        (SHARE, "1", 1.0),
        (DROP, "0.5%", 0.005),
        (ENERGY_MJ, "20mJ", 20.0),
        (DURATION_S, "1.5h", 5400.0),
        (DURATION_S, "10min", 600.0),
    ],
)
def test_a_number_is_read_in_its_unit(kind: Quantity, text: str, value: float) -> None:
    assert kind.read(text, "--option") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "ms", "-5", "5 weeks", "5 m s", "nan", "inf", "1e13", "5,6", "%"])
def test_another_form_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        LATENCY_US.read(text, "--max-latency")
    assert str(caught.value) == f"--max-latency: {text!r} is not a time (allowed: 5000 (microseconds), 5000us or 5ms)"


def test_each_model_of_a_placement_has_its_bound() -> None:
    assert latency_bounds("3ms") == 3000.0
    assert latency_bounds("5ms,8000") == (5000.0, 8000.0)
    assert latency_bounds(None) is None
    assert not math.isnan(DROP.read("0", "--max-drop"))
