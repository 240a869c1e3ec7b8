"""The whole product on real input, on any machine: check, place, deploy, measure accuracy, run over a video.

    python examples/demo.py [OUT_FOLDER]

Prints every command, what it says, and where the files are. On a laptop the build and the run are simulated with
ONNX Runtime; on a Jetson the same commands build with TensorRT.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Sequence

HERE = Path(__file__).resolve().parent
DETECTOR = HERE / "00_shapes_detector"
EDGEDLA = (sys.executable, "-m", "edgedla")


def run(title: str, command: Sequence[str], lines: int = 0) -> None:
    """Runs one command and shows its output (its first `lines` lines, if given); a failure ends the demo."""
    shown = " ".join(command).replace(" ".join(EDGEDLA), "edgedla").replace(sys.executable, "python")
    print(f"\n### {title}\n$ {shown}", flush=True)
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    output = done.stdout.splitlines()
    print("\n".join(output[:lines] if lines else output))
    if lines and len(output) > lines:
        print(f"    ... {len(output) - lines} more lines")
    print(f"({time.monotonic() - started:.1f} s)", flush=True)
    if done.returncode:
        raise SystemExit(f"the demo ends: exit code {done.returncode}")


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out").resolve()
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    model = str(DETECTOR / "shapes_detector.onnx")
    street = str(out / "street.onnx")
    make_street = (sys.executable, str(HERE / "01_check_a_model" / "make_model.py"), street)
    run("Input: a video and labelled frames", (sys.executable, str(DETECTOR / "make_data.py"), str(out), "--calibration", "60"))
    run("Check: does the detector fit the DLA?", (*EDGEDLA, "check", model, "--target", "agx-orin-64gb", "--precision", "int8"))
    run(
        "Check: the same on Xavier and over releases",
        (
            *EDGEDLA,
            "check",
            model,
            "--precision",
            "int8",
            "--compare",
            "xavier,orin@jp6.0,orin@jp6.2,orin-nano",
            "--fail-on",
            "never",
        ),
    )
    run("A network that does not fit", make_street)
    run(
        "Check: what keeps it off the DLA, and what to change first",
        (
            *EDGEDLA,
            "check",
            street,
            "--target",
            "agx-orin-64gb",
            "--precision",
            "int8",
            "--fail-on",
            "never",
            "-o",
            "-",
            "-o",
            str(out / "street.html"),
            "-o",
            str(out / "street.json"),
            "-o",
            str(out / "street.sarif"),
        ),
        40,
    )
    run(
        "Place: which layers belong where, for a stream of frames",
        (*EDGEDLA, "place", model, "--target", "agx-orin-64gb", "--precision", "int8", "--objective", "throughput"),
        24,
    )
    deployed = str(out / "deployed")
    run(
        "Deploy: one call from the model and labelled frames to an accepted artifact",
        (
            *EDGEDLA,
            "deploy",
            model,
            "--target",
            "agx-orin-64gb",
            "--place",
            "dla",
            "--data",
            str(out / "calibration.npz"),
            "--metric",
            "map",
            "--decode",
            "yolov8",
            "--reg-max",
            "8",
            "--max-drop",
            "2%",
            "-o",
            deployed,
        ),
    )
    artifact = str(out / "deployed" / "artifact")
    run("Accuracy on frames the network never saw", (sys.executable, str(DETECTOR / "evaluate.py"), artifact, "--frames", "100"))
    run(
        "Run: the artifact over the video",
        (
            *EDGEDLA,
            "run",
            artifact,
            "--source",
            str(out / "shapes.avi"),
            "--decode",
            "yolov8",
            "--reg-max",
            "8",
            "--labels",
            str(out / "labels.txt"),
            "--score",
            "0.4",
            "--images",
            str(out / "frames"),
            "--jsonl",
            str(out / "results.jsonl"),
            "--metrics",
            str(out / "metrics.jsonl"),
        ),
    )
    print(f"\nDone in {time.monotonic() - started:.0f} s. Files in {out}:")
    for name, what in (
        ("street.html", "the check report as a page"),
        ("street.sarif", "the same for CI"),
        ("deployed/report.html", "the test report of the deployment"),
        ("deployed/artifact", "the artifact"),
        ("frames", "annotated frames"),
        ("results.jsonl", "every result"),
        ("metrics.jsonl", "what the pipeline measured of itself"),
    ):
        print(f"  {name:30}{what}{'' if (out / name).exists() else '  MISSING'}")


if __name__ == "__main__":
    main()
