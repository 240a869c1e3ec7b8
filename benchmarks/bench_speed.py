"""How fast the everyday answers are: CPU seconds of whole processes and calls, as ratios to a floor or a peer in the same run.

    python benchmarks/bench_speed.py [--nets FOLDER] [--repeat N] [--out FILE] [--only WORD]

Floors: of `check` loading the model and ONNX's shape inference; of `run` opening a session of ONNX Runtime and running it once; of
packing a copy of the same bytes. Peers: onnxslim for `fix` (--slim names its interpreter's path), OpenCV's blobFromImage for
preprocessing. The smallest of N runs counts, by turns. Models whose weights are needed get random ones.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from bench_check import REFERENCE, ROOT, chain, rivals, with_weights
from bench_formats import cases
from provenance import provenance

from edgedla.formats import TensorFormat, layout
from edgedla.formats.pack import NUMPY_TYPE, pack, unpack
from edgedla.io.files import write_atomic
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess

EDGEDLA = [sys.executable, "-m", "edgedla"]
TARGET = ["--target", "orin-nx-16gb"]
CHECK = [*EDGEDLA, "check", *TARGET, "--fail-on", "never"]
FORMS = {"json": ["--format", "json"], "text": [], "INT8 text": ["--precision", "int8"], "text with cost": ["--cost"]}
#: (network, form, at most so many times load and shape inference)
CHECKS = (
    ("one", "json", 1.0),
    ("one", "text", 1.3),
    ("one", "INT8 text", 1.3),
    ("tv_resnet50", "json", 0.8),
    ("tv_resnet50", "text", 1.2),
    ("tv_resnet50", "INT8 text", 2.2),
    ("yolo_yolov8n", "json", None),
    ("yolo_yolov8n", "text", 2.2),
    ("yolo_yolov8n", "INT8 text", 3.5),
    ("tv_swin_t", "json", 2.3),
    ("tv_swin_t", "text", 2.5),
    ("tv_efficientnet_b0", "text", None),
    ("tv_efficientnet_b0", "INT8 text", 2.5),
    ("chain1000", "json", None),
    ("chain1000", "text with cost", 3.0),
)
FIXES = (("yolo_yolov8n", 1.3), ("tv_resnet50", 1.0), ("tv_swin_t", 1.0))
#: A session's first result, as its user would write it.
SESSION = """
import sys, numpy as np, onnxruntime as ort
s = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
s.run(None, {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], np.float32) for i in s.get_inputs()})
"""
PIPELINE = "version: 1\nartifact: {artifact}\nsource: synthetic://?frames=1\noutputs: {{jsonl: /dev/null}}\n"
Row = Tuple[str, float, float, Optional[float]]


def of_processes(name: str, ours: Sequence[str], floor: Sequence[str], limit: Optional[float], repeat: int) -> Row:
    (mine, _), (other, _) = rivals([ours, floor], repeat)
    return name, mine, other, limit


def check_rows(nets: Path, folder: Path, repeat: int) -> Iterator[Row]:
    chain(1, folder / "one.onnx")
    chain(1000, folder / "chain1000.onnx")
    for net, form, limit in CHECKS:
        path = next((p for p in (folder / f"{net}.onnx", nets / f"{net}.onnx") if p.exists()), None)
        if path is not None:
            command = [*CHECK, *FORMS[form], str(path)]
            yield of_processes(f"check {net}, {form}", command, [*REFERENCE, str(path)], limit, repeat)


def fix_rows(nets: Path, folder: Path, repeat: int, slim: Sequence[str]) -> Iterator[Row]:
    for net, limit in FIXES:
        if not slim or not (nets / f"{net}.onnx").exists():
            continue
        path = folder / f"{net}-weights.onnx"
        with_weights(nets / f"{net}.onnx", path)
        ours = [*EDGEDLA, "fix", str(path), *TARGET, "-o", str(folder / "fixed.onnx")]
        yield of_processes(f"fix {net}", ours, [*slim, str(path), str(folder / "slim.onnx")], limit, min(repeat, 2))


def run_rows(folder: Path, repeat: int) -> Iterator[Row]:
    import edgedla

    model = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
    if not model.exists():
        return
    edgedla.build(model, folder / "artifact", edgedla.BuildRequest(target="agx-orin-64gb", backend="host"))
    (folder / "pipeline.yaml").write_text(PIPELINE.format(artifact=folder / "artifact"))
    floor = [sys.executable, "-c", SESSION, str(next((folder / "artifact").glob("model-*.onnx")))]
    ours = [*EDGEDLA, "run", str(folder / "pipeline.yaml")]
    yield of_processes("run, first result", ours, floor, 2.2, repeat)


def ms(calls: Sequence[Callable[[], Any]], rounds: int) -> List[float]:
    """The fastest tenth of each call in CPU milliseconds of this thread; the calls take turns."""
    times: List[List[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times):
            start = time.thread_time()
            call()
            taken.append((time.thread_time() - start) * 1e3)
    return [float(np.percentile(taken, 10)) for taken in times]


def preprocess_rows(rounds: int = 60) -> Iterator[Row]:
    import cv2

    cv2.setNumThreads(1)
    frame = np.random.default_rng(0).integers(0, 256, (1080, 1920, 3), np.uint8)

    def blob() -> Any:
        canvas = np.full((640, 640, 3), 114, np.uint8)
        cv2.resize(frame, (640, 360), dst=canvas[140:500], interpolation=cv2.INTER_LINEAR)
        return cv2.dnn.blobFromImage(canvas, 1 / 255.0, swapRB=True)

    for dtype, form, limit in (
        ("FLOAT", TensorFormat.LINEAR, 1.1),
        ("HALF", TensorFormat.LINEAR, None),
        ("INT8", TensorFormat.DLA_HWC4, 1.0),
    ):
        spec = Preprocess((1080, 1920), (3, 640, 640), dtype=dtype, scale=1 / 127, format=form, chip="orin")
        made, out = CpuPreprocessor(spec), np.zeros(spec.layout.size_bytes, np.uint8)
        mine, other = ms([lambda made=made, out=out: made(frame, out), blob], rounds)  # type: ignore[misc]
        yield f"preprocess 1080p, {dtype} {form}", mine / 1e3, other / 1e3, limit


def pack_rows() -> Iterator[Row]:
    for shape, form, dtype in cases():
        where, name = layout(form, dtype, shape, chip="orin"), f"{'x'.join(map(str, shape))} {form} {dtype}"
        values = np.random.default_rng(0).integers(-100, 100, where.dims).astype(NUMPY_TYPE[dtype])
        store = pack(values, where)
        copy, out = store.copy(), store.copy()
        calls = [
            lambda: np.copyto(copy, store),  # noqa: B023
            lambda: pack(values, where, out=out),  # noqa: B023
            lambda: unpack(store, where),  # noqa: B023
        ]
        copy_ms, pack_ms, unpack_ms = ms(calls, 40)
        yield f"pack {name}", pack_ms / 1e3, copy_ms / 1e3, 1.5
        yield f"unpack {name}", unpack_ms / 1e3, copy_ms / 1e3, 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=Path, default=ROOT.parent / "shared" / "corpus" / "nets")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--slim", nargs="*", default=[], help="the command of onnxslim; without it `fix` has no rows")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="rows whose group is this: check, fix, run, preprocess, pack")
    a = parser.parse_args()
    found: List[Dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        groups: Dict[str, Callable[[], Iterator[Row]]] = {
            "check": lambda: check_rows(a.nets, folder, a.repeat),
            "fix": lambda: fix_rows(a.nets, folder, a.repeat, a.slim),
            "run": lambda: run_rows(folder, a.repeat),
            "preprocess": preprocess_rows,
            "pack": pack_rows,
        }
        for group, rows in groups.items():
            for title, ours, other, limit in rows() if a.only in ("", group) else ():
                ratio = ours / other
                kept = "" if limit is None else f" (at most {limit:g}: {'kept' if ratio <= limit else 'MISSED'})"
                print(f"{title:52} {ours:9.4f} s / {other:9.4f} s = {ratio:6.2f}{kept}", flush=True)
                found.append(
                    {"row": title, "cpu_s": round(ours, 5), "other_s": round(other, 5), "ratio": round(ratio, 2), "limit": limit}
                )
    if a.out:
        document = {"provenance": provenance(("numpy", "onnx", "onnxruntime", "opencv-python-headless")), "rows": found}
        write_atomic(a.out, json.dumps(document, indent=1) + "\n")
    return int(any(row["limit"] is not None and row["ratio"] > row["limit"] for row in found))


if __name__ == "__main__":
    raise SystemExit(main())
