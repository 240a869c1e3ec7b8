"""Networks of the MobileNetV3-small and EfficientNet-B0 kind, trained from scratch as they are and as `adapt` makes them.

    python benchmarks/train/adapted.py --seeds 3 --out adapted.json          on the CPU; goes on where it was stopped

Both start from the same weights and see the same pictures: eight solid shapes of examples/08, 32 x 32. Width 0.5 (0.25 and
half the depth for EfficientNet) keeps a CPU busy for minutes. Latencies are predicted, INT8 on agx-orin-64gb: of the
network as trained, and of the published one at 224 x 224, whose weights do not matter.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "08_train_for_the_dla")]

import pictures  # noqa: E402

import edgedla  # noqa: E402
from edgedla.accuracy.metrics import wilson  # noqa: E402
from edgedla.files import write_atomic  # noqa: E402
from edgedla.torch import adapt, check, to_onnx  # noqa: E402

TARGET, CLASSES = "agx-orin-64gb", pictures.SHAPES


def mobilenet(width: float = 0.5, classes: int = CLASSES) -> nn.Module:
    from torchvision import models

    return models.mobilenet_v3_small(num_classes=classes, width_mult=width)


def efficientnet(width: float = 0.25, depth: float = 0.5, classes: int = CLASSES) -> nn.Module:
    from torchvision.models.efficientnet import EfficientNet, _efficientnet_conf

    blocks, last = _efficientnet_conf("efficientnet_b0", width_mult=width, depth_mult=depth)
    return EfficientNet(blocks, dropout=0.2, num_classes=classes, last_channel=last)


#: Name -> (network to train, published network).
NETWORKS: Dict[str, Tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mobilenet_v3_small": (mobilenet, lambda: mobilenet(1.0, 1000)),
    "efficientnet_b0": (efficientnet, lambda: efficientnet(1.0, 1.0, 1000)),
}


def shapes(count: int, seed: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Inputs (N, 3, 32, 32) and classes of solid shapes."""
    made, classes = pictures.make(count * pictures.STYLES * 11 // 10, seed)
    solid = np.flatnonzero(classes < CLASSES)[:count]
    return torch.from_numpy(pictures.scaled(made[solid])), torch.from_numpy(classes[solid])


def fit(module: nn.Module, data: Tuple[torch.Tensor, torch.Tensor], epochs: int, seed: int) -> None:
    x, y = data
    batch, rate = 64, 3e-3
    steps = len(x) // batch
    optimizer = torch.optim.AdamW(module.parameters(), rate, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=epochs * steps)
    torch.manual_seed(seed)
    module.train()
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(steps):
            picked = order[i * batch : (i + 1) * batch]
            loss = F.cross_entropy(module(x[picked]).flatten(1), y[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    module.eval()


def right(module: nn.Module, data: Tuple[torch.Tensor, torch.Tensor]) -> List[bool]:
    with torch.no_grad():
        found = torch.cat([module(part).flatten(1).argmax(1) for part in data[0].split(250)])
    hits: List[bool] = (found == data[1]).tolist()
    return hits


def figure(hits: List[bool]) -> Dict[str, Any]:
    low, high = wilson(sum(hits), len(hits))
    return {"top1": round(sum(hits) / len(hits), 4), "low": round(low, 4), "high": round(high, 4), "n": len(hits)}


def predicted(module: nn.Module, side: int) -> Dict[str, Any]:
    """Predicted INT8 latency of a module and of what adapt makes of it, and where it runs."""
    one = torch.zeros(1, 3, side, side)
    adapted = adapt(module.eval(), one, target=TARGET, precision="int8", outputs_4d=True)
    models = [to_onnx(m, one).SerializeToString() for m in (module, adapted.module)]
    plain, made = (edgedla.predict(m, target=TARGET, precision="int8").latency_us for m in models)
    strict = check(adapted.module, one, target=TARGET, precision="int8", mode="standalone").strict
    return {
        "side": side, "predicted_us": round(plain, 1), "adapted_predicted_us": round(made, 1),
        "times_better": round(plain / made, 2), "loadables": adapted.before.totals.regions,
        "adapted_loadables": adapted.after.totals.regions, "standalone_passes": bool(strict and strict.passes),
        "exact": adapted.exact, "refusals": len(adapted.refusals),
    }  # fmt: skip


def trained(name: str, seed: int, given: argparse.Namespace) -> Dict[str, Any]:
    data, held = shapes(given.train, 1), shapes(given.held_out, 2)
    torch.manual_seed(seed)
    module = NETWORKS[name][0]()
    # The pictures are an eighth of ImageNet's: the first convolution keeps their size.
    module.features[0][0].stride = (1, 1)
    adapted = adapt(module, data[0][:1], target=TARGET, precision="int8", outputs_4d=True)
    start = time.time()
    hits = []
    for candidate in (module, adapted.module):
        fit(candidate, data, given.epochs, seed)
        hits.append(right(candidate, held))
    return {
        "network": name, "seed": seed, "fp32": figure(hits[0]), "adapted_fp32": figure(hits[1]),
        "points": round(100 * float(np.mean(hits[1]) - np.mean(hits[0])), 2), "train_s": round(time.time() - start),
        "predicted": predicted(module, pictures.SIDE),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--held-out", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("adapted.json"))
    given = parser.parse_args()
    result = json.loads(given.out.read_text()) if given.out.exists() else {"published": {}, "rows": []}
    for name in given.networks:
        if name not in result["published"]:
            result["published"][name] = predicted(NETWORKS[name][1](), 224)
            print(name, result["published"][name], flush=True)
    for seed in range(given.seeds):
        for name in given.networks:
            if not any((r["network"], r["seed"]) == (name, seed) for r in result["rows"]):
                result["rows"].append(trained(name, seed, given))
                print(result["rows"][-1], flush=True)
            write_atomic(given.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
