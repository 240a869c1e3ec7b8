"""Five users, each from a model to what they wanted, by the commands that edgedla itself names on the way."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest

from edgedla.quantization.session import open_session
from tests.models import save

pytestmark = pytest.mark.once
needs_fix = pytest.mark.skipif(sys.version_info < (3, 10), reason="rewriting needs onnx-ir, which needs Python 3.10")


def edgedla(folder: Path, *words: str, code: int = 0) -> str:
    """What the command prints; it ends with this exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
    )
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def network(body: str, outputs: str, size: int = 64, **weights: Any) -> onnx.ModelProto:
    """A model of ONNX's text form with seeded weights of these dims."""
    rng = np.random.default_rng(4)
    text = f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,3,{size},{size}] image) => ({outputs}) {{{body}}}'
    model = onnx.parser.parse_model(text)
    for name, dims in weights.items():
        scale = np.sqrt(2 / max(int(np.prod(dims[1:])), 1))
        model.graph.initializer.append(onnx.numpy_helper.from_array((scale * rng.standard_normal(dims)).astype(np.float32), name))
    return model


def detector(size: int = 64, width: int = 32) -> onnx.ModelProto:
    """Convolutions with a squeeze-and-excite gate by HardSigmoid, and two heads."""
    body = """
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(image, w1) r = Relu(a)
        b = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(r, w2) s = Relu(b)
        g = GlobalAveragePool(s) e = Conv(g, w3) h = HardSigmoid(e) m = Mul(s, h)
        c = Conv<pads = [1, 1, 1, 1]>(m, w4) t = Relu(c) boxes = Conv(t, w5) scores = Conv(t, w6)
    """
    cells, more = size // 4, 2 * width
    return network(
        body,
        f"float[1,4,{cells},{cells}] boxes, float[1,8,{cells},{cells}] scores",
        size,
        w1=(width, 3, 3, 3),
        w2=(more, width, 3, 3),
        w3=(more, more, 1, 1),
        w4=(more, more, 3, 3),
        w5=(4, more, 1, 1),
        w6=(8, more, 1, 1),
    )


def answers(path: Path, size: int = 64) -> List[Any]:
    session = open_session(path.read_bytes(), optimize=False)
    image = np.random.default_rng(7).standard_normal((1, 3, size, size)).astype(np.float32)
    return session.run(None, {"image": image})


@needs_fix
def test_the_author_of_a_detector_gets_one_that_runs_on_the_dla_as_promised(tmp_path: Path) -> None:
    place = ["--target", "orin-nx-16gb", "--precision", "int8"]
    save(detector(256, 64), tmp_path / "own.onnx")
    said = edgedla(tmp_path, "check", "own.onnx", *place, code=1)
    promised = re.search(r"brings a frame from ([0-9.]+) ms to ([0-9.]+) ms or less", said)
    command = re.search(r"^Next\n +(edgedla fix own\.onnx .*)$", said, re.M)
    assert promised, said
    assert command, said
    edgedla(tmp_path, *shlex.split(command[1])[1:])
    fixed = tmp_path / "own-fixed.onnx"
    before, after = (
        json.loads(edgedla(tmp_path, "check", name, *place, "--cost", "--format", "json", "--fail-on", "never"))
        for name in ("own.onnx", fixed.name)
    )
    times = [
        next(way["latency_us"] for way in document["worth"]["ways"] if way["name"] == "tensorrt" and way["precision"] == "int8")
        for document in (before, after)
    ]
    assert times[0] == pytest.approx(1000 * float(promised[1]), rel=0.01)
    assert times[1] <= 1000 * float(promised[2]) * 1.01
    assert (before["totals"]["layers_gpu"], after["totals"]["layers_gpu"]) == (3, 0)
    for mine, theirs in zip(answers(tmp_path / "own.onnx", 256), answers(fixed, 256)):
        assert np.abs(mine - theirs).max() <= 1e-5 * np.abs(mine).max()
    edgedla(tmp_path, "check", fixed.name, *place)


