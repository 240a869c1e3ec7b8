"""FP32, then training with the DLA's numbers, then files for a build. One process or many, CPU or GPU.

    python pictures.py small.npz --train 2000 --held-out 400
    python train.py small.npz --out run --epochs 3 --qat-epochs 1
    ACCELERATE_USE_CPU=true torchrun --nproc-per-node 2 train.py small.npz --out run2 --epochs 3

It goes on from the last checkpoint of --out. Written to be copied: the parts that have nothing to do with the DLA are
`Batches` (pictures stay UINT8 until they are on the device), `epoch_of` and `Progress`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Tuple

import captured
import keeping
import network
import numpy as np
import pictures
import sparse
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.local_sgd import LocalSGD
from accelerate.utils import DataLoaderConfiguration, DDPCommunicationHookType, set_seed
from torch import nn
from torch.nn import functional as F

from edgedla.torch import AsBuilt, DlaCheck, NonFinite, adapt, export_qat, prepare_qat


class Batches:
    """Batches of one process, drawn on the device: nothing is copied but indices.

    Each epoch shuffles by its own seed, the same in every process, so that a resumed run sees what it would have seen.
    A process takes its share of each global batch in order, so two processes see what one process sees that accumulates
    two batches of half the size: the losses are the same.
    """

    def __init__(self, x: Any, y: Any, batch: int, accelerator: Accelerator, channels_last: bool) -> None:
        self.x, self.y = torch.from_numpy(x).to(accelerator.device), torch.from_numpy(y).to(accelerator.device)
        self.batch, self.rank, self.processes = batch, accelerator.process_index, accelerator.num_processes
        self.form = torch.channels_last if channels_last else torch.contiguous_format

    def __len__(self) -> int:
        return len(self.x) // self.batch

    def epoch(self, number: int) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(number)).to(self.x.device)
        for i in range(len(self)):
            mine = order[i * self.batch : (i + 1) * self.batch].tensor_split(self.processes)[self.rank]
            yield self.inputs(self.x[mine]), self.y[mine]

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        values = (x.permute(0, 3, 1, 2).float() - pictures.MEAN) / pictures.DEVIATION
        return values.contiguous(memory_format=self.form)


def loss_of(module: nn.Module, inputs: Any, classes: Any, teacher: Optional[nn.Module]) -> torch.Tensor:
    scores = module(inputs).flatten(1).float()
    loss = F.cross_entropy(scores, classes)
    if teacher is None:
        return loss
    with torch.no_grad():
        wanted = teacher(inputs).flatten(1).float().softmax(1)
    return 0.5 * loss + 0.5 * F.cross_entropy(scores, wanted)


def stop_at_nan(module: nn.Module, inputs: Any, classes: Any, teacher: Optional[nn.Module], when: str) -> None:
    """Runs the step again and stops with the place. Gradients follow the forward pass, so both are looked at."""
    module.zero_grad()
    with NonFinite(module) as found:
        loss_of(module, inputs, classes, teacher).backward()
    raise SystemExit(f"{when}: the loss is not finite\n{found.report()}")


def epoch_of(
    module: nn.Module,
    batches: Batches,
    number: int,
    optimizer: Any,
    schedule: Any,
    accelerator: Accelerator,
    teacher: Optional[nn.Module] = None,
    after_step: Optional[Callable[[], None]] = None,
    detect_nan: bool = False,
    local_steps: int = 1,
) -> float:
    """Trains one epoch. Returns the mean loss over all processes.

    With `detect_nan` each step waits for its loss; the first that is not finite is run again to find the place. With
    `local_steps` above 1 a process steps alone, and the processes average their weights after so many batches.
    """
    module.train()
    losses = []
    alone = LocalSGD(accelerator=accelerator, model=module, local_sgd_steps=local_steps, enabled=local_steps > 1)
    with alone:
        for inputs, classes in batches.epoch(number):
            with accelerator.accumulate(module):
                loss = loss_of(module, inputs, classes, teacher)
                if detect_nan and not torch.isfinite(loss):
                    stop_at_nan(module, inputs, classes, teacher, f"epoch {number + 1}")
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            alone.step()
            # Only weights that all processes share go into their average.
            if after_step is not None and accelerator.sync_gradients and alone.num_steps % local_steps == 0:
                after_step()
            losses.append(loss.detach())
    return float(accelerator.reduce(torch.stack(losses).mean(), "mean"))


def top1(module: nn.Module, x: np.ndarray, y: np.ndarray, batches: Batches) -> float:
    """Share of right answers."""
    module.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(x), 200):
            part = torch.from_numpy(x[i : i + 200]).to(batches.x.device)
            right += int((module(batches.inputs(part)).flatten(1).argmax(1).cpu().numpy() == y[i : i + 200]).sum())
    return right / len(x)


def validation(module: nn.Module, x: np.ndarray, y: np.ndarray, batches: Batches) -> np.ndarray:
    """(loss, right) of each picture, of those that are neither trained on nor held out: (2, N)."""
    module.eval()
    parts = []
    with torch.no_grad():
        for i in range(0, len(x), 200):
            scores = module(batches.inputs(torch.from_numpy(x[i : i + 200]).to(batches.x.device))).flatten(1)
            parts.append(keeping.judgement(scores, torch.from_numpy(y[i : i + 200]).to(scores.device)))
    return np.concatenate(parts, axis=1)


class Progress:
    """Trains in epochs that survive a kill: Accelerate's checkpoint after each, the last one is where a run goes on.

    With `validate` the parameters are averaged over the steps, and the module is given as it was after the best epoch.
    Epoch 0 is the module that came, INT8 after training; it stays unless another is right more often by more than chance.
    """

    def __init__(self, accelerator: Accelerator, folder: Path) -> None:
        self.accelerator, self.folder = accelerator, folder

    def begins_with(self, digest: str) -> None:
        """Starts again where the folder's training began with other weights than these."""
        file = self.folder / "began"
        if self.folder.exists() and (not file.exists() or file.read_text() != digest):
            self.accelerator.print(f"{self.folder.name}: it began with other weights, so it starts again")
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                shutil.rmtree(self.folder)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(digest)
        self.accelerator.wait_for_everyone()

    def train(
        self,
        module: nn.Module,
        batches: Batches,
        epochs: int,
        rate: float,
        decay: float,
        validate: Optional[Callable[[nn.Module], np.ndarray]] = None,
        mask: Optional[sparse.Mask] = None,
        **more: Any,
    ) -> nn.Module:
        parts = self.accelerator
        optimizer = torch.optim.AdamW(module.parameters(), rate, weight_decay=decay)
        steps = max(epochs * len(batches) // parts.gradient_accumulation_steps, 1)
        # By the number of the step alone: a run that goes on may have more epochs than before.
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: captured.rise_and_fall(n + 1, steps))
        prepared, optimizer, schedule = parts.prepare(module, optimizer, schedule)
        average = None
        if validate is not None:
            # Some two fifths of the steps, however many they are.
            updates = steps / more.get("local_steps", 1)
            average = keeping.Average(parts.unwrap_model(prepared), max(1 - 2.3 / updates, 0.0))
            parts.register_for_checkpointing(average)

            def after_step() -> None:
                # The mask first: the average is of sparse weights.
                if mask is not None:
                    mask.apply()
                average.update()

            more["after_step"] = after_step
        done = self._resumed()
        if validate is not None and done == 0:
            self._keep(parts.unwrap_model(prepared), validate, 0)
        for number in range(done, epochs):
            start = time.perf_counter()
            loss = epoch_of(prepared, batches, number, optimizer, schedule, parts, **more)
            seconds = time.perf_counter() - start
            if not np.isfinite(loss):
                # What was saved before this epoch stays: with these weights every later epoch would be lost too.
                raise SystemExit(f"{self.folder.name} {number + 1}: the loss is not finite; --detect-nan finds the place")
            parts.print(f"{self.folder.name} {number + 1}/{epochs}: loss {loss:.4f}, {len(batches.x) / seconds:.0f} pictures/s")
            if validate is not None and average is not None:
                with average.in_place():
                    self._keep(parts.unwrap_model(prepared), validate, number + 1)
            parts.save_state(str(self.folder))
            if parts.is_main_process:
                (self.folder / "epochs").write_text(str(number + 1))
            parts.wait_for_everyone()
        # Without Accelerate's autocast, in which the QAT that follows could not be exported.
        final = parts.unwrap_model(prepared, keep_fp32_wrapper=False)
        if validate is not None:
            final.load_state_dict(torch.load(self.folder / "best.pt", map_location="cpu"))
        return final

    def _keep(self, module: nn.Module, validate: Callable[[nn.Module], np.ndarray], epoch: int) -> None:
        """Writes the module down where it is the best so far; every process comes to the same value."""
        record, first = self.folder / "best.json", self.folder / "first.npy"
        judged = validate(module)
        self.accelerator.print(
            f"{self.folder.name} {epoch}: validation loss {judged[0].mean():.5f}, top-1 {judged[1].mean():.4f}"
        )
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self.folder.mkdir(parents=True, exist_ok=True)
            if epoch == 0:
                np.save(first, judged)
            value = keeping.better_by(judged, np.load(first))
            if epoch == 0 or value > json.loads(record.read_text())["gain"]:
                torch.save(module.state_dict(), self.folder / "best.pt")
                record.write_text(json.dumps({"epoch": epoch, "gain": value}))
        self.accelerator.wait_for_everyone()

    def _resumed(self) -> int:
        if not (self.folder / "epochs").exists():
            return 0
        self.accelerator.load_state(str(self.folder))
        return int((self.folder / "epochs").read_text())


