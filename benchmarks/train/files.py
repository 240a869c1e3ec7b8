"""Files to step: pictures per second and GPU use of training from JPEG files, by how they reach the device.

    python examples/13_train_a_detector/data.py shapes --train 1600 --held-out 8 --size 512
    python benchmarks/train/files.py shapes --size 256 --seconds 15 --out files.json

plain: one process decodes, letterboxes and converts picture by picture. workers: a DataLoader with as many processes as cores.
nvjpeg: workers read bytes, torchvision decodes and scales on the GPU (CUDA only). cache: each file is decoded once, in threads, into
UINT8 on the device (examples/13); its row begins after that, and `fill_s` says what it cost. still: one batch, no files at all; what the
GPU does not use there, no data path can give it. With `--width` or `--batch` a step grows until the GPU, not the files, sets the pace.
On CUDA each row counts the kernels of a step and their time, so that idle time between kernels shows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "13_train_a_detector"), str(ROOT / "benchmarks" / "train")]

import data  # noqa: E402
from network import Detector, loss_of  # noqa: E402
from train import Device  # noqa: E402

from edgedla.io.files import write_atomic  # noqa: E402

CUDA = torch.cuda.is_available()


class Files(torch.utils.data.Dataset):
    """One picture at a time, as FP32 or, for nvjpeg, its bytes."""

    def __init__(self, folder: Path, size: int, raw: bool = False) -> None:
        self.paths = sorted((folder / "images" / "train").iterdir())
        self.labels, self.size, self.raw = folder / "labels" / "train", size, raw

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Any:
        import numpy as np

        path = self.paths[i]
        if self.raw:
            return torch.from_numpy(np.fromfile(path, np.uint8))
        picture, _ = data._read(path, self.labels / f"{path.stem}.txt", self.size)
        return torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1).float() / 255


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def ways(given: Any, device: str) -> Dict[str, Any]:
    def loader(workers: int, **more: Any) -> Any:
        files = Files(given.data, given.size, bool(more.pop("raw", False)))
        extra = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
        return torch.utils.data.DataLoader(
            files, given.batch, shuffle=True, drop_last=True, num_workers=workers, pin_memory=CUDA, **extra, **more
        )

    def plain(workers: int) -> Iterator[torch.Tensor]:
        for x in endless(loader(workers)):
            yield x.to(device, non_blocking=True)

    def nvjpeg() -> Iterator[torch.Tensor]:
        from torchvision.io import ImageReadMode, decode_jpeg

        for parts in endless(loader(given.workers, raw=True, collate_fn=list)):
            decoded = decode_jpeg(parts, mode=ImageReadMode.RGB, device=device)
            whole = torch.stack(decoded).float() / 255
            yield torch.nn.functional.interpolate(whole, (given.size, given.size), mode="bilinear", antialias=True)

    def cache() -> Iterator[torch.Tensor]:
        start = time.perf_counter()
        part = Device(data.load(given.data, "train", given.size), device)
        given.fill_s = time.perf_counter() - start
        while True:
            mine = torch.randperm(len(part.x), device=device)[: given.batch]
            yield part.inputs(part.x[mine])

    def still() -> Iterator[torch.Tensor]:
        # In the memory layout of the cache's pictures, which the convolutions' speed depends on.
        one = torch.rand(given.batch, given.size, given.size, 3, device=device).permute(0, 3, 1, 2)
        while True:
            yield one

    found: Dict[str, Any] = {"plain": lambda: plain(0), "workers": lambda: plain(given.workers)}
    if CUDA:
        found["nvjpeg"] = nvjpeg
    found["cache"] = cache
    found["still"] = still
    return {name: found[name] for name in given.rows or found}


def measured(name: str, way: Any, given: Any, device: str) -> Dict[str, Any]:
    torch.manual_seed(0)
    module = Detector(3, given.width).to(device).train()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-3)
    boxes = torch.tensor([[[0.0, 40, 40, 90, 100]]], device=device).expand(given.batch, 1, 5)
    batches, used, stop = iter(way()), [], threading.Event()

    def step() -> None:
        loss = loss_of(module(next(batches)), boxes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def watch() -> None:
        while not stop.wait(0.1):
            used.append(torch.cuda.utilization())

    for _ in range(5):
        step()
    if CUDA:
        torch.cuda.synchronize()
        watcher = threading.Thread(target=watch)
        watcher.start()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < given.seconds:
        step()
        count += 1
        if CUDA and count % 4 == 0:
            torch.cuda.synchronize()
    if CUDA:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    stop.set()
    row = {
        "row": name,
        "pictures_per_s": count * given.batch / seconds,
        "gpu_use": sum(used) / len(used) if used else None,
        "step_ms": 1000 * seconds / count,
    }
    if CUDA:
        row.update(kernels(step))
    return {**row, "fill_s": given.fill_s} if name == "cache" else row


def kernels(step: Callable[[], None], steps: int = 4) -> Dict[str, float]:
    """Kernels and copies of a step, and the GPU's time in them; the profiler slows the host, not the kernels."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    ran = [e for e in found.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return {"kernels": len(ran) / steps, "kernel_ms": sum(e.time_range.elapsed_us() for e in ran) / 1000 / steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--width", type=float, default=0.5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rows", nargs="*", choices=("plain", "workers", "nvjpeg", "cache", "still"), help="default: all")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    device = "cuda" if CUDA else "cpu"
    rows: List[Dict[str, Any]] = []
    for name, way in ways(given, device).items():
        rows.append(measured(name, way, given, device))
        print(rows[-1], flush=True)
    name = torch.cuda.get_device_name() if CUDA else "CPU"
    write_atomic(given.out, json.dumps({"command": sys.argv, "device": name, "torch": torch.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
