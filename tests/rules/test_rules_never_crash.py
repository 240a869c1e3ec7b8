"""Rules answer for any numbers: odd ranks, dynamic and empty dims, scalars, unknown enum values."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.graph.kinds import KINDS, kind_class
from edgedla.rules import Support, load_rules
from edgedla.rules.apply import findings_of, verdict_of
from edgedla.targets import platform_for
from tests.amounts import examples

PLATFORMS = [("agx-orin-64gb", "10.3"), ("agx-orin-64gb", "11.4.1"), ("agx-xavier-32gb", "8.5.2"), ("agx-xavier-32gb", "7.1")]
DIM = st.sampled_from([-1, 0, 1, 2, 3, 7, 32, 33, 64, 1024, 8192, 8193, 1 << 31])
DIMS = st.lists(DIM, max_size=6).map(tuple)
PAIR = st.tuples(DIM, DIM)
WORD = st.sampled_from(["", "SUM", "MAX", "CLIP", "LEAKY_RELU", "NEAREST", "LINEAR", "EQUAL", "FILL", "NONSENSE"])
BY_TYPE = {
    "Tuple[int, ...]": DIMS,
    "Tuple[Tuple[int, ...], ...]": st.lists(DIMS, max_size=3).map(tuple),
    "Optional[Tuple[int, ...]]": st.none() | st.permutations([0, 1, 2, 3]).map(tuple),
    "Optional[Tuple[float, ...]]": st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0]), max_size=5).map(tuple),
    "Tuple[str, ...]": st.lists(WORD, max_size=2).map(tuple),
    "int": DIM,
    "float": st.sampled_from([-1.0, 0.0, 0.5, 6.0, 128.0]),
    "bool": st.booleans(),
    "str": WORD,
}
#: Spatial parameters come in pairs of one length from any network.
PAIRED = {"kernel", "window", "stride", "dilation", "pre_padding", "post_padding"}


def samples(layer_type):
    cls = kind_class(layer_type)
    drawn = {f.name: PAIR if f.name in PAIRED else BY_TYPE[str(f.type)] for f in fields(cls)}
    return st.builds(cls, **drawn)


@pytest.mark.parametrize("layer_type", sorted(KINDS) + ["SHAPE"])
def test_rules_never_crash_on_any_layer(layer_type):
    rules = load_rules()
    actives = [
        rules.active(layer_type, platform_for(t, trt=v), p, "fallback").rules for t, v in PLATFORMS for p in ("fp16", "int8")
    ]

    @settings(max_examples=examples(60), deadline=None)
    @given(kind=samples(layer_type))
    def answers(kind):
        for active in actives:
            found = findings_of(kind, "L", active, 2)
            assert all(f.finding.message and "{" not in f.finding.message for f in found)
            assert isinstance(verdict_of(0, "L", found, "layer").support, Support)

    answers()
