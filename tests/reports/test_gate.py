"""What fails a check under each --fail-on."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.regions.report import CheckReport, NodeReport
from edgedla.regions.values import Cause, FixGain, Placed
from edgedla.reports import CHECK_FORMATS, gate, render_check, summary, words
from edgedla.reports.markdown import code
from edgedla.reports.text import clean
from edgedla.rules.remedies import remedies
from edgedla.rules.verdict import Support

NETWORKS: Dict[str, Dict[str, Any]] = {
    "one layer refused, one unknown": {},
    "strict build": {"mode": "strict"},
    "everything on the DLA": {"supported": True},
    "module without DLA": {"target": "orin-nano-8gb"},
    "nobody knows of the DLA": {"target": "orin-nx-16gb", "jetpack": "7.2.2"},
}


@pytest.mark.parametrize(
    ("network", "answers"),
    [
        ("one layer refused, one unknown", "yes no no no"),
        ("strict build", "yes no no no"),
        ("everything on the DLA", "yes yes yes yes"),
        ("module without DLA", "yes no no no"),
        ("nobody knows of the DLA", "yes yes yes no"),
    ],
)
def test_fail_on_levels_pass_or_fail_each_report(network: str, answers: str, make_report: Callable[..., CheckReport]) -> None:
    report = make_report(**NETWORKS[network])
    passed = " ".join("yes" if gate.passes(report, fail_on) else "no" for fail_on in gate.FAIL_ON)
    assert passed == answers, gate.FAIL_ON


def test_an_unknown_layer_is_an_offender_of_fail_on_unknown_only(make_report: Callable[..., CheckReport]) -> None:
    names = {fail_on: [x.name for x in gate.offenders(make_report(), fail_on)] for fail_on in gate.FAIL_ON}
    assert names == {"never": [], "unsupported": ["mean"], "fallback": ["mean"], "unknown": ["mean", "mystery"]}


def test_an_unknown_onnx_node_without_layers_fails_fail_on_unknown(make_report: Callable[..., CheckReport]) -> None:
    report = make_report(supported=True)
    odd = NodeReport("odd", "Mystery", Support.UNKNOWN, Placed.GPU, (), Cause.UNKNOWN, "no such operator")
    report = replace(report, nodes=(*report.nodes, odd))
    assert [gate.passes(report, fail_on) for fail_on in gate.FAIL_ON] == [True, True, True, False]
    for form in CHECK_FORMATS:
        if form != "json":
            assert "no such operator" in render_check([report], form, fail_on="unknown"), form
    assert summary.headline(report).tone == "unknown"


def test_remedies_are_shown_by_title_and_unknown_ids_as_they_are(make_report: Callable[..., CheckReport]) -> None:
    report, title = make_report(supported=True), remedies()["average-pool"].title
    by = "by `edgedla fix`: global-average-conv, global-average-pool"
    given = ["average-pool", "no-such-remedy"]
    assert words.fix_text(report, given) == f"{title} (average-pool, {by}); no-such-remedy"
    # Where fix was tried, it names the rewrites that have a place in the model.
    tried = replace(report, fix_gain=FixGain(False, None, None, frozenset({"global-average-conv"})))
    assert words.fix_text(tried, ["average-pool"]) == f"{title} (average-pool, by `edgedla fix`: global-average-conv)"
    assert words.fix_text(replace(report, fix_gain=FixGain(False, None)), ["average-pool"]) == f"{title} (average-pool)"
    gelu = words.fix_text(report, ["sigmoid-for-gelu"])
    assert gelu.endswith("(sigmoid-for-gelu, by `edgedla fix --approximate`: gelu-sigmoid, gelu-silu)")
    assert words.fix_text(report, ["softmax-gpu"]) == f"{remedies()['softmax-gpu'].title} (softmax-gpu)"


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (1, "100 %"), (0.99999, "99.9 %"), (0.00001, "0.1 %"), (0.5, "50.0 %")])
def test_percentages_round_to_0_and_100_only_if_exact(share: float, text: str) -> None:
    assert words.percent(share) == text


@given(st.text())
def test_no_control_character_of_a_model_reaches_a_text(name: str) -> None:
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", clean(name))
    assert clean("plain/name:0") == "plain/name:0"


@given(st.text())
def test_a_name_cannot_leave_its_markdown_table_cell(name: str) -> None:
    cell = code(name)
    assert "\n" not in cell
    assert not re.search(r"(?<!\\)\|", cell)
