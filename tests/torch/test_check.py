"""check, assert_dla and the callback on a module: right layers, right lines, module unchanged, clear refusals."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Dict, List

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")

import networks  # noqa: E402

import edgedla  # noqa: E402
from edgedla.errors import ModelError, UsageError  # noqa: E402
from edgedla.regions.values import Placed  # noqa: E402
from edgedla.torch import DlaCheck, NotOnDla, assert_dla, check, to_onnx  # noqa: E402
from edgedla.torch.export_failures import export_failure  # noqa: E402

X = torch.zeros(1, 3, 16, 16)
TARGET: Dict[str, Any] = {"target": "agx-orin-64gb"}


def exporters() -> List[Any]:
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        skip = pytest.mark.skip(reason="onnxscript is not installed")
        return ["torchscript", pytest.param("dynamo", marks=skip)]
    return ["torchscript", "dynamo"]


def line_of(function: Any, text: str) -> int:
    """The line of a function's source that holds the text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("exporter", exporters())
def test_findings_name_module_and_line(exporter: str) -> None:
    report = check(networks.Small(gate=True), X, exporter=exporter, **TARGET)
    on_gpu = {x.source.module: x for x in report.layers if x.placed is Placed.GPU and x.cause.is_root and x.source}
    pool = on_gpu["block.gate.pool"]
    assert pool.type == "REDUCE"
    assert Path(pool.source.file) == Path(networks.__file__)
    assert pool.source.line == line_of(networks.Gate.forward, "self.pool(x)")
    assert on_gpu["block.gate.gate"].source.line == line_of(networks.Gate.forward, "self.gate(scale)")


@pytest.mark.parametrize("exporter", exporters())
def test_a_call_in_a_helper_function_names_the_helpers_line(exporter: str) -> None:
    report = check(networks.Small(), X, exporter=exporter, **TARGET)
    classifier = next(x for x in report.layers if x.source and x.source.module == "classifier.1")
    assert classifier.source.line == line_of(networks.Small._scores, "self.classifier")


def test_a_module_that_is_used_twice_has_two_lines() -> None:
    report = check(networks.Small(), X, **TARGET)
    lines = [x.source.line for x in report.layers if x.source and x.source.module == "block.relu"]
    assert lines == [line_of(networks.Block.forward, "self.bn1"), line_of(networks.Block.forward, "return self.relu")]


def test_names_are_those_of_a_plain_export() -> None:
    model = to_onnx(networks.Small(), X)
    names = [n.name for n in model.graph.node]
    assert "/block/relu/Relu" in names
    assert "/block/relu/Relu_1" in names
    assert not any("op@" in text for n in model.graph.node for text in (n.name, *n.input, *n.output))
    assert [i.name for i in model.graph.input] == ["x"]
    assert [o.name for o in model.graph.output] == ["output"]


def test_check_of_an_untrained_module_equals_that_of_the_trained_one() -> None:
    """Equal parameters of an untrained network are shared by the exporter, which would keep layers apart."""
    torch.manual_seed(0)
    untrained, trained = networks.Small(gate=True), networks.Small(gate=True)
    for parameter in trained.parameters():
        torch.nn.init.normal_(parameter)
    first, second = check(untrained, X, **TARGET), check(trained, X, **TARGET)
    assert [(x.name, x.placed) for x in first.layers] == [(x.name, x.placed) for x in second.layers]
    assert first.notes == second.notes


def test_check_does_not_change_the_module() -> None:
    module = networks.Small().train()
    module.block.bn1.eval()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    check(module, X, **TARGET)
    assert module.training
    assert not module.block.bn1.training
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


def test_to_onnx_names_inputs_and_outputs_in_order() -> None:
    class Two(torch.nn.Module):
        def forward(self, left: Any, right: Any) -> Any:
            return left + right

    graph = to_onnx(Two(), {"left": X, "right": X}, output_names=("sum",)).graph
    assert [i.name for i in graph.input] == ["left", "right"]
    assert [o.name for o in graph.output] == ["sum"]
    assert [i.name for i in to_onnx(Two(), [X, X]).graph.input] == ["left", "right"]
    with pytest.raises(UsageError, match="left, right"):
        to_onnx(Two(), {"first": X})
    with pytest.raises(UsageError, match="3 example inputs"):
        to_onnx(Two(), [X, X, X])
    with pytest.raises(UsageError, match="2 output names"):
        to_onnx(Two(), [X, X], output_names=("a", "b"))
    with pytest.raises(UsageError, match="tensors"):
        to_onnx(Two(), [1, 2])


def test_an_operator_that_pytorch_cannot_export_leaves_standard_output_alone(capfd: pytest.CaptureFixture[str]) -> None:
    class Shuffled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.threshold(x, 0.1, 0.2)

    with pytest.raises(ModelError, match="cannot export the module: .*threshold"):
        to_onnx(Shuffled(), X)
    assert capfd.readouterr().out == ""


def test_a_failed_export_names_the_line_of_the_last_call() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(x) @ torch.zeros(3, 3)

    with pytest.raises(ModelError, match=r"cannot export .*") as error:
        to_onnx(Broken(), X)
    assert "test_check.py" in str(error.value.where)


