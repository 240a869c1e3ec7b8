"""Files that others make, but no plain models: reports of boards, inventories, pasted lines, placements, bundles, files of other
frameworks, and models of rare types and sizes. Each case is a command line over a file that follows from its number."""

from __future__ import annotations

import functools
import io
import json
import os
import random
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgedla.io.documents import header
from tests.hostile import attack_surfaces
from tests.hostile.commands import Scene, small_model
from tests.hostile.mutate import mutated
from tests.hostile.values import bytes_changed, changed

# --- Truth reports


def _report() -> Dict[str, Any]:
    """A report with a finding of every kind that is read."""
    profile = {
        "document": "edgedla.profile",
        "schema_version": 1,
        "target": "agx-orin-64gb",
        "power_mode": "MAXN",
        "source": "a board",
        "measurements": [
            {"signature": "Conv", "precision": "fp16", "device": "DLA", "latency_us": 10.0, "spread": 0.0, "layers": ["a"]}
        ],
        "unresolved": [],
    }
    times = {
        "network": "conv3x3",
        "runner": "DLA0",
        "simulated": False,
        "count": 300,
        "mean_ms": 1.0,
        "p50": 1.0,
        "p99": 1.2,
        "clocks_before": {"gpu": 1300.5, "dla0": 0.0},
        "clocks_after": {"gpu": 1300.5, "dla0": 1600.0},
        "throttled": False,
        "precision": "fp16",
        "mode": "hybrid",
        "profile": profile,
    }
    verdict = {
        "target": "agx-orin-64gb",
        "trt": "10.3.0",
        "layer": "y",
        "type": "CONVOLUTION",
        "precision": "fp16",
        "rules": "dla",
        "tensorrt": "gpu",
    }

    def finding(source: str, data: Dict[str, Any]) -> Dict[str, Any]:
        return {"name": "n", "expected": "a", "seen": "b", "differs": True, "source": source, "data": data}

    from edgedla.acceptance.nets import LADDER

    times["network"] = next(iter(LADDER))
    steps = [("P3", finding("", verdict)), ("P5", finding("rules/numerics.yaml", {"distance": 0.1})), ("P8", finding("", times))]
    return {
        **header("edgedla.acceptance"),
        "edgedla": "0.2.0",
        "quick": False,
        "steps": [{"id": i, "title": "t", "state": "differs", "seconds": 1.0, "reason": "r", "findings": [f]} for i, f in steps],
    }


