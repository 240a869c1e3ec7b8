"""Pictures per second and GPU utilisation of the training step of examples/08, one option added after another.

    python benchmarks/train/speed.py --steps 60            prints JSON; on the CPU without utilisation

plain: a DataLoader that converts one picture at a time. loading: pictures stay UINT8 on the device, batches are drawn
there. Then bf16 (autocast), channels_last, compile (torch.compile), and the same steps with the DLA's rounding (qat).
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "08_train_for_the_dla")]

import network  # noqa: E402
import pictures  # noqa: E402

from edgedla.torch import adapt, prepare_qat  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Batch = Tuple[torch.Tensor, torch.Tensor]


def plain(x: Any, y: Any, batch: int) -> Iterator[Batch]:
    class OneByOne(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, i: int) -> Tuple[Any, Any]:
            return torch.from_numpy(pictures.scaled(x[i : i + 1])[0]), int(y[i])

    while True:
        for inputs, classes in torch.utils.data.DataLoader(OneByOne(), batch, shuffle=True, drop_last=True):
            yield inputs.to(DEVICE), classes.to(DEVICE)


def loading(x: Any, y: Any, batch: int, form: Any = torch.contiguous_format) -> Iterator[Batch]:
    a, b = torch.from_numpy(x).to(DEVICE), torch.from_numpy(y).to(DEVICE)
    while True:
        picked = torch.randint(len(a), (batch,), device=DEVICE)
        inputs = (a[picked].permute(0, 3, 1, 2).float() - pictures.MEAN) / pictures.DEVIATION
        yield inputs.contiguous(memory_format=form), b[picked]


def measured(module: Any, batches: Iterator[Batch], steps: int, half: bool) -> Dict[str, Any]:
    optimizer = torch.optim.AdamW(module.parameters(), 1e-4, fused=DEVICE == "cuda")
    module.train()

    def step() -> int:
        inputs, classes = next(batches)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
            loss = F.cross_entropy(module(inputs).flatten(1).float(), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return len(inputs)

    for _ in range(5):
        step()
    wait()
    busy: List[int] = []
    running = True

    def sample() -> None:
        while running:
            busy.append(torch.cuda.utilization())
            time.sleep(0.2)

    watcher = threading.Thread(target=sample)
    if DEVICE == "cuda":
        watcher.start()
    start = time.perf_counter()
    seen = sum(step() for _ in range(steps))
    wait()
    seconds = time.perf_counter() - start
    running = False
    if DEVICE == "cuda":
        watcher.join()
    share = round(sum(busy) / len(busy)) if busy else None
    return {"pictures_per_s": round(seen / seconds), "gpu_utilisation_percent": share, "seconds": round(seconds, 2)}


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=float, default=1.0)
    given = parser.parse_args()
    x, y = pictures.make(max(4 * given.batch, 2048), 1)
    one = torch.zeros(1, 3, pictures.SIDE, pictures.SIDE)

    def fresh() -> Any:
        torch.manual_seed(0)
        return adapt(network.Network(given.width), one, target="agx-orin-64gb", outputs_4d=True).module.to(DEVICE)

    last = torch.channels_last
    rows: List[Tuple[str, Callable[[], Any], Iterator[Batch], bool]] = [
        ("plain", fresh, plain(x, y, given.batch), False),
        ("+ loading", fresh, loading(x, y, given.batch), False),
        ("+ bf16", fresh, loading(x, y, given.batch), True),
        ("+ channels_last", lambda: fresh().to(memory_format=last), loading(x, y, given.batch, last), True),
        ("+ compile", lambda: torch.compile(fresh().to(memory_format=last)), loading(x, y, given.batch, last), True),
        ("qat", lambda: prepare_qat(fresh(), one.to(DEVICE), "agx-orin-64gb"), loading(x, y, given.batch), False),
    ]
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    for option, make, batches, half in rows:
        row = {
            "option": option,
            **measured(make(), batches, given.steps, half),
            "device": name,
            "torch": torch.__version__,
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
