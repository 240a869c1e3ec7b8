"""Pictures per second and GPU utilisation of the training step of examples/08, with and without each option.

    python benchmarks/train/speed.py --out speed.json        on the CPU without utilisation and graph
    python benchmarks/train/speed.py --limit 185             begins no row after so many seconds; compiled ones come last

plain: a DataLoader that converts one picture at a time. loading: pictures stay UINT8 on the device, batches are drawn
there. bf16: autocast. channels_last, compile (torch.compile): PyTorch's. graph: the step is recorded once and replayed
(captured.py). qat: the same network with the DLA's rounding. Each row says which options it has.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterator, List, Tuple

import torch
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "08_train_for_the_dla")]

import network  # noqa: E402
import pictures  # noqa: E402
from captured import Step, optimizer_for  # noqa: E402

from edgedla.io.files import write_atomic  # noqa: E402
from edgedla.torch import adapt, prepare_qat  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Steps before the measurement, in which kernels are compiled, chosen and recorded; and as many that estimate a step.
WARM_UP = 5
TARGET = "agx-orin-64gb"
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


def measured(module: Any, batches: Iterator[Batch], least_s: float, options: FrozenSet[str]) -> Dict[str, Any]:
    module.train()
    optimizer = optimizer_for(module, 1e-4, 0.01)

    def loss_of(inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16, enabled="bf16" in options, cache_enabled=False):
            return F.cross_entropy(module(inputs).flatten(1).float(), classes)

    recorded = Step(loss_of, optimizer)

    def step() -> int:
        inputs, classes = next(batches)
        recorded(inputs, classes) if "graph" in options else recorded.run((inputs, classes))
        return len(inputs)

    begun = time.perf_counter()
    for _ in range(WARM_UP):
        step()
    wait()
    ready = time.perf_counter()
    for _ in range(WARM_UP):
        step()
    wait()
    steps = max(int(least_s / (time.perf_counter() - ready) * WARM_UP), WARM_UP)
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
    return {
        "pictures_per_s": round(seen / seconds),
        "ms_per_step": round(1000 * seconds / steps, 2),
        "gpu_utilisation_percent": share,
        "steps": steps,
        "seconds": round(seconds, 2),
        "start_s": round(ready - begun, 1),
    }


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


ALL = ("loading", "bf16", "channels_last", "compile")


def rows() -> List[Tuple[str, ...]]:
    """Options one after another, all but each of them, and INT8 training; what compiles for long comes last."""
    made: List[Tuple[str, ...]] = [ALL[:count] for count in range(len(ALL) + 1)]
    made += [tuple(o for o in ALL if o != left_out) for left_out in ALL[:-1]]
    made += [("qat",), ("qat", "loading"), ("qat", "loading", "channels_last")]
    if DEVICE == "cuda":
        made += [
            (*ALL[:3], "graph"),
            ("loading", "graph"),
            ("qat", "loading", "graph"),
            ("qat", "loading", "channels_last", "graph"),
        ]
    return sorted(made, key=lambda options: "compile" in options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement, about")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no row begins")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("speed.json"))
    given = parser.parse_args()
    x, y = pictures.make(max(4 * given.batch, 2048), 1)
    one = torch.zeros(1, 3, pictures.SIDE, pictures.SIDE)
    torch.manual_seed(0)
    adapted = adapt(network.Network(given.width), one, target=TARGET, outputs_4d=True).module.to(DEVICE)
    prepared = prepare_qat(adapted, one.to(DEVICE), TARGET)
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    result: Dict[str, Any] = {"device": name, "torch": torch.__version__, "batch": given.batch, "rows": []}
    begun = time.perf_counter()
    for options in map(frozenset, rows()):
        if time.perf_counter() - begun > given.limit:
            result.setdefault("not_begun", []).append(sorted(options))
            continue
        torch.manual_seed(0)
        form = torch.channels_last if "channels_last" in options else torch.contiguous_format
        module: Any = copy.deepcopy(prepared if "qat" in options else adapted).to(memory_format=form)
        if "compile" in options:
            module = torch.compile(module)
        batches = loading(x, y, given.batch, form) if "loading" in options else plain(x, y, given.batch)
        row = {"options": sorted(options), **measured(module, batches, given.seconds, options)}
        result["rows"].append(row)
        print(json.dumps(row), flush=True)
        write_atomic(given.out, json.dumps(result, indent=1) + "\n")
    write_atomic(given.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
