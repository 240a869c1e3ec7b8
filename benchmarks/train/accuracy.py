"""FP32, INT8 after training (`quantize`) and INT8 in training (`prepare_qat`) of networks, each as a host artifact.

    python benchmarks/train/accuracy.py m3 m3+adapt --seed 0 --out results/          on a GPU where there is one
    python benchmarks/train/accuracy.py hard --seed 0 --epochs 1 --qat-epochs 1 --train 600 --validation 200 --held-out 50

rn, m2, m3, ef: handwriting on photographs, 64 x 64. hard: 24 classes of drawn shapes, 32 x 32, a network of width 0.5.
spread: rn as the same function with the channels inside its blocks scaled apart (exact with ReLU), so that one range for a
tensor serves them badly. `+adapt` trains what edgedla.torch.adapt makes of a network. A seed is one FP32 training and one
INT8 training. INT8 training chooses on validation pictures (see `Choice`); held-out pictures judge once: all of them by
evaluation in training, which gives each the artifact's class (`evaluation_in_training_*`), the first 3,000 as artifacts too.
All INT8 figures are simulated.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from tasks import DEVICE, LAST, SIZES, Part, Task, kind_of, network_of, spread, task
from torch import nn
from training import figure, fit, judged, scores_of

from keeping import Average, better_by, gain  # isort: skip

import edgedla
from edgedla.accuracy.evaluate import evaluate, open_network
from edgedla.accuracy.metrics import metric_of
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.simulation import Noise
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.quantization.samples import Samples
from edgedla.torch import AsBuilt, adapt, export_qat, prepare_qat, to_onnx

TARGET = "agx-orin-64gb"
#: Sums that no order of summation changes: the same numbers on CPU, GPU and in ONNX Runtime.
OPTIONS = PlanOptions(numerics={"int8-accumulation": "int32"})
RATE, SHARE, AVERAGE, SPREAD = 1.5e-3, 0.5, 0.995, 4.0
#: Held-out pictures that the artifacts are judged on.
ARTIFACT_SAMPLES = 3000
#: Those that the outputs' SQNR is taken from.
NOISE_SAMPLES = 300
#: And those that are evaluated in PyTorch on the CPU as well as on the GPU.
CPU_SAMPLES = 1000


def difference(new: np.ndarray, old: np.ndarray) -> Dict[str, float]:
    """Points of top-1 between right and wrong pictures, picture by picture, and their standard error."""
    points, error = gain(new, old)
    return {"points": round(100 * points, 3), "error": round(100 * error, 3)}


class Choice:
    """The weights that INT8 training ends with: those it began with, INT8 after training, unless others are better."""

    def __init__(self, prepared: nn.Module, data: Task) -> None:
        self.prepared, self.data = prepared, data
        self.first = judged(prepared, data.validation, data)
        self.state, self.epoch, self.least = copy.deepcopy(prepared.state_dict()), 0, 0.0
        self.seen: List[Dict[str, Any]] = []

    def after(self, epoch: int, average: Optional[Average]) -> None:
        assert average is not None
        with average.in_place():
            now = judged(self.prepared, self.data.validation, self.data)
            less = round(gain(self.first[0], now[0])[0], 5)
            self.seen.append({"epoch": epoch, "loss_gain": less, **difference(now[1], self.first[1])})
            value = better_by(now, self.first)
            if value > self.least:
                self.state, self.epoch, self.least = copy.deepcopy(self.prepared.state_dict()), epoch, value


def built(folder: Path, model: bytes, calib: str, samples: Samples) -> Tuple[Dict[str, Any], np.ndarray]:
    """An artifact of an ONNX model and a cache, judged as `edgedla evaluate` does; and its scores."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    (folder / "calib.cache").write_text(calib)
    request = BuildRequest(
        target=TARGET, precision="int8", calib=folder / "calib.cache", backend="host", force=True, options=OPTIONS
    )
    edgedla.build(str(folder / "model.onnx"), folder / "artifact", request)
    network, exact = open_network(folder / "artifact"), open_network(folder / "model.onnx")
    scores: List[np.ndarray] = []
    noise = Noise(("output",))

    def watched(feed: Any) -> Any:
        outputs = network.run(feed)
        if len(scores) < NOISE_SAMPLES:
            noise.add([exact.run(feed)["output"]], [outputs["output"]])
        scores.append(outputs["output"].reshape(-1))
        return outputs

    result = evaluate(replace(network, run=watched), samples, metric_of("top1"))
    hits = np.array([bool(v) for v in result.score.values])
    return {**figure(hits), "sqnr_db": round(noise.sqnr_db, 2), "hits": hits}, np.array(scores)


def equality(own: torch.Tensor, host: np.ndarray, hits: np.ndarray, classes: np.ndarray) -> Dict[str, Any]:
    """Evaluation of the module in PyTorch beside the artifact's, picture by picture."""
    right = own.argmax(1).numpy() == classes
    near = abs(own.numpy() - host).max(1) < 1e-5 * abs(host).max()
    return {
        **figure(right),
        "classes_that_differ": int((own.argmax(1).numpy() != host.argmax(1)).sum()),
        "verdicts_that_differ": int((right != hits).sum()),
        "scores_equal_within_1e-5": round(float(near.mean()), 4),
    }