def test_assert_dla_passes_and_fails_with_lines() -> None:
    report = assert_dla(networks.Small(), X, max_loadables=2, max_gpu_layers=1, **TARGET)
    assert report.totals.regions == 2
    with pytest.raises(NotOnDla) as error:
        assert_dla(networks.Small(gate=True), X, max_loadables=1, **TARGET)
    text = str(error.value)
    assert f"networks.py:{line_of(networks.Gate.forward, 'self.pool(x)')}" in text
    assert "AVG" in text
    assert "allowed: 1; cut at" in text
    assert error.value.report.totals.layers_gpu > 0


def test_assert_dla_accepts_exempt_modules_and_a_layer_count() -> None:
    module = networks.Small(gate=True)
    with pytest.raises(NotOnDla, match="allowed: 2"):
        assert_dla(module, X, max_gpu_layers=2, **TARGET)
    assert_dla(module, X, gpu=("block.gate*", ""), **TARGET)
    with pytest.raises(NotOnDla, match="no DLA"):
        assert_dla(networks.Small(), X, target="orin-nano-8gb")


def test_the_callback_checks_once_and_only_on_the_main_process() -> None:
    class Accelerator:
        is_main_process, waited = True, 0

        def unwrap_model(self, module: Any) -> Any:
            return module

        def wait_for_everyone(self) -> None:
            self.waited += 1

    said: List[str] = []
    callback, accelerator = DlaCheck(X, say=said.append, **TARGET), Accelerator()
    report = callback(accelerator, networks.Small())
    assert callback(accelerator, networks.Small()) is report
    assert len(said) == 1
    assert "layers on the DLA" in said[0]
    other = DlaCheck(X, **TARGET)
    accelerator.is_main_process = False
    assert other(accelerator, networks.Small()) is None
    with pytest.raises(NotOnDla):
        DlaCheck(X, demand=True, max_loadables=1, **TARGET).on(networks.Small(gate=True))


def test_lightning_calls_it_when_fit_starts() -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed")
    callback = DlaCheck(X, **TARGET)

    class Trainer:
        is_global_zero = True

    callback.lightning().on_fit_start(Trainer(), networks.Small())
    assert callback.report is not None


@pytest.mark.parametrize("family", ["torchvision", "timm"])
@pytest.mark.parametrize("exporter", exporters())
def test_findings_in_published_networks_name_the_line(family: str, exporter: str) -> None:
    if family == "torchvision":
        models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
        module, path = models.mobilenet_v3_small(), "features.1.block.1.avgpool"
        from torchvision.ops import misc

        function, text = misc.SqueezeExcitation._scale, "self.avgpool(input)"
    else:
        timm = pytest.importorskip("timm", reason="timm is not installed")
        module, path = timm.create_model("mobilenetv3_small_050"), "blocks.0.0.se"
        from timm.models._efficientnet_blocks import SqueezeExcite

        function, text = SqueezeExcite.forward, "x.mean("
    report = check(module, torch.zeros(1, 3, 64, 64), exporter=exporter, **TARGET)
    layer = next(x for x in report.layers if x.type == "REDUCE" and x.source and x.source.module == path)
    assert layer.source.file == inspect.getsourcefile(function)
    assert layer.source.line == line_of(function, text)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["torchvision", "timm"])
@pytest.mark.parametrize("exporter", exporters())
def test_resnet_50_names_the_line_of_its_average(family: str, exporter: str) -> None:
    if family == "torchvision":
        models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
        module, function, text = models.resnet50(), models.ResNet._forward_impl, "self.avgpool(x)"
    else:
        timm = pytest.importorskip("timm", reason="timm is not installed")
        from timm.layers.adaptive_avgmax_pool import SelectAdaptivePool2d

        module, function, text = timm.create_model("resnet50"), SelectAdaptivePool2d.forward, "self.pool(x)"
    report = check(module, torch.zeros(1, 3, 224, 224), exporter=exporter, precision="int8", **TARGET)
    on_gpu = [x for x in report.layers if x.placed is Placed.GPU and x.cause.is_root]
    place = inspect.getsourcefile(function), line_of(function, text)
    assert place in [(x.source.file, x.source.line) for x in on_gpu if x.source is not None]


def test_the_public_names_can_be_imported() -> None:
    for name in edgedla.torch.__all__:
        assert getattr(edgedla.torch, name) is not None


def test_a_failing_export_names_its_cause() -> None:
    try:
        try:
            raise AttributeError("'tuple' object has no attribute 'dtype'")
        except AttributeError as inner:
            raise RuntimeError("\x1b[96mwhen translating node bn") from inner
    except RuntimeError as e:
        error = RuntimeError("Step 3/3 failed")
        error.__cause__ = e
    text = str(export_failure(error, None))
    assert "export the module: when translating node bn: 'tuple' object has no attribute 'dtype'" in text
    assert "try the other exporter" in text


def test_a_size_that_depends_on_data_is_named_with_the_way_round_it() -> None:
    error = RuntimeError("Could not guard on data-dependent expression " + "4*Min(300, u0) + " * 99)
    failure = export_failure(error, None)
    assert "use the torchscript exporter, or leave the decoding out" in str(failure.hint)
    assert len(str(failure)) < 500
