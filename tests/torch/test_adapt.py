"""adapt: equal networks where it claims so, wholly on the DLA, and refusals with their places."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")

import host_twin  # noqa: E402
import networks  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from edgedla.errors import UsageError  # noqa: E402
from edgedla.targets import platform_for  # noqa: E402
from edgedla.torch import adapt, check, prepare_qat  # noqa: E402
from edgedla.torch.adaptation import adapting  # noqa: E402
from edgedla.torch.adaptation.observing import observe  # noqa: E402
from edgedla.torch.adaptation.rewrites import ACTIVATIONS  # noqa: E402

TARGET: Dict[str, Any] = {"target": "agx-orin-64gb"}
SMALL = (1, 3, 16, 16)


def images(shape: Any = SMALL, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def vision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
        return getattr(models, name)(num_classes=10)

    return make


NETWORKS: Dict[str, Any] = {
    "gate": (lambda: networks.Small(gate=True), SMALL),
    "slices": (networks.Slices, SMALL),
    "mobilenet_v3_small": (vision("mobilenet_v3_small"), (1, 3, 64, 64)),
    "efficientnet_b0": (vision("efficientnet_b0"), (1, 3, 64, 64)),
    "resnet18": (vision("resnet18"), (1, 3, 64, 64)),
}
FAST = ("gate", "slices")


@pytest.mark.parametrize("precision", ["int8", "fp16"])
@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS])
def test_an_exact_adaptation_computes_the_same_in_one_loadable(name: str, precision: str) -> None:
    make, shape = NETWORKS[name]
    module, x = networks.settled(make()), images(shape)
    adapted = adapt(module, x, precision=precision, outputs_4d=True, **TARGET)
    assert adapted.exact
    assert adapted.refusals == ()
    assert adapted.after.totals.layers_gpu == 0
    assert adapted.after.totals.regions == 1 < adapted.before.totals.regions
    with torch.no_grad():
        want, result = module(x), adapted.module(x)
    assert result.shape == (*want.shape, 1, 1)
    error = (result.flatten(1) - want).abs().max() / want.abs().max()
    assert float(error) < 1e-5
    standalone = check(adapted.module, x, precision=precision, mode="standalone", **TARGET)
    assert standalone.strict is not None
    assert standalone.strict.passes


def test_adapt_keeps_the_flatten_unless_4d_outputs_are_allowed() -> None:
    module, x = networks.settled(networks.Small(gate=True)), images()
    adapted = adapt(module, x, **TARGET)
    with torch.no_grad():
        torch.testing.assert_close(adapted.module(x), module(x), rtol=1e-5, atol=1e-5)
    assert adapted.after.totals.layers_gpu == 1


def test_new_parts_are_on_the_device_of_the_inputs() -> None:
    module, x, platform = networks.settled(networks.Small(gate=True)), images(), platform_for(TARGET["target"])
    exported, report = adapting._checked(module, (x,), platform, "int8")
    calls, _ = observe(module, (x,), exported, report)
    work = adapting._Work(module, (x.to("meta"),))
    forms = [form for form in (work._form(call, "int8") for call in calls) if form is not None]
    kept = [tensor for form in forms for tensor in form.module.buffers()]
    assert kept
    assert all(tensor.is_meta for tensor in kept)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_module_on_a_gpu_is_adapted_there() -> None:
    module = networks.settled(networks.Small(gate=True)).cuda()
    adapted = adapt(module, images().cuda(), **TARGET)
    assert all(tensor.is_cuda for tensor in (*adapted.module.parameters(), *adapted.module.buffers()))


def test_adapt_reports_source_lines_and_leaves_the_module_unchanged() -> None:
    module = networks.settled(networks.Small(gate=True))
    text, state = str(module), {k: v.clone() for k, v in module.state_dict().items()}
    adapted = adapt(module, images(), **TARGET)
    assert str(module) == text
    assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())
    assert any(c.place.startswith("block.gate.pool (networks.py:") for c in adapted.changes)
    assert "layers on the GPU: 4 to 1" in str(adapted)


def test_checkpoints_of_the_module_fit() -> None:
    module = networks.settled(networks.Small(gate=True))
    adapted = adapt(networks.Small(gate=True), images(), **TARGET)
    assert set(adapted.module.state_dict()) == set(module.state_dict())
    adapted.module.load_state_dict(module.state_dict())
    with torch.no_grad():
        x = images(seed=3)
        torch.testing.assert_close(adapted.module.eval()(x), module(x), rtol=1e-5, atol=1e-5)


def test_an_adapted_module_trains_with_the_dlas_numbers(tmp_path: Path) -> None:
    adapted = adapt(networks.settled(networks.Small(gate=True)), images(), outputs_4d=True, **TARGET).module
    x = images((16, 3, 16, 16))
    prepared = prepare_qat(adapted, x[:1], "agx-orin-64gb", calibration=[x])
    assert {place.mode for place in prepared.places.by_call.values()} == {"int8"}
    optimizer = torch.optim.Adam(prepared.parameters(), 1e-3)
    prepared.train()
    for _ in range(3):
        loss = F.cross_entropy(prepared(x).flatten(1), torch.arange(16) % 10)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = host_twin.compare(prepared.eval(), images((2, 3, 16, 16), seed=5), tmp_path)
    assert found["worst"] < 1e-5


def test_adapt_leaves_modules_that_run_on_the_dla_unchanged() -> None:
    adapted = adapt(networks.settled(networks.Small()), images(), outputs_4d=True, **TARGET)
    assert [c.name for c in adapted.changes] == ["dense"]


def test_adapt_replaces_activations_on_request() -> None:
    class Smooth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act = nn.Conv2d(3, 4, 3), nn.SiLU()

        def forward(self, x: Any) -> Any:
            return self.act(self.conv(x))

    assert adapt(Smooth(), images(), **TARGET).changes == ()
    adapted = adapt(Smooth(), images(), activations={"silu": "relu"}, **TARGET)
    assert not adapted.exact
    assert isinstance(adapted.module.act, nn.ReLU)
    assert "computes something else" in str(adapted)
    with pytest.raises(UsageError, match="silu: relu"):
        adapt(Smooth(), images(), activations={"silu": "softsign"}, **TARGET)


@pytest.mark.parametrize(("old", "new"), ACTIVATIONS)
def test_every_exchange_can_be_made(old: str, new: str) -> None:
    row = ACTIVATIONS[old, new]
    module = nn.Sequential(nn.Conv2d(3, 4, 3), row.replace[0]())
    adapted = adapt(module, images(), activations={old: new}, **TARGET)
    assert type(adapted.module[1]) not in row.replace
    assert (f"{old} to {new}", False) in [(c.name, c.exact) for c in adapted.changes]


def test_adapt_ends_heads_before_the_decoder() -> None:
    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 2, 1)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.body(x))
            boxes, scores = self.boxes(x).flatten(2), self.scores(x).flatten(2).softmax(1)
            return torch.cat([boxes, scores], 1)

    module, x = Detector(), images()
    adapted = adapt(module, x, ending_at=("boxes", "scores"), **TARGET)
    boxes, scores = adapted.module(x)
    assert boxes.shape == (1, 4, 8, 8)
    assert scores.shape == (1, 2, 8, 8)
    assert adapted.after.totals.layers_gpu == 0
    with pytest.raises(UsageError, match="no part 'head'"):
        adapt(module, x, ending_at=("head",), **TARGET)


class Pooled(nn.Module):
    """A global average of maps of two sizes, by one part."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 3, 3, stride=2, padding=1), nn.AdaptiveAvgPool2d(1)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return self.pool(x) + self.pool(y)


