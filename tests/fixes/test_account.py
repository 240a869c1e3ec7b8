"""What fix tells of sites that it left, and the parts of proofs and patterns that its examples do not reach."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any, List, Optional

import numpy as np
import onnx
import pytest
from onnx import helper

if sys.version_info < (3, 10):
    pytest.skip("rewriting needs onnx-ir, which needs Python 3.10", allow_module_level=True)

from edgedla.errors import ModelError
from edgedla.fixes.account import refused_sites
from edgedla.fixes.apply import Changes
from edgedla.fixes.choose import Choice
from edgedla.fixes.judge import Figures
from edgedla.fixes.network.sound import _WINDOWS, require_sound_nodes
from edgedla.fixes.proofs import sites
from edgedla.fixes.proofs.comparison import Proof
from edgedla.fixes.proofs.float_types import _gap
from edgedla.fixes.result import speedup
from edgedla.fixes.rewrites import all_rewrites
from tests.fixes.rewrite_examples import outcome
from tests.frozen import changeable
from tests.models import ints, node, onnx_model

REWRITES = {rewrite.id: rewrite for rewrite in all_rewrites()}


def test_sites_left_for_their_cost_and_sites_skipped_are_both_told() -> None:
    figures: Any = None
    choice = Choice(frozenset({("a", "x"), ("a", "failed"), ("a", "done")}), figures, figures, (), 1)
    done: Any = SimpleNamespace(output="done")
    failed = Proof("failed", "bit", detail="another value")
    told = refused_sites(Changes((done,), (), (("b", "y"),)), choice, {("a", "failed"): failed})
    assert [(site.rewrite, site.node, site.cause) for site in told] == [
        ("a", "x", "cost"),
        ("b", "y", "cost"),
        ("a", "failed", "proof"),
    ]


def test_the_operators_with_a_window_are_those_whose_schema_has_one() -> None:
    """Their numbers are checked before any rewrite does arithmetic with them."""
    with_window = {
        schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and "kernel_shape" in schema.attributes
    }  # fmt: skip
    # MaxUnpool turns a MaxPool back; no rewrite reads it.
    assert with_window - {"MaxUnpool"} == _WINDOWS


@pytest.mark.parametrize("operator", sorted(_WINDOWS))
def test_a_window_of_nothing_is_refused_for_every_operator_that_has_one(operator: str) -> None:
    names = ["a"] * max(onnx.defs.get_schema(operator, 19, "").min_input, 1)
    for strides, sound in (([1, 1], True), ([0, 1], False)):
        nodes = [helper.make_node(operator, names, ["y"], kernel_shape=[3, 3], strides=strides)]
        if sound:
            require_sound_nodes(nodes, 19)
        else:
            with pytest.raises(ModelError):
                require_sound_nodes(nodes, 19)


def test_values_of_another_shape_or_other_whole_numbers_are_no_rounding() -> None:
    narrow, wide = np.ones((2, 3), np.float16), np.ones((3, 2), np.float32)
    assert _gap(narrow, wide, False) == (math.inf, 0.0)
    assert _gap(np.array([1, 2]), np.array([1, 2]), False) == (0.0, 0.0)
    for levels, far in ((False, True), (True, False)):
        gap = _gap(np.array([1, 2]), np.array([1, 3]), levels)
        assert gap is not None
        assert (gap[0] > gap[1]) is far
    assert _gap(np.full(2, np.inf, np.float16), np.ones(2, np.float32), False) is None


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_cut_off_decoder_fails_its_proof_whichever_output_differs(
    wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c"]
    before = {name: np.ones(3, np.float32) for name in names}
    # One value is far off and within no bound; another output has NaN on both sides, which is equal.
    after = {name: value + 5.0 * (name == names[wrong]) for name, value in before.items()}
    monkeypatch.setattr(sites, "run_fragment", lambda *_: before)
    monkeypatch.setattr(sites, "decoded", lambda *_: after)
    site: Any = SimpleNamespace(decoder=object(), changed=[SimpleNamespace(name=name) for name in names])
    fragment: Any = None
    assert sites._prove_decoder(site, fragment, {}, "seeded").status == "failed"
    monkeypatch.setattr(sites, "decoded", lambda *_: before)
    assert sites._prove_decoder(site, fragment, {}, "seeded").status == "proved"


def reasons(rewrite: str, nodes: List[Any], constants: Any, dims: Any = (1, 3, 8, 8)) -> Optional[List[str]]:
    """Why the rewrite refuses the network's sites; None where it applies, and its proof holds."""
    found = outcome(REWRITES[rewrite], onnx_model(nodes, {"x": dims}, {"y": None}, constants, opset=18))
    if found.changes.applied:
        assert {proof.status for proof in found.proofs} == {"proved"}
        return None
    return [refusal.reason for refusal in found.changes.refused]


