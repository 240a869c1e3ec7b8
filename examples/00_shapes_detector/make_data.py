"""Writes what the demo needs: a video with moving shapes, calibration samples, nothing downloaded.

    python make_data.py OUT_FOLDER [--frames 120] [--calibration 32] [--pictures]

OUT_FOLDER/shapes.avi            the video, 512x512, 25 frames a second
OUT_FOLDER/calibration.npz       `images`: (n, 3, 256, 256) float32 in 0..1, RGB, frames the network was not trained on;
                                 `labels`: (n, objects, 5) class, x1, y1, x2, y2 in pixels, rows of class -1 are padding
OUT_FOLDER/pictures/*.jpg        the same samples as files, with --pictures
OUT_FOLDER/labels.txt            one class name per line
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Sequence, Tuple

import cv2
import numpy as np
from shapes import CLASSES, sample, video

#: Seeds: below 1000 held out for accuracy, 1000 to 9999 for calibration, from one million on for training.
CALIBRATION_SEED = 1000


def network_input(frame_bgr: np.ndarray) -> np.ndarray:
    """A frame of the network's own size as (3, h, w) float32 in 0..1, RGB."""
    return np.ascontiguousarray(frame_bgr[..., ::-1].transpose(2, 0, 1), np.float32) / np.float32(255)


def labels_of(frames: Sequence[Tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """(n, objects, 5) of (frame, boxes, classes): class, x1, y1, x2, y2; rows of class -1 are padding."""
    labels = np.full((len(frames), max(len(classes) for _, _, classes in frames), 5), -1, np.float32)
    for row, (_, boxes, classes) in zip(labels, frames):
        row[: len(classes), 0], row[: len(classes), 1:] = classes, boxes
    return labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--calibration", type=int, default=32)
    parser.add_argument("--pictures", action="store_true")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(a.out / "shapes.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 25, (512, 512))
    # Drawn at the size the network was trained at and enlarged, as a camera of higher resolution would see the same scene.
    for frame, _, _ in video(seed=11, frames=a.frames, size=256):
        writer.write(cv2.resize(frame, (512, 512), interpolation=cv2.INTER_LINEAR))
    writer.release()
    frames = [sample(CALIBRATION_SEED + i) for i in range(a.calibration)]
    images = np.stack([network_input(frame) for frame, _, _ in frames])
    np.savez(a.out / "calibration.npz", images=images, labels=labels_of(frames))
    if a.pictures:
        (a.out / "pictures").mkdir(exist_ok=True)
        for i, (frame, _, _) in enumerate(frames):
            cv2.imwrite(str(a.out / "pictures" / f"{i:03}.jpg"), frame)
    (a.out / "labels.txt").write_text("\n".join(CLASSES) + "\n", encoding="utf-8")
    print(f"{a.frames} frames, {a.calibration} calibration samples")


if __name__ == "__main__":
    main()
