"""Values beyond FP16 are found with their line, and the penalty reduces them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")

from edgedla.torch import Fp16Ranges  # noqa: E402


class Large(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.grow = torch.nn.Conv2d(1, 1, 1, bias=False)
        torch.nn.init.constant_(self.grow.weight, 70000.0)
        self.shrink = torch.nn.Conv2d(1, 1, 1, bias=False)
        torch.nn.init.constant_(self.shrink.weight, 1e-5)

    def forward(self, x: Any) -> Any:
        return self.shrink(self.grow(x))


def test_an_overflow_is_found_with_its_module_and_line() -> None:
    module = Large()
    with Fp16Ranges(module) as ranges:
        module(torch.ones(2, 1, 2, 2))
        module(torch.zeros(2, 1, 2, 2))
    found = ranges.overflows()
    assert [r.call.module for r in found] == ["grow"]
    assert found[0].absmax == pytest.approx(70000)
    assert "test_fp16_ranges.py" in ranges.report()
    assert "overflows FP16" in ranges.report()
    assert not module._forward_hooks


@pytest.mark.parametrize(("value", "overflows"), [(65504.0, False), (65505.0, True), (float("nan"), True)])
def test_fp16_overflow_is_reported_at_its_boundary(value: float, overflows: bool) -> None:
    module = torch.nn.Identity()

    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * value

    module = Scaled()
    with Fp16Ranges(module) as ranges:
        module(torch.ones(1, dtype=torch.float64))
    assert bool(ranges.overflows()) is overflows


def test_the_overflow_penalty_reduces_values_and_is_zero_in_range() -> None:
    module = Large()
    optimizer = torch.optim.Adam(module.parameters(), 2000.0)
    x = torch.ones(1, 1, 2, 2)
    penalties = []
    with Fp16Ranges(module, limit=0.5) as ranges:
        for _ in range(30):
            module(x)
            penalty = ranges.penalty()
            penalties.append(float(penalty.detach()))
            if penalty.requires_grad:
                optimizer.zero_grad()
                penalty.backward()
                optimizer.step()
    assert penalties[0] > 1
    assert penalties[-1] < 0.05
    assert float(module.grow(x).abs().max()) < 65504