@pytest.mark.parametrize(
    ("given", "value", "said"),
    [
        ("p", None, None),
        ("p v", 0.0, None),
        ("p v", 1.0, "another value than 0"),
        ("p  a", None, None),
        ("p v a", 2.0, "another value"),
    ],
)
def test_padding_moves_into_a_convolution_only_where_it_adds_zeros(
    given: str, value: Optional[float], said: Optional[str]
) -> None:
    axes = "a" in given.split(" ")
    constants = [ints("p", 1, 1, 1, 1) if axes else ints("p", 0, 0, 1, 1, 0, 0, 1, 1)]
    if value is not None:
        constants.append(onnx.numpy_helper.from_array(np.array(value, np.float32), "v"))
    if axes:
        constants.append(ints("a", 2, 3))
    weights = onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    pad = helper.make_node("Pad", ["x", *given.split(" ")], ["padded"], name="pad")
    found = reasons("pad-into-conv", [pad, node("Conv", "padded w", "y", name="c")], [*constants, weights])
    assert found is None if said is None else any(said in reason for reason in found or [])


@pytest.mark.parametrize(("axis", "begin"), [(2, 0), (3, 0), (2, 1), (3, 1)])
def test_a_slice_along_one_side_alone_keeps_all_of_the_other(axis: int, begin: int) -> None:
    names = {"strided-slice", "slice-conv"} & set(REWRITES) or {name for name in REWRITES if "slice" in name}
    constants = [ints("b", begin), ints("e", 2**31), ints("a", axis), ints("s", 2)]
    found = [reasons(name, [node("Slice", "x b e a s", "y", name="cut")], constants) for name in sorted(names)]
    assert None in found, found


@pytest.mark.parametrize(("auto_pad", "applies"), [("NOTSET", True), ("VALID", True), ("SAME_UPPER", False)])
def test_a_convolution_that_pads_by_itself_is_left(auto_pad: str, applies: bool) -> None:
    from edgedla.fixes.network.library import onnx_ir
    from edgedla.fixes.network.network import Goal, Network
    from edgedla.fixes.rewrites.convolution.patterns import window_of
    from edgedla.fixes.site import Refused

    weights = {"w": np.ones((4, 3, 3, 3), np.float32)}
    model = onnx_model(
        [node("Conv", "x w", "y", name="c", auto_pad=auto_pad)], {"x": (1, 3, 8, 8)}, {"y": (1, 4, 6, 6)}, weights
    )
    work = onnx_ir().from_proto(model)
    network = Network(work, Goal())
    conv = next(iter(work.graph))
    if applies:
        window = window_of(network, conv)
        assert window is not None
        assert (window.kernel, window.pads) == ([3, 3], [0, 0, 0, 0])
    else:
        with pytest.raises(Refused, match="auto_pad is SAME_UPPER"):
            window_of(network, conv)


@pytest.mark.parametrize(
    ("before", "after", "ratio"), [(200.0, 100.0, 2.0), (None, 100.0, None), (200.0, None, None), (200.0, 0.0, None)]
)
def test_a_gain_is_known_where_both_times_are(before: Any, after: Any, ratio: Any) -> None:
    one, other = (SimpleNamespace(latency_us=us) for us in (before, after))
    assert speedup(one, other) == ratio  # type: ignore[arg-type]
    assert Figures.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_what_fix_says_is_not_changed_afterwards() -> None:
    assert changeable("fixes") == {"Budget", "Judge"}
