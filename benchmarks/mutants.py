"""Mutation testing: how many small changes of the code do the tests of its own room notice?

    make mutants                                   # 50 sampled mutants of each room, all rooms; hours
    python benchmarks/mutants.py --rooms remote fixes --sample 20 --seed 2 --jobs 8

A mutant changes one comparison, number, operator, word, assignment or guard in one file of a room's code. The sample is drawn
with a seed, evenly over all mutants of a room. A first run of the room's tests records which functions each test calls, and
which tests pass; a mutant is killed where one of the passing tests that reach its function fails with it, or does not end.
What survives these is tried on all tests of the room. Some of the sample are tried unchanged, too: each of these controls that
"fails" shows a test that the machine breaks, not the change. The result goes to benchmarks/results/mutants.json. Needs Python 3.9.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
COPIED = (
    "edgedla",
    "rules",
    "tests",
    "examples",
    "jetson",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "Makefile",
)
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]


def rooms() -> Dict[str, Tuple[Path, Path]]:
    """Room -> (its code, its tests): every folder of edgedla/ that has a folder of tests."""
    pairs = {p.name: (p, ROOT / "tests" / p.name) for p in sorted((ROOT / "edgedla").iterdir()) if p.is_dir()}
    return {name: (code, tests) for name, (code, tests) in pairs.items() if tests.is_dir()}


# --- Mutants

COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
ENDS = (ast.Raise, ast.Return, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutant:
    """`text` takes the place of the characters from `start` to `end` of the file. `function`: (first line, name), None outside."""

    path: str
    line: int
    start: int
    end: int
    text: str
    function: Optional[Tuple[int, str]]
    source: str
    control: bool = False

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}: {self.source} -> {self.text}"


def mutants_of(path: Path) -> List[Mutant]:
    text = path.read_text(encoding="utf-8")
    offsets = [0]
    for line in text.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    data = text.encode()
    found: List[Mutant] = []
    for node, new, function in _changes(ast.parse(text), None):
        start, end = offsets[node.lineno - 1] + node.col_offset, offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        old = data[start:end].decode()
        shown = " ".join(old.split())[:80]
        found.append(Mutant(path.relative_to(ROOT).as_posix(), node.lineno, start, end, new, function, shown))  # type: ignore[attr-defined]
    return found


def named_mutants(path: Path) -> List[Mutant]:
    """The mutants of a file: each has a path, the text that stands there once ("old"), and what takes its place ("new").

    Raises:
        ValueError: the text stands there no more, or more than once: the file must follow the code.
    """
    found: List[Mutant] = []
    for row in json.loads(path.read_text(encoding="utf-8"))["mutants"]:
        text = (ROOT / row["path"]).read_text(encoding="utf-8")
        if text.count(row["old"]) != 1:
            raise ValueError(f"{path.name}: {row['old']!r} stands {text.count(row['old'])} times in {row['path']}")
        before = text[: text.index(row["old"])]
        start, line = len(before.encode()), before.count("\n") + 1 + (row["old"][0] == "\n")
        source = " ".join(row["old"].split())[:80]
        found.append(Mutant(row["path"], line, start, start + len(row["old"].encode()), row["new"], _around(text, line), source))
    return found


def _around(text: str, line: int) -> Optional[Tuple[int, str]]:
    """(first line, name) of the innermost function around a line, as coverage names it."""
    inside = [
        (min([d.lineno for d in n.decorator_list] + [n.lineno]), n.name)
        for n in ast.walk(ast.parse(text))
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.lineno < line <= (n.end_lineno or 0)
    ]
    return max(inside, default=None)


def _changes(node: ast.AST, function: Optional[Tuple[int, str]]) -> Iterator[Tuple[ast.AST, str, Optional[Tuple[int, str]]]]:
    """(node, what stands there instead, function) of every mutant below a node. Annotations, f-strings, docstrings, decorators
    and what is logged or raised stay as they are."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        first = min([d.lineno for d in node.decorator_list] + [node.lineno])
        for child in (*node.body, *node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]):
            yield from _changes(child, (first, node.name))
        return
    if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom, ast.Assert)):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield from _changes(node.value, function)
        return
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ENDS):
        yield node.test, "False", function
    if isinstance(node, ast.Assign) and function is not None and not isinstance(node.value, ast.Constant):
        yield node.value, "None", function
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "log":
        return
    for new in _instead(node):
        yield node, f"({new})" if isinstance(node, (ast.Compare, ast.BinOp, ast.BoolOp)) else new, function
    for child in ast.iter_child_nodes(node):
        yield from _changes(child, function)


