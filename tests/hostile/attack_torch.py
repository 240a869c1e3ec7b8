"""PyTorch code of somebody else: factories on the command line, and files of PyTorch for `convert`. Needs PyTorch."""

from __future__ import annotations

import functools
import io
import json
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence

from tests.hostile.orders import ORDERS
from tests.hostile.started import DOCUMENTED, EDGEDLA, ended, start, written
from tests.hostile.values import bytes_changed

_FILE = """import sys, os, torch
from torch import nn
{top}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        {init}

    def forward(self{parameters}):
        y = self.conv(x).relu()
        {forward}
        return {result}


def make():
    {before}
    return {given}


class Outer:
    inner = make
    net = Net
    {inside}
"""
#: Slot of the file -> what usually stands there, and what else may.
SLOTS: Mapping[str, Sequence[str]] = {
    "top": (
        "",
        "raise SystemExit(0)",
        "sys.exit('no')",
        "import nowhere",
        "raise KeyboardInterrupt",
        "print('{' * 9)",
        "x = (",
        "\0",
        "sys.stdout.write('\\x1b[2J')",
        "class Error(BaseException): pass\nraise Error('\\x1b[2J')",
        "raise ValueError('\\x1b[31m\\u2028\\ud800')",
        "__getattr__ = None",
        "def __getattr__(name): raise ValueError(name)",
        "os.chdir('/')",
        "sys.stdout = None",
        "del sys.path[:]",
        "sys.setrecursionlimit(60)",
        "torch.set_default_dtype(torch.float64)",
        "from edgedla.errors import ModelError\nraise ModelError('a')",
        "torch.nn.Module.eval = None",
    ),
    "init": (
        "pass",
        "self.other = self",
        "self.register_buffer('b', torch.full((8, 1, 1), float('nan')))",
        "self.forward = None",
        "self.conv.weight.data = torch.zeros(0, 3, 3, 3)",
        "self.conv = self.conv.half()",
        "self.conv = self.conv.to('meta')",
        "self.conv.weight.data = self.conv.weight.data.to_sparse()",
        "self.__dict__['training'] = None",
        "self.eval = lambda: None",
        "self.add_module('a/\\x1b[2J b', nn.ReLU())",
        "self.train = lambda mode=True: 1 / 0",
        "self.forward = print",
        "torch.nn.utils.parametrizations.weight_norm(self.conv)",
        "self.conv.register_forward_hook(lambda *a: None)",
        "self.conv.register_forward_hook(lambda m, i, o: o.tolist())",
        "self.conv = torch.jit.script(self.conv)",
    ),
    "parameters": (", x", ", x, *rest", ", x, scale=2", ", x=None", ", *, x", ", x, other", ", x: 'nothing[' = 3"),
    "forward": (
        "pass",
        "print('{', x.shape)",
        "sys.exit(0)",
        "raise KeyError(x)",
        "x = x.numpy()",
        "y = y[:, 9:]",
        "y = y + float(y.sum())",
        "y = torch.fft.fft(y)",
        "y = y.to(torch.bfloat16)",
        "y = y.double()",
        "y = y.long()",
        "y = y.bool()",
        "y = torch.where(y > 0, y, float('inf'))",
        "y = y.nonzero()",
        "y = self(x)",
        "y = y.reshape(-1, 0, 8)",
        "y = y.cuda()",
        "y = torch.quantize_per_tensor(y, 0.1, 0, torch.qint8)",
        "y = y.to_sparse()",
        "import gc; gc.freeze(); gc.disable()",
        "raise MemoryError",
        "raise RecursionError('\\x1b[2J')",
        "assert False, '\\x9b'",
        "warn = __import__('warnings').warn(y)",
        "y = torch.utils.checkpoint.checkpoint(self.conv, x)",
        "y = torch.compile(self.conv)(x)",
        "y = torch.empty(0).max()",
        "y.requires_grad_().sum().backward()",
        "self.conv = nn.Conv2d(3, 1, 1)",
        "y = y.expand(2**20, -1, -1, -1)",
    ),
    "result": (
        "y",
        "[]",
        "None",
        "{'a': y, 'b/\\x1b[2J': y}",
        "{1: y}",
        "[[y, [y]], y]",
        "'y'",
        "(y,) * 300",
        "y.shape",
        "x",
        "{}",
        "torch.zeros(1, 8)",
        "y.tolist()[0][0][0][0]",
        "iter([y])",
        "Net",
        "(y, None)",
        "self",
        "torch.zeros(1, 8).to('meta')",
    ),
    "before": (
        "pass",
        "print(']' * 9)",
        "sys.exit(3)",
        "exit(0)",
        "raise OSError(28, 'No space left')",
        "raise EOFError",
        "input()",
        "raise UnicodeDecodeError('utf-8', b'\\xff', 0, 1, '\\x1b')",
        "os.close(1)",
        "breakpoint()",
        "raise Exception('a\\nb' * 5000)",
        "sys.argv[:] = []",
        "os.environ.clear()",
        "__import__('signal').signal(2, print)",
        "raise GeneratorExit",
        "make()",
    ),
    "given": (
        "Net(), torch.zeros(1, 3, 16, 16)",
        "Net(), torch.zeros(1, 3, 16, 16)",
        "Net()",
        "Net",
        "Net(), None",
        "None",
        "(Net(),) * 3",
        "()",
        "Net(), torch.zeros(())",
        "Net(), torch.zeros(0, 3, 16, 16)",
        "Net(), 'x'",
        "Net(), {'x': torch.zeros(1, 3, 16, 16)}",
        "Net(), {'z': torch.zeros(1)}",
        "Net(), {1: torch.zeros(1)}",
        "Net(), [torch.zeros(1, 3, 16, 16)] * 9",
        "Net(), iter([1])",
        "Net(), torch.zeros(1, 3, 16, 16).to('meta')",
        "Net(), torch.zeros(1, 3, 16, 16, dtype=torch.int64)",
        "torch.nn.Module()",
        "Net(), torch.zeros(1, 3, 16, 16, dtype=torch.complex64)",
        "Net(), torch.zeros(1, 5, 16, 16)",
        "nn.ModuleList([Net()])",
        "Net(), torch.zeros(1, 3, 16, 16).to_sparse()",
        "nn.Sequential(), torch.zeros(2)",
        "torch.jit.script(nn.ReLU()), torch.zeros(2)",
        "torch.jit.trace(Net(), torch.zeros(1, 3, 16, 16)), torch.zeros(1, 3, 16, 16)",
        "nn.DataParallel(Net()), torch.zeros(1, 3, 8, 8)",
        "nn.LSTM(4, 4), torch.zeros(2, 1, 4)",
        "nn.Embedding(4, 4), torch.zeros(2, dtype=torch.int64)",
        "make",
        "(i for i in ())",
        "torch.ao.quantization.quantize_dynamic(Net()), torch.zeros(1, 3, 16, 16)",
        "type('A', (Net,), {'forward': 3})(), torch.ones(1)",
    ),
    "inside": ("pass", "def __getattr__(self, name): return self", "__slots__ = ()", "bad = property(lambda s: 1 / 0)"),
}
NAMES = (
    *["net:make"] * 12,
    "net:Net",
    "net:Outer.inner",
    "net:Outer.net",
    "net:Outer",
    "net:Outer.bad.x",
    "net:nothing",
    "net:make.x",
    "net:__doc__",
    "net.inner:make",
    "sys:exit",
    "os:getcwd",
    "builtins:input",
    "torch:nn",
    "torch.nn:ReLU",
    "torch.nn:Conv2d",
    "nothing:make",
    "this:s",
    "os:abort.x",
    "timm:resnet18",
    "torchvision:nothing",
    "__main__:main",
    "edgedla:check",
)
SHAPES = (
    *[()] * 6,
    ("--shapes", "1x3x16x16"),
    ("--shapes", "x:1x3x16x16"),
    ("--shapes", "z:1x3x16x16"),
    ("--shapes", "0x3x16x16"),
    ("--batch", "2"),
    ("--shapes", "x:1x3x16x16,other:1"),
    ("--shapes", "1x3x1x99999999999"),
    ("--shapes", "1"),
    ("--batch", "0"),
    ("--shapes", "x:1x-3x1x1"),
)
VERBS = (
    ("check", "--format", "json", "--fail-on", "never"),
    ("check", "--fail-on", "never"),
    ("layers", "--format", "json"),
    ("place", "--format", "json"),
    ("fix", "-o", "f.onnx"),
    ("build", "--backend", "host", "-o", "a"),
)


