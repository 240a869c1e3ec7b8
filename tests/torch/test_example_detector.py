"""examples/13: from drawn pictures to an artifact whose mAP is that of training's last evaluation."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Set

import numpy as np
import pytest
from test_examples import failed, run

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "13_train_a_detector"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's modules data, network, train and pruning; other examples have modules of these names."""
    names = ("data", "network", "train", "pruning")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    loaded = [importlib.import_module(name) for name in names]
    yield loaded
    for name in names:
        sys.modules.pop(name, None)


def test_boxes_survive_the_folder_and_the_letterbox(parts: Any, tmp_path: Path) -> None:
    data = parts[0]
    data.make(tmp_path, 2, 3, 96)
    from shapes import sample

    part = data.load(tmp_path, "val", 64)
    assert part.x.shape == (3, 64, 64, 3)
    assert data.names_of(tmp_path) == ["circle", "square", "triangle"]
    for i in range(3):
        _, boxes, classes = sample(i, 96)
        rows = part.boxes[i][part.boxes[i, :, 0] >= 0]
        assert rows[:, 0].tolist() == classes.tolist()
        assert np.allclose(rows[:, 1:], boxes * 64 / 96, atol=1e-2)


def test_augmentation_moves_boxes_with_their_pixels(parts: Any) -> None:
    train = parts[2]
    x = torch.zeros(64, 3, 64, 64)
    x[:, :, 20:40, 10:30] = 1.0
    boxes = torch.tensor([[[1.0, 10, 20, 30, 40], [-1, -1, -1, -1, -1]]]).repeat(64, 1, 1)
    for seed in range(4):
        changed, moved = train.augmented(x, boxes.clone(), torch.Generator().manual_seed(seed))
        for picture, rows in zip(changed, moved):
            assert rows[1, 0] == -1
            if rows[0, 0] < 0:
                continue
            x1, y1, x2, y2 = (int(v) for v in rows[0, 1:])
            inner, middle = picture[:, y1:y2, x1:x2], picture[:, (y1 + y2) // 2, (x1 + x2) // 2]
            assert torch.allclose(inner, middle[:, None, None].expand_as(inner))


def test_the_loss_is_least_for_the_right_boxes(parts: Any) -> None:
    network = parts[1]
    boxes = torch.tensor([[[2.0, 8, 8, 40, 56]]])
    torch.manual_seed(0)
    outputs = [torch.randn(1, 4 * network.BINS + 3, 64 // s, 64 // s, requires_grad=True) for s in network.STRIDES]
    optimizer = torch.optim.Adam(outputs, 0.2)
    first = float(network.loss_of(tuple(outputs), boxes))
    for _ in range(150):
        optimizer.zero_grad()
        loss = network.loss_of(tuple(outputs), boxes)
        loss.backward()
        optimizer.step()
    assert float(loss) < 0.1 * first
    metric = parts[2].map_metric(parts[2].map_options("yolov8", network.BINS), parts[2].NAMES, (1, 3, 64, 64))
    arrays = {name: o.detach().numpy() for name, o in zip(parts[2].NAMES, outputs)}
    found = metric.of_sample(arrays, boxes[0].numpy(), None)
    assert found.hits[:8, 0].all()
    assert found.classes[0] == 2


@pytest.mark.parametrize(("ratio", "widths"), [(0.1, {16, 32, 64, 96, 128, 160}), (0.5, {16, 32, 64, 96}), (0.9, {16, 32})])
def test_pruning_keeps_multiples_the_outputs_and_the_heaviest_channels(parts: Any, ratio: float, widths: Set[int]) -> None:
    pytest.importorskip("torch_pruning", reason="torch-pruning is not installed")
    _, network, train, pruning = parts
    module, one = network.Detector(3, 0.5), torch.zeros(1, 3, 64, 64)
    middle = module.down[2][0][0].weight
    with torch.no_grad():
        middle[::6] *= 100
    made = pruning.narrower(module, one, ratio, train.ends(module))
    ends = train.ends(made)
    assert {p.out_channels for p in made.modules() if isinstance(p, torch.nn.Conv2d) and p not in ends} == widths
    assert [o.shape for o in made(one)] == [o.shape for o in module.eval()(one)]
    # A sixth of 192 channels is 32: these stay, whatever else goes.
    heavy = made.down[2][0][0].weight.flatten(1).norm(dim=1) > 10 * middle[1].norm()
    assert int(heavy.sum()) == 32


@pytest.mark.slow
def test_a_pruned_network_has_the_share_of_time_that_was_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("torch_pruning", reason="torch-pruning is not installed")
    run(tmp_path, str(EXAMPLE / "data.py"), "shapes", "--train", "16", "--held-out", "2", "--size", "64")
    train = [str(EXAMPLE / "train.py"), "shapes", "--out", "run", "--size", "64", "--batch", "8", "--epochs", "1"]
    flags = ["--seed", "3", "--rate", "0.001", "--qat-rate", "0.0001", "--target", "agx-orin-64gb", "--device", "cpu"]
    shown = run(tmp_path, *train, "--qat-epochs", "1", "--prune", "0.97", *flags)
    assert "pruned 1/1: loss" in shown
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["pruned"]["predicted_us"] <= 0.97 * result["predicted_us"]
    refused = failed(tmp_path, *train, "--prune", "0.01", *flags)
    assert "no network has 1% of the predicted time" in refused
    assert "Traceback" not in refused


@pytest.mark.slow
def test_the_artifact_has_the_map_of_training(tmp_path: Path) -> None:
    run(tmp_path, str(EXAMPLE / "data.py"), "shapes", "--train", "48", "--held-out", "6", "--size", "64")
    train = [str(EXAMPLE / "train.py"), "shapes", "--out", "run", "--size", "64", "--width", "0.25", "--batch", "16"]
    shown = run(tmp_path, *train, "--epochs", "20", "--qat-epochs", "1", "--detect-nan", "--device", "cpu")
    assert "in 1 loadable; predicted" in shown
    run(
        tmp_path,
        "-m",
        "edgedla",
        "build",
        "run/model.onnx",
        "--target",
        "orin-nx-16gb",
        "--precision",
        "int8",
        "--calib",
        "run/calib.cache",
        "--backend",
        "host",
        "--numerics",
        "int8-accumulation=int32",
        "-o",
        "run/artifact",
    )
    scored = run(
        tmp_path,
        "-m",
        "edgedla",
        "evaluate",
        "run/artifact",
        "--data",
        "run/held_out.npz",
        "--metric",
        "map",
        "--decode",
        "yolov8",
        "--format",
        "json",
    )
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert json.loads(scored)["score"]["value"] == pytest.approx(result["int8_trained"]["map"], abs=1e-6)
    assert result["equal_pictures"] == 6
