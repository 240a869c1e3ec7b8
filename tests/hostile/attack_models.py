"""Mutated models through the commands, in forked workers with limits: exit codes, output forms, CPU time, memory."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import resource
import select
import signal
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import onnx

from edgedla.errors import ModelError
from edgedla.processes.guard import CRASHES
from tests.hostile.commands import small_model
from tests.hostile.mutate import mutated
from tests.hostile.nasty_models import SMALL, chain
from tests.hostile.orders import ORDERS

DOCUMENTED = {0, 1, 2, 3, 4, 5, 6}
#: The promise: CPU seconds and memory of one command on a model below 10 MB.
CPU_S, MEMORY_BYTES = 20, 1 << 30
LIMITS = {"cpu_s": CPU_S, "memory_mib": MEMORY_BYTES >> 20, "exit_codes": sorted(DOCUMENTED)}
BATCH = 100
#: A worker may map so much: more than any command should take, so that what asks for more fails and is no danger here.
ADDRESS_SPACE = 6 << 30
#: Native code that hangs hears no signal handler of Python: a worker is given up that used the CPU for so long without an
#: answer, or stood still for so long. Wall time alone says nothing on a machine that does other work.
SILENT_CPU_S, STILL_S = 2 * CPU_S, 90
PLATFORMS = (("orin", None), ("xavier", None), ("orin-nx-8gb", "8.5.2"))
#: Arguments after the model, and how often they are drawn.
COMMANDS: Tuple[Tuple[int, Tuple[str, ...]], ...] = (
    *((2, ("check", "--format", form)) for form in ("text", "json", "markdown", "sarif", "junit", "html")),
    (1, ("check", "--mode", "standalone")),
    (1, ("check", "--precision", "int8")),
    (2, ("layers",)),
    (1, ("layers", "--format", "json")),
    (2, ("place", "--time-limit", "1")),
    (1, ("place", "--time-limit", "1", "--format", "json")),
    (1, ("place", "--time-limit", "1", "--format", "html")),
    (1, ("fix", "--dry-run", "--max-memory", "960M")),
    (2, ("build", "--plan")),
    (2, ("build", "--backend", "trtexec", "-o", "{d}/build.sh")),
    # A network of real size needs more than the limit; --max-memory is what keeps it.
    (2, ("build", "--backend", "host", "--max-memory", "960M", "-o", "{d}/a")),
    (1, ("build", "--backend", "host", "--max-memory", "960M", "--precision", "int8", "-o", "{d}/q")),
)
PARSERS: Dict[str, Callable[[str], Any]] = {"json": json.loads, "sarif": json.loads, "junit": ElementTree.fromstring}


class Hang(BaseException):
    """The CPU limit of one case: nothing in edgedla catches it."""


def seeds(corpus: Optional[Path]) -> List[bytes]:
    """Serialised models to wound: our own, and those of a folder that are below 300 kB."""
    models = [make().SerializeToString() for make in SMALL.values()]
    models += [small_model().SerializeToString(), chain(6).SerializeToString()]
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    files = [*sorted(data.rglob("*.onnx")), *(sorted(corpus.rglob("*.onnx")) if corpus is not None else [])]
    models += [f.read_bytes() for f in files if f.stat().st_size < 300_000 and not f.name.startswith("yolo")]
    return [m for m in models if _parses(m)]


def _parses(data: bytes) -> bool:
    try:
        onnx.ModelProto.FromString(data)
    except Exception:
        return False
    return True


def arguments(model: Path, rng: random.Random, folder: Path) -> List[str]:
    command = rng.choices([c for _, c in COMMANDS], [w for w, _ in COMMANDS])[0]
    target, trt = rng.choice(PLATFORMS)
    rest = [a.format(d=folder) for a in command[1:]]
    return [command[0], str(model), "--target", target, *(["--trt", trt] if trt and command[0] != "layers" else []), *rest]


def case(args: Sequence[str]) -> Dict[str, Any]:
    """Runs one command line in this process; what is wrong with it stands under "wrong"."""
    from edgedla.cli.main import exit_code_of

    out, err = io.StringIO(), io.StringIO()

    def limit(number: int, frame: Any) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, limit)
    started = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code: Optional[int] = exit_code_of(list(args))
    except Hang:
        code = None
    except BaseException as e:
        return {"wrong": f"{type(e).__name__} left exit_code_of: {e}"[:300]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    cpu_s = time.process_time() - started
    form = args[args.index("--format") + 1] if "--format" in args else "text"
    wrong = None
    if code is None:
        wrong = f"more than {CPU_S} CPU s"
    elif code not in DOCUMENTED:
        wrong = f"exit code {code}: {err.getvalue().strip()[:300]}"
    elif "Traceback" in err.getvalue():
        wrong = "a traceback"
    elif ORDERS.search(out.getvalue() + err.getvalue()):
        wrong = "control characters"
    elif code in (0, 1) and form in PARSERS:
        try:
            PARSERS[form](out.getvalue())
        except Exception as e:
            wrong = f"no {form}: {e}"[:300]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if wrong is None and memory > MEMORY_BYTES:
        wrong = f"{memory >> 20} MiB"
    return {"code": code, "cpu_s": cpu_s, "memory": memory, "wrong": wrong}


def run_cases(
    build_case: Callable[[int, Path], List[str]], first: int, last: int, report: Callable[[int, Dict[str, Any]], None]
) -> None:
    """Cases first..last-1 in forked workers; a worker that dies or hangs loses its case only."""
    at = first
    while at < last:
        end = min(at + BATCH, last)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _worker(build_case, at, end, writer)
        os.close(writer)
        try:
            at = _read(reader, pid, at, end, report)
        finally:
            os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _worker(build_case: Callable[[int, Path], List[str]], first: int, last: int, writer: int) -> None:
    # ONNX Runtime and the shape inference print from C++.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for number in range(first, last):
        with scratch() as folder:
            args = build_case(number, folder)
            answer = case(args)
        os.write(writer, (json.dumps([number, args[0], answer]) + "\n").encode())
        if answer.get("memory", 0) > MEMORY_BYTES // 2:
            break
    os._exit(0)


def _read(reader: int, pid: int, at: int, end: int, report: Callable[[int, Dict[str, Any]], None]) -> int:
    """Reports what the worker says; returns the first case that is still to be run."""
    rest = b""
    while at < end:
        wrong = _silent(reader, pid)
        if wrong is not None:
            report(at, {"wrong": wrong})
            return at + 1
        data = os.read(reader, 1 << 16)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            number, verb, answer = json.loads(line)
            report(number, {**answer, "verb": verb})
            at = number + 1
        if not data:
            status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            if at < end and status.si_status != 0:
                if status.si_code != os.CLD_EXITED and status.si_status in CRASHES:
                    # The command runs under a process that says so in words (edgedla.processes.guard, tests/core/test_guard.py).
                    report(at, {"code": ModelError.exit_code, "crash": status.si_status, "wrong": None})
                else:
                    how = "exit code" if status.si_code == os.CLD_EXITED else "signal"
                    report(at, {"wrong": f"the process died: {how} {status.si_status}"})
                return at + 1
            return at
    return at


def _silent(reader: int, pid: int) -> Optional[str]:
    """Waits for the worker; what is wrong with it where it does not answer."""
    first = last = _cpu_s(pid)
    while not select.select([reader], [], [], STILL_S)[0]:
        now = _cpu_s(pid)
        if now - first > SILENT_CPU_S:
            return f"no answer within {SILENT_CPU_S} CPU s"
        if now - last < 0.1:
            return f"stood still for {STILL_S} s"
        last = now
    return None


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Tally:
    """What a campaign showed."""

    def __init__(self) -> None:
        self.cases, self.codes, self.verbs = 0, {}, {}  # type: int, Dict[str, int], Dict[str, int]
        self.most_cpu_s, self.most_memory = 0.0, 0
        self.wrong: List[Dict[str, Any]] = []
        self.crashes: List[Dict[str, Any]] = []

    def add(self, number: int, answer: Dict[str, Any]) -> None:
        self.cases += 1
        for counts, key in ((self.codes, str(answer.get("code"))), (self.verbs, str(answer.get("verb")))):
            counts[key] = counts.get(key, 0) + 1
        self.most_cpu_s = max(self.most_cpu_s, answer.get("cpu_s", 0.0))
        self.most_memory = max(self.most_memory, answer.get("memory", 0))
        if "crash" in answer:
            self.crashes.append({"case": number, "signal": answer["crash"]})
        if answer["wrong"]:
            self.wrong.append({"case": number, "what": answer["wrong"]})

    def to_dict(self) -> Dict[str, Any]:
        return {
            "cases": self.cases,
            "exit_codes": dict(sorted(self.codes.items())),
            "verbs": dict(sorted(self.verbs.items())),
            "most_cpu_s": round(self.most_cpu_s, 2),
            "most_memory_mib": self.most_memory >> 20,
            "native_crashes": self.crashes[:20],
            "wrong": len(self.wrong),
            "first_wrong": self.wrong[:20],
        }


def mutation_case(models: Sequence[bytes], seed: int, keep: Optional[Path] = None) -> Callable[[int, Path], List[str]]:
    """Case number -> its model, written into the folder, and its command line; the same for a seed and its seeds."""

    def build_case(number: int, folder: Path) -> List[str]:
        rng = random.Random(f"{seed} {number}")
        path = (keep or folder) / "m.onnx"
        path.write_bytes(mutated(rng.choice(list(models)), rng))
        return arguments(path, rng, folder)

    return build_case


#: Arguments of `fix` after the model, each with half of the models.
OF_FIX: Tuple[Tuple[str, ...], ...] = (("--change-outputs",), ("--approximate", "0.01"), ("--precision", "int8"))


def pattern_seeds() -> List[bytes]:
    """What each rewrite says that it changes, refuses or leaves alone: broken, they reach its arithmetic."""
    from edgedla.fixes.rewrites import all_rewrites
    from tests.fixes.rewrite_examples import example_model

    return [example_model(example).SerializeToString() for rewrite in all_rewrites() for example in rewrite.examples]


def pattern_case(models: Sequence[bytes], seed: int) -> Callable[[int, Path], List[str]]:
    """As `mutation_case`, with `fix` alone."""

    def build_case(number: int, folder: Path) -> List[str]:
        rng = random.Random(f"{seed} pattern {number}")
        path = folder / "m.onnx"
        path.write_bytes(mutated(rng.choice(list(models)), rng))
        target, trt = rng.choice(PLATFORMS)
        options = [word for words in OF_FIX if rng.random() < 0.5 for word in words]
        release = ["--trt", trt] if trt else []
        return ["fix", str(path), "--target", target, *release, "--dry-run", "--max-memory", "960M", *options]

    return build_case


#: Further commands for models as they are: each of them with each model and platform.
UNMUTATED: Tuple[Tuple[str, ...], ...] = (
    *dict.fromkeys(c for _, c in COMMANDS),
    ("check", "--mode", "strict"),
    ("fix", "--dry-run", "--no-prove"),
    ("quantize", "--max-memory", "960M", "-o", "{d}/s"),
)


def files_as_they_are(corpus: Optional[Path]) -> List[Path]:
    """The models of the onnx package's tests, and those of a folder."""
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    return [*sorted(data.rglob("*.onnx")), *(sorted(corpus.rglob("*.onnx")) if corpus is not None else [])]