def _archive(members: Sequence[Tuple[str, bytes]], rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if rng.random() < 0.1:
            odd = tarfile.TarInfo(
                rng.choice(("../x", "/x", "files/../../x", "files/a\\b", "files/\x1b[2J", "report.json", "files/" + "x" * 300))
            )
            odd.type = rng.choice((tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE))
            odd.linkname = "/etc/passwd"
            tar.addfile(odd, io.BytesIO(b""))
    return buffer.getvalue()


def report(rng: random.Random, folder: Path) -> List[str]:
    text = json.dumps(changed(_report(), rng)).encode()
    data = _archive([("report.json", bytes_changed(text, rng) if rng.random() < 0.1 else text), ("files/a.txt", b"x")], rng)
    path = folder / "truth.tar.gz"
    path.write_bytes(bytes_changed(data, rng) if rng.random() < 0.1 else data)
    verb = rng.choice(("show", "ingest"))
    into = [] if verb == "show" else ["--into", str(folder / "evidence")]
    return ["acceptance", verb, str(path), *into]


# --- What people write: an inventory, and lines of trtexec


def boards(rng: random.Random, folder: Path) -> List[str]:
    import yaml

    entry = {
        "host": "nvidia@10.0.0.7:2222",
        "groups": ["lab"],
        "python": "python3",
        "edgedla": "/opt/edgedla/bin/edgedla",
        "note": "n",
    }
    text = yaml.safe_dump(changed({"boards": {"orin1": entry, "nx2": {"host": "h"}}}, rng)).encode()
    path = folder / "boards.yaml"
    path.write_bytes(bytes_changed(text, rng) if rng.random() < 0.3 else text)
    os.environ["EDGEDLA_BOARDS"] = str(path)
    more = rng.choice((["list"], ["list", "--format", "json"], ["add", "x1", rng.choice(("h", "-oX", "a b", "u@h:0", "[::1"))]))
    return ["board", *more]


def pasted(rng: random.Random, folder: Path) -> List[str]:
    (folder / "m.onnx").write_bytes(_small())
    words = [
        f"--onnx={folder}/m.onnx",
        "--fp16",
        "--int8",
        "--best",
        "--useDLACore=0",
        "--allowGPUFallback",
        "--safe",
        "--buildDLAStandalone",
        "--inputIOFormats=fp16:chw16",
        "--outputIOFormats=int8:dla_linear",
        "--shapes=x:1x3x16x16",
        "--minShapes=x:1x3x16x16",
        "--layerPrecisions=conv:fp16,relu:int8",
        "--layerDeviceTypes=conv:GPU",
        "--precisionConstraints=obey",
        "--calib=c.cache",
        "--memPoolSize=dlaSRAM:1,workspace:4096M",
        "--saveEngine=e.plan",
        "--workspace=16",
        "--useDLACore",
        "--verbose",
        "--DLA=1",
    ]
    line = [words[0], *rng.sample(words[1:], rng.randrange(1, 8))]
    for _ in range(rng.choice((0, 1, 2))):
        at = rng.randrange(len(line))
        name, equal, value = line[at].partition("=")
        line[at] = rng.choice(
            (
                name,
                f"{name}=",
                f"{name}={value},{value}",
                f"{name}={value}:",
                f"{name}=-1",
                f"{name}={10**20}",
                f"{name}=\x1b[2J",
                line[at] * 3,
                line[at][1:],
                "--",
                "-",
                "'",
                '"',
                f"{name} {value}",
                f"{name}=$(id)",
                "\\",
                f"{name}={'x' * 3000}",
            )
        )
    return ["check", "trtexec", *line] if rng.random() < 0.7 else ["check", " ".join(["trtexec", *line])]


# --- What edgedla wrote, changed by somebody


def placement(rng: random.Random, folder: Path) -> List[str]:
    model, document = _placed()
    (folder / "m.onnx").write_bytes(model)
    text = json.dumps(changed(document, rng)).encode()
    (folder / "p.json").write_bytes(bytes_changed(text, rng) if rng.random() < 0.1 else text)
    how = rng.choice(
        (
            ["place", f"{folder}/m.onnx", "--target", "orin", "--verify", f"{folder}/p.json"],
            [
                "build",
                f"{folder}/m.onnx",
                "--target",
                "orin",
                "--placement",
                f"{folder}/p.json",
                "--backend",
                "trtexec",
                "-o",
                f"{folder}/b.sh",
            ],
            ["inspect", f"{folder}/p.json"],
            ["inspect", f"{folder}/p.json", "--format", "json"],
        )
    )
    return list(how)


@functools.lru_cache(maxsize=1)
def _placed() -> Tuple[bytes, Any]:
    import edgedla

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "m.onnx"
        path.write_bytes(_small())
        return _small(), json.loads(edgedla.place(path, target="orin").to_json())


def bundle(rng: random.Random, folder: Path) -> List[str]:
    name, data = rng.choice(_bundles())
    path = folder / name
    path.write_bytes(bytes_changed(data, rng))
    return ["inspect", str(path), *rng.choice(([], ["--format", "json"]))]


@functools.lru_cache(maxsize=1)
def _bundles() -> List[Tuple[str, bytes]]:
    from edgedla.cli.main import exit_code_of

    with tempfile.TemporaryDirectory() as name:
        scene = Scene(Path(name))
        scene.build_artifact()
        for form in ("b.pyz", "b.tar.gz"):
            assert exit_code_of(["bundle", str(scene.folder / "art"), "-o", str(scene.folder / form)]) == 0
        return [(form, (scene.folder / form).read_bytes()) for form in ("b.pyz", "b.tar.gz")]


def foreign(rng: random.Random, folder: Path) -> List[str]:
    """Files for `convert`, whose frameworks are not there: what can be said without them is said."""
    name = rng.choice(
        (
            "m.tflite",
            "m.pb",
            "m.pt",
            "m.pth",
            "m.pt2",
            "m.pdmodel",
            "m.h5",
            "m.keras",
            "m.onnx",
            "m.torchscript",
            "m",
            "-m.pb",
            "m\n.pb",
        )
    )
    data = rng.choice((b"", b"TFL3", b"\x1c\0\0\0TFL3" + bytes(100), b"PK\x03\x04", b"\x80\x04]\x94.", b"\x89HDF\r\n", _small()))
    path = folder / name
    if rng.random() < 0.15:
        path.mkdir()
    elif rng.random() < 0.9:
        path.write_bytes(bytes_changed(data, rng))
    more = rng.choice(([], ["--shape", "x=1x3x16x16"], ["--shape", "x=0x-1"], ["--opset", "0"], ["--python", "/nowhere/python"]))
    return ["convert", str(path), "-o", str(folder / "out.onnx"), *more]


# --- Models of rare types and sizes


@functools.lru_cache(maxsize=1)
def _small() -> bytes:
    return small_model().SerializeToString()


RARE = (
    "FLOAT16",
    "BFLOAT16",
    "DOUBLE",
    "INT8",
    "UINT8",
    "INT4",
    "UINT4",
    "FLOAT8E4M3FN",
    "FLOAT8E5M2",
    "FLOAT4E2M1",
    "STRING",
    "BOOL",
    "COMPLEX64",
    "INT64",
    "UNDEFINED",
)
#: Element types that this onnx knows, and a number that none has.
TYPES = [TensorProto.DataType.Value(n) for n in RARE if n in set(TensorProto.DataType.keys())] + [99]
SIZES = (
    (0, 3, 16, 16),
    (1, 3, 0, 16),
    (1, 0, 16, 16),
    (0, 0, 0, 0),
    (1, 3, 1, 1),
    (1, 3, 2**31, 1),
    (-1, 3, 16, 16),
    (1, 3, -5, 16),
    (2**40, 3, 16, 16),
    (1, 3, 16),
    (),
    (1, 3, 16, 16, 2),
)
LIES = ((2**20, 2**20, 3, 3), (2**62, 2, 2, 2), (-1, 3, 3, 3), (8, 3, 3, 3, 10**9), (2**40,), (0, 3, 3, 3), (8, 0, 3, 3), ())


def a_type(model: onnx.ModelProto, rng: random.Random) -> None:
    kind = rng.choice(TYPES)
    for value in rng.choice((model.graph.input, model.graph.output, [*model.graph.input, *model.graph.output])):
        value.type.tensor_type.elem_type = kind


def a_weight_type(model: onnx.ModelProto, rng: random.Random) -> None:
    model.graph.initializer[0].data_type = rng.choice(TYPES)


def a_size(model: onnx.ModelProto, rng: random.Random) -> None:
    shape = model.graph.input[0].type.tensor_type.shape
    del shape.dim[:]
    for size in rng.choice(SIZES):
        shape.dim.add().dim_value = size


def a_lie(model: onnx.ModelProto, rng: random.Random) -> None:
    weights = model.graph.initializer[0]
    del weights.dims[:]
    weights.dims.extend(rng.choice(LIES))


def sparse(model: onnx.ModelProto, rng: random.Random) -> None:
    """The weights as a sparse tensor, whose indices may lie outside."""
    shape = tuple(model.graph.initializer[0].dims)
    count = rng.choice((0, 1, 7))
    at = np.asarray([rng.choice((0, 5, 215, 216, -1, 2**40)) for _ in range(count)], np.int64)
    values = helper.make_tensor(model.graph.initializer[0].name, TensorProto.FLOAT, [count], np.ones(count, np.float32))
    tensor = helper.make_sparse_tensor(values, numpy_helper.from_array(at, "i"), rng.choice(([*shape], [2**40], [])))
    model.graph.sparse_initializer.append(tensor)
    if rng.random() < 0.8:
        del model.graph.initializer[0]


def captured(model: onnx.ModelProto, rng: random.Random) -> None:
    """The last node in both branches of an If, which read what is outside; some of it is not there."""
    last = model.graph.node[-1]
    branches = []
    for name in ("then", "else"):
        inner = onnx.NodeProto()
        inner.CopyFrom(last)
        inner.output[0] = f"{name}_y"
        if rng.random() < 0.3:
            inner.input[0] = rng.choice(("x", "nowhere", "", f"{name}_y", "w"))
        branches.append(
            helper.make_graph([inner], name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)])
        )
    flag = rng.choice(("flag", "x"))
    if flag == "flag" and rng.random() < 0.5:
        model.graph.initializer.append(numpy_helper.from_array(np.array(True), "flag"))
    elif flag == "flag":
        model.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    choice = helper.make_node("If", [flag], [last.output[0]], name="choice", then_branch=branches[0], else_branch=branches[1])
    model.graph.node[-1].CopyFrom(choice)


