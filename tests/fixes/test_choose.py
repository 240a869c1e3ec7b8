"""Which rewrite sites the search keeps."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Type

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.fixes.choose import Chooser, _most_trials
from edgedla.fixes.judge import Figures
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Goal
from edgedla.fixes.site import Rewrite, Site

#: Beside Neg, HardSigmoid and Gather on the DLA the padding pays nothing; the three pay nothing either, and without them it does.
NETWORK = """
    <ir_version: 8, opset_import: ["" : 18]>
    net (float[1,8,6,4] x) => (float[1,8,12,8] a, float[1,8,10,6] h, float[1,2,10,5] c, float[1,7,10,6] g) {
        sizes = Constant<value_ints = [1, 8, 12, 8]>()
        around = Constant<value_ints = [0, 0, 2, 1, 0, 0, 2, 1]>()
        taken = Constant<value_ints = [5, 7, 5, -7, 7, -7, -1]>()
        r = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, , , sizes)
        p = Pad(x, around)
        b = Conv(p, w1)
        a = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 0>(r)
        n = Neg(p)
        h = HardSigmoid(n)
        c = Conv<pads = [2, 1, 2, 2]>(b, w2)
        g = Gather<axis = 1>(n, taken)
    }
"""


def test_a_rewrite_that_fails_to_pay_combined_is_retried_alone() -> None:
    model = onnx.parser.parse_model(NETWORK)
    rng = np.random.default_rng(0)
    for name, shape in (("w1", (2, 8, 3, 3)), ("w2", (2, 2, 3, 3))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f"), name))
    fixed = edgedla.fix(model, target="agx-orin-64gb", trt="10.3", precision="int8")
    assert sorted(site.rewrite for site in fixed.applied) == ["pad-into-conv", "resize-scales"]
    assert "pad-into-conv" not in {site.rewrite for site in fixed.refused}
    assert edgedla.fix(fixed.to_proto(), target="agx-orin-64gb", trt="10.3", precision="int8").applied == ()


class JudgeOfOperators:
    """Figures by the operators that a network has, in place of a prediction."""

    purpose, last = "hybrid", None

    def __init__(self, latency_us: Dict[str, float], on_dla: Sequence[str]) -> None:
        self.latency_us, self.on_dla, self.seen = latency_us, on_dla, 0

    def figures(self, model: Any) -> Figures:
        self.seen += 1
        operators = [n.op_type for n in model.graph.node]
        share = sum(o in self.on_dla for o in operators) / len(operators)
        return Figures(layers=1, share_macs_dla=share, latency_us=sum(self.latency_us[o] for o in operators))


def replaces(name: str, operator: str, by: str) -> Rewrite:
    def match(network: Any, node: Any) -> Site:
        return Site(node.outputs[0], (node,), lambda editor: editor.op(by, node.inputs[0]))

    return Rewrite(name, (operator,), match)


class JudgeOfNetworks(JudgeOfOperators):
    """Figures by all operators together: what one costs depends on the others."""

    def figures(self, model: Any) -> Figures:
        return Figures(layers=1, latency_us=self.latency_us[" ".join(n.op_type for n in model.graph.node)])


def chosen(
    latency_us: Dict[str, float],
    *rewrites: Rewrite,
    relus: int = 1,
    on_dla: Sequence[str] = (),
    made_by: Type[JudgeOfOperators] = JudgeOfOperators,
) -> Any:
    text = '<ir_version: 8, opset_import: ["" : 13]> net (float[1,8,4,4] x0) => (float[1,8,4,4] y) {'
    text += "".join(f"x{n + 1} = Relu(x{n})" for n in range(relus)) + f"y = Tanh(x{relus})" + "}"
    model = onnx_ir().from_proto(onnx.parser.parse_model(text))
    judge = made_by({"Tanh": 0.0, **latency_us}, on_dla)
    chooser = Chooser(model, Goal(), rewrites, judge, "latency")  # type: ignore[arg-type]
    chooser.choose()
    return sorted({site.rewrite for site in chooser.sites}), judge.seen


@pytest.mark.parametrize(("second_us", "kept"), [(49.0, "first"), (48.9, "second"), (60.0, "first"), (50.0, "first")])
def test_another_rewrite_of_a_place_has_to_gain_a_fiftieth(second_us: float, kept: str) -> None:
    """They are in order of exactness."""
    first, second = replaces("first", "Relu", "Neg"), replaces("second", "Relu", "Abs")
    assert chosen({"Relu": 100.0, "Neg": 50.0, "Abs": second_us}, first, second)[0] == [kept]


@pytest.mark.parametrize(("new_us", "kept"), [(99.0, ["one"]), (100.0, []), (101.0, [])])
def test_a_rewrite_that_lowers_nothing_is_not_kept(new_us: float, kept: List[str]) -> None:
    assert chosen({"Relu": 100.0, "Neg": new_us}, replaces("one", "Relu", "Neg"))[0] == kept


@pytest.mark.parametrize(
    ("on_dla", "kept"), [((), ["faster"]), (("Relu",), []), (("Relu", "Abs"), ["faster"]), (("Abs",), ["faster"])]
)
def test_no_work_leaves_the_dla_to_save_time(on_dla: Sequence[str], kept: List[str]) -> None:
    costs = {"Relu": 50.0, "Abs": 10.0}
    assert chosen(costs, replaces("faster", "Relu", "Abs"), on_dla=on_dla)[0] == kept


@pytest.mark.parametrize(("alone_us", "kept"), [(90.0, ["one"]), (100.0, []), (110.0, [])])
def test_a_dropped_rewrite_comes_back_if_it_pays_without_those_dropped_after_it(alone_us: float, kept: List[str]) -> None:
    """Of both, each is better dropped; then only the first one alone is left to try."""
    costs = {"Relu Tanh": 100.0, "Neg Abs": 120.0, "Relu Abs": 110.0, "Neg Tanh": alone_us}
    rewrites = replaces("one", "Relu", "Neg"), replaces("two", "Tanh", "Abs")
    assert chosen(costs, *rewrites, made_by=JudgeOfNetworks)[0] == kept


def test_the_search_tries_no_more_than_its_most_single_sites_in_vain() -> None:
    """Every site pays: as a whole, and each of the first eight."""
    few, many = (chosen({"Relu": 100.0, "Neg": 50.0}, replaces("one", "Relu", "Neg"), relus=n)[1] for n in (8, 30))
    assert many == few


@pytest.mark.parametrize(
    ("layers", "trials"),
    [(1, 120), (75, 120), (76, 118), (900, 10), (901, 10), (1600, 10), (1601, 9), (4000, 4), (4001, 4), (6000, 4)],
)
def test_large_networks_get_fewer_trials(layers: int, trials: int) -> None:
    assert _most_trials(layers) == trials
