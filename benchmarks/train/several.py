"""FP32 and QAT steps of ResNet-50 on several GPUs: pictures per second by DDP's compression, accumulation and bucket size.

    torchrun --nproc-per-node 2 benchmarks/train/several.py --out several_2.json       and with 1
    torchrun --nproc-per-node 1 benchmarks/train/several.py --count --batch 2 --side 32 --out several_count.json

Efficiency is the pictures per second per process over those of one process (`--one`, its file). Without a GPU the processes talk by
gloo. `--count` counts what a process hands to its all-reduces instead: it depends on no machine, and not on how many processes there are.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from edgedla.io.files import write_atomic  # noqa: E402
from edgedla.torch import prepare_qat  # noqa: E402

#: Name, QAT, compression, batches per step, bucket in MB, SyncBatchNorm, steps alone before weights are averaged (Local SGD).
ROWS = [
    ("fp32", False, "no", 1, 25, False, 1),
    ("fp32 accumulate 4", False, "no", 4, 25, False, 1),
    ("fp32 fp16", False, "fp16", 1, 25, False, 1),
    ("fp32 bf16", False, "bf16", 1, 25, False, 1),
    ("fp32 power_sgd", False, "power_sgd", 1, 25, False, 1),
    ("fp32 bucket 1", False, "no", 1, 1, False, 1),
    ("fp32 bucket 100", False, "no", 1, 100, False, 1),
    ("fp32 syncbn", False, "no", 1, 25, True, 1),
    ("fp32 local 4", False, "no", 1, 25, False, 4),
    ("fp32 local 8", False, "no", 1, 25, False, 8),
    ("qat", True, "no", 1, 25, False, 1),
    ("qat accumulate 4", True, "no", 4, 25, False, 1),
    ("qat fp16", True, "fp16", 1, 25, False, 1),
    ("qat bf16", True, "bf16", 1, 25, False, 1),
    ("qat power_sgd", True, "power_sgd", 1, 25, False, 1),
    ("qat local 4", True, "no", 1, 25, False, 4),
]


_PREPARED: Dict[str, Any] = {}


@contextlib.contextmanager
def noted() -> Iterator[List[int]]:
    """Bytes of each all-reduce of Python, which DDP's hooks and averagers of weights start, within the `with` block."""
    real, sent = dist.all_reduce, []

    def noting(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        sent.append(tensor.numel() * tensor.element_size())
        return real(tensor, *args, **kwargs)

    dist.all_reduce = noting
    try:
        yield sent
    finally:
        dist.all_reduce = real


def hooked(module: Any, compress: str, noting: bool) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    if compress == "no" and noting:
        # The same sums as DDP's own, which are not seen from Python.
        module.register_comm_hook(None, default_hooks.allreduce_hook)
    if compress == "power_sgd":
        module.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    elif compress != "no":
        module.register_comm_hook(None, getattr(default_hooks, f"{compress}_compress_hook"))


def measured(row: Any, given: Any, device: torch.device) -> Dict[str, Any]:
    name, qat, compress, accumulate, bucket, sync, alone = row
    import torchvision

    torch.manual_seed(0)
    if qat:
        # Prepared once: it takes seconds.
        if "qat" not in _PREPARED:
            one = torch.rand(1, 3, given.side, given.side)
            plain = torchvision.models.resnet50(weights=None, num_classes=10).eval()
            _PREPARED["qat"] = prepare_qat(plain, one, "agx-orin-64gb", calibration=[one])
        module: Any = copy.deepcopy(_PREPARED["qat"])
    else:
        module = torchvision.models.resnet50(weights=None, num_classes=10)
    if sync:
        module = torch.nn.SyncBatchNorm.convert_sync_batchnorm(module)
    module = module.to(device).train()
    ids = [device.index] if device.type == "cuda" else None
    whole = DistributedDataParallel(module, device_ids=ids, bucket_cap_mb=bucket)
    hooked(whole, compress, given.count)
    optimizer = torch.optim.SGD(whole.parameters(), 0.01)
    x = torch.rand(given.batch, 3, given.side, given.side, device=device)
    y = torch.randint(0, 10, (given.batch,), device=device)

    averager = PeriodicModelAverager(period=alone, warmup_steps=0)

    def step() -> None:
        for k in range(accumulate):
            waits = whole.no_sync() if alone > 1 or k < accumulate - 1 else contextlib.nullcontext()
            with waits:
                torch.nn.functional.cross_entropy(whole(x), y).backward()
        optimizer.step()
        if alone > 1:
            averager.average_parameters(whole.parameters())
        optimizer.zero_grad()

    for _ in range(4):
        step()
    if given.count:
        with noted() as sent:
            for _ in range(alone):
                step()
        batches = alone * accumulate
        return {"row": name, "mb_per_batch": sum(sent) / batches / 1e6, "all_reduces_per_batch": len(sent) / batches}
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    wait()
    dist.barrier()
    start, count = time.perf_counter(), given.steps
    for _ in range(count):
        step()
    wait()
    dist.barrier()
    seconds = time.perf_counter() - start
    every = count * accumulate * given.batch * dist.get_world_size() / seconds
    return {"row": name, "pictures_per_s": every, "per_gpu": every / dist.get_world_size()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64, help="per process and step")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--count", action="store_true", help="bytes and all-reduces in place of times")
    parser.add_argument("--rows", default="", help="only rows whose name begins so")
    parser.add_argument("--limit", type=float, default=200, help="begin no row after so many seconds")
    parser.add_argument("--one", type=Path, help="the file of one process, for the efficiency")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    rows: List[Dict[str, Any]] = []
    began = time.perf_counter()
    single = {} if given.one is None else {r["row"]: r["per_gpu"] for r in json.loads(given.one.read_text())["rows"]}
    for row in ROWS:
        late = torch.tensor(time.perf_counter() - began, device=device)
        dist.broadcast(late, 0)
        # Over gloo PowerSGD's sums meet in the wrong order and end the processes.
        on_gpus = row[5] or (row[2] == "power_sgd" and dist.get_world_size() > 1)
        if not row[0].startswith(given.rows) or (on_gpus and not cuda) or float(late) > given.limit:
            continue
        rows.append(measured(row, given, device))
        if row[0] in single:
            rows[-1]["efficiency"] = rows[-1]["per_gpu"] / single[row[0]]
        if rank == 0:
            print(rows[-1], flush=True)
            name = torch.cuda.get_device_name() if cuda else "CPU"
            head = {"command": sys.argv, "device": name, "processes": dist.get_world_size(), "torch": torch.__version__}
            write_atomic(given.out, json.dumps({**head, "rows": rows}, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