ODD: Tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (a_type, a_weight_type, a_size, a_lie, sparse, captured)
OF_MODELS: Tuple[Tuple[str, ...], ...] = (
    ("check", "--target", "orin"),
    ("layers", "--target", "orin"),
    ("place", "--target", "orin", "--time-limit", "1"),
    ("fix", "--target", "orin", "--dry-run", "--max-memory", "960M"),
    ("fix", "--target", "orin", "-o", "{d}/f.onnx", "--max-memory", "960M"),
    ("quantize", "--target", "orin", "--max-memory", "960M", "-o", "{d}/s"),
    ("build", "--target", "orin", "--backend", "host", "--max-memory", "960M", "-o", "{d}/a"),
    ("deploy", "--target", "orin", "--level", "1", "--backend", "host", "--max-memory", "960M", "-o", "{d}/deployed"),
    ("export", "onnxruntime", "-o", "{d}/e"),
)


def odd_model(rng: random.Random, folder: Path) -> List[str]:
    model = onnx.ModelProto.FromString(_small())
    for change in rng.sample(ODD, rng.choice((1, 1, 1, 2))):
        if model.graph.initializer or change in (a_type, a_size, captured):
            change(model, rng)
    data = model.SerializeToString()
    path = folder / "m.onnx"
    path.write_bytes(mutated(data, rng) if rng.random() < 0.1 else data)
    command = [w.format(d=folder) for w in rng.choice(OF_MODELS)]
    at = 2 if command[0] == "export" else 1
    return [*command[:at], str(path), *command[at:]]


#: What is attacked -> (random numbers, an empty folder) -> the command line. Sibling surfaces get a row here.
SURFACES: Mapping[str, Callable[[random.Random, Path], List[str]]] = {
    "report": report,
    "boards": boards,
    "pasted": pasted,
    "placement": placement,
    "bundle": bundle,
    "foreign": foreign,
    "odd_model": odd_model,
    **attack_surfaces.SURFACES,
}


def surface_case(name: str, seed: int) -> Callable[[int, Path], List[str]]:
    """Case number -> its file, written into the folder, and its command line."""
    return lambda number, folder: SURFACES[name](random.Random(f"{seed} {name} {number}"), folder)
