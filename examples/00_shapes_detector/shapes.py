"""Synthetic frames with known boxes: circles, squares and triangles on a noisy gradient. NumPy only, seeded."""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

import numpy as np

CLASSES = ("circle", "square", "triangle")


class Shape(NamedTuple):
    """One object: class index, centre and half size in pixels, rotation in radians, colour (B, G, R) in 0..255."""

    cls: int
    cx: float
    cy: float
    half: float
    angle: float
    colour: Tuple[float, float, float]


def background(rng: np.random.Generator, size: int) -> np.ndarray:
    """A float32 (size, size, 3) frame: a colour gradient with low-frequency blobs and pixel noise."""
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    a, b = rng.uniform(30, 200, 3), rng.uniform(-60, 60, 3)
    c = rng.uniform(-60, 60, 3)
    frame = a + x[..., None] * b + y[..., None] * c
    coarse = rng.normal(0, 18, (size // 16 + 1, size // 16 + 1, 3))
    frame += np.kron(coarse, np.ones((16, 16, 1)))[:size, :size]
    frame += rng.normal(0, rng.uniform(2, 10), (size, size, 1))
    return frame.astype(np.float32)


def coverage(shape: Shape, size: int) -> Tuple[slice, slice, np.ndarray]:
    """Rows, columns and the soft mask (0..1) of the shape inside a frame of `size` pixels."""
    reach = shape.half * 1.5 + 2
    x0, x1 = int(max(0, shape.cx - reach)), int(min(size, shape.cx + reach + 1))
    y0, y1 = int(max(0, shape.cy - reach)), int(min(size, shape.cy + reach + 1))
    y, x = np.mgrid[y0:y1, x0:x1].astype(np.float32) + 0.5
    dx, dy = x - shape.cx, y - shape.cy
    cos, sin = np.cos(shape.angle), np.sin(shape.angle)
    u, v = dx * cos + dy * sin, -dx * sin + dy * cos
    if shape.cls == 0:
        inside = shape.half - np.hypot(u, v)
    elif shape.cls == 1:
        inside = shape.half - np.maximum(np.abs(u), np.abs(v))
    else:
        # An equilateral triangle with its circumscribed circle of radius `half`.
        r = shape.half / 2
        inside = r - np.maximum(v, np.maximum(-v / 2 + u * 0.8660254, -v / 2 - u * 0.8660254))
    return slice(y0, y1), slice(x0, x1), np.clip(inside + 0.5, 0, 1)


def draw(frame: np.ndarray, shapes: List[Shape]) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws the shapes in order.

    Returns:
        The uint8 BGR frame, boxes (n, 4) as x1 y1 x2 y2 in pixels, classes (n,). Shapes less than 40 % visible have no box.
    """
    size = frame.shape[0]
    owner = np.full((size, size), -1, np.int32)
    area: List[float] = []
    extents: List[Tuple[float, float, float, float]] = []
    for i, shape in enumerate(shapes):
        rows, cols, mask = coverage(shape, size)
        light = 1 + 0.15 * (np.arange(mask.shape[0])[:, None] / max(mask.shape[0], 1) - 0.5)
        colour = np.asarray(shape.colour, np.float32) * light[..., None]
        frame[rows, cols] = frame[rows, cols] * (1 - mask[..., None]) + colour * mask[..., None]
        solid = mask > 0.5
        owner[rows, cols][solid] = i
        area.append(float(solid.sum()))
        ys, xs = np.nonzero(solid)
        extents.append(
            (cols.start + xs.min(), rows.start + ys.min(), cols.start + xs.max() + 1, rows.start + ys.max() + 1)
            if len(xs)
            else (0, 0, 0, 0)
        )
    visible = np.bincount(owner[owner >= 0], minlength=len(shapes)) if shapes else np.zeros(0)
    keep = [i for i in range(len(shapes)) if area[i] > 0 and visible[i] >= 0.4 * area[i]]
    boxes = np.asarray([extents[i] for i in keep], np.float32).reshape(-1, 4)
    return np.clip(frame, 0, 255).astype(np.uint8), boxes, np.asarray([shapes[i].cls for i in keep], np.int64)


def random_shapes(rng: np.random.Generator, size: int) -> List[Shape]:
    """One to seven shapes that lie at least partly inside the frame."""
    found = []
    for _ in range(int(rng.integers(1, 8))):
        half = size * float(np.exp(rng.uniform(np.log(0.035), np.log(0.2))))
        cx, cy = rng.uniform(half * 0.5, size - half * 0.5, 2)
        colour = tuple(rng.uniform(0, 255, 3))
        found.append(Shape(int(rng.integers(0, 3)), cx, cy, half, float(rng.uniform(0, 2 * np.pi)), colour))
    return found


def sample(seed: int, size: int = 256) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frame number `seed`: uint8 BGR (size, size, 3), boxes (n, 4) in pixels, classes (n,). The same seed, the same frame."""
    rng = np.random.default_rng(seed)
    return draw(background(rng, size), random_shapes(rng, size))


def video(seed: int, frames: int, size: int = 480):
    """Yields (frame, boxes, classes) of shapes that move and bounce, for a demo video."""
    rng = np.random.default_rng(seed)
    base = background(rng, size)
    shapes = random_shapes(rng, size)
    while len(shapes) < 4:
        shapes += random_shapes(rng, size)[:1]
    speed = rng.uniform(-0.0125, 0.0125, (len(shapes), 2)) * size
    spin = rng.uniform(-0.08, 0.08, len(shapes))
    for _ in range(frames):
        moved = []
        for i, s in enumerate(shapes):
            cx, cy = s.cx + speed[i, 0], s.cy + speed[i, 1]
            if not s.half < cx < size - s.half:
                speed[i, 0] *= -1
            if not s.half < cy < size - s.half:
                speed[i, 1] *= -1
            moved.append(s._replace(cx=float(np.clip(cx, 0, size)), cy=float(np.clip(cy, 0, size)), angle=s.angle + spin[i]))
        shapes = moved
        noise = rng.normal(0, 3, (size, size, 1))
        yield draw((base + noise).astype(np.float32), shapes)
