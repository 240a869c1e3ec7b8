"""The parts of examples/08's trainer: a step, averaged weights, and which weights are kept."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "08_train_for_the_dla"))

import captured  # noqa: E402
import keeping  # noqa: E402


def test_a_captured_step_equals_the_optimizers_and_accepts_a_new_rate() -> None:
    torch.manual_seed(0)
    module, x, y = torch.nn.Linear(4, 2), torch.randn(8, 4), torch.randint(0, 2, (8,))
    twin = torch.nn.Linear(4, 2)
    twin.load_state_dict(module.state_dict())
    optimizer = captured.optimizer_for(module, 1e-2, 0.1)
    step = captured.Step(lambda a, b: torch.nn.functional.cross_entropy(module(a), b), optimizer)
    plain = torch.optim.AdamW(twin.parameters(), 1e-2, weight_decay=0.1)
    for rate in (1e-2, 3e-3):
        captured.set_rate(optimizer, rate)
        plain.param_groups[0]["lr"] = rate
        loss = torch.nn.functional.cross_entropy(twin(x), y)
        assert float(step(x, y)) == pytest.approx(float(loss))
        plain.zero_grad()
        loss.backward()
        plain.step()
        assert torch.allclose(module.weight, twin.weight)


def test_averaged_weights_replace_the_modules_within_the_block_only() -> None:
    module = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(1.0)
    average = keeping.Average(module, 0.75)
    with torch.no_grad():
        module.weight.fill_(5.0)
    average.update()
    with average.in_place():
        assert float(module.weight) == 2.0
    assert float(module.weight) == 5.0
    again = keeping.Average(module, 0.75)
    again.load_state_dict(average.state_dict())
    with again.in_place():
        assert float(module.weight) == 2.0


FIRST = np.array([[0.5] * 100, [1] * 80 + [0] * 20], np.float32)


@pytest.mark.parametrize(
    ("loss", "newly_right", "newly_wrong", "gain"),
    [
        (0.4, 5, 0, 0.05),
        (0.4, 12, 2, 0.1),
        (0.4, 3, 0, 0.0),
        (0.4, 9, 4, 0.0),
        (0.1, 0, 0, 0.0),
        (0.4, 0, 1, 0.0),
        (0.6, 12, 2, 0.0),
    ],
    ids=["more right", "more than newly wrong", "few", "chance", "loss alone", "fewer right", "higher loss"],
)
def test_better_by_requires_a_significant_gain(loss: float, newly_right: int, newly_wrong: int, gain: float) -> None:
    right = FIRST[1].copy()
    right[80 : 80 + newly_right], right[:newly_wrong] = 1, 0
    assert keeping.better_by(np.array([[loss] * 100, right], np.float32), FIRST) == pytest.approx(gain, abs=1e-6)


def test_judgement_gives_loss_and_correctness_per_image() -> None:
    judged = keeping.judgement(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    assert judged[1].tolist() == [1, 0]
    assert judged[0].tolist() == pytest.approx([0.126928, 2.126928], abs=1e-5)
