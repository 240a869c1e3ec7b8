"""Ways to train in INT8, side by side: which one keeps what INT8 after training has, and mends what it lost.

    python benchmarks/train/recipes.py spread hard --weights FOLDER --seeds 3 --out recipes.json

Runs on the CPU and goes on where it was stopped. FOLDER: NAME.pt of accuracy.py. hard: 24 classes of drawn shapes, 32 x 32.
rn: digits on photographs, 64 x 64. spread: rn as the same function, but the channels between the two convolutions of each
block are scaled by 2^-spread to 2^spread and the weights after them by the inverse (exact with ReLU), so that one range for
a tensor serves them badly: INT8 after training loses points by construction. Validation pictures have a seed of their own;
a recipe is chosen by them, held-out pictures are only reported. All INT8 figures are simulated.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent), str(ROOT / "examples" / "08_train_for_the_dla")]

import digits  # noqa: E402
import network  # noqa: E402
import pictures  # noqa: E402

from edgedla.accuracy.metrics import wilson  # noqa: E402
from edgedla.files import write_atomic  # noqa: E402
from edgedla.torch import prepare_qat  # noqa: E402

TARGET, BATCH = "agx-orin-64gb", 64
Data = Tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Recipe:
    """rate: of AdamW, or of SGD with momentum. frozen: BatchNormalization keeps its statistics. best: of all epochs."""

    rate: float
    frozen: bool
    best: bool
    sgd: bool = False


RECIPES = {
    "adam 1e-4, statistics follow, last epoch": Recipe(1e-4, False, False),
    "adam 1e-4, frozen, best epoch": Recipe(1e-4, True, True),
    "adam 1e-5, frozen, best epoch": Recipe(1e-5, True, True),
    "sgd 1e-3, frozen, best epoch": Recipe(1e-3, True, True, sgd=True),
}


def drawn(name: str, given: argparse.Namespace) -> Dict[str, Data]:
    """Pictures to train on, to choose by, and to judge by."""
    if name == "hard":
        made = {
            "train": pictures.make(given.train, 1), "validation": pictures.make(given.validation, 3),
            "held_out": pictures.make(given.held_out, 2),
        }  # fmt: skip
        return {key: (torch.from_numpy(pictures.scaled(x)), torch.from_numpy(y)) for key, (x, y) in made.items()}
    _, first, last = digits.TRAIN
    made = {
        "train": digits.make(given.train, *digits.TRAIN), "validation": digits.make(given.validation, 3, first, last),
        "held_out": digits.make(given.held_out, *digits.HELD_OUT),
    }  # fmt: skip
    return {key: (digits.scaled(torch.from_numpy(x)), torch.from_numpy(y)) for key, (x, y) in made.items()}


def loaded(name: str, given: argparse.Namespace) -> nn.Module:
    file = "rn" if name == "spread" else name
    module = network.Network(0.5) if name == "hard" else digits.NETWORKS[file]()
    module.load_state_dict(torch.load(given.weights / f"{file}.pt", map_location="cpu"))
    if name == "spread":
        spread(module, given.spread)
    return module.eval()


def spread(module: nn.Module, most: float, seed: int = 0) -> None:
    """Scales the channels between the two convolutions of each residual block; the function stays."""
    generator = torch.Generator().manual_seed(seed)
    for block in module.modules():
        if hasattr(block, "conv1") and hasattr(block, "conv2"):
            factor = torch.exp2((2 * torch.rand(block.bn1.num_features, generator=generator) - 1) * most)
            with torch.no_grad():
                block.bn1.weight.mul_(factor)
                block.bn1.bias.mul_(factor)
                block.conv2.weight.div_(factor.reshape(1, -1, 1, 1))


def scores(module: nn.Module, data: Data) -> torch.Tensor:
    module.eval()
    with torch.no_grad():
        return torch.cat([module(part).flatten(1) for part in data[0].split(250)])


def judged(module: nn.Module, data: Data) -> Dict[str, Any]:
    found = scores(module, data)
    hits, count = int((found.argmax(1) == data[1]).sum()), len(data[1])
    low, high = wilson(hits, count)
    return {
        "loss": round(float(F.cross_entropy(found, data[1])), 5), "top1": round(hits / count, 4),
        "low": round(low, 4), "high": round(high, 4), "n": count,
    }  # fmt: skip


def fit(module: nn.Module, data: Data, epochs: int, optimizer: Any, rate: float, after: Any = None) -> None:
    steps = len(data[0]) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=max(epochs * steps, 2))
    for epoch in range(epochs):
        module.train()
        for picked in torch.randperm(len(data[0]))[: steps * BATCH].split(BATCH):
            loss = F.cross_entropy(module(data[0][picked]).flatten(1), data[1][picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if after is not None:
            after(epoch + 1)
    module.eval()


def row(base: nn.Module, recipe: Recipe, seed: int, parts: Dict[str, Data], epochs: int) -> Dict[str, Any]:
    """One INT8 training: validation after each epoch, and the held-out pictures with the state that the recipe keeps."""
    torch.manual_seed(seed)
    calibration = [parts["train"][0][:200]]
    prepared = prepare_qat(
        copy.deepcopy(base), parts["train"][0][:1], TARGET, calibration=calibration, freeze_statistics=recipe.frozen
    )
    validated: List[Dict[str, Any]] = [judged(prepared, parts["validation"])]
    kept: Tuple[int, Dict[str, Any]] = (0, copy.deepcopy(prepared.state_dict()))
    ptq = judged(prepared, parts["held_out"])

    def after(epoch: int) -> None:
        nonlocal kept
        validated.append(judged(prepared, parts["validation"]))
        if not recipe.best or validated[-1]["loss"] < min(v["loss"] for v in validated[:-1]):
            kept = epoch, copy.deepcopy(prepared.state_dict())

    if recipe.sgd:
        optimizer: Any = torch.optim.SGD(prepared.parameters(), recipe.rate, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(prepared.parameters(), recipe.rate, weight_decay=0.0)
    fit(prepared, parts["train"], epochs, optimizer, recipe.rate, after)
    prepared.load_state_dict(kept[1])
    return {
        "seed": seed, "recipe": asdict(recipe), "validation": validated, "kept_epoch": kept[0], "ptq": ptq,
        "qat": judged(prepared, parts["held_out"]),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--validation", type=int, default=1500)
    parser.add_argument("--held-out", type=int, default=3000)
    parser.add_argument("--spread", type=float, default=4.0)
    parser.add_argument("--out", type=Path, default=Path("recipes.json"))
    given = parser.parse_args()
    result: Dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {"fp32": {}, "rows": []}
    for name in given.networks:
        parts, base = drawn(name, given), loaded(name, given)
        result["fp32"][name] = judged(base, parts["held_out"])
        print(name, result["fp32"][name], flush=True)
        for seed in range(given.seeds):
            for recipe in given.recipes:
                if any((r["network"], r["name"], r["seed"]) == (name, recipe, seed) for r in result["rows"]):
                    continue
                found = {"network": name, "name": recipe, **row(base, RECIPES[recipe], seed, parts, given.epochs)}
                result["rows"].append(found)
                print(name, recipe, seed, found["ptq"]["top1"], found["qat"]["top1"], found["kept_epoch"], flush=True)
                write_atomic(given.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
