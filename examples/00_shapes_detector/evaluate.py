"""Accuracy of the shapes detector on held-out frames: of the ONNX file in FP32, and of artifacts that edgedla built.

python evaluate.py [ARTIFACT ...] [--frames 200]
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Callable, List, Tuple

import numpy as np
import onnxruntime
from make_data import network_input
from shapes import CLASSES, sample

from edgedla.builder import load_artifact
from edgedla.builder.host.session import HostSession
from edgedla.runtime.decode import BoxSettings, NmsOptions, decode_dfl
from edgedla.runtime.decode.accuracy import Truth, evaluate
from edgedla.runtime.runners.network import device_network

MODEL = Path(__file__).with_name("shapes_detector.onnx")
OUTPUTS = ("raw_s8", "raw_s16")
OPTIONS = NmsOptions(score=0.02, iou=0.6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", nargs="*", type=Path)
    parser.add_argument("--frames", type=int, default=200)
    a = parser.parse_args()
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    runs = [("FP32 (ONNX Runtime)", lambda x: session.run(list(OUTPUTS), {"images": x}))]
    with ExitStack() as stack:
        for folder in a.artifacts:
            artifact = load_artifact(folder)
            # What TensorRT built runs on the Jetson that it was built on.
            answer = HostSession(artifact).run_arrays if artifact.simulated else device_network(artifact, str(folder), stack).run
            basis = "simulated" if artifact.simulated else "measured"
            runs.append(
                (
                    f"{artifact.precision.upper()} for {artifact.platform['target']} ({basis})",
                    lambda x, answer=answer: [answer({"images": x})[n] for n in OUTPUTS],
                )
            )
        compare(runs, a.frames)


def compare(runs: List[Tuple[str, Callable[[np.ndarray], List[np.ndarray]]]], count: int) -> None:
    """Prints the accuracy of each network on `count` held-out frames."""
    frames = [sample(seed) for seed in range(count)]
    truths = [Truth(boxes, classes) for _, boxes, classes in frames]
    print(f"{count} held-out frames, {sum(len(t.classes) for t in truths)} objects")
    print(f"{'':40}{'mAP50':>8}{'mAP50-95':>10}{'F1':>8}")
    for name, run in runs:
        found = [
            decode_dfl(run(network_input(frame)[None]), BoxSettings(frame.shape[:2], OPTIONS, labels=CLASSES), reg_max=8)
            for frame, _, _ in frames
        ]
        result = evaluate(found, truths, len(CLASSES))
        print(f"{name:40}{result.map50:8.3f}{result.map50_95:10.3f}{result.f1:8.3f}")


if __name__ == "__main__":
    main()
