"""Further files that others make: models of sub-byte types, of zero dims and above 2 GB, pipelines with events and clips, journals."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgedla.importers.model_file.wire import encoded
from tests.hostile.commands import small_model
from tests.hostile.values import bytes_changed, changed
from tests.models import ints, node, onnx_model

#: Commands over a model, `{d}` an empty folder.
OF_MODELS: Tuple[Tuple[str, ...], ...] = (
    ("check", "--target", "orin"),
    ("check", "--target", "orin", "-o", "{d}/annotated.onnx"),
    ("layers", "--target", "orin"),
    ("place", "--target", "orin", "--time-limit", "1"),
    ("fix", "--target", "orin", "-o", "{d}/f.onnx", "--max-memory", "960M"),
    ("quantize", "--target", "orin", "--max-memory", "960M", "-o", "{d}/s"),
    ("build", "--target", "orin", "--backend", "host", "--max-memory", "960M", "-o", "{d}/a"),
    ("build", "--target", "orin", "--backend", "trtexec", "-o", "{d}/b.sh"),
    ("deploy", "--target", "orin", "--level", "1", "--backend", "host", "--max-memory", "960M", "-o", "{d}/deployed"),
)


def _over(path: Path, rng: random.Random, commands: Sequence[Tuple[str, ...]] = OF_MODELS) -> List[str]:
    command = [word.format(d=path.parent) for word in rng.choice(commands)]
    return [command[0], str(path), *command[1:]]


# --- Sub-byte types

PER_BYTE = {"INT4": 2, "UINT4": 2, "FLOAT4E2M1": 2, "INT2": 4, "UINT2": 4}
SUB_BYTE = [t for t in (*PER_BYTE, "INT8", "FLOAT8E4M3FN") if t in set(TensorProto.DataType.keys())]


def sub_byte(rng: random.Random, folder: Path) -> List[str]:
    """Weights of a few bits behind DequantizeLinear or Cast. Of bytes, dims, scales, axis and types none, one or two do not fit."""
    wounds = set(rng.sample(("dims", "packed", "data", "scale", "axis", "cast", "input"), rng.choice((0, 1, 1, 1, 2))))
    name = rng.choice((*SUB_BYTE, "INT8", "INT8"))
    kind, per_byte = TensorProto.DataType.Value(name), PER_BYTE.get(name, 1)
    dims = rng.choice(((8, 27), (7,), (0, 3, 3, 3), ())) if "dims" in wounds else (8, 3, 3, 3)
    count = int(np.prod(dims)) if dims else 1
    right = (count + per_byte - 1) // per_byte
    packed = rng.choice((count, count // 2, right - 1, 0, 1, count * 4)) if "packed" in wounds else right
    raw = bytes(rng.randrange(256) for _ in range(max(packed, 0)))
    weights = TensorProto(name="w", data_type=kind, dims=list(dims), raw_data=raw)
    if "data" in wounds:
        weights.ClearField("raw_data")
        weights.int32_data.extend(rng.choice(([], [1] * packed, [2**31 - 1], [-(2**31)] * count)))
    scale: Any = rng.choice((np.float32(0.1), np.linspace(0.1, 0.8, 8, dtype=np.float32)))
    if "scale" in wounds:
        scale = rng.choice((np.zeros(8, np.float32), np.full(3, np.nan, np.float32), np.float32(-1), np.ones((8, 3), np.float32)))
    zeros = bytes(max((scale.size + per_byte - 1) // per_byte, 1))
    zero = TensorProto(name="z", data_type=kind, dims=list(scale.shape), raw_data=zeros)
    more: Dict[str, Any] = {"axis": 0}
    if "axis" in wounds:
        more = rng.choice(({}, {"axis": 7}, {"axis": 0, "block_size": 2}, {"block_size": -1}))
    first = rng.choice((node("DequantizeLinear", "w s z", "f", **more), node("DequantizeLinear", "w s", "f", **more)))
    if "cast" in wounds or rng.random() < 0.2:
        first = node("Cast", "w", "f", to=rng.choice((10, int(kind), 99)) if "cast" in wounds else 1)
    nodes = [first, node("Conv", "x f", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")]
    model = onnx_model(
        nodes,
        {"x": (1, 3, 16, 16)},
        ("y",),
        [weights, numpy_helper.from_array(np.asarray(scale), "s"), zero],
        opset=rng.choice((19, 21, 23)),
        kind=int(kind) if "input" in wounds else 1,
    )
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return _over(path, rng)


# --- Zero dims


def _nothing(rng: random.Random) -> onnx.ModelProto:
    """A tensor of no elements, made inside the network in one of many ways, and what follows it."""
    makers: Tuple[Tuple[List[Any], List[Any]], ...] = (
        ([node("Slice", "x a b c", "n")], [ints("a", 5), ints("b", 5), ints("c", 2)]),
        ([node("Slice", "x a b c", "n")], [ints("a", 0), ints("b", 0), ints("c", 1)]),
        ([node("Split", "x s", "n m", "cut", axis=1)], [ints("s", 0, 3)]),
        ([node("Split", "x s", "m n", "cut", axis=2)], [ints("s", 16, 0)]),
        ([node("Reshape", "x s", "n", allowzero=1)], [ints("s", 0, 3, 16, 16)]),
        ([node("Expand", "x s", "n")], [ints("s", 0, 3, 16, 16)]),
        ([node("Pad", "x p", "n")], [ints("p", 0, 0, 0, 0, 0, 0, -16, 0)]),
        ([node("Resize", "x  r", "n")], [numpy_helper.from_array(np.array([1, 1, 0, 1], np.float32), "r")]),
        ([node("Tile", "x t", "n")], [ints("t", 1, 0, 1, 1)]),
        ([node("Gather", "x i", "n", axis=1)], [ints("i")]),
        ([node("Concat", "x e", "n", axis=1)], [numpy_helper.from_array(np.zeros((1, 0, 16, 16), np.float32), "e")]),
        ([node("Conv", "x w", "n")], [numpy_helper.from_array(np.zeros((0, 3, 1, 1), np.float32), "w")]),
        ([node("Conv", "x w", "n")], [numpy_helper.from_array(np.zeros((8, 3, 0, 0), np.float32), "w")]),
        ([node("ConstantOfShape", "s", "n")], [ints("s", 1, 3, 0, 16)]),
        ([node("NonZero", "x", "i"), node("Gather", "x i", "n", axis=2)], []),
    )
    after: Tuple[List[Any], ...] = (
        [node("Relu", "n", "y")],
        [node("GlobalAveragePool", "n", "y")],
        [node("ReduceMax", "n", "y", axes=[2, 3])],
        [node("Softmax", "n", "y", axis=1)],
        [node("ArgMax", "n", "y", axis=1)],
        [node("Flatten", "n", "y")],
        [node("MaxPool", "n", "y", kernel_shape=[2, 2])],
        [node("Transpose", "n", "y", perm=[0, 2, 3, 1])],
        [node("HardSigmoid", "n", "h"), node("Mul", "n h", "y")],
        [node("Concat", "n x", "y", axis=rng.choice((0, 1, 2, 3)))],
        [node("MatMul", "n n", "y")],
        [node("Add", "n n", "y")],
        [node("Identity", "n", "y")],
    )
    nodes, constants = rng.choice(makers)
    return onnx_model([*nodes, *rng.choice(after)], {"x": (1, 3, 16, 16)}, ("y",), constants, opset=14)


def zero(rng: random.Random, folder: Path) -> List[str]:
    path = folder / "m.onnx"
    path.write_bytes(_nothing(rng).SerializeToString())
    return _over(path, rng)


# --- Above 2 GB: the files have holes, so that they take no room

_READERS: Tuple[Tuple[str, ...], ...] = (
    ("check", "--target", "orin"),
    ("check", "--target", "orin", "-o", "{d}/annotated.onnx"),
    ("layers", "--target", "orin"),
    ("place", "--target", "orin", "--time-limit", "1"),
    ("fix", "--target", "orin", "--dry-run", "--max-memory", "960M"),
    ("build", "--target", "orin", "--backend", "host", "--max-memory", "960M", "-o", "{d}/a"),
    ("inspect",),
)
GIB = 1 << 30


def huge(rng: random.Random, folder: Path) -> List[str]:
    """Weights of 3 GB beside the model, at offsets and of lengths that may not fit; one in ten inside it."""
    columns = rng.choice((3 * GIB // 4 // 512, 1000, 2**40))
    model = onnx_model([node("MatMul", "x w", "y")], {"x": (1, 1, 1, 512)}, ("y",))
    weights = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[512, columns])
    path = folder / "m.onnx"
    if rng.random() < 0.1:
        _inside(model, weights, path, rng.choice((2 * GIB - 4096, 2 * GIB + 4096)))
        return _over(path, rng, _READERS[:4])
    weights.data_location = TensorProto.EXTERNAL
    said = {
        "location": rng.choice(("m.data", "m.data", "m.data", "../m.data", "", ".", "nowhere")),
        "offset": rng.choice(("0", "4096", str(2 * GIB), str(2**31), str(2**63), "-1", "x", "1e3")),
        "length": rng.choice((str(2048 * columns), str(3 * GIB), "0", "-4", str(2**64), "", "4")),
    }
    for key in rng.sample(sorted(said), rng.choice((1, 2, 3, 3, 3))):
        weights.external_data.add(key=key, value=said[key])
    with open(folder / "m.data", "wb") as data:
        data.truncate(rng.choice((3 * GIB, 3 * GIB, 2 * GIB, 0, 100)))
    path.write_bytes(model.SerializeToString())
    return _over(path, rng, _READERS)


def _inside(model: onnx.ModelProto, weights: TensorProto, path: Path, count: int) -> None:
    """The model's file with `count` bytes of weights that are a hole in it; protobuf itself writes no such file."""
    weights.dims[:] = [512, count // 2048]
    tensor = weights.SerializeToString() + encoded(9 << 3 | 2) + encoded(count)
    del model.graph.initializer[:]
    graph = model.graph.SerializeToString() + encoded(5 << 3 | 2) + encoded(len(tensor) + count) + tensor
    rest = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 13)]).SerializeToString()
    head = rest + encoded(7 << 3 | 2) + encoded(len(graph) + count) + graph
    path.write_bytes(head)
    with open(path, "r+b") as file:
        file.truncate(len(head) + count)


