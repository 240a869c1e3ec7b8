"""Names with NUL, ESC, C1, U+2028 and bytes that are no UTF-8: each JSON document stays one, conforms, and holds no raw control."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import List

import jsonschema
import numpy as np
import onnx
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.io.documents import schema
from tests.models import node, onnx_model

pytestmark = pytest.mark.once

ODD = "a\x1b[2J\x00\x9b31m\u2028\u202eb"
#: C0 but line ends and tabs, DEL, C1, line separators and marks that turn text round: JSON takes them as \\u escapes.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    weights = {f"w{ODD}": np.ones((8, 3, 3, 3), np.float32)}
    nodes = [node("Conv", "x", "c", "conv"), node("Erf", "c", "e"), node("Relu", "e", "y", "last")]
    nodes[0].input.append(f"w{ODD}")
    for found in nodes:
        found.name += ODD
    model = onnx_model(nodes, {"x": (1, 3, 16, 16)}, ("y",), weights)
    onnx.save(model, str(folder / "text.onnx"))
    # The same with names that are no UTF-8, which protobuf itself writes nowhere.
    mark = ODD.encode()
    (folder / "bytes.onnx").write_bytes(
        model.SerializeToString().replace(mark, b"\xff\xfe\xed\xa0\x80".ljust(len(mark), b"\xc3"))
    )
    return folder


@pytest.mark.parametrize("name", ["text", "bytes"])
@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("edgedla.pareto", ["place", "{m}", "--target", "orin", "--pareto", "latency,energy", "--format", "json", "-o", "{o}"]),
        ("edgedla.placement", ["place", "{m}", "--target", "orin", "--format", "json", "-o", "{o}"]),
        ("edgedla.verification", ["place", "{m}", "--verify", "{p}", "--format", "json", "-o", "{o}"]),
        ("edgedla.prediction", ["place", "{m}", "--target", "orin", "--evaluate", "DLA0", "--format", "json", "-o", "{o}"]),
        ("edgedla.baseline", ["check", "{m}", "-q", "--target", "orin", "--baseline", "{o}", "--update-baseline"]),
        ("edgedla.check", ["check", "{m}", "--target", "orin", "--fail-on", "never", "-o", "{o}"]),
        ("edgedla.deployment", ["deploy", "{m}", "--target", "orin", "--level", "0", "--backend", "host", "-o", "{d}"]),
        ("edgedla.quantization", ["quantize", "{m}", "--target", "orin", "--data", "{s}", "-o", "{d}"]),
    ],
)
def test_a_document_of_odd_names_is_one(document: str, words: List[str], name: str, folder: Path, tmp_path: Path) -> None:
    places = {
        "m": folder / f"{name}.onnx",
        "o": tmp_path / "o.json",
        "p": tmp_path / "p.json",
        "d": tmp_path / "d",
        "s": tmp_path / "s.npz",
    }
    np.savez(places["s"], x=np.ones((6, 3, 16, 16), np.float32))
    if "{p}" in words and exit_code_of(["place", str(places["m"]), "--target", "orin", "-o", str(places["p"])]) == 3:
        return
    code = exit_code_of([word.format(**places) for word in words])
    written = [p for p in (places["o"], *tmp_path.glob("d/*.json")) if p.exists()]
    if code == 3:
        assert name == "bytes", "text that is UTF-8 is no fault of the model"
        assert not written
        return
    assert code in (0, 1)
    assert written
    found = {}
    for path in written:
        text = path.read_bytes().decode("utf-8")
        assert not RAW.search(text), f"{path.name}: {RAW.search(text)}"
        parsed = json.loads(text)
        found[parsed.get("document")] = parsed
    jsonschema.validate(found[document], schema(document))
