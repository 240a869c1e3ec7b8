"""The commands of examples/08 on the CPU: train, resume, build, and an accuracy equal to that in training."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, Tuple

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")
pytest.importorskip("accelerate", reason="Accelerate is not installed")

from edgedla.graph.layer_graph import SPARSE  # noqa: E402
from edgedla.importers import load_onnx  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "08_train_for_the_dla"


def run(folder: Path, *command: str) -> str:
    done = started(folder, *command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def failed(folder: Path, *command: str) -> str:
    done = started(folder, *command)
    assert done.returncode != 0
    return done.stderr


def started(folder: Path, *command: str) -> subprocess.CompletedProcess:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
        "PYTHONPATH": os.pathsep.join([str(EXAMPLE.parents[1]), *sys.path]),
    }
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.slow
def test_the_example_trainer_resumes_and_its_artifact_has_its_accuracy(tmp_path: Path) -> None:
    train = [str(EXAMPLE / "train.py"), "small.npz", "--out", "run", "--width", "0.25", "--batch", "64"]
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "256", "--held-out", "40")
    first = run(tmp_path, *train, "--epochs", "1", "--qat-epochs", "1")
    assert "fp32 1/1" in first
    again = run(tmp_path, *train, "--epochs", "2", "--qat-epochs", "2")
    assert "fp32 2/2" in again
    assert "fp32 1/2" not in again
    edgedla = ["-m", "edgedla"]
    run(
        tmp_path,
        *edgedla,
        "build",
        "run/model.onnx",
        "--target",
        "agx-orin-64gb",
        "--precision",
        "int8",
        "--calib",
        "run/calib.cache",
        "--backend",
        "host",
        "-o",
        "run/artifact",
    )
    shown = run(
        tmp_path, *edgedla, "evaluate", "run/artifact", "--data", "run/held_out.npz", "--metric", "top1", "--format", "json"
    )
    trained = json.loads((tmp_path / "run" / "result.json").read_text())["int8"]
    assert json.loads(shown)["score"]["value"] == pytest.approx(trained, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--mixed-precision", "bf16", "--channels-last"),
        ("--distill", "--detect-nan", "--compress", "fp16", "--bucket-mb", "1", "--dropout", "0"),
        ("--accumulate", "2", "--rate", "0.001", "--qat-rate", "0.0005", "--target", "orin-nx-16gb"),
        ("--sync-bn", "--local-steps", "2"),
        ("--sparse", "--qat-epochs", "2"),
    ],
    ids=lambda flags: flags[0],
)
def test_every_flag_of_the_trainer_reaches_an_artifact(flags: Tuple[str, ...], tmp_path: Path) -> None:
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "64", "--held-out", "8")
    train = [str(EXAMPLE / "train.py"), "small.npz", "--out", "run", "--width", "0.25", "--batch", "24"]
    run(tmp_path, *train, "--epochs", "1", "--qat-epochs", "1", *flags)
    graph = load_onnx(tmp_path / "run" / "model.onnx", trt=(10, 3))
    convolutions = [x for x in graph.layers if x.type == "CONVOLUTION" and x.params["groups"] == 1]
    # The first convolution reads three channels.
    sparse = [x for x in convolutions if SPARSE in x.params]
    assert len(sparse) == (len(convolutions) - 1 if "--sparse" in flags else 0)


@pytest.mark.slow
def test_more_fp32_epochs_start_int8_training_anew_and_nan_ends_it(tmp_path: Path) -> None:
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "64", "--held-out", "8")
    train = [str(EXAMPLE / "train.py"), "small.npz", "--out", "run", "--width", "0.25", "--batch", "24", "--qat-epochs", "1"]
    run(tmp_path, *train, "--epochs", "1")
    before = (tmp_path / "run" / "model.onnx").read_bytes()
    assert "starts again" not in run(tmp_path, *train, "--epochs", "1")
    assert (tmp_path / "run" / "model.onnx").read_bytes() == before
    assert "it began with other weights" in run(tmp_path, *train, "--epochs", "2")
    assert (tmp_path / "run" / "model.onnx").read_bytes() != before
    shown = failed(tmp_path, *train[:2], "--out", "nan", *train[4:], "--epochs", "1", "--rate", "1e30", "--detect-nan")
    assert "first value that is not finite" in shown or "is not finite before the step" in shown
    assert not (tmp_path / "nan" / "fp32" / "epochs").exists()


def losses(shown: str) -> Dict[str, float]:
    """ "fp32 1/1" and so on -> the loss that the trainer printed after it."""
    return {name: float(value) for name, value in re.findall(r"^(\w+ \d+/\d+): loss ([\d.]+)", shown, re.MULTILINE)}


@pytest.mark.slow
def test_training_on_two_processes_has_the_losses_of_one(tmp_path: Path) -> None:
    """Gloo on the CPU. BatchNormalization sees the pictures of one process, so one process accumulates two halves."""
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "142", "--held-out", "8")
    train = [str(EXAMPLE / "train.py"), "small.npz", "--width", "0.25", "--dropout", "0", "--epochs", "1"]
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *train, "--batch", "32"]
    one = losses(run(tmp_path, *train, "--out", "one", "--batch", "16", "--accumulate", "2", "--qat-epochs", "1"))
    assert set(one) == {"fp32 1/1", "qat 1/1"}
    shown = run(tmp_path, *two, "--out", "two", "--qat-epochs", "0")
    assert "2 processes" in shown
    assert losses(shown) == {"fp32 1/1": pytest.approx(one["fp32 1/1"], abs=2e-4)}
    # INT8 training goes on from the same FP32 network: its statistics are those of the first process alone.
    shutil.copytree(tmp_path / "one" / "fp32", tmp_path / "again" / "fp32")
    shown = run(tmp_path, *two, "--out", "again", "--qat-epochs", "1")
    assert losses(shown) == {"qat 1/1": pytest.approx(one["qat 1/1"], abs=2e-4)}


@pytest.mark.slow
def test_two_processes_step_alone_and_average_their_weights(tmp_path: Path) -> None:
    """Local SGD by Accelerate over Gloo: other losses than with shared gradients, near them, and one network at the end."""
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "142", "--held-out", "8")
    train = [str(EXAMPLE / "train.py"), "small.npz", "--width", "0.25", "--dropout", "0", "--batch", "32"]
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *train, "--epochs", "1"]
    shared = losses(run(tmp_path, *two, "--out", "shared", "--qat-epochs", "1"))
    alone = losses(run(tmp_path, *two, "--out", "alone", "--qat-epochs", "1", "--local-steps", "2"))
    assert set(alone) == set(shared) == {"fp32 1/1", "qat 1/1"}
    assert alone["fp32 1/1"] != shared["fp32 1/1"]
    assert alone["fp32 1/1"] == pytest.approx(shared["fp32 1/1"], rel=0.3)
    assert (tmp_path / "alone" / "model.onnx").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--sync-bn"], "PyTorch's SyncBatchNorm needs GPUs"),
        (["--compress", "power_sgd"], "over gloo its sums meet in the wrong order"),
    ],
)
def test_two_processes_refuse_what_gloo_cannot_before_they_read(flags: List[str], says: str, tmp_path: Path) -> None:
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(EXAMPLE / "train.py")]
    assert says in failed(tmp_path, *two, "none.npz", "--out", "run", *flags)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_stopped_example_search_resumes(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "128", "--held-out", "24")
    search = [str(EXAMPLE.parent / "09_search" / "search.py"), "--data", "small.npz", "--epochs", "1"]
    assert run(tmp_path, *search, "--trials", "1").startswith("1 trials, 0 of them from before\n")
    assert run(tmp_path, *search, "--trials", "3").startswith("3 trials, 1 of them from before\n")
    unchanged = run(tmp_path, *search, "--trials", "3")
    assert unchanged.startswith("3 trials, 3 of them from before\n")
    assert "predicted" in unchanged


@pytest.mark.slow
def test_two_processes_share_a_search_that_they_begin_together(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "64", "--held-out", "8")
    search = [str(EXAMPLE.parent / "09_search" / "search.py"), "--data", "small.npz", "--epochs", "1", "--trials", "3"]
    with ThreadPoolExecutor(2) as pool:
        shown = list(pool.map(lambda _: run(tmp_path, *search), range(2)))
    counts = [int(text.split()[0]) for text in shown]
    # The trial that the other process is at when the third is complete is kept too.
    assert max(counts) in (3, 4)
    assert (tmp_path / "search.journal").exists()


@pytest.mark.slow
def test_dasks_workers_share_a_search(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    pytest.importorskip("distributed", reason="Dask is not installed")
    run(tmp_path, str(EXAMPLE / "pictures.py"), "small.npz", "--train", "64", "--held-out", "8")
    search = [str(EXAMPLE.parent / "09_search" / "search.py"), "--data", "small.npz", "--epochs", "1", "--trials", "3"]
    workers, total = run(tmp_path, *search, "--dask", "2").splitlines()[:2]
    ran = [int(number) for number in workers.partition(": ")[2].split()]
    assert len(ran) == 2
    assert total == f"{sum(ran)} trials, 0 of them from before"
    # The trial that the other worker is at when the third is complete is kept too.
    assert sum(ran) in (3, 4)
