"""Random instances of each pattern: every rewrite that applies gives the same numbers.

The suite runs a few of each; `benchmarks/bench_fix_proofs.py` runs 2,000.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgedla.fixes.apply import UNWORKABLE
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Goal
from edgedla.fixes.rewrites import all_rewrites
from tests.fixes.instances import GENERATORS
from tests.fixes.rewrite_examples import example_model, outcome

COUNT = 12


def test_every_rewrite_has_a_generator():
    missing = {rewrite.id for rewrite in all_rewrites()} ^ set(GENERATORS)
    assert missing == set(), "GENERATORS in tests/fixes/instances.py has one row for each rewrite"


@pytest.mark.parametrize("rewrite", all_rewrites(), ids=lambda r: r.id)
def test_rewrites_of_random_instances_are_proved(rewrite):
    applied = 0
    for seed in range(COUNT):
        example = GENERATORS[rewrite.id](np.random.default_rng([seed, 2]))
        found = outcome(rewrite, example_model(example), Goal(**dict(example.goal)))
        applied += len(found.changes.applied)
        assert not [r for r in found.changes.refused if UNWORKABLE in r.reason], example
        assert [p.detail for p in found.proofs] == [""] * len(found.changes.applied), example
        onnx.checker.check_model(onnx_ir().to_proto(found.model), full_check=True)
    assert applied, f"none of {COUNT} instances was rewritten: the generator makes near misses alone"
