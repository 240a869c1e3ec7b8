"""Properties of whole predictions on random networks with matrix products, biases, shuffles and mixed batches."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgedla.regions import Cause, Placed, predict
from edgedla.regions.strict import check_strict
from edgedla.rules.verdict import Support
from edgedla.targets import Platform
from tests.amounts import amount, examples

Lines = List[Tuple[str, str, List[str], Tuple[int, ...], Dict[str, Any]]]
#: Dims that a reshape can turn into each other: 64 elements each.
DIMS = [(1, 64), (64, 1), (1, 64, 1, 1), (1, 4, 4, 4), (2, 8, 2, 2), (1, 1, 8, 8), (1, 16, 4)]


@st.composite
def networks(draw: st.DrawFn) -> Lines:
    """Every layer reads one or two earlier ones; shapes always fit."""
    lines: Lines = []
    dims: Dict[str, Tuple[int, ...]] = {"x": (1, 4, 4, 4)}
    for i in range(draw(st.integers(1, 12))):
        source = draw(st.sampled_from(sorted(dims)))
        shape, name = dims[source], f"l{i}"
        kind = draw(st.sampled_from(["act", "reshape", "transpose", "matmul", "bias", "sum"]))
        if kind == "reshape":
            out = draw(st.sampled_from(DIMS))
            lines.append(("SHUFFLE", name, [source], out, {"reshape": list(out)}))
        elif kind == "transpose":
            order = draw(st.permutations(range(len(shape))))
            out = tuple(shape[a] for a in order)
            lines.append(("SHUFFLE", name, [source], out, {"first_transpose": list(order)}))
        elif kind == "matmul":
            out = shape
            lines.append(("MATRIX_MULTIPLY", name, [source, f"={shape[-1]}x{shape[-1]}"], out, {"op1": "NONE"}))
        elif kind == "bias":
            out = shape
            lines.append(("ELEMENTWISE", name, [source, f"={shape[-1]}"], out, {"op": "SUM"}))
        elif kind == "sum":
            out = shape
            other = draw(st.sampled_from(sorted(n for n, d in dims.items() if d == shape)))
            lines.append(("ELEMENTWISE", name, [source, other], out, {"op": "SUM"}))
        else:
            out = shape
            lines.append(("ACTIVATION", name, [source], out, {"op": "RELU"}))
        dims[name] = out
    return lines


@settings(max_examples=examples(amount(80, 250)), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=networks(), data=st.data(), precision=st.sampled_from(["fp16", "int8"]))
def test_every_layer_is_placed_once_with_a_reason(
    net: Any, judge: Any, orin: Platform, lines: Lines, data: st.DataObject, precision: str
) -> None:
    graph = net(lines)
    names = st.sets(st.sampled_from([line[1] for line in lines]))
    gpu, unknown, second = data.draw(names), data.draw(names), data.draw(names)
    verdicts = judge(graph, dict.fromkeys(gpu, "no"), dict.fromkeys(unknown, "?"), dict.fromkeys(second, "second"))
    prediction = predict(graph, verdicts, orin, precision)
    in_regions = [i for r in prediction.regions for i in r.layers]
    assert len(in_regions) == len(set(in_regions)), "no layer stands in two regions"
    for p, verdict in zip(prediction.layers, verdicts):
        assert p.reason
        assert p.support is verdict.support
        assert (p.region is not None) == (p.index in in_regions)
        assert (p.placed is Placed.DLA) == (p.region is not None and prediction.regions[p.region].kept)
        if p.placed is Placed.DLA:
            assert p.support is Support.DLA
        if p.placed is Placed.FOLDED:
            assert graph.layers[p.index].type == "SHUFFLE"
        if p.cause in (Cause.FUSED, Cause.SUBGRAPH_LIMIT):
            assert p.because_of
            assert p.index not in p.because_of
    assert len(prediction.kept) <= 16
    strict = check_strict(graph, prediction, orin, "strict")
    if strict.passes:
        assert {p.placed for p in prediction.layers} <= {Placed.DLA, Placed.FOLDED}
    else:
        assert strict.messages, "a refused build has a reason"


@settings(max_examples=examples(amount(80, 100)), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=networks())
def test_with_all_layers_supported_only_shuffles_and_the_cap_use_the_gpu(
    net: Any, judge: Any, orin: Platform, lines: Lines
) -> None:
    """With every layer supported, only shuffles beside transformed matrix products and the cap put layers on the GPU."""
    graph = net(lines)
    for p in predict(graph, judge(graph), orin, "fp16").layers:
        if p.placed is Placed.GPU and p.cause is not Cause.SUBGRAPH_LIMIT:
            assert graph.layers[p.index].type == "SHUFFLE"
            assert all(graph.layers[j].type == "MATRIX_MULTIPLY" for j in p.because_of)