class Moody(nn.Module):
    """A forward that does something else in training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        y = F.dropout(F.hardswish(self.conv(x)), 0.5, self.training)
        return y if self.training else y + x


class Wide(nn.Module):
    """A gate over 37 x 37, which no Resize of the DLA makes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 37)

    def forward(self, x: Any) -> Any:
        return x * torch.relu(self.conv(x))


class Ending(nn.Module):
    """A forward that ends the program where it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            sys.exit("no tensor")
        return F.hardswish(self.conv(x))


@pytest.mark.parametrize(
    ("module", "size", "place", "reason"),
    [
        (Pooled, 16, "pool", "several sizes"),
        (Moody, 16, "top module", "training mode"),
        (Wide, 37, "top module", "prime factor"),
        (Ending, 16, "top module", "cannot be traced: no tensor"),
    ],
)
def test_adapt_refusals_name_line_and_reason(module: Any, size: int, place: str, reason: str) -> None:
    x = images((1, 3, size, size))
    made = networks.settled(module())
    adapted = adapt(made, x, **TARGET)
    assert any(place in where and reason in why for where, why in adapted.refusals), adapted.refusals
    with torch.no_grad():
        torch.testing.assert_close(adapted.module.eval()(x), made(x), rtol=1e-5, atol=1e-5)
