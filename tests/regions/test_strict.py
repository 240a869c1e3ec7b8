"""Builds without GPU fallback: which layers stop them, and which is named first."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

import numpy as np
import pytest

import edgedla
from edgedla.graph import LayerGraph
from edgedla.regions import StrictResult, predict
from edgedla.regions.strict import check_strict, known_as
from edgedla.rules.verdict import Effect, Finding
from edgedla.targets import Platform, platform_for
from tests.models import node, onnx_model

RELU = {"op": "RELU"}
SAME = (1, 64, 56, 56)


def line(type_: str, name: str, *inputs: str, out: Sequence[int] = SAME, **params: Any) -> Tuple[Any, ...]:
    return (type_, name, list(inputs), tuple(out), params or RELU)


def strict(graph: LayerGraph, verdicts: Any, platform: Platform, mode: str = "strict", **kwargs: Any) -> StrictResult:
    return check_strict(graph, predict(graph, verdicts, platform, "fp16", mode), platform, mode, **kwargs)


def test_a_network_wholly_on_the_dla_passes(net: Any, judge: Any, orin: Platform) -> None:
    graph = net([line("ACTIVATION", "a", "x"), line("ACTIVATION", "b", "a")])
    for mode in ("strict", "standalone"):
        assert strict(graph, judge(graph), orin, mode) == StrictResult(mode, True, "", (), ())


def test_every_offender_is_named_in_network_order(net: Any, judge: Any, orin: Platform) -> None:
    graph = net([line("ACTIVATION", "a", "x"), line("REDUCE", "r", "a"), line("SOFTMAX", "s", "r")])
    result = strict(graph, judge(graph, gpu={"s": "not this softmax", "r": "no AVG Reduce"}), orin)
    assert result.passes is False
    assert result.first_offender == "r"
    assert result.offenders == ("r", "s")
    assert result.messages == ("r: no AVG Reduce", "s: not this softmax")


def test_a_constant_operand_is_an_offender_before_its_reader(net: Any, judge: Any, orin: Platform) -> None:
    graph = net([line("ELEMENTWISE", "scale", "x", "=1x1x1x1", op="PROD"), line("REDUCE", "r", "scale")])
    result = strict(graph, judge(graph, gpu={"r": "no"}), orin)
    assert result.offenders == ("scale.1", "r"), "with fallback the constant is folded, without it nothing folds it"


def test_reshapes_around_a_gemm_fail_a_strict_build(net: Any, judge: Any, orin: Platform) -> None:
    graph = net([line("MATRIX_MULTIPLY", "fc", "x", "=10x512", out=(1, 10), op1="TRANSPOSE")], x=(1, 512))
    result = strict(graph, judge(graph), orin)
    assert result.passes is False
    assert result.first_offender == "fc.1"
    assert {"reshape_before_fc", "reshape_after_fc"} <= set(result.offenders)


def test_offenders_of_the_second_look_follow_those_of_the_first_check(net: Any, judge: Any, xavier: Platform) -> None:
    graph = net([line("SLICE", "wide", "x"), line("REDUCE", "r", "wide")])
    verdicts = judge(graph, gpu={"r": "no"}, validation={"wide": "8400 is above 8192"})
    result = strict(graph, verdicts, xavier)
    assert result.first_offender == "r", "the per-layer check runs over the whole network first"
    assert result.offenders == ("r", "wide")


def test_unknown_layers_leave_the_answer_open(net: Any, judge: Any, orin: Platform) -> None:
    graph = net([line("ACTIVATION", "a", "x"), line("SLICE", "u", "a")])
    result = strict(graph, judge(graph, unknown={"u": "sources differ"}), orin)
    assert result.passes is None
    assert result.first_offender == ""
    assert result.messages == ("u: sources differ",)


@pytest.mark.parametrize(("effect", "passes"), [(Effect.REJECT, False), (Effect.UNKNOWN, None), (Effect.WARN, True)])
def test_io_format_findings_decide_whether_a_strict_build_passes(
    net: Any, judge: Any, orin: Platform, effect: Effect, passes: Any
) -> None:
    graph = net([line("ACTIVATION", "a", "x")])
    finding = Finding("IO001", "io-format", "x", effect, "linear input needs a reformat on the GPU")
    result = strict(graph, judge(graph), orin, io_findings=(finding,))
    assert result.passes is passes
    assert result.findings == (finding,)


def test_standalone_needs_exactly_one_region(net: Any, judge: Any, orin: Platform) -> None:
    # The layers differ in their effective batch: both run on the DLA, in two loadables.
    graph = net([line("ACTIVATION", "a", "x"), line("ACTIVATION", "b", "a", out=(2, 32, 56, 56))])
    assert strict(graph, judge(graph), orin, "strict").passes is True
    result = strict(graph, judge(graph), orin, "standalone")
    assert result.passes is False
    assert result.messages == ("a standalone loadable holds the whole network in one region; this one has 2",)


def test_a_strict_build_for_a_target_without_dla_fails_for_that_reason(net: Any, judge: Any) -> None:
    platform = platform_for("orin-nano-8gb", trt="10.3")
    graph = net([line("ACTIVATION", "a", "x")])
    result = strict(graph, judge(graph), platform)
    assert (result.passes, result.messages) == (False, (platform.no_dla,))


@pytest.mark.parametrize("mode", ["strict", "standalone"])
@pytest.mark.parametrize(("dims", "passes"), [((8, 20, 20), False), ((1, 8, 20, 20), True)])
def test_tensors_below_rank_4_fail_a_strict_build_by_added_reshapes(
    net: Any, judge: Any, orin: Platform, mode: str, dims: Any, passes: bool
) -> None:
    graph = net([("ACTIVATION", "a", ["x"], dims, {"op": "RELU"})], x=dims)
    result = check_strict(graph, predict(graph, judge(graph), orin, "fp16", mode), orin, mode)
    assert result.passes is passes
    assert result.offenders == (() if passes else ("a",))
    assert all("rank 3 is below 4" in message for message in result.messages)


def unknown_strict(graph: LayerGraph, verdicts: Any, platform: Platform, mode: str) -> StrictResult:
    prediction = predict(graph, verdicts, platform, "fp16", mode)
    known = known_as(graph, verdicts, prediction, platform, "fp16")
    return check_strict(graph, prediction, platform, mode, (), known)


@pytest.mark.parametrize("mode", ["strict", "standalone"])
def test_an_unknown_layer_leaves_the_answer_open_and_is_named(net: Any, judge: Any, xavier: Platform, mode: str) -> None:
    """It would also split the network in two regions; that is no failure, for it may as well run on the DLA."""
    graph = net([line("ACTIVATION", "a", "x"), line("SOFTMAX", "u", "a"), line("ACTIVATION", "b", "u")])
    result = unknown_strict(graph, judge(graph, unknown={"u": "not documented"}), xavier, mode)
    assert (result.passes, result.first_offender, result.offenders) == (None, "", ())
    assert [u.split()[-1] for u in result.unknowns] == ["u"]


def test_a_refused_layer_fails_a_strict_build_despite_unknown_layers(net: Any, judge: Any, xavier: Platform) -> None:
    graph = net([line("SOFTMAX", "u", "x"), line("REDUCE", "r", "u"), line("ACTIVATION", "b", "r")])
    verdicts = judge(graph, gpu={"r": "no"}, unknown={"u": "not documented"})
    result = unknown_strict(graph, verdicts, xavier, "standalone")
    assert (result.passes, result.first_offender) == (False, "r")


def test_known_as_is_none_without_unknown_layers(net: Any, judge: Any, xavier: Platform) -> None:
    graph = net([line("ACTIVATION", "a", "x")])
    verdicts = judge(graph)
    assert known_as(graph, verdicts, predict(graph, verdicts, xavier, "fp16"), xavier, "fp16") is None


@pytest.mark.parametrize("mode", ["strict", "standalone"])
def test_a_constant_output_of_the_network_is_an_offender(mode: str) -> None:
    """It is a constant layer, as a constant operand is."""
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "y")]
    weights = {"w": np.ones((8, 3, 1, 1), np.float32), "k": np.ones((1, 8), np.float32)}
    plain = edgedla.check(onnx_model(nodes, outputs=["y"], constants=weights), target="orin", mode=mode)
    both = edgedla.check(onnx_model(nodes, outputs=["y", "k"], constants=weights), target="orin", mode=mode)
    assert plain.strict is not None
    assert both.strict is not None
    assert (plain.strict.passes, plain.strict.offenders) == (True, ())
    assert (both.strict.passes, both.strict.offenders) == (False, ("k",))
