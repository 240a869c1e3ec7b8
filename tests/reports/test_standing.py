"""What makes one check worse than another: counts, shares, refusals and times; never a name alone."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from edgedla.regions.report import CheckReport
from edgedla.reports.gate.baseline import Baseline, against, lines, place_of, read_baseline
from edgedla.reports.gate.standing import Standing, change, standing_of
from edgedla.reports.gate.thresholds import Thresholds

BEFORE = Standing(10, 2, 2, 0.9, {"softmax": "SOFT001", "mean": "RED001"}, None, 1000.0, 0.25)


@pytest.mark.parametrize(
    ("after", "worse", "better"),
    [
        ({}, (), ()),
        (
            {"layers_gpu": 3, "off_dla": {"softmax": "SOFT001", "mean": "RED001", "add": "ELT003"}},
            ("1 more layer runs off the DLA: add (ELT003, head (net.py:7))",),
            (),
        ),
        ({"layers_gpu": 1}, (), ("1 fewer layer off the DLA",)),
        # An exporter's new names change nothing that matters.
        ({"off_dla": {"softmax_1": "SOFT001", "mean_1": "RED001"}}, (), ()),
        ({"share_macs_dla": 0.85}, ("90.0 % to 85.0 % of MACs on the DLA",), ()),
        ({"share_macs_dla": 0.9 - 5e-7}, (), ()),
        ({"share_macs_dla": 0.95}, (), ("90.0 % to 95.0 % of MACs on the DLA",)),
        ({"loadables": 3}, ("2 to 3 loadables",), ()),
        ({"loadables": 1}, (), ("2 to 1 loadables",)),
        ({"latency_us": 1250.0}, (), ()),
        ({"latency_us": 1260.0}, ("predicted 1.00 ms to 1.26 ms per frame: 1.26 times slower (the spread is 25.0 %)",), ()),
        ({"latency_us": 801.0}, (), ()),
        ({"latency_us": 790.0}, (), ("predicted 1.00 ms to 0.790 ms per frame: 1.27 times faster",)),
        ({"latency_us": None}, (), ()),
        ({"refused": "no Einsum"}, ("TensorRT's parser refuses the model: no Einsum",), ()),
    ],
)
def test_each_difference_is_worse_better_or_nothing(after: Any, worse: Any, better: Any) -> None:
    assert change(BEFORE, BEFORE._replace(**after), {"add": "head (net.py:7)"}) == (worse, better)


@pytest.mark.parametrize(
    ("before", "after", "worse", "better"),
    [
        (True, False, 1, 0),
        (True, None, 1, 0),
        (None, False, 1, 0),
        (False, True, 0, 1),
        (None, True, 0, 1),
        (False, None, 0, 0),
        (False, False, 0, 0),
    ],
)
def test_a_strict_build_that_no_longer_passes_is_worse(before: Any, after: Any, worse: int, better: int) -> None:
    told = change(BEFORE._replace(passes=before), BEFORE._replace(passes=after))
    assert (len(told.worse), len(told.better)) == (worse, better)


def test_a_refusal_that_was_known_is_not_worse_and_its_end_is_better() -> None:
    refused = Standing(refused="no Einsum")
    assert change(refused, refused) == ((), ())
    assert change(refused, BEFORE) == ((), ("TensorRT's parser takes the model now",))


def test_a_baseline_comes_back_as_it_was_written(tmp_path, make_report: Callable[..., CheckReport]) -> None:
    report, path = make_report(), tmp_path / "ci" / "dla.json"
    model = str(tmp_path / "models" / "net.onnx")
    written = Baseline(str(path), {})
    written.put(model, place_of(report), standing_of(report))
    written.put(str(tmp_path / "bad.onnx"), "here", Standing(refused="no Einsum"))
    written.write("rules1")
    held = read_baseline(str(path))
    assert held.rules_version == "rules1"
    assert held.named(model) == "../models/net.onnx"
    assert held.get(model, place_of(report)) == standing_of(report)
    (answer,) = against(held, {model: report}, ())
    assert answer.known
    assert answer.change == ((), ())
    assert held.gone() == ["../bad.onnx", "../models/net.onnx"]
    held.leave_out(held.gone())
    assert lines(held, [answer], "rules1") == []
    (new,) = against(held, {str(tmp_path / "other.onnx"): report}, ())
    assert not new.known
    assert lines(held, [new], "rules1")[0].startswith("new: ")


def test_a_model_that_is_gone_is_named_in_one_line_whatever_its_name(tmp_path) -> None:
    held = Baseline(str(tmp_path / "dla.json"), {"OLD.ONNX": {}, "timm:resnet18": {}, "a\n::error::b.onnx": {}})
    assert held.gone() == ["OLD.ONNX", "a\n::error::b.onnx"]
    told = lines(held, [], "rules1")
    assert [line.partition(",")[0] for line in told] == ["gone: OLD.ONNX", "gone: a\\n::error::b.onnx"]
    assert not any("\n" in line for line in told)


def test_a_worse_answer_under_other_rules_says_that_the_rules_changed(tmp_path, make_report: Callable[..., CheckReport]) -> None:
    report, model = make_report(), str(tmp_path / "net.onnx")
    (tmp_path / "net.onnx").touch()
    held = Baseline(str(tmp_path / "b.json"), {}, "old")
    held.put(model, place_of(report), standing_of(report)._replace(layers_gpu=0, off_dla={}))
    text = lines(held, against(held, {model: report}, ()), "new")
    assert text[0].startswith("worse: ")
    assert "was written under rules old" in text[-1]


def test_each_limit_counts_from_the_next_value_on(make_report: Callable[..., CheckReport]) -> None:
    report = make_report()
    totals = report.totals
    exact = Thresholds(0.0, totals.regions, totals.layers_gpu)
    assert list(exact.failures(report)) == []
    tighter = exact._replace(max_loadables=totals.regions - 1, max_gpu_layers=totals.layers_gpu - 1)
    assert len(list(tighter.failures(report))) == 2


def test_a_limit_of_a_cost_that_was_not_predicted_is_broken(make_report: Callable[..., CheckReport]) -> None:
    report = make_report()
    assert report.worth is None
    (text,) = Thresholds(max_latency_us=1e9).failures(report)
    assert text.startswith("no predicted cost")
