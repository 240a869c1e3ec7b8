"""Pictures to train on without a download: 32 x 32, 24 classes (eight shapes, each solid, outlined or striped).

python pictures.py pictures.npz            20,000 for training and 4,000 held out, from other seeds
python pictures.py small.npz --train 2000 --held-out 400
"""

from __future__ import annotations

import argparse
from typing import Tuple

import numpy as np

SIDE, SHAPES, STYLES = 32, 8, 3
CLASSES = SHAPES * STYLES
#: What `scaled` takes away and divides by.
MEAN, DEVIATION = 127.5, 64.0


def distances(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Signed distance of each point to each shape's border, below 0 inside: (SHAPES, ...)."""
    radius, angle = np.hypot(u, v), np.arctan2(v, u)
    return np.stack(
        [
            radius - 0.9,
            np.maximum(abs(u), abs(v)) - 0.75,
            abs(u) + abs(v) - 1.05,
            np.maximum(abs(u) * 0.87 + v * 0.5, -v) - 0.5,
            np.minimum(np.maximum(abs(u) - 0.3, abs(v) - 0.95), np.maximum(abs(u) - 0.95, abs(v) - 0.3)),
            np.maximum(abs(u) - 0.4, abs(v) - 1.0),
            radius - (0.7 + 0.28 * np.cos(5 * angle)),
            np.maximum(radius - 0.9, 0.65 - np.hypot(u - 0.5, v)),
        ]
    )


def make(count: int, seed: int) -> Tuple[np.ndarray, np.ndarray]:
    """(pictures: count x 32 x 32 x 3 UINT8, classes: count)."""
    generator = np.random.default_rng(seed)
    pictures = np.empty((count, SIDE, SIDE, 3), np.uint8)
    classes = generator.integers(0, CLASSES, count)
    line = np.arange(SIDE) - (SIDE - 1) / 2
    for start in range(0, count, 500):
        picked = classes[start : start + 500]
        pictures[start : start + 500] = _drawn(generator, picked, line)
    return pictures, classes


def _drawn(generator: np.random.Generator, classes: np.ndarray, line: np.ndarray) -> np.ndarray:
    n = len(classes)

    def uniform(low: float, high: float, *shape: int) -> np.ndarray:
        return generator.uniform(low, high, (n, *shape))

    size, turn = uniform(5.5, 12, 1, 1), uniform(-0.35, 0.35, 1, 1)
    x = (line[None, None, :] - uniform(-6, 6, 1, 1)) / size
    y = (line[None, :, None] - uniform(-6, 6, 1, 1)) / size
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    distance = distances(u, v)[classes % SHAPES, np.arange(n)]
    edge = 1.0 / size
    solid = np.clip(0.5 - distance / edge, 0, 1)
    outlined = np.clip(0.5 - (abs(distance + 0.12) - 0.12) / edge, 0, 1)
    striped = solid * (0.5 + 0.5 * np.sign(np.sin(7 * u + uniform(0, 6.3, 1, 1))))
    style = (classes // SHAPES)[:, None, None]
    mask = np.where(style == 0, solid, np.where(style == 1, outlined, striped))[..., None]
    slope = uniform(-2, 2, 1, 1, 3) * line[None, None, :, None] + uniform(-2, 2, 1, 1, 3) * line[None, :, None, None]
    ground = uniform(40, 215, 1, 1, 3) + slope
    colour = uniform(0, 255, 1, 1, 3)
    noise = generator.normal(0, 1, (n, SIDE, SIDE, 3)) * uniform(5, 30, 1, 1, 1)
    return np.clip(ground * (1 - mask) + colour * mask + noise, 0, 255).astype(np.uint8)


def scaled(pictures: np.ndarray) -> np.ndarray:
    """UINT8 N x H x W x 3 as the network takes it: FP32 N x 3 x H x W, (x - 127.5) / 64."""
    values: np.ndarray = (pictures.transpose(0, 3, 1, 2).astype(np.float32) - MEAN) / DEVIATION
    return np.ascontiguousarray(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--train", type=int, default=20000)
    parser.add_argument("--held-out", type=int, default=4000)
    given = parser.parse_args()
    train, train_classes = make(given.train, 1)
    held, held_classes = make(given.held_out, 2)
    np.savez(given.file, train=train, train_classes=train_classes, held_out=held, held_out_classes=held_classes)
    print(f"{given.file}: {len(train)} and {len(held)} pictures of {CLASSES} classes")


if __name__ == "__main__":
    main()