# --- Pipelines with events and clips


@functools.lru_cache(maxsize=1)
def detector() -> str:
    """The folder of an artifact whose output is ten boxes; it lives as long as the attack."""
    from edgedla.cli.main import exit_code_of

    folder = Path(tempfile.mkdtemp(prefix="attack-run-"))
    atexit.register(shutil.rmtree, str(folder), ignore_errors=True)
    nodes = [node("Relu", "x", "r"), node("Reshape", "r f", "v"), node("Slice", "v a b", "s"), node("Reshape", "s o", "y")]
    constants = [ints("f", 768), ints("a", 0), ints("b", 60), ints("o", 1, 10, 6)]
    onnx.save(onnx_model(nodes, {"x": (1, 3, 16, 16)}, ("y",), constants), str(folder / "m.onnx"))
    words = ["build", str(folder / "m.onnx"), "--target", "orin", "--backend", "host", "-o", str(folder / "art")]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        made = exit_code_of(words)
    assert made == 0
    return str(folder / "art")


def events(rng: random.Random, folder: Path) -> List[str]:
    import yaml

    rules = {
        "left": {"score": 0, "zone": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]], "frames": 1, "end_s": 0.1, "point": "centre"},
        "line": {"each": "object", "line": [[0.2, 0.8], [0.8, 0.8]], "direction": "both", "stay_s": 0.1, "classes": ["1"]},
    }
    config = {
        "version": 2,
        "sources": {"gate": "synthetic://?rate=30&frames=6"},
        "models": {"m": {"artifact": detector(), "decode": {"kind": "final", "score": 0}, "track": "bytetrack"}},
        "events": rules if rng.random() < 0.5 else {"left": rules["left"]},
        "outputs": {
            "jsonl": "r.jsonl",
            "events_state": "state.json",
            "clips": {"folder": "clips", "before_s": 0.1, "after_s": 0},
        },
    }
    if rng.random() < 0.5:
        # Numbers that are allowed, and far from what is usual.
        rules["left"].update(
            score=rng.choice((0, 1, 1e-300)),
            frames=rng.choice((1, 10**9)),
            end_s=rng.choice((1e-9, 0.1, 1e9)),
            zone=rng.choice(([[0, 0]] * 3, [[0, 0], [1, 1], [0, 1], [1, 0]])),
        )
        config["outputs"]["clips"].update(before_s=rng.choice((0, 60)), after_s=rng.choice((0, 1e9)))
    text = yaml.safe_dump(changed(config, rng) if rng.random() < 0.5 else config).encode()
    (folder / "p.yaml").write_bytes(bytes_changed(text, rng) if rng.random() < 0.2 else text)
    if rng.random() < 0.5:
        state = changed({"open": [{"rule": "a", "began": 1.0, "source": "a", "model": "m"}]}, rng)
        (folder / "state.json").write_bytes(bytes_changed(json.dumps(state).encode(), rng))
    return ["run", str(folder / "p.yaml"), "--frames", "4", "--seconds", "2"]


