"""Segments give what one session gives, and run only what changed."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import onnx
import pytest

from edgedla.builder.host import segments
from edgedla.builder.host.segments import Segments
from edgedla.importers.model_file.tensor_types import tensor_types
from edgedla.quantization.session import OnnxSession, open_session

#: Eight products with a scale each; `m2` is added far behind, and `y` lies in the middle.
_SCALES = [f"s{i}" for i in range(8)]
_NODES = "m0 = Mul(x, s0) " + " ".join(f"m{i} = Mul(m{i - 1}, s{i})" for i in (1, 2, 3)) + " y = Relu(m3) "
_NODES += "m4 = Mul(y, s4) m5 = Mul(m4, s5) a = Add(m5, m2) m6 = Mul(a, s6) z = Mul(m6, s7)"


def model_of(nodes: str = _NODES) -> Any:
    inputs = ", ".join(f"float {name}" for name in _SCALES)
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,64] x, {inputs}) => (float[1,64] y, float[1,64] z) {{ {nodes} }}'
    )


def scalars(**changed: float) -> Any:
    return {name: np.asarray(changed.get(name, 1.5), np.float32) for name in _SCALES}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> List[List[str]]:
    """The outputs asked of each session that ran."""
    asked: List[List[str]] = []
    run = OnnxSession.run

    def counted(self: Any, names: Any, feed: Any) -> Any:
        asked.append(list(names))
        return run(self, names, feed)

    monkeypatch.setattr(OnnxSession, "run", counted)
    return asked


def test_a_run_begins_where_a_scale_changed_and_gives_the_same(ran: List[List[str]]) -> None:
    model = model_of()
    whole = open_session(model.SerializeToString())
    parts = Segments(model, ("y", "z"), _SCALES, tensor_types(model), 2)
    feeds = [{"x": np.random.default_rng(i).standard_normal((1, 64)).astype(np.float32)} for i in range(3)]
    for changed, sessions in (({}, 2), ({}, 0), ({"s7": 0.25}, 1), ({"s1": 4.0, "s7": 0.25}, 2), ({"s1": 4.0}, 1)):
        ran.clear()
        given = list(parts.runs(feeds, scalars(**changed)))
        assert len(ran) == sessions * len(feeds)
        for feed, values in zip(feeds, given):
            want = whole.run(["y", "z"], {**feed, **scalars(**changed)})
            assert [values[name].tobytes() for name in ("y", "z")] == [w.tobytes() for w in want]
    ran.clear()
    next(parts.runs(feeds[:1], scalars()))
    assert len(ran) == 2, "another list of samples"


def test_what_does_not_fit_is_not_held(ran: List[List[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_BYTES", 1024)
    model = model_of()
    parts = Segments(model, ("y", "z"), _SCALES, tensor_types(model), 2)
    feeds = [{"x": np.full((1, 64), i, np.float32)} for i in range(3)]
    for sessions in (6, 4):
        # Of one sample 768 bytes are held: m2, y and z.
        ran.clear()
        list(parts.runs(feeds, scalars()))
        assert len(ran) == sessions


@pytest.mark.parametrize(
    ("nodes", "types"),
    [
        (_NODES, False),
        # Not in order: `m2` is read before it is made.
        (_NODES[_NODES.index("m3") :] + " " + _NODES[: _NODES.index("m3")], True),
    ],
)
def test_models_that_cannot_be_cut_are_one_segment(nodes: str, types: bool, ran: List[List[str]]) -> None:
    model = model_of(nodes)
    known = tensor_types(model_of()) if types else {}
    (values,) = Segments(model, ("y", "z"), _SCALES, known, 2).runs([{"x": np.ones((1, 64), np.float32)}], scalars())
    assert len(ran) == 1
    np.testing.assert_allclose(values["y"], 1.5**4)