def factory(rng: random.Random, folder: Path) -> Optional[str]:
    """Code that is odd in at most two places. No answer calls that a bug of edgedla, no such code ends the command as if it had
    succeeded, and nothing that it prints is part of a JSON answer."""
    slots: Dict[str, str] = {name: values[0] for name, values in SLOTS.items()}
    for name in rng.sample(sorted(SLOTS), rng.choice((0, 1, 1, 1, 2))):
        slots[name] = rng.choice(SLOTS[name])
    (folder / "net.py").write_text(_FILE.format(**slots))
    verb, *more = rng.choice(VERBS)
    words = [verb, rng.choice(NAMES), "--target", "orin", *more, *rng.choice(SHAPES)]
    what = f"{' '.join(words)} of {[v for n, v in slots.items() if v != SLOTS[n][0]]}"
    process = start([*EDGEDLA, *words], folder)
    said = written(process)
    return f"{what}: hangs" if said is None else _judged(process.returncode, *said, words, what, folder)


def _judged(code: int, out: str, err: str, words: Sequence[str], what: str, folder: Path) -> Optional[str]:
    if code not in DOCUMENTED:
        return f"{what}: ended with {code}: {err[-300:]}"
    if "Traceback" in err or "bug in edgedla" in err:
        return f"{what}: a traceback: {err[-300:]}"
    if ORDERS.search(err):
        return f"{what}: an order to the terminal: {err[-300:]!r}"
    if code in (0, 1) and "json" in words:
        try:
            json.loads(out)
        except ValueError as e:
            return f"{what}: code {code} and no JSON document ({e}): {out[:100]!r}"
    if code == 0 and "-o" in words and not (folder / words[list(words).index("-o") + 1]).exists():
        return f"{what}: code 0 and nothing written"
    return None if code or out.strip() else f"{what}: code 0 and no answer"


