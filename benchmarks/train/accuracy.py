"""FP32, INT8 after training (`quantize`) and INT8 in training (`prepare_qat`) of one network, each as a host artifact.

    python benchmarks/train/accuracy.py m3 m3+adapt --out results/          on a GPU where there is one
    python benchmarks/train/accuracy.py hard hard+adapt --epochs 2 --train 2000 --held-out 200

rn, m2, m3, ef: scikit-learn's digits on photographs, 64 x 64. hard: 24 classes of drawn shapes, 32 x 32, a network of
width 0.5. `+adapt` trains what edgedla.torch.adapt makes of it, from the same weights. All INT8 figures are simulated.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent), str(ROOT / "examples" / "08_train_for_the_dla")]

import digits  # noqa: E402
import network as hard_network  # noqa: E402
import pictures as hard_pictures  # noqa: E402

import edgedla  # noqa: E402
from edgedla.accuracy.evaluate import evaluate, open_network  # noqa: E402
from edgedla.accuracy.metrics import metric_of, wilson  # noqa: E402
from edgedla.accuracy.request import QuantizeRequest  # noqa: E402
from edgedla.accuracy.simulation import Noise  # noqa: E402
from edgedla.builder.request import BuildRequest  # noqa: E402
from edgedla.quantization.samples import Samples  # noqa: E402
from edgedla.torch import adapt, export_qat, prepare_qat, to_onnx  # noqa: E402

TARGET = "agx-orin-64gb"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def task(name: str, train: int, held_out: int) -> Tuple[Any, ...]:
    """(training pictures UINT8, classes, held-out inputs FP32, classes, function from UINT8 to inputs)."""
    if name == "hard":
        x, y = hard_pictures.make(train, 1)
        t, u = hard_pictures.make(held_out, 2)

        def scaled(p: Any) -> Any:
            return (p.permute(0, 3, 1, 2).float() - hard_pictures.MEAN) / hard_pictures.DEVIATION
    else:
        x, y = digits.make(train, *digits.TRAIN)
        t, u = digits.make(held_out, *digits.HELD_OUT)
        scaled = digits.scaled
    return torch.tensor(x).to(DEVICE), torch.tensor(y).to(DEVICE), scaled(torch.tensor(t)), u, scaled


def fit(
    module: nn.Module,
    data: Tuple[Any, ...],
    epochs: int,
    rate: float,
    decay: float,
    teacher: Optional[nn.Module] = None,
) -> None:
    """Trains on all pictures. With a teacher half of the loss is the distance to its scores."""
    x, y, _, _, scaled = data
    batch, steps = 256, max(len(x) // 256, 1)
    optimizer = torch.optim.AdamW(module.parameters(), rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=epochs * steps)
    module.train()
    for _ in range(epochs):
        order = torch.randperm(len(x), device=x.device)
        for i in range(steps):
            picked = order[i * batch : (i + 1) * batch]
            inputs = scaled(x[picked])
            scores = module(inputs).flatten(1)
            loss = F.cross_entropy(scores, y[picked])
            if teacher is not None:
                with torch.no_grad():
                    wanted = teacher(inputs).flatten(1).softmax(1)
                loss = 0.5 * loss + 0.5 * F.cross_entropy(scores, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    module.eval()


def answers(module: nn.Module, inputs: Any) -> np.ndarray:
    with torch.no_grad():
        parts = [module(inputs[i : i + 250].to(DEVICE)).flatten(1).cpu() for i in range(0, len(inputs), 250)]
    return torch.cat(parts).numpy()


def figure(hits: np.ndarray) -> Dict[str, Any]:
    low, high = wilson(int(hits.sum()), len(hits))
    return {"top1": round(float(hits.mean()), 5), "low": round(low, 5), "high": round(high, 5), "n": len(hits)}


def classes_of(model: Path, feeds: Any) -> np.ndarray:
    network = open_network(model)
    return np.array([network.run(feed)["output"].reshape(-1).argmax() for feed in feeds])


def built(folder: Path, model: bytes, calib: str, samples: Samples) -> Tuple[Dict[str, Any], np.ndarray]:
    """An artifact of an ONNX model and a cache, judged as `edgedla evaluate` does; and its classes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    (folder / "calib.cache").write_text(calib)
    request = BuildRequest(target=TARGET, precision="int8", calib=folder / "calib.cache", backend="host", force=True)
    edgedla.build(str(folder / "model.onnx"), folder / "artifact", request)
    network, exact = open_network(folder / "artifact"), open_network(folder / "model.onnx")
    scores: List[np.ndarray] = []
    noise = Noise(("output",))

    def watched(feed: Any) -> Any:
        found = network.run(feed)
        noise.add([exact.run(feed)["output"]], [found["output"]])
        scores.append(found["output"].reshape(-1))
        return found

    result = evaluate(replace(network, run=watched), samples, metric_of("top1"))
    hits = np.array([bool(v) for v in result.score.values])
    return {**figure(hits), "evaluate": round(result.score.value, 5), "sqnr_db": round(noise.sqnr_db, 2)}, np.array(
        scores
    )


