"""What both networks have in common runs once, and the proof of the whole network says the same as with two whole runs."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import numpy as np
import onnx
import pytest

from edgedla.fixes.fold import infer_shapes
from edgedla.fixes.proofs import shared as sharing
from edgedla.fixes.proofs.plain_session import session_of
from edgedla.fixes.proofs.shared import Shared, shared_of
from edgedla.fixes.proofs.whole_network import prove_network
from tests.models import constant, node, onnx_model

ir = pytest.importorskip("onnx_ir", reason="rewriting needs Python 3.10")

FEED = {"x": np.random.default_rng(0).standard_normal((1, 4, 8, 8), np.float32)}


def network(half: bool = False) -> Any:
    """Two branches of x, joined; the second has a weight that is large enough to be fed."""
    rng = np.random.default_rng(1)
    weights = {"w": (4, 4, 3, 3), "v": (64, 4, 3, 3), "u": (4, 64, 1, 1)}
    kind = np.float16 if half else np.float32
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("Conv", "x v", "c", pads=[1, 1, 1, 1]),
        node("Sigmoid", "c", "d"),
        node("Conv", "d u", "e"),
        node("Add", "b e", "f"),
        node("LeakyRelu", "f", "y", alpha=0.25),
    ]
    made = [constant(name, rng.standard_normal(shape, np.float32).astype(kind)) for name, shape in weights.items()]
    proto = onnx_model(nodes, {"x": (1, 4, 8, 8)}, {"y": (1, 4, 8, 8)}, made)
    if half:
        for port in (*proto.graph.input, *proto.graph.output):
            port.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    model = ir.from_proto(proto)
    infer_shapes(model)
    return model


def of(model: Any, output: str) -> Any:
    return next(n for n in model.graph if n.outputs[0].name == output)


def value(model: Any, name: str) -> Any:
    return next(v for n in model.graph for v in n.outputs if v.name == name)


def held(before: Any, after: Any) -> Shared:
    found = shared_of(before, after, 1)
    assert found is not None
    found.hold({**FEED, **session_of(before, sorted(found.border)).run(FEED)})
    return found


def rewired(model: Any) -> None:
    of(model, "f").replace_input_with(0, value(model, "a"))


def another_attribute(model: Any) -> None:
    of(model, "y").attributes["alpha"] = ir.AttrFloat32("alpha", 0.5)


def no_attribute(model: Any) -> None:
    del of(model, "y").attributes["alpha"]


def another_operator(model: Any) -> None:
    of(model, "d").op_type = "Tanh"


def another_weight(model: Any) -> None:
    weight = model.graph.initializers["v"]
    weight.const_value = ir.tensor(np.asarray(weight.const_value.numpy()) * np.float32(1.01), name="v")


def swapped_inputs(model: Any) -> None:
    join = of(model, "f")
    join.op_type = "Sub"
    first, second = join.inputs
    join.replace_input_with(0, second)
    join.replace_input_with(1, first)


def left_out(model: Any) -> None:
    value(model, "b").replace_all_uses_with(value(model, "a"))
    model.graph.remove(of(model, "b"), safe=True)


@pytest.mark.parametrize(
    "wrong", [rewired, another_attribute, no_attribute, another_operator, another_weight, swapped_inputs, left_out]
)
def test_a_wrong_change_anywhere_is_found_with_the_same_numbers(wrong: Callable[[Any], None]) -> None:
    before = network()
    after = before.clone()
    wrong(after)
    found = prove_network(before, after, [FEED], shared=held(before, after))
    assert found.within is False
    assert found == prove_network(before, after, [FEED])


def test_only_what_follows_a_change_runs_again() -> None:
    before = network()
    after = before.clone()
    another_operator(after)
    found = held(before, after)
    assert [n.outputs[0].name for n in found.rest] == ["d", "e", "f", "y"]
    assert found.border == {"b", "c", "y"}
    untouched = held(before, before.clone())
    assert (untouched.rest, untouched.border) == ((), {"y"})
    proof = prove_network(before, before.clone(), [FEED], shared=untouched)
    assert (proof.within, proof.rel_l2) == (True, 0.0)
    assert proof == prove_network(before, before.clone(), [FEED])


def test_float16_runs_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime rounds FLOAT16 at outputs only: a value that is read out is another one."""
    before = network(half=True)
    assert shared_of(before, before.clone(), 1) is None
    monkeypatch.setattr(sharing, "ROUNDED_LATE", ())
    assert shared_of(before, before.clone(), 1) is not None


@pytest.mark.parametrize(("inputs", "shares"), [(1, True), (2, False)])
def test_values_beyond_what_may_be_held_run_again(inputs: int, shares: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = network()
    monkeypatch.setattr(sharing, "MOST_HELD_BYTES", 4 * 4 * 8 * 8)
    assert (shared_of(before, before.clone(), inputs) is not None) == shares


def test_a_value_of_unknown_type_may_be_float16() -> None:
    before = network()
    value(before, "c").type = None
    assert shared_of(before, before.clone(), 1) is None


def test_what_was_not_held_runs_again() -> None:
    before = network()
    after = before.clone()
    rewired(after)
    found: Optional[Shared] = shared_of(before, after, 1)
    assert found is not None
    missing: Dict[str, np.ndarray] = dict(FEED)
    found.hold(missing)
    assert found.held == []
    assert prove_network(before, after, [FEED], shared=found) == prove_network(before, after, [FEED])
