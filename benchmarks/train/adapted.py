"""Networks of the MobileNetV3-small and EfficientNet-B0 kind, trained from scratch as they are and as `adapt` makes them.

    python benchmarks/train/adapted.py --seeds 3 --out adapted.json          on the CPU; goes on where it was stopped

Both start from the same weights and see the same pictures: scikit-learn's digits at random places in colour and noise,
24 x 24; held-out pictures are of other digits. Width 0.5 (0.25 and half the depth for EfficientNet) keeps a CPU busy for
minutes. Latencies are predicted, INT8 on agx-orin-64gb: of the
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
sys.path[:0] = [str(ROOT)]

import edgedla  # noqa: E402
from edgedla.accuracy.metrics import wilson  # noqa: E402
from edgedla.files import write_atomic  # noqa: E402
from edgedla.torch import adapt, check, to_onnx  # noqa: E402

TARGET, CLASSES, SIDE = "agx-orin-64gb", 10, 24


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


def digits(count: int, seed: int, first: int, last: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Inputs (N, 3, 24, 24) and classes, from digits [first, last)."""
    from sklearn.datasets import load_digits

    source, generator = load_digits(), np.random.default_rng(seed)
    inputs = generator.normal(0, 0.3, (count, 3, SIDE, SIDE)).astype(np.float32)
    picked = generator.integers(first, last, count)
    for i, number in enumerate(picked):
        ink = np.kron(source.images[number] / 16, np.ones((2, 2)))
        y, x = generator.integers(0, SIDE - 15, 2)
        inputs[i, :, y : y + 16, x : x + 16] += generator.uniform(0.8, 2, (3, 1, 1)) * ink
    return torch.from_numpy(inputs), torch.from_numpy(source.target[picked])


def fit(module: nn.Module, data: Tuple[torch.Tensor, torch.Tensor], epochs: int, seed: int) -> None:
    x, y = data
    batch, rate = 64, 4e-3
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
    data, held = digits(given.train, 1, 0, 1297), digits(given.held_out, 2, 1297, 1797)
    torch.manual_seed(seed)
    module = NETWORKS[name][0]()
    # The pictures are small and the steps few: the first convolution keeps their size, statistics follow in ten steps.
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 0.1
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
        "predicted": predicted(module, SIDE),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--train", type=int, default=5000)
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