@needs_fix
def test_who_exports_fp16_by_the_usual_converter_gets_an_accepted_artifact(tmp_path: Path) -> None:
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    half = float16.convert_float_to_float16(detector(), keep_io_types=True)
    # The converter appends the cast of an input behind its readers.
    half.graph.node.extend([half.graph.node.pop(0)])
    save(half, tmp_path / "half.onnx")
    np.savez(tmp_path / "samples.npz", image=np.random.default_rng(1).standard_normal((12, 3, 64, 64)).astype(np.float32))
    place = ["--target", "orin-nx-16gb"]
    edgedla(tmp_path, "check", "half.onnx", *place, "--fail-on", "never")
    edgedla(tmp_path, "fix", "half.onnx", *place, "-o", "half-fixed.onnx")
    onnx.checker.check_model(str(tmp_path / "half-fixed.onnx"))
    said = edgedla(tmp_path, "deploy", "half.onnx", *place, "--data", "samples.npz", "--level", "1", "-o", "out")
    assert said.splitlines()[1].startswith("ACCEPTED")
    assert "failed" not in said
    document = json.loads((tmp_path / "out" / "deployment.json").read_text())
    assert {t["name"]: t["outcome"] for t in document["trials"]}.get("exact rewrites") in ("kept", "undone")
    assert "artifact" in edgedla(tmp_path, "inspect", "out")


@needs_fix
def test_who_needs_a_standalone_loadable_gets_one_with_its_decoder(tmp_path: Path) -> None:
    """A segmentation network: its ArgMax cannot be in a DLA loadable."""
    body = """
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(image, w1) r = Relu(a)
        b = ConvTranspose<strides = [2, 2], kernel_shape = [2, 2]>(r, w2) c = Conv(b, w3)
        mask = ArgMax<axis = 1, keepdims = 1>(c)
    """
    save(network(body, "int64[1,1,64,64] mask", w1=(16, 3, 3, 3), w2=(16, 8, 2, 2), w3=(4, 8, 1, 1)), tmp_path / "seg.onnx")
    place = ["--target", "agx-orin-64gb"]
    edgedla(tmp_path, "check", "seg.onnx", *place, "--mode", "standalone", code=1)
    edgedla(tmp_path, "fix", "seg.onnx", *place, "--for", "standalone", "-o", "sa.onnx")
    edgedla(tmp_path, "check", "sa.onnx", *place, "--mode", "standalone")
    values = dict(zip([o.name for o in onnx.load(str(tmp_path / "sa.onnx")).graph.output], answers(tmp_path / "sa.onnx")))
    decoder = open_session((tmp_path / "sa.decoder.onnx").read_bytes(), optimize=False)
    mask = decoder.run(None, {i.name: values[i.name] for i in decoder.get_inputs()})[0]
    assert np.array_equal(mask, answers(tmp_path / "seg.onnx")[0])
    edgedla(tmp_path, "build", "sa.onnx", *place, "--mode", "standalone", "-o", "built")
    assert "standalone" in edgedla(tmp_path, "inspect", "built")


def test_a_buyer_gets_one_table_with_the_boards_that_are_fast_enough(tmp_path: Path) -> None:
    for name in ("left", "right"):
        save(detector(), tmp_path / "models" / f"{name}.onnx")
    boards = "orin-nano-8gb,orin-nx-16gb,agx-orin-64gb,xavier-nx-8gb@jp5.1.4"
    words = ["check", "models", "--compare", boards, "--precision", "int8", "--need-fps", "30", "--fail-on", "never"]
    edgedla(tmp_path, *words, "-o", "boards.csv", "-o", "boards.html")
    rows = list(csv.DictReader((tmp_path / "boards.csv").read_text().splitlines()))
    assert len(rows) == 8
    assert len({row["target"] if "target" in row else row["platform"] for row in rows}) == 4
    assert "</html>" in (tmp_path / "boards.html").read_text()
    said = edgedla(tmp_path, *words)
    assert all(board.split("@")[0] in said for board in boards.split(","))


def test_who_guards_a_model_in_python_gets_a_failure_that_names_layers(tmp_path: Path) -> None:
    import edgedla as package
    from edgedla.testing import assert_fits

    path = save(detector(), tmp_path / "own.onnx")
    report = package.check(path, target="orin-nx-16gb", precision="int8")
    assert len(repr(report)) < 400
    for name in ("own.html", "own.sarif", "own.md", "own.json", "own.csv", "own.xml", "own.txt"):
        assert report.save(tmp_path / name).stat().st_size > 100
    assert_fits(path, target="orin-nx-16gb", precision="int8", min_dla_macs=0.5)
    with pytest.raises(AssertionError, match="node_of_g"):
        assert_fits(path, target="orin-nx-16gb", precision="int8", max_gpu_layers=0)
    (tmp_path / "edgedla.toml").write_text('target = "orin-nx-16gb"\nprecision = "int8"\nmodels = ["."]\nbaseline = "dla.json"\n')
    edgedla(tmp_path, "check", "--update-baseline", "-q")
    edgedla(tmp_path, "check", "-q")
