"""Solvers against brute force over all assignments, with sums that share nothing with the product's.

    python benchmarks/bench_place_brute.py [--count 2000] [-o FILE.json]

Each case is a random network of a few operators, most of them with a recurrent one, read by the importer, with random
costs and limits (tests/placement/tiny_networks.py). It is solved for latency, energy, energy at given frame rates, energy
within a latency bound, and throughput, also within one; and two and three still smaller ones for throughput within a bound and
for makespan. The sums and schedules of
tests/placement/own_sums.py say what is best. A case is wrong where a value differs, where "proven" does not hold, where
the answer is not legal, or where a loop is not one item on the GPU. Exits with 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "placement"))

from own_sums import is_legal, least, least_makespan, makespan, value_of
from tiny_networks import loops_in, tiny_pair, tiny_problem, tiny_triple

from edgedla.graph import LayerGraph
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.solve import solve

DEVICES = (("GPU", "DLA0"), ("GPU", "DLA0", "DLA1"))
TOLERANCE = 2e-4


def goals(rng: random.Random) -> Iterator[Tuple[str, Goal]]:
    yield "latency", Goal("latency")
    yield "energy", Goal("energy")
    yield "energy within a bound", Goal("energy", float(rng.randint(40, 250)))
    yield "energy at frame rates", Goal("energy", frames_per_second=(float(rng.randint(1000, 12000)),))
    yield "throughput", Goal("throughput")
    yield "throughput within a bound", within(rng)


def within(rng: random.Random) -> Goal:
    return Goal("throughput", float(rng.randint(40, 250)))


def faults(problem: Problem, graph: LayerGraph, rng: random.Random, only: str) -> Iterator[str]:
    """What is wrong with the answers for one problem."""
    for layer in graph.layers:
        feeding = [graph.producer(name) for name in layer.inputs]
        if any(p is not None and p > layer.index for p in feeding):
            item = next(i for i in problem.items if layer.index in i.layers)
            if item.allowed != ("GPU",) or not {p for p in feeding if p is not None and p > layer.index} <= {*item.layers}:
                yield f"the loop at {layer.name} is no item of the GPU's"
    for name, goal in goals(rng):
        if only in ("", name):
            yield from (f"{name}: {fault}" for fault in faults_of_sums(problem, goal))


def faults_of_sums(problem: Problem, goal: Goal) -> Iterator[str]:
    """What is wrong with the answer for a goal that sums of costs say."""
    bound = goal.bound_of(0)
    expected = least(problem, goal.objective, bound, goal.frames_per_second)
    answer = solve(problem, goal, time_limit_s=60)
    if answer.best is None:
        if expected < float("inf"):
            yield f"none found, best is {expected}"
        return
    devices = answer.best.assignment
    value = value_of(problem, devices, goal.objective, goal.frames_per_second)
    if not is_legal(problem, devices, bound, goal.frames_per_second):
        yield "not legal"
    if abs(value - answer.value) > TOLERANCE * max(value, 1e-9):
        yield f"says {answer.value}, adds up to {value}"
    if value > expected * (1 + TOLERANCE) + 1e-9 or value < expected * (1 - TOLERANCE) - 1e-9:
        yield f"{value}, best is {expected}"
    if not answer.optimal:
        yield "not proven"


def faults_of_makespan(problem: Problem) -> Iterator[str]:
    """What is wrong with the makespan of several models."""
    expected = least_makespan(problem)
    answer = solve(problem, Goal("makespan"), time_limit_s=60)
    if answer.best is None:
        if expected < float("inf"):
            yield f"none found, best is {expected}"
        return
    length = makespan(problem, answer.best.assignment)
    if not is_legal(problem, answer.best.assignment):
        yield "not legal"
    if abs(length - answer.value) > TOLERANCE * length:
        yield f"says {answer.value}, its shortest schedule takes {length}"
    if abs(length - expected) > TOLERANCE * expected:
        yield f"{length}, best is {expected}"
    if answer.bound > expected * (1 + TOLERANCE):
        yield f"the bound {answer.bound} is above the best, {expected}"
    if not answer.optimal:
        yield f"not proven, gap {answer.gap:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    several = {"makespan": tiny_pair, "makespan of three": tiny_triple}
    streams = {"throughput of two within a bound": tiny_pair, "throughput of three within a bound": tiny_triple}
    names = [*(name for name, _ in goals(random.Random(0))), *several, *streams]
    parser.add_argument("--goal", default="", choices=["", *names])
    parser.add_argument("-o", "--output", type=Path)
    a = parser.parse_args()
    began, wrong = time.process_time(), []
    cases = with_loops = assignments = 0
    for seed in range(a.first, a.first + a.count):
        cases += 1
        found: List[str] = []
        if a.goal not in (*several, *streams):
            problem, graph = tiny_problem(seed, DEVICES[seed % 2])
            assignments += math.prod(len(item.allowed) for item in problem.items)
            with_loops += loops_in(graph) > 0
            found += faults(problem, graph, random.Random(seed), a.goal)
        for name, make in several.items():
            if a.goal in ("", name):
                models = make(seed, DEVICES[seed % 2])
                assignments += math.prod(len(item.allowed) for item in models.items)
                found += [f"{name}: {fault}" for fault in faults_of_makespan(models)]
        for name, make in streams.items():
            if a.goal in ("", name):
                models = make(seed, DEVICES[seed % 2])
                assignments += math.prod(len(item.allowed) for item in models.items)
                found += [f"{name}: {fault}" for fault in faults_of_sums(models, within(random.Random(seed)))]
        wrong += [{"case": seed, "fault": text} for text in found]
        for text in found:
            print(f"case {seed}: {text}", flush=True)
    result: Dict[str, Any] = {
        "command": f"python benchmarks/bench_place_brute.py --count {a.count}" + f" --goal {a.goal}" * bool(a.goal),
        "cases": cases,
        "with_loops": with_loops,
        "assignments": assignments,
        "searches": cases * (1 if a.goal else len(names)),
        "wrong": wrong,
        "processor_s": round(time.process_time() - began, 1),
    }
    print(json.dumps(result))
    if a.output:
        a.output.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
