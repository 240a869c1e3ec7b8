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
    }
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
def test_a_cut_off_decoder_fails_its_proof_whichever_output_differs(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a", "b", "c"]
    before = {name: np.ones(3, np.float32) for name in names}
    # One value is far off and within no bound; another output has NaN on both sides, which is equal.
    after = {name: value + 5.0 * (name == names[wrong]) for name, value in before.items()}
    monkeypatch.setattr(sites, "run_fragment", lambda *_: before)
    monkeypatch.setattr(sites, "decoded", lambda *_: after)
    fragment = SimpleNamespace(constants={}, inputs={}, outputs=(), after=())
    ends = [SimpleNamespace(name=name, decoder=True) for name in names]
    site: Any = SimpleNamespace(decoder=object(), changed=ends, fragment=fragment)
    given: Any = ({}, "bit", 0.0, True, False, None)
    assert sites._prove(site, *given).status == "failed"
    monkeypatch.setattr(sites, "decoded", lambda *_: before)
    assert sites._prove(site, *given).status == "proved"
    site.decoder = None
    assert sites._prove(site, *given).status == "unproved"


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
    model = onnx_model([node("Conv", "x w", "y", name="c", auto_pad=auto_pad)], {"x": (1, 3, 8, 8)}, {"y": (1, 4, 6, 6)}, weights)
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


@pytest.mark.parametrize(("read", "applies"), [("", True), ("z", False), ("mask", False)])
def test_a_dropout_whose_mask_is_read_stays(read: str, applies: bool) -> None:
    nodes = [node("Relu", "x", "r"), node("Dropout", "r", "d mask", name="drop"), node("Relu", "d", "y")]
    if read == "z":
        nodes.append(node("Not", "mask", "z"))
    outputs = {"y": None, **({read: None} if read else {})}
    model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, outputs, opset=18)
    for entry in model.graph.output[1:]:
        entry.type.tensor_type.elem_type = onnx.TensorProto.BOOL
    found = outcome(REWRITES["no-ops"], model).changes
    assert bool(found.applied) is applies
    assert applies or [refusal.reason for refusal in found.refused] == ["its mask is read"]


@pytest.mark.parametrize(("step", "applies"), [(1, False), (2, True)])
def test_copies_of_a_whole_tensor_are_no_places_of_it(step: int, applies: bool) -> None:
    constants = [ints("b", 0, 0), ints("b1", 0, step - 1), ints("e", 8, 8), ints("a", 2, 3), ints("s", step, step)]
    nodes = [node("Slice", "x b e a s", "one"), node("Slice", "x b1 e a s", "two"), node("Concat", "one two", "y", axis=1)]
    assert reasons("focus", nodes, constants) == (None if applies else [])


@pytest.mark.parametrize(("channels", "applies"), [(3, True), (4, False)])
def test_weights_of_more_elements_than_a_model_should_have_are_refused(
    channels: int, applies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedla.fixes.rewrites.shapes import space_to_depth

    monkeypatch.setattr(space_to_depth, "MOST_ELEMENTS", 3 * 3 * 2**4)
    found = reasons("space-to-depth", [node("SpaceToDepth", "x", "y", blocksize=2)], [], (1, channels, 8, 8))
    assert found == (None if applies else ["one-hot weights of 4 channels are too many"])


@pytest.mark.parametrize(
    ("pads", "fits"),
    [
        ((0, 0, 0, 0), False),
        ((1, 1, 1, 1), True),
        ((2, 2, 0, 0), True),
        ((0, 0, 2, 2), True),
        ((0, 1, 0, 1), False),
        ((1, 0, 1, 0), False),
        ((1, 1, 1, 0), False),
        ((1, 1, 0, 1), False),
    ],
)
def test_windows_that_ceil_mode_would_add_count_both_sides_padding(pads: Any, fits: bool) -> None:
    from edgedla.fixes.network.library import onnx_ir
    from edgedla.fixes.network.network import Goal, Network
    from edgedla.fixes.rewrites.pooling.average_patterns import average_of
    from edgedla.fixes.site import Refused

    pool = node("AveragePool", "x", "y", kernel_shape=[2, 2], strides=[4, 4], pads=pads, ceil_mode=1)
    work = onnx_ir().from_proto(onnx_model([pool], {"x": (1, 3, 8, 8)}, {"y": (1, 3, 3, 3)}))
    network = Network(work, Goal())
    if fits:
        found = average_of(network, next(iter(work.graph)))
        assert found is not None
        assert list(found.pads) == list(pads)
        return
    with pytest.raises(Refused, match="ceil_mode"):
        average_of(network, next(iter(work.graph)))


def test_a_network_without_figures_counts_nothing() -> None:
    found = Figures().to_dict()
    counts = ("layers", "layers_dla", "layers_unknown", "macs", "share_macs_dla", "loadables", "dropped")
    assert [found[name] for name in counts] == [0] * len(counts)
    assert [found[name] for name in ("latency_us", "gpu_us", "passes")] == [None] * 3


def test_what_fix_says_is_not_changed_afterwards() -> None:
    assert changeable("fixes") == {"Budget", "Judge"}
