"""Searches a network for the DLA: width, depth, activation and expansion against accuracy and predicted time and energy.

    python search.py --data small.npz --trials 4 --storage search.journal
    python search.py --data small.npz --trials 100 --storage search.journal --picture pareto.html
    python search.py --data small.npz --trials 100 --storage search.journal --dask 4

Trials stand in Optuna's storage: a search that was killed goes on, and several processes or machines share one storage,
by themselves or as Dask's workers.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import optuna
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "08_train_for_the_dla"))
import network
import pictures

import edgedla
from edgedla.torch import adapt, to_onnx

ACTIVATIONS = {"relu": nn.ReLU, "hardswish": nn.Hardswish, "silu": nn.SiLU}
COMPLETE = (optuna.trial.TrialState.COMPLETE,)


def trained(module: nn.Module, data: Any, epochs: int, batch: int = 128) -> float:
    """Trains on the pictures. Returns the share of right answers on the held-out ones."""
    x, y = torch.from_numpy(pictures.scaled(data["train"])), torch.from_numpy(data["train_classes"])
    optimizer = torch.optim.AdamW(module.parameters(), 3e-3, weight_decay=0.02)
    module.train()
    for _ in range(epochs):
        for picked in torch.randperm(len(x)).split(batch):
            loss = F.cross_entropy(module(x[picked]).flatten(1), y[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    module.eval()
    with torch.no_grad():
        scores = module(torch.from_numpy(pictures.scaled(data["held_out"]))).flatten(1)
    return float((scores.argmax(1).numpy() == data["held_out_classes"]).mean())


def objective(trial: optuna.Trial, data: Any, epochs: int, target: str) -> Tuple[float, float, float]:
    """(top-1, predicted ms per frame, predicted mJ per frame) of one network in INT8 on the DLA."""
    torch.manual_seed(trial.number)
    module = network.Network(
        width=trial.suggest_float("width", 0.25, 1.0, step=0.25),
        depth=trial.suggest_int("depth", 1, 3),
        act=ACTIVATIONS[trial.suggest_categorical("activation", sorted(ACTIVATIONS))],
        expansion=trial.suggest_int("expansion", 2, 4),
    )
    one = torch.zeros(1, 3, pictures.SIDE, pictures.SIDE)
    adapted = adapt(module, one, target=target, outputs_4d=True)
    trial.set_user_attr("loadables", adapted.after.totals.regions)
    model = to_onnx(adapted.module, one).SerializeToString()
    cost = edgedla.predict(model, target=target, precision="int8")
    return trained(adapted.module, data, epochs), cost.latency_us / 1000, cost.energy_mj


def storage_of(place: str) -> Any:
    """A database by its address, or a journal by its file, which processes may also begin at the same time."""
    if "://" in place:
        return place
    return JournalStorage(JournalFileBackend(place))


def study_of(given: argparse.Namespace) -> optuna.Study:
    """The study in the storage, begun where there is none."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        study_name="dla", storage=storage_of(given.storage), load_if_exists=True, directions=["maximize", "minimize", "minimize"]
    )


def work(given: argparse.Namespace) -> int:
    """Runs trials until the storage holds as many complete ones as asked for. Returns how many this process ran."""
    study, data, ran = study_of(given), dict(np.load(given.data)), 0

    def tried(trial: optuna.Trial) -> Tuple[float, float, float]:
        nonlocal ran
        ran += 1
        trial.set_user_attr("process", os.getpid())
        return objective(trial, data, given.epochs, given.target)

    if len(study.get_trials(states=COMPLETE)) < given.trials:
        # Counted in the storage after each trial, so that processes that share it stop together.
        study.optimize(tried, callbacks=[optuna.study.MaxTrialsCallback(given.trials, states=COMPLETE)])
    return ran


def work_by_path(file: str, values: Dict[str, Any]) -> int:
    """`work` in a Dask worker, which finds this file where it stands here."""
    spec = importlib.util.spec_from_file_location("search", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ran: int = module.work(argparse.Namespace(**values))
    return ran


def over_dask(given: argparse.Namespace) -> None:
    """The search in every worker of a cluster: that of a scheduler's address, or so many processes of this machine."""
    from dask.distributed import Client, LocalCluster

    # Workers have a folder of their own.
    given.data = given.data.resolve()
    if "://" not in given.storage:
        given.storage = str(Path(given.storage).resolve())
    local = given.dask.isdigit()
    where: Any = LocalCluster(n_workers=int(given.dask), threads_per_worker=1) if local else given.dask
    with Client(where) as client:
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        file = str(Path(__file__).resolve())
        parts = [client.submit(work_by_path, file, vars(given), workers=[w], pure=False) for w in workers]
        print("trials by worker:", *client.gather(parts))
    if local:
        where.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=20, help="complete ones in all, with those that stand in the storage")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--storage", default="search.journal", help="a file, or a database's address")
    parser.add_argument("--target", default="agx-orin-64gb")
    parser.add_argument("--dask", metavar="ADDRESS|N", help="a scheduler's address, or N processes of this machine")
    parser.add_argument("--picture", type=Path, help="the Pareto front as a page (needs plotly)")
    given = parser.parse_args()
    study = study_of(given)
    known = len(study.get_trials(states=COMPLETE))
    if given.dask is not None:
        over_dask(given)
    else:
        work(given)
    print(f"{len(study.get_trials(states=COMPLETE))} trials, {known} of them from before")
    for trial in sorted(study.best_trials, key=lambda t: t.values[1]):
        accuracy, ms, mj = trial.values
        print(f"  top-1 {accuracy:.3f}, predicted {ms:.3f} ms, {mj:.2f} mJ: {trial.params}")
    if given.picture is not None:
        names = ["top-1", "predicted ms", "predicted mJ"]
        optuna.visualization.plot_pareto_front(study, target_names=names).write_html(str(given.picture))


if __name__ == "__main__":
    main()
