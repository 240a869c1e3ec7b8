"""Every rewrite holds where its examples say so, equal in ONNX Runtime, and refuses its near misses for their reason."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgedla.fixes.decoder import decoded
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Goal
from edgedla.fixes.rewrites import all_rewrites
from edgedla.quantization.session import open_session
from tests.fixes.rewrite_examples import example_model, outcome

CASES = [(rewrite, example) for rewrite in all_rewrites() for example in rewrite.examples]
IDS = [f"{rewrite.id}-{i}" for rewrite in all_rewrites() for i in range(len(rewrite.examples))]


@pytest.mark.parametrize(("rewrite", "example"), CASES, ids=IDS)
def test_each_rewrite_example_is_applied_or_refused(rewrite, example):
    goal = Goal(**{"approximate": 0.05, **dict(example.goal)})
    model = example_model(example)
    found = outcome(rewrite, model, goal)
    reasons = [r.reason for r in found.changes.refused]
    if example.refused:
        assert not found.changes.applied
        assert any(example.refused in reason for reason in reasons), reasons
        return
    if example.refused is None:
        assert not found.changes.applied
        assert reasons == []
        return
    assert [a.rewrite for a in found.changes.applied] != [], reasons
    assert [(p.status, p.detail) for p in found.proofs] == [("proved", "")] * len(found.proofs)
    fixed = onnx_ir().to_proto(found.model)
    onnx.checker.check_model(fixed, full_check=True)
    feeds = {
        i.name: np.random.default_rng(5).standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype("f")
        for i in model.graph.input
    }
    before = open_session(model.SerializeToString(), optimize=False).run(["y"], feeds)[0]
    names = [o.name for o in fixed.graph.output]
    outputs = dict(zip(names, open_session(fixed.SerializeToString(), optimize=False).run(names, feeds)))
    for site in found.changes.applied:
        outputs.update(decoded(site.decoder, outputs) if site.decoder is not None else {})
    after = outputs["y"]
    tolerance = {"rtol": 0.2, "atol": 0.2} if goal.approximate and rewrite.id in APPROXIMATE else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(after.reshape(-1), before.reshape(-1), **tolerance)


@pytest.mark.parametrize(("rewrite", "example"), CASES, ids=IDS)
def test_rewrites_are_idempotent(rewrite, example):
    goal = Goal(**{"approximate": 0.05, **dict(example.goal)})
    once = outcome(rewrite, example_model(example), goal)
    again = outcome(rewrite, onnx_ir().to_proto(once.model), goal)
    assert [a.output for a in again.changes.applied] == []


@pytest.mark.parametrize("rewrite", all_rewrites(), ids=lambda r: r.id)
def test_every_rewrite_has_examples_and_near_misses(rewrite):
    assert [e for e in rewrite.examples if e.refused == ""], "add an example that holds(...)"
    assert [e for e in rewrite.examples if e.refused != ""], "add a near miss: refuses(...) or no_pattern(...)"


def _approximate():
    from edgedla.rules.remedies import rewrite_entries

    return {entry.id for entry in rewrite_entries().values() if entry.equality == "approximate"}


APPROXIMATE = _approximate()


def test_the_list_in_the_rules_and_the_files_name_the_same_rewrites_in_the_same_order():
    from edgedla.rules.remedies import rewrite_entries

    listed, written = list(rewrite_entries()), [rewrite.id for rewrite in all_rewrites()]
    assert sorted(set(written) - set(listed)) == [], "add them to `rewrites` of rules/fixes.yaml"
    assert sorted(set(listed) - set(written)) == [], "no file has them"
    assert listed == written, "rules/fixes.yaml lists them in the order of edgedla/fixes/rewrites/__init__.py"