# --- Journals of sweeps


@functools.lru_cache(maxsize=1)
def _journal() -> bytes:
    from edgedla.cli.main import exit_code_of

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(small_model(), str(folder / "m.onnx"))
        assert exit_code_of(["sweep", str(folder / "m.onnx"), "--target", "orin,xavier", "-o", str(folder / "r.jsonl")]) == 0
        return (folder / "r.jsonl").read_bytes()


def journal(rng: random.Random, folder: Path) -> List[str]:
    """Rows that somebody edited, cut or doubled, of a sweep that goes on, or that are made into a table."""
    lines = _journal().splitlines()
    rows = [json.dumps(changed(json.loads(line), rng)).encode() if rng.random() < 0.6 else line for line in lines]
    data = b"\n".join(rng.choices(rows, k=rng.choice((1, 2, 5)))) + rng.choice((b"", b"\n", b"\n{", b"\xff"))
    (folder / "r.jsonl").write_bytes(bytes_changed(data, rng) if rng.random() < 0.2 else data)
    onnx.save(small_model(), str(folder / "m.onnx"))
    return ["sweep", str(folder / "m.onnx"), "--target", "orin,xavier", "-o", str(folder / "r.jsonl")]


# --- Standings and answers that a gate reads again


@functools.lru_cache(maxsize=1)
def _baseline() -> Any:
    from edgedla.cli.main import exit_code_of

    with tempfile.TemporaryDirectory() as name:
        path, standing = Path(name) / "m.onnx", Path(name) / "dla.json"
        onnx.save(small_model(), str(path))
        assert exit_code_of(["check", str(path), "-q", "--target", "orin", "--baseline", str(standing), "--update-baseline"]) == 0
        return json.loads(standing.read_text())


def gate(rng: random.Random, folder: Path) -> List[str]:
    onnx.save(small_model(), str(folder / "m.onnx"))
    text = json.dumps(changed(_baseline(), rng)).encode()
    (folder / "dla.json").write_bytes(bytes_changed(text, rng) if rng.random() < 0.2 else text)
    more = rng.choice(([], [], ["--update-baseline"], ["--min-dla-macs", "95%"]))
    return ["check", str(folder / "m.onnx"), "--target", "orin", "--baseline", str(folder / "dla.json"), *more]


SURFACES: Mapping[str, Callable[[random.Random, Path], List[str]]] = {
    "sub_byte": sub_byte,
    "zero": zero,
    "huge": huge,
    "events": events,
    "journal": journal,
    "gate": gate,
}
