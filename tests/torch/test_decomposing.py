"""Decompositions traced once per form: the exporter's result stays the same."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import networks  # noqa: E402

from edgedla.torch import decomposing, to_onnx  # noqa: E402
from edgedla.torch.export_failures import DYNAMO_FITS, release_of  # noqa: E402

pytestmark = pytest.mark.skipif(
    release_of(torch.__version__) < DYNAMO_FITS, reason="this PyTorch does not fit today's onnxscript"
)

X = torch.zeros(1, 3, 16, 16)


class Twice(torch.nn.Module):
    """A tensor is read under its own name before and after it is written to."""

    def forward(self, x: Any) -> Any:
        y = torch.nn.functional.avg_pool2d(x, 2)
        before = y * 2
        y += 1
        return before + y


class View(torch.nn.Module):
    """What is written to has another name: PyTorch decomposes this itself."""

    def forward(self, x: Any) -> Any:
        y = x * 2
        left, right = y.chunk(2, 2)
        left.relu_()
        return y + right.repeat(1, 1, 2, 1)


class Parts(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        left, right = torch.nn.functional.relu(x, inplace=False).chunk(2, 2)
        return torch.cat((torch.nn.functional.dropout(left, training=False).relu_() + 1, right), 2)


def operators(model: Any) -> List[Tuple[str, List[int]]]:
    return [(n.op_type, [len(n.input), len(n.output)]) for n in model.graph.node]


@pytest.mark.parametrize(
    "module", [networks.Small(gate=True), Twice(), View(), Parts()], ids=lambda m: type(m).__name__
)
def test_the_faster_decomposition_gives_pytorchs_own_model(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx.reference

    made = to_onnx(module, X, exporter="dynamo")
    plain = torch.onnx.export(module.eval(), (X,), dynamo=True, verbose=False, opset_version=18, optimize=True)
    assert operators(made) == operators(plain.model_proto)
    x = torch.randn(X.shape, generator=torch.Generator().manual_seed(0))
    value = onnx.reference.ReferenceEvaluator(made).run(None, {made.graph.input[0].name: x.numpy()})[0]
    assert torch.allclose(torch.from_numpy(value), module(x.clone()), atol=1e-5)


def test_each_decomposition_is_traced_once_per_form(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: List[Any] = []
    original = decomposing._traced

    def counted(node: Any, table: Any) -> Any:
        traced.append(node.target)
        return original(node, table)

    monkeypatch.setattr(decomposing, "_traced", counted)
    block = [torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.BatchNorm2d(3), torch.nn.ReLU(inplace=True)]
    model = to_onnx(torch.nn.Sequential(*block * 6), X, exporter="dynamo")
    assert len([n for n in model.graph.node if n.op_type == "Relu"]) == 6
    assert [str(t) for t in traced] == ["aten.batch_norm.default"]


def test_aliased_in_place_writes_are_left_to_pytorchs_decomposition() -> None:
    for module, known in ((Twice(), True), (View(), False), (Parts(), False)):
        program = torch.export.export(module.eval(), (X,), strict=False)
        try:
            decomposing._parts(program, torch.export.default_decompositions())
        except decomposing._Unknown:
            assert not known, module
        else:
            assert known, module
