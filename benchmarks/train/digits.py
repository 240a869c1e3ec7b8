"""Real handwritten digits on patches of photographs, 64 x 64 (scikit-learn's own data): the task of rn, m2, m3 and ef."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import numpy as np
from torch import nn

TRAIN, HELD_OUT = (1, 0, 1297), (2, 1297, 1797)


def make(count: int, seed: int, first: int, last: int) -> Tuple[np.ndarray, np.ndarray]:
    """(pictures: count x 64 x 64 x 3 UINT8, digits: count) from scikit-learn's digits [first, last)."""
    from sklearn.datasets import load_digits, load_sample_images

    digits, photographs = load_digits(), load_sample_images().images
    generator = np.random.default_rng(seed)
    pictures, labels = np.empty((count, 64, 64, 3), np.uint8), np.empty(count, int)
    for i in range(count):
        photograph = photographs[generator.integers(2)]
        y, x = generator.integers(0, photograph.shape[0] - 64), generator.integers(0, photograph.shape[1] - 64)
        patch = photograph[y : y + 64, x : x + 64] * generator.uniform(0.3, 1)
        number, zoom = generator.integers(first, last), generator.integers(4, 8)
        ink = np.kron(digits.images[number] / 16, np.ones((zoom, zoom)))[..., None]
        u, v = generator.integers(0, 65 - 8 * zoom, 2)
        place = patch[u : u + 8 * zoom, v : v + 8 * zoom]
        place[:] = place * (1 - ink) + generator.uniform(0, 255, 3) * ink
        pictures[i], labels[i] = patch, digits.target[number]
    return pictures, labels


def scaled(pictures: Any) -> Any:
    """UINT8 N x H x W x 3 tensor to FP32 N x 3 x H x W, (x / 255 - 0.5) / 0.25."""
    return (pictures.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25


def _resnet() -> nn.Module:
    from torchvision import models

    module = models.ResNet(models.resnet.BasicBlock, [1] * 4)
    module.layer4, module.fc, module.conv1.stride = nn.Identity(), nn.Linear(256, 10), (1, 1)
    return module


def _whole(module: Any) -> nn.Module:
    module.features[0][0].stride = (1, 1)
    return module


def _efficientnet() -> nn.Module:
    from torchvision import models

    module = models.efficientnet_b0(num_classes=10)
    module.features, module.classifier = module.features[:6], nn.Linear(112, 10)
    return _whole(module)


def _mobilenet(name: str, **arguments: Any) -> Callable[[], nn.Module]:
    def make_network() -> nn.Module:
        from torchvision import models

        return _whole(getattr(models, name)(num_classes=10, **arguments))

    return make_network


NETWORKS: Dict[str, Callable[[], nn.Module]] = {
    "rn": _resnet,
    "m2": _mobilenet("mobilenet_v2", width_mult=0.5),
    "m3": _mobilenet("mobilenet_v3_small"),
    "ef": _efficientnet,
}