# --- Files of PyTorch, which `convert` loads in a process of its own

_SEEDS = """import sys, torch
from torch import nn
net, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2)).eval(), torch.zeros(1, 3, 16, 16)
torch.jit.script(net).save(sys.argv[1] + "/scripted.pt")
torch.jit.trace(net, x).save(sys.argv[1] + "/traced.ts")
torch.save(net, sys.argv[1] + "/pickled.pt")
torch.save(net.state_dict(), sys.argv[1] + "/weights.pth")
torch.export.save(torch.export.export(net, (x,)), sys.argv[1] + "/program.pt2")
"""


@functools.lru_cache(maxsize=1)
def _files() -> Dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, "-c", _SEEDS, name], check=True, capture_output=True, cwd=name)
        return {path.name: path.read_bytes() for path in sorted(Path(name).iterdir())}


def _inside(archive: bytes, rng: random.Random) -> bytes:
    """The ZIP archive with one member changed, gone, empty or under another name; its checksums fit."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        infos = old.infolist()
        chosen = rng.randrange(len(infos))
        for number, info in enumerate(infos):
            name, data = info.filename, old.read(info)
            how = rng.randrange(6) if number == chosen else 9
            if how == 0:
                continue
            name = rng.choice(("../x", "a/code/__torch__.py", name + "x")) if how == 1 else name
            new.writestr(name, b"" if how == 2 else bytes_changed(data, rng) if how < 6 else data)
    return out.getvalue()


def converted(rng: random.Random, folder: Path) -> Optional[str]:
    """Only files that somebody trusts are loaded as pickles; a crash of PyTorch's reader is told in words."""
    name, data = rng.choice(sorted(_files().items()))
    draw = rng.random()
    data = data if draw < 0.1 else bytes_changed(data, rng) if draw < 0.4 else _inside(data, rng)
    name = name if rng.random() < 0.9 else rng.choice(("m.pt", "m.pt2", "m.pth", "m.torchscript"))
    (folder / name).write_bytes(data)
    more = rng.choice(((), ("--trust",), ("--exporter", "dynamo"), ("--opset", "18"), ("--trust", "--format", "json")))
    shapes = rng.choice((("--shapes", "1x3x16x16"), ("--shapes", "input:1x3x16x16"), (), ("--shapes", "x:1x-1x0x16")))
    words = ["convert", name, "-o", "out.onnx", *more, *shapes]
    process = start([*EDGEDLA, *words], folder)
    what = f"{' '.join(words)} of {len(data)} bytes"
    wrong = ended(process, what)
    left = {path.name for path in folder.iterdir()} - {name}
    if wrong is None and process.returncode not in (0, 1) and left:
        return f"{what}: ended with {process.returncode} and left {sorted(left)}"
    if wrong is None and process.returncode == 0 and "out.onnx" not in left:
        return f"{what}: code 0 and no model"
    return wrong