def _instead(node: ast.AST) -> List[str]:
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            return [repr(not value)]
        if isinstance(value, (int, float)):
            return [repr(value + 1)]
        if isinstance(value, str) and value and " " not in value and "\n" not in value:
            return [repr(f"XX{value}XX")]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        return [ast.unparse(ast.Compare(node.left, [COMPARED[type(node.ops[0])]()], node.comparators))]
    if isinstance(node, ast.Compare):
        return [
            ast.unparse(
                ast.Compare(
                    node.left, [COMPARED[type(op)]() if i == 0 else op for i, op in enumerate(node.ops)], node.comparators
                )
            )
        ]
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        return [ast.unparse(ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right))]
    if isinstance(node, ast.BoolOp):
        return [ast.unparse(ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [f"({ast.unparse(node.operand)})"]
    return ["break"] if isinstance(node, ast.Continue) else []


# --- Which tests reach which function: this module is a pytest plugin where MUTANTS_MAP names a file

_seen: Set[Tuple[str, int, str]] = set()
_tests: Dict[str, Any] = {}


def _note(code: Any) -> None:
    at = code.co_filename.rfind("/edgedla/")
    if at >= 0:
        _seen.add((code.co_filename[at + 1 :], code.co_firstlineno, code.co_name))


def _begin() -> None:
    _seen.clear()
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        sys.setprofile(lambda frame, event, _: _note(frame.f_code) if event == "call" else None)
        return
    if monitoring.get_tool(3) is None:
        monitoring.use_tool_id(3, "mutants")
        monitoring.register_callback(3, monitoring.events.PY_START, lambda code, _: (_note(code), monitoring.DISABLE)[1])
        monitoring.set_events(3, monitoring.events.PY_START)
    monitoring.restart_events()


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    _tests[nodeid] = {"ok": True, "s": 0.0, "at": []}
    _begin()


def pytest_runtest_logreport(report: Any) -> None:
    row = _tests[report.nodeid]
    row["s"] += report.duration
    row["ok"] = row["ok"] and report.passed
    row["at"] = sorted(_seen)


def pytest_sessionfinish() -> None:
    Path(os.environ["MUTANTS_MAP"]).write_text(json.dumps(_tests))


# --- The measurement


class Copies:
    """Copies of the checkout, one for each job."""

    def __init__(self, folder: Path, jobs: int, limit_s: float) -> None:
        self.until = time.monotonic() + (limit_s or 1e9)
        self.free: Queue[Path] = Queue()
        first = folder / "0" / "edgedla"
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, first / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
            elif source.exists():
                shutil.copy2(source, first / name)
        # Compiled once: the copies keep the times of their sources, by which Python knows what is compiled.
        subprocess.run([sys.executable, "-m", "compileall", "-q", "edgedla", "tests"], cwd=first, check=False)
        self.free.put(first)
        for n in range(1, jobs):
            self.free.put(Path(shutil.copytree(first, folder / str(n) / "edgedla", symlinks=True)))

    def run(self, command: Sequence[str], timeout_s: float, mutant: Optional[Mutant] = None, **environment: str) -> Optional[int]:
        """The exit code of a command in one of them, with the mutant in its file; None if it does not end in time.

        Raises:
            TimeoutError: the time of the whole measurement is over.
        """
        timeout_s = min(timeout_s, self.until - time.monotonic())
        if timeout_s <= 0:
            raise TimeoutError
        at = self.free.get()
        path = at / (mutant.path if mutant else "pyproject.toml")
        data, stamp = path.read_bytes(), path.stat()
        variables = {
            **os.environ,
            "PYTHONPATH": f"{at}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(at.parent),
            **environment,
        }
        try:
            if mutant:
                path.write_bytes(data[: mutant.start] + mutant.text.encode() + data[mutant.end :])
            done = subprocess.Popen(
                command,
                cwd=at,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                return done.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(done.pid, 9)
                done.wait()
                if time.monotonic() >= self.until:
                    raise TimeoutError
                return None
        finally:
            path.write_bytes(data)
            # With its old time, the compiled form of the file is valid again.
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            self.free.put(at)


def mapped(copies: Copies, path: Path, folder: Path, limit_s: float) -> Dict[str, Any]:
    """Test -> {"ok", "s", "at"} of the tests of one file that pass; {} if it does not end in time."""
    to = folder / ("-".join(path.relative_to(ROOT).parts) + ".json")
    command = [c for c in PYTEST if c != "-x"] + ["-p", "benchmarks.mutants", path.relative_to(ROOT).as_posix()]
    copies.run(command, limit_s, MUTANTS_MAP=str(to))
    rows: Dict[str, Any] = json.loads(to.read_text()) if to.exists() else {}
    return {name: row for name, row in rows.items() if row["ok"]}


def chosen(mutant: Mutant, tests: Dict[str, Any], most_s: float) -> List[str]:
    """The tests that reach the mutant's function (of a module's own lines, anything of the module), the quickest first."""
    if mutant.function is None:
        reached = [n for n, row in tests.items() if any(at[0] == mutant.path for at in row["at"])]
    else:
        key = [mutant.path, *mutant.function]
        reached = [n for n, row in tests.items() if key in row["at"]]
    names, total = [], 0.0
    for name in sorted(reached, key=lambda n: tests[n]["s"]):
        total += tests[name]["s"]
        if total > most_s:
            break
        names.append(name)
    return names


def survives(copies: Copies, mutant: Mutant, tests: Dict[str, Any], most_s: float, whole_s: float) -> str:
    """ "killed", "survived", or "no test" where no test is known to reach it and none fails."""
    names = chosen(mutant, tests, most_s)
    if names:
        expected = sum(tests[n]["s"] for n in names)
        if copies.run([*PYTEST, *names], 10 * expected + 60, mutant) != 0:
            return "killed"
    if whole_s:
        rest: List[str] = []
        total = 0.0
        for name in sorted((n for n in tests if n not in set(names)), key=lambda n: tests[n]["s"]):
            total += tests[name]["s"]
            if total > whole_s:
                break
            rest.append(name)
        # One that does not end here says nothing: these tests are not known to reach it.
        if rest and copies.run([*PYTEST, *rest], 5 * total + 60, mutant) == 1:
            return "killed"
    return "survived" if names else "no test"


def unchanged(mutant: Mutant) -> Mutant:
    """The mutant's place with the text that stands there."""
    text = (ROOT / mutant.path).read_bytes()[mutant.start : mutant.end].decode()
    return replace(mutant, text=text, control=True)


def row_of(room: str, every: int, tests: Dict[str, Any], answers: Dict[Mutant, str]) -> Dict[str, Any]:
    results = {m: answer for m, answer in answers.items() if not m.control}
    controls = [answer for m, answer in answers.items() if m.control]
    killed = sum(r == "killed" for r in results.values())
    return {
        "room": room,
        "mutants": every,
        "sampled": len(results),
        "killed": killed,
        "score": round(killed / max(len(results), 1), 3),
        "tests": len(tests),
        "controls": len(controls),
        "controls_failed": controls.count("killed"),
        "survived": sorted(m.name for m, r in results.items() if r == "survived"),
        "no_test": sorted(m.name for m, r in results.items() if r == "no test"),
    }


def left_of(former: Path, every: Dict[str, List[Mutant]]) -> Dict[str, List[Mutant]]:
    """The mutants by room that no test noticed in a former result, where the code still has them: at the nearest line."""
    found: Dict[str, List[Mutant]] = {}
    for row in json.loads(former.read_text(encoding="utf-8"))["rooms"]:
        if row["room"] not in every:
            continue
        for name in (*row["survived"], *row["no_test"]):
            path, line, change = name.split(":", 2)
            alike = [m for m in every[row["room"]] if m.path == path and m.name.split(":", 2)[2] == change]
            if alike:
                nearest = min(alike, key=lambda m: abs(m.line - int(line)))
                found.setdefault(row["room"], []).append(nearest)
            else:
                print(f"no longer there: {name}", flush=True)
    return found


def measure(copies: Copies, pool: ThreadPoolExecutor, options: argparse.Namespace, folder: Path) -> Dict[str, Any]:
    """ "rooms": one row for each; "named": what became of the mutants of --named."""
    began = time.monotonic()
    files = [
        (room, path)
        for room in options.rooms
        for path in sorted(rooms()[room][1].rglob("test_*.py"))
        if not options.tests or path.relative_to(ROOT).as_posix() in options.tests
    ]
    # The largest files first: they take longest.
    files.sort(key=lambda pair: -pair[1].stat().st_size)
    tests: Dict[str, Dict[str, Any]] = {room: {} for room in options.rooms}
    if options.map is not None and options.map.exists():
        tests = json.loads(gzip.decompress(options.map.read_bytes()))
    else:
        for (room, _), rows in zip(files, pool.map(lambda pair: mapped(copies, pair[1], folder, options.map_s), files)):
            tests[room].update(rows)
        if options.map is not None:
            options.map.write_bytes(gzip.compress(json.dumps(tests).encode()))
    print(f"{sum(map(len, tests.values()))} tests pass, {time.monotonic() - began:.0f} s", flush=True)
    every = {room: [m for path in sorted(rooms()[room][0].rglob("*.py")) for m in mutants_of(path)] for room in options.rooms}
    sampled = {
        r: random.Random(f"{options.seed} {r}").sample(every[r], min(options.sample, len(every[r]))) for r in options.rooms
    }
    if options.again is not None:
        sampled = left_of(options.again, every)
    todo = [(r, m) for r, drawn in sampled.items() for m in [*drawn, *map(unchanged, drawn[: options.controls])]]
    # In any order, so that what a limit leaves out is drawn, too.
    random.Random(options.seed).shuffle(todo)
    given = [] if options.named is None else named_mutants(options.named)
    named = [m for m in given if m.path.split("/")[1] in options.rooms]
    todo = [(m.path.split("/")[1], m) for m in named] + todo

    def one(pair: Tuple[str, Mutant]) -> str:
        try:
            return survives(copies, pair[1], tests[pair[0]], options.most_s, options.whole_s)
        except TimeoutError:
            return ""

    answers = list(zip(todo, pool.map(one, todo)))
    print(f"{sum(bool(a) for _, a in answers)} mutants, {time.monotonic() - began:.0f} s", flush=True)
    by_hand = [(m, answer) for (_, m), answer in answers[: len(named)] if answer]
    found: Dict[str, Any] = {
        "rooms": [
            row_of(room, len(every[room]), tests[room], {m: a for (r, m), a in answers[len(named) :] if r == room and a})
            for room in options.rooms
        ]
    }
    if named:
        found["named"] = {
            "file": options.named.name,
            "tried": len(by_hand),
            "killed": sum(answer == "killed" for _, answer in by_hand),
            "survived": [m.name for m, answer in by_hand if answer != "killed"],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Score of the tests against sampled mutants.")
    parser.add_argument("--sample", type=int, default=50, help="mutants of each room")
    parser.add_argument("--controls", type=int, default=3, help="of them tried unchanged, too, in each room")
    parser.add_argument("--named", type=Path, help="a file of mutants to try besides, such as named_mutants.json")
    parser.add_argument("--rooms", nargs="*", choices=sorted(rooms()), default=sorted(rooms()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--again", type=Path, help="only those that no test noticed in this result; --sample is not read")
    parser.add_argument("--tests", nargs="*", default=[], metavar="FILE", help="only these files of the rooms' tests")
    parser.add_argument("--map", type=Path, help="which tests reach what: read where it is there, else written")
    parser.add_argument("--map-s", type=float, default=600.0, help="seconds that one file of tests may take in the first run")
    parser.add_argument("--most-s", type=float, default=60.0, help="seconds of tests for one mutant; the quickest come first")
    parser.add_argument("--whole-s", type=float, default=60.0, help="seconds of further tests for what survives the first ones")
    parser.add_argument(
        "--limit-s", type=float, default=0.0, help="seconds of the whole; what is not done by then does not count; 0: no limit"
    )
    parser.add_argument("--commit", default="", help="of the measured tree, where it is no checkout")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    head = {
        "what": "share of sampled mutants that the tests of their own room notice",
        "commit": options.commit or git.stdout.strip(),
        "python": platform.python_version(),
        "seed": options.seed,
    }
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        found = measure(Copies(Path(folder), options.jobs, options.limit_s), pool, options, Path(folder))
    rows = found["rooms"]
    sampled, killed = sum(r["sampled"] for r in rows), sum(r["killed"] for r in rows)
    document = {**head, "sampled": sampled, "killed": killed, "score": round(killed / max(sampled, 1), 3), **found}
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{killed} of {sampled} mutants killed ({killed / max(sampled, 1):.0%}); {options.output}")


if __name__ == "__main__":
    main()