def main() -> None:
    given = arguments()
    hook = DDPCommunicationHookType(given.compress)
    accelerator = Accelerator(
        mixed_precision=given.mixed_precision,
        gradient_accumulation_steps=given.accumulate,
        kwargs_handlers=[DistributedDataParallelKwargs(comm_hook=hook, bucket_cap_mb=given.bucket_mb)],
        step_scheduler_with_optimizer=True,
        # --batch is of all processes: otherwise each of them steps the schedule once per process.
        dataloader_config=DataLoaderConfiguration(split_batches=True),
    )
    if accelerator.num_processes > 1 and accelerator.device.type == "cpu":
        if given.sync_bn:
            raise SystemExit("--sync-bn: PyTorch's SyncBatchNorm needs GPUs")
        if given.compress == "power_sgd":
            raise SystemExit(
                "--compress power_sgd: over gloo its sums meet in the wrong order; it needs GPUs (allowed here: no, fp16, bf16)"
            )
    set_seed(0)
    data = np.load(given.data)
    held, classes = data["held_out"], data["held_out_classes"]
    x, y = data["train"], data["train_classes"]
    # A tenth of the training pictures chooses the epoch; the held-out ones judge once, at the end.
    count = len(x) - len(x) // 10
    batches = Batches(x[:count], y[:count], given.batch, accelerator, given.channels_last)
    one = torch.zeros(1, 3, pictures.SIDE, pictures.SIDE)
    adapted = adapt(network.Network(given.width, dropout=given.dropout), one, target=given.target, outputs_4d=True)
    accelerator.print(f"{str(adapted).splitlines()[0]}; {accelerator.num_processes} processes")
    DlaCheck(one, target=given.target, precision="int8", demand=True, max_loadables=1)(accelerator, adapted.module)
    plain = nn.SyncBatchNorm.convert_sync_batchnorm(adapted.module) if given.sync_bn else adapted.module
    plain = torch.compile(plain) if given.compile else plain
    more = {"detect_nan": given.detect_nan, "local_steps": given.local_steps}
    trainer = Progress(accelerator, given.out / "fp32")
    trained = trainer.train(plain, batches, given.epochs, given.rate, 0.02, **more)
    trained = getattr(trained, "_orig_mod", trained)
    fp32 = top1(trained, held, classes, batches)
    teacher = _copy(trained) if given.distill else None
    mask = sparse.Mask(trained) if given.sparse else None
    calibration = batches.inputs(batches.x[:200]).cpu()
    prepared = prepare_qat(trained, one.to(accelerator.device), given.target, calibration=[calibration])
    rounded = Progress(accelerator, given.out / "qat")
    rounded.begins_with(keeping.digest(trained))
    qat = rounded.train(
        prepared,
        batches,
        given.qat_epochs,
        given.qat_rate,
        0.0,
        teacher=teacher,
        mask=mask,
        **more,
        validate=lambda module: validation(module, x[count:], y[count:], batches),
    )
    # The figure that is published is the artifact's own, to the last picture.
    int8 = top1(AsBuilt(qat), held, classes, batches)
    if accelerator.is_main_process:
        export_qat(qat).save(given.out)
        np.savez(given.out / "held_out.npz", x=pictures.scaled(held), labels=classes)
        (given.out / "result.json").write_text(json.dumps({"fp32": fp32, "int8": int8}) + "\n")
    accelerator.print(f"top-1 on {len(held)} held-out pictures: FP32 {fp32:.4f}, INT8 as the DLA computes it {int8:.4f}")
    accelerator.end_training()


def _copy(module: nn.Module) -> nn.Module:
    import copy

    return copy.deepcopy(module).eval()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="agx-orin-64gb")
    parser.add_argument("--width", type=float, default=0.5)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--qat-epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=256, help="of all processes together")
    parser.add_argument("--accumulate", type=int, default=1, help="batches per step")
    parser.add_argument("--local-steps", type=int, default=1, help="batches of a process before weights are averaged")
    parser.add_argument("--sync-bn", action="store_true", help="BatchNormalization over all GPUs")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--qat-rate", type=float, default=1.5e-3)
    parser.add_argument("--distill", action="store_true", help="QAT also learns from the FP32 network's answers")
    parser.add_argument("--sparse", action="store_true", help="QAT with 2:4 sparse weights, for `build --sparsity enable`")
    parser.add_argument("--mixed-precision", choices=("no", "bf16", "fp16"), default="no")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--detect-nan", action="store_true", help="stop at the first loss that is not finite, with its place")
    parser.add_argument("--bucket-mb", type=int, default=25, help="gradients that DDP sends together")
    parser.add_argument("--compress", choices=("no", "fp16", "bf16", "power_sgd"), default="no", help="DDP's gradients")
    return parser.parse_args()


if __name__ == "__main__":
    main()
