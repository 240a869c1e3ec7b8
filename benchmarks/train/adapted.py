"""MobileNetV3-small and EfficientNet-B0, trained from scratch as they are and as `adapt` makes them.

    python benchmarks/train/adapted.py mobilenet_v3_small --seed 0 --out results/          on a GPU
    python benchmarks/train/adapted.py efficientnet_b0 --width 0.25 --depth 0.5 --seed 0 --out results/ \\
        --train 6000 --epochs 6 --batch 64                                                 minutes of a CPU

Both networks are torchvision's with ten classes, of any width and depth. They start from the same weights and
see the same pictures in the same order: digits on photographs, 64 x 64; held-out handwriting is of other people.
The recipe is chosen by the unadapted network alone, on pictures that are neither trained on nor held out:

    for recipe in plain zero zero-clip zero-clip-slow clip; do
      python benchmarks/train/adapted.py efficientnet_b0 --recipe $recipe --trial --epochs 5 --out trials/; done

Latencies are predicted, INT8 on agx-orin-64gb: at 64 x 64, and of the published network at 224 x 224, whose weights do not matter.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Mapping

import torch
from tasks import DEVICE, LAST, SIZES, Task, task
from torch import nn
from training import BATCH, figure, fit, judged

from keeping import gain  # isort: skip

import edgedla
from edgedla.torch import adapt, check, to_onnx

TARGET, SIDE = "agx-orin-64gb", 64
NETWORKS = ("mobilenet_v3_small", "efficientnet_b0")


@dataclass(frozen=True)
class Recipe:
    """How both networks are trained.

    Args:
        rate: highest learning rate. clip: longest gradient; 0 clips none.
        zero: residual branches begin at zero: at first a deep network is as shallow as its other blocks.
        skip: share of residual branches that stochastic depth leaves out at the end of an EfficientNet.
    """

    rate: float = 3e-3
    clip: float = 0.0
    zero: bool = False
    skip: float = 0.2


RECIPES: Mapping[str, Recipe] = {
    "plain": Recipe(),
    "clip": Recipe(clip=1.0),
    "zero": Recipe(zero=True),
    "zero-all": Recipe(zero=True, skip=0.0),
    "zero-clip": Recipe(zero=True, clip=1.0),
    "zero-clip-all": Recipe(zero=True, clip=1.0, skip=0.0),
    "zero-clip-fast": Recipe(rate=6e-3, zero=True, clip=1.0),
    "zero-clip-slow": Recipe(rate=1e-3, zero=True, clip=1.0),
}


def network_of(name: str, classes: int, width: float = 1.0, depth: float = 1.0, skip: float = 0.2) -> nn.Module:
    from torchvision import models
    from torchvision.models.efficientnet import EfficientNet, _efficientnet_conf

    if name == "mobilenet_v3_small":
        made: nn.Module = models.mobilenet_v3_small(num_classes=classes, width_mult=width)
        return made
    blocks, last = _efficientnet_conf(name, width_mult=width, depth_mult=depth)
    return EfficientNet(blocks, dropout=0.2, stochastic_depth_prob=skip, num_classes=classes, last_channel=last)


def branches_at_zero(module: nn.Module) -> None:
    """Sets the last scale of each residual branch to 0."""
    for block in module.modules():
        if getattr(block, "use_res_connect", False):
            last = [m for m in block.modules() if isinstance(m, nn.BatchNorm2d)][-1]
            nn.init.zeros_(last.weight)


def predicted(module: nn.Module, side: int) -> Dict[str, Any]:
    """Predicted INT8 latency of a module and of what adapt makes of it, and where it runs."""
    one = torch.zeros(1, 3, side, side)
    adapted = adapt(module.eval(), one, target=TARGET, precision="int8", outputs_4d=True)
    models = [to_onnx(m, one).SerializeToString() for m in (module, adapted.module)]
    plain, made = (edgedla.predict(m, target=TARGET, precision="int8").latency_us for m in models)
    strict = check(adapted.module, one, target=TARGET, precision="int8", mode="standalone").strict
    return {
        "side": side,
        "predicted_us": round(plain, 1),
        "adapted_predicted_us": round(made, 1),
        "times_better": round(plain / made, 2),
        "loadables": adapted.before.totals.regions,
        "adapted_loadables": adapted.after.totals.regions,
        "standalone_passes": bool(strict and strict.passes),
        "exact": adapted.exact,
        "refusals": len(adapted.refusals),
    }


def train(module: nn.Module, data: Task, given: argparse.Namespace, recipe: Recipe) -> None:
    torch.manual_seed(given.seed)
    module.to(DEVICE).to(memory_format=LAST)
    fit(module, data, given.epochs, recipe.rate, 0.02, half=True, batch=given.batch, clip=recipe.clip)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--depth", type=float, default=1.0, help="of EfficientNet")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--recipe", choices=list(RECIPES), default="plain")
    parser.add_argument("--trial", action="store_true", help="train the unadapted network alone; validation, no held-out")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--out", type=Path, default=Path("adapted-results"))
    parser.add_argument("--cache", type=Path, default=Path("train-pictures"))
    for part, size in SIZES.items():
        parser.add_argument(f"--{part.replace('_', '-')}", type=int, default=size)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    data = task("digits", given.train, given.validation, given.held_out, given.cache)
    recipe = RECIPES[given.recipe]
    for name in given.networks:
        torch.manual_seed(given.seed)
        module = network_of(name, 10, given.width, given.depth, recipe.skip)
        if recipe.zero:
            branches_at_zero(module)
        one = torch.zeros(1, 3, SIDE, SIDE)
        if given.trial:
            train(module, data, given, recipe)
            loss, right = judged(module, data.validation, data).mean(1)
            trial = {"recipe": given.recipe, "validation_loss": round(float(loss), 4), "validation_top1": round(float(right), 4)}
            (given.out / f"trial-{name}-{given.recipe}.json").write_text(json.dumps(trial) + "\n")
            print(json.dumps(trial), flush=True)
            continue
        adapted = adapt(module, one, target=TARGET, precision="int8", outputs_4d=True).module
        row: Dict[str, Any] = {
            "network": name,
            "width": given.width,
            "depth": given.depth,
            "seed": given.seed,
            "device": DEVICE,
            "recipe": {"name": given.recipe, **asdict(recipe), "epochs": given.epochs},
        }
        hits = []
        for key, candidate in (("fp32", module), ("adapted_fp32", adapted)):
            start = time.time()
            train(candidate, data, given, recipe)
            hits.append(judged(candidate, data.held_out, data)[1])
            row[key] = {**figure(hits[-1]), "train_s": round(time.time() - start, 1)}
        points, error = gain(hits[1], hits[0])
        row["adapted_against_fp32"] = {"points": round(100 * points, 3), "error": round(100 * error, 3)}
        row["predicted"] = predicted(module.cpu().to(memory_format=torch.contiguous_format), SIDE)
        if given.seed == 0:
            row["published"] = predicted(network_of(name, 1000), 224)
        (given.out / f"{name}-{given.seed}.json").write_text(json.dumps(row, indent=1) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
