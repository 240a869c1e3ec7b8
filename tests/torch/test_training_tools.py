"""What training needs around rounding: activation checkpointing, FP32 forwards, the place of a NaN."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from edgedla.errors import UsageError  # noqa: E402
from edgedla.torch import NonFinite, export_qat, prepare_qat  # noqa: E402

TARGET = "orin-nx-16gb"


class Block(nn.Module):
    """Convolutions with BatchNormalization between two others, under a checkpoint if asked."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.first = nn.Conv2d(3, 3, 1)
        self.inner = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
        )
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if self.form == "plain":
            return self.last(self.inner(x))
        return self.last(checkpoint(self.inner, x, use_reentrant=self.form == "reentrant"))


def step(form: str, ranges: str) -> Tuple[torch.Tensor, Dict[str, torch.Tensor], torch.Tensor]:
    torch.manual_seed(0)
    module, x = Block(form), torch.rand(1, 3, 16, 16)
    prepared = prepare_qat(module, x, TARGET, calibration=[torch.rand(4, 3, 16, 16)], ranges=ranges).train()
    result = prepared(torch.rand(2, 3, 16, 16))
    result.square().mean().backward()
    export_qat(prepared)
    return result.detach(), {n: p.grad for n, p in prepared.named_parameters()}, prepared.absmax.clone()


@pytest.mark.parametrize("ranges", ["learned", "observed"])
@pytest.mark.parametrize("form", ["reentrant", "not reentrant"])
def test_checkpointed_parts_are_rounded_again_in_the_backward_pass(form: str, ranges: str) -> None:
    result, gradients, absmax = step("plain", ranges)
    again, others, other_absmax = step(form, ranges)
    assert torch.equal(result, again)
    assert torch.equal(absmax, other_absmax)
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, others[name], rtol=1e-4, atol=1e-9), name


def test_a_network_of_timm_trains_with_its_own_checkpoints() -> None:
    timm = pytest.importorskip("timm")
    module = timm.create_model("lcnet_050", num_classes=10).eval()
    x = torch.rand(2, 3, 64, 64)
    gradients = []
    for switch in (False, True):
        module.set_grad_checkpointing(switch)
        module.zero_grad()
        prepared = prepare_qat(module, x[:1], TARGET, calibration=[x]).train()
        prepared(x).square().mean().backward()
        gradients.append(module.conv_stem.weight.grad.clone())
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-7)


def test_a_forward_under_autocast_is_refused_in_words() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.conv(x)

    with pytest.raises(UsageError, match="under autocast"):
        prepare_qat(Wrapped(), torch.rand(1, 3, 8, 8), TARGET)


class Root(nn.Module):
    """The square root of zero: a finite value with an infinite gradient. `wrong` makes the value itself NaN."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.conv, self.wrong = nn.Conv2d(3, 4, 1, bias=False), wrong

    def forward(self, x: torch.Tensor) -> Any:
        y = self.conv(x)
        y = torch.log(y - 1e6) if self.wrong else y
        return torch.sqrt(y * 0)


@pytest.mark.parametrize(("wrong", "value", "gradient"), [(True, "log", None), (False, None, "mul")])
def test_the_first_value_and_gradient_that_are_not_finite_have_a_place(wrong: bool, value: Any, gradient: Any) -> None:
    module = Root(wrong)
    with NonFinite(module) as found:
        module(torch.rand(2, 3, 8, 8)).sum().backward()
    assert found
    assert (found.value.key[1] if found.value else None) == value
    assert gradient is None or found.gradient.key[1].strip("_") == gradient
    assert "test_training_tools.py:" in found.report()


def test_a_sound_step_reports_nothing_and_a_broken_parameter_is_named() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU())
    with NonFinite(module) as found:
        module(torch.rand(1, 3, 4, 4)).sum().backward()
    assert not found
    module[0].weight.data[0] = float("nan")
    with NonFinite(module) as found:
        module(torch.rand(1, 3, 4, 4)).sum().backward()
    assert found.parameters == ["0.weight"]