def measured(name: str, base: nn.Module, data: Task, given: argparse.Namespace) -> Dict[str, Any]:
    """PTQ and QAT of a trained network."""
    held = data.scaled(data.held_out.x[:ARTIFACT_SAMPLES]).cpu().contiguous()
    classes = data.held_out.y[:ARTIFACT_SAMPLES].cpu().numpy()
    one, folder = held[:1], given.out / "work" / f"{name.replace('+', '-')}-{given.seed}"
    module, row = copy.deepcopy(base), {}
    if name == "spread":
        spread(module, SPREAD)
    fp32 = judged(module, data.held_out, data)[1]
    row["fp32"] = figure(fp32[:ARTIFACT_SAMPLES])
    if name.endswith("+adapt"):
        module = adapt(module.cpu(), one, target=TARGET, outputs_4d=True).module
        module = module.to(DEVICE).to(memory_format=LAST)
    calibration = data.scaled(data.train.x[:200]).cpu().contiguous()
    feeds = tuple({"x": calibration[i : i + 1].numpy()} for i in range(len(calibration)))
    test = Samples(tuple({"x": held[i : i + 1].numpy()} for i in range(len(held))), False, "held out", classes.tolist())
    model = to_onnx(module, one.to(DEVICE)).SerializeToString()
    holdout = Samples(({"x": p.numpy()} for p in data.scaled(data.validation.x[:32]).cpu().split(1)), False, "32")
    holdout = replace(holdout, feeds=tuple(holdout.feeds))
    quantized = edgedla.quantize(model, Samples(feeds, False, "calibration"), QuantizeRequest(target=TARGET), holdout=holdout)
    row["ptq"], _ = built(folder / "ptq", model, quantized.cache, test)
    teacher = copy.deepcopy(module).eval()
    start = time.time()
    prepared = prepare_qat(module, one.to(DEVICE), TARGET, calibration=[calibration[:8]], integer_sums=True)
    prepared = prepared.to(memory_format=LAST)
    # From where PTQ ends, range by range: epoch 0 is its artifact.
    prepared.set_ranges({**prepared.ranges(), **{k: v for k, v in quantized.absmax.items() if k in prepared.index}})
    choice, before = Choice(prepared, data), judged(prepared, data.held_out, data)[1]
    fit(prepared, data, given.qat_epochs, RATE, 0.0, teacher=teacher, share=SHARE, average=AVERAGE, after=choice.after)
    prepared.load_state_dict(choice.state)
    after = judged(prepared, data.held_out, data)[1]
    row["held_out"] = {"fp32": figure(fp32), "ptq": figure(before), "qat": figure(after), **difference(after, before)}
    row["qat_s"], row["kept_epoch"], row["validation"] = round(time.time() - start, 1), choice.epoch, choice.seen
    result = export_qat(prepared)
    row["qat"], host = built(folder / "qat", result.model, result.cache, test)
    row["qat_against_ptq"] = difference(row["qat"]["hits"], row["ptq"]["hits"])
    if given.equality:
        for device, count in {"cpu": CPU_SAMPLES, DEVICE: len(held)}.items():
            part = Part(data.held_out.x[:count].to(device), data.held_out.y[:count])
            own = scores_of(prepared.to(device), part, data)
            row[f"evaluation_in_training_{device}"] = equality(own, host[:count], row["qat"]["hits"][:count], classes[:count])
        with torch.no_grad():
            own = AsBuilt(prepared.cpu())(held).flatten(1)
        row["evaluation_as_built"] = equality(own, host, row["qat"]["hits"], classes)
    del row["qat"]["hits"], row["ptq"]["hits"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("train-results"))
    parser.add_argument("--cache", type=Path, default=Path("train-pictures"))
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--qat-epochs", type=int, default=3)
    parser.add_argument(
        "--no-equality", dest="equality", action="store_false", help="no evaluation in PyTorch beside the artifact's"
    )
    for part, size in SIZES.items():
        parser.add_argument(f"--{part.replace('_', '-')}", type=int, default=size)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    trained: Dict[str, nn.Module] = {}
    for name in given.networks:
        data = task(kind_of(name), given.train, given.validation, given.held_out, given.cache)
        plain = name.partition("+")[0].replace("spread", "rn")
        start = time.time()
        if plain not in trained:
            torch.manual_seed(given.seed)
            trained[plain] = network_of(plain).to(DEVICE).to(memory_format=LAST)
            fit(trained[plain], data, given.epochs, 3e-3, 0.02, half=True)
        row = {"network": name, "seed": given.seed, "device": DEVICE, "fp32_s": round(time.time() - start, 1)}
        row.update(measured(name, trained[plain], data, given))
        (given.out / f"{name.replace('+', '-')}-{given.seed}.json").write_text(json.dumps(row, indent=1) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