def measured(
    name: str, base: nn.Module, data: Tuple[Any, ...], given: argparse.Namespace, folder: Path
) -> Dict[str, Any]:
    """PTQ and QAT of a trained network."""
    _, _, held, classes, scaled = data
    one = held[:1]
    # Training with the DLA's numbers changes the weights that the next row begins with.
    module = copy.deepcopy(base)
    row: Dict[str, Any] = {}
    if name.endswith("+adapt"):
        module = adapt(module.cpu(), one, target=TARGET, outputs_4d=True).module
        row["adapted_fp32"] = figure(answers(module.to(DEVICE), held).argmax(1) == classes)
    module = module.to(DEVICE).eval()
    calibration = scaled(data[0][: given.calibration].cpu())
    feeds = tuple({"x": calibration[i : i + 1].numpy()} for i in range(len(calibration)))
    test = Samples(tuple({"x": held[i : i + 1].numpy()} for i in range(len(held))), False, "held out", classes.tolist())
    model = to_onnx(module, one.to(DEVICE)).SerializeToString()
    start = time.time()
    quantized = edgedla.quantize(
        model, Samples(feeds, False, "calibration"), QuantizeRequest(target=TARGET), holdout=Samples(test.feeds[:32], False, "32")
    )  # fmt: skip
    row["quantize_s"] = round(time.time() - start, 1)
    row["ptq"], _ = built(folder / "ptq", model, quantized.cache, test)
    start = time.time()
    teacher = copy.deepcopy(module).eval()
    prepared = prepare_qat(module, one.to(DEVICE), TARGET, calibration=[calibration])
    fit(prepared, data, given.qat_epochs, given.qat_rate, 0.0, teacher)
    row["qat_s"] = round(time.time() - start, 1)
    result = export_qat(prepared)
    row["qat"], host = built(folder / "qat", result.model, result.cache, test)
    row["qat_without_rounding"] = figure(classes_of(folder / "qat" / "model.onnx", test.feeds) == classes)
    torch_answers = answers(prepared, held)
    row["training_time_evaluation"] = {
        **figure(torch_answers.argmax(1) == classes),
        "classes_that_differ_from_the_artifact": int((torch_answers.argmax(1) != host.argmax(1)).sum()),
        "pictures_equal_within_1e-5": round(
            float((abs(torch_answers - host).max(1) < 1e-5 * abs(host).max()).mean()), 4
        ),
    }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--out", type=Path, default=Path("train-results"))
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--qat-epochs", type=int, default=3)
    parser.add_argument("--qat-rate", type=float, default=1e-4)
    parser.add_argument("--train", type=int, default=40000)
    parser.add_argument("--held-out", type=int, default=2000)
    parser.add_argument("--calibration", type=int, default=200)
    parser.add_argument("--width", type=float, default=0.5)
    parser.add_argument("--weights", type=Path, help="folder of NAME.pt: FP32 is not trained again")
    given = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    given.out.mkdir(parents=True, exist_ok=True)
    trained: Dict[str, Any] = {}
    tasks: Dict[str, Tuple[Any, ...]] = {}
    for name in given.networks:
        plain = name.partition("+")[0]
        kind = "hard" if plain == "hard" else "digits"
        if kind not in tasks:
            tasks[kind] = task(kind, given.train, given.held_out)
        data = tasks[kind]
        if plain not in trained:
            torch.manual_seed(0)
            base = hard_network.Network(given.width) if kind == "hard" else digits.NETWORKS[plain]()
            start = time.time()
            base = base.to(DEVICE)
            if given.weights is not None:
                base.load_state_dict(torch.load(given.weights / f"{plain}.pt", map_location=DEVICE))
                base.eval()
            else:
                fit(base, data, given.epochs, given.rate, 0.02)
            hits = answers(base, data[2]).argmax(1) == data[3]
            trained[plain] = (base, figure(hits), round(time.time() - start, 1))
            if given.weights is None:
                torch.save(base.state_dict(), given.out / f"{plain}.pt")
        base, fp32, seconds = trained[plain]
        row = {"network": name, "device": DEVICE, "fp32": fp32, "fp32_s": seconds}
        row.update(measured(name, base, data, given, given.out / "work" / name.replace("+", "-")))
        (given.out / f"{name.replace('+', '-')}.json").write_text(json.dumps(row, indent=1) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
