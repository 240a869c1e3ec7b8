"""INT8 of trained networks: the module's evaluation in PyTorch beside the host artifact, on the same pictures.

    python benchmarks/train/equality.py FOLDER --out equality.json      FOLDER: rn.onnx, m2.onnx, m3.onnx and generate.py

The networks have the ranges of calibration pictures and no further training. Both forms of sums are measured: FP32 on both
sides, and integers on both sides. Simulated INT8 on the CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Dict

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests" / "torch")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from provenance import provenance  # noqa: E402
from trained_digits import add_options, calibration_and_held_out  # noqa: E402

import host_twin  # noqa: E402  # isort: skip
import test_trained_networks as networks  # noqa: E402  # isort: skip

from edgedla.accuracy.evaluate import evaluate, open_network  # noqa: E402
from edgedla.accuracy.metrics import metric_of  # noqa: E402
from edgedla.torch import prepare_qat  # noqa: E402


def measured(name: str, integers: bool, calibration: Any, held_out: Any) -> Dict[str, Any]:
    batch = torch.from_numpy(np.concatenate([feed["x"] for feed in calibration.feeds]))
    pictures = np.concatenate([feed["x"] for feed in held_out.feeds])
    module = networks.trained(name)
    prepared = prepare_qat(module, batch[:1], "agx-orin-64gb", calibration=[batch], integer_sums=integers).eval()
    with torch.no_grad():
        own = np.concatenate([prepared(part).flatten(1).numpy() for part in torch.from_numpy(pictures).split(50)])
    with TemporaryDirectory() as folder:
        host_twin.built(prepared, Path(folder))
        network = open_network(Path(folder) / "artifact")
        host = np.concatenate([next(iter(network.run(feed).values())).reshape(1, -1) for feed in held_out.feeds])
        result = evaluate(network, held_out, metric_of("top1"))
    hits = np.array([bool(v) for v in result.score.values])
    classes = np.array(held_out.labels)
    apart = np.abs(own - host).max(1) / np.abs(host).max()
    return {
        "network": name,
        "sums": "integers" if integers else "fp32",
        "pictures": len(pictures),
        "top1_in_training": float((own.argmax(1) == classes).mean()),
        "top1_artifact": float(hits.mean()),
        "verdicts_that_differ": int(((own.argmax(1) == classes) != hits).sum()),
        "classes_that_differ": int((own.argmax(1) != host.argmax(1)).sum()),
        "scores_equal_within_1e-5": round(float((apart < 1e-5).mean()), 4),
        "largest_difference": float(apart.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--networks", default="rn,m2,m3")
    given = parser.parse_args()
    calibration, held_out = calibration_and_held_out(given)
    networks.TRAINED = given.folder
    rows = []
    for name in given.networks.split(","):
        for integers in (True, False):
            rows.append(measured(name, integers, calibration, held_out))
            print(json.dumps(rows[-1]), flush=True)
    if given.out:
        head = provenance(("torch", "torchvision", "numpy", "onnx", "onnxruntime"))
        given.out.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
