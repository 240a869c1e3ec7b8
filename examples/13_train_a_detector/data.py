"""Pictures with known boxes as a YOLO folder, and YOLO folders as arrays.

    python data.py shapes --train 1600 --held-out 400 --size 256

writes shapes/images/{train,val}/*.jpg, shapes/labels/{train,val}/*.txt and shapes/data.yaml. A folder of your own in this form
does as well.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import List, NamedTuple, Tuple

import cv2
import numpy as np
import yaml

sys.path.append(str(Path(__file__).resolve().parents[1] / "00_shapes_detector"))


class Data(NamedTuple):
    """x: (N, size, size, 3) UINT8 RGB, letterboxed. boxes: (N, M, 5) class, x1, y1, x2, y2 in its pixels; class -1 is padding."""

    x: np.ndarray
    boxes: np.ndarray


def make(folder: Path, train: int, held_out: int, size: int) -> None:
    """Draws the shapes of examples/00_shapes_detector; equal numbers are equal pictures."""
    from shapes import CLASSES

    for part in ("train", "val"):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True, exist_ok=True)
    tasks = [(folder, "train", i, 1_000_000 + i, size) for i in range(train)]
    tasks += [(folder, "val", i, i, size) for i in range(held_out)]
    with ProcessPoolExecutor() as pool:
        list(pool.map(_draw, tasks, chunksize=16))
    names = {"path": ".", "train": "images/train", "val": "images/val", "names": dict(enumerate(CLASSES))}
    (folder / "data.yaml").write_text(yaml.safe_dump(names, sort_keys=False))


def _draw(task: Tuple[Path, str, int, int, int]) -> None:
    from shapes import sample

    folder, part, i, seed, size = task
    frame, boxes, classes = sample(seed, size)
    cv2.imwrite(str(folder / "images" / part / f"{i:06}.jpg"), frame, [cv2.IMWRITE_JPEG_QUALITY, 95])
    middles, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2 / size, (boxes[:, 2:] - boxes[:, :2]) / size
    rows = [f"{c} {m[0]:.6f} {m[1]:.6f} {s[0]:.6f} {s[1]:.6f}\n" for c, m, s in zip(classes, middles, sizes)]
    (folder / "labels" / part / f"{i:06}.txt").write_text("".join(rows))


def names_of(folder: Path) -> List[str]:
    names = yaml.safe_load((folder / "data.yaml").read_text())["names"]
    return list(names.values()) if isinstance(names, dict) else list(names)


def load(folder: Path, part: str, size: int) -> Data:
    """Decodes a part once, in threads, into UINT8: at 256 x 256 a gigabyte holds 5,400 pictures."""
    paths = sorted(p for p in (folder / "images" / part).iterdir() if p.suffix.lower() in (".png", ".jpg", ".jpeg"))
    with ThreadPoolExecutor() as pool:
        read = list(pool.map(lambda p: _read(p, folder / "labels" / part / f"{p.stem}.txt", size), paths))
    most = max(1, max((len(rows) for _, rows in read), default=1))
    boxes = np.full((len(read), most, 5), -1, np.float32)
    for i, (_, rows) in enumerate(read):
        boxes[i, : len(rows)] = rows
    return Data(np.stack([picture for picture, _ in read]), boxes)


def _read(picture: Path, labels: Path, size: int) -> Tuple[np.ndarray, np.ndarray]:
    frame = cv2.imread(str(picture))
    height, width = frame.shape[:2]
    scale = size / max(height, width)
    new = (max(1, round(width * scale)), max(1, round(height * scale)))
    left, top = (size - new[0]) // 2, (size - new[1]) // 2
    padded = np.full((size, size, 3), 114, np.uint8)
    padded[top : top + new[1], left : left + new[0]] = cv2.resize(frame, new) if new != (width, height) else frame
    lines = labels.read_text().splitlines() if labels.exists() else []
    rows = np.array([[float(v) for v in line.split()[:5]] for line in lines if line.strip()], np.float32).reshape(-1, 5)
    middle = rows[:, 1:3] * new + (left, top)
    half = rows[:, 3:5] * new / 2
    return padded[..., ::-1], np.concatenate([rows[:, :1], middle - half, middle + half], 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=1600)
    parser.add_argument("--held-out", type=int, default=400)
    parser.add_argument("--size", type=int, default=256)
    given = parser.parse_args()
    make(given.folder, given.train, given.held_out, given.size)
    print(f"{given.train} pictures to train, {given.held_out} held out")