def unmutated_case(files: Sequence[Path]) -> Tuple[int, Callable[[int, Path], List[str]]]:
    """(number of cases, case number -> its command line): every model with every command for every platform."""
    combined = list(itertools.product(files, PLATFORMS, UNMUTATED))
    # A run that ends early has seen some of everything.
    random.Random(0).shuffle(combined)

    def build_case(number: int, folder: Path) -> List[str]:
        path, (target, trt), command = combined[number]
        release = ["--trt", trt] if trt and command[0] != "layers" else []
        return [command[0], str(path), "--target", target, *release, *(a.format(d=folder) for a in command[1:])]

    return len(combined), build_case


def cannot_run() -> Optional[str]:
    """Why every case would end in an error of this machine's making; None where nothing says so."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    if most == resource.RLIM_INFINITY or most >= ADDRESS_SPACE:
        return None
    return f"the shell allows {most >> 20} MiB of address space (ulimit -v); the attack needs {ADDRESS_SPACE >> 20} MiB"


def warm() -> None:
    """Loads what the commands need, so that each forked worker has it. No session: its threads would not survive."""
    from edgedla.quantization.session import import_onnxruntime

    import_onnxruntime()
    with scratch() as folder:
        path = folder / "m.onnx"
        onnx.save(small_model(), str(path))
        for command in dict.fromkeys(c for _, c in COMMANDS if "host" not in c):
            case([command[0], str(path), "--target", "orin", *(a.format(d=folder) for a in command[1:])])


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder in memory, where the system has one: folders of a disk cost more than most cases."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(prefix="attack-", dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)
