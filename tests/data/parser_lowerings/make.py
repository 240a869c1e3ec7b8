"""Makes probes.jsonl out of ../shared: python tests/data/parser_lowerings/make.py (README.md says what it is)."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import onnx
import onnx.parser
import onnx.printer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SHARED = ROOT.parent / "shared"
sys.path.insert(0, str(SHARED / "tools"))

from score_layers import PARAMS, compare  # noqa: E402

#: Initializers with more elements are carried by type and dims only.
MAX_VALUES = 32
VERSIONS = ("10.3", "8.6")


def golden(version, name):
    with gzip.open(SHARED / "golden" / "parser" / version / f"{name}.jsonl.gz") as f:
        return {g["model"]: g for g in map(json.loads, f)}


def layers_of(answer):
    if not answer["parsed"]:
        return None
    rows = []
    for layer in answer["layers"]:
        names = PARAMS.get(layer["type"], "").split()
        params = {n: layer["params"][n] for n in names if layer["params"].get(n) is not None}
        dims = layer["outputs"][0]["dims"] if layer["outputs"] else []
        rows.append([layer.get("onnx_node"), layer["type"], dims, params])
    return rows


def as_text(path):
    model = onnx.load(str(path))
    weights = {}
    for graph in (model.graph,):
        kept = []
        for t in graph.initializer:
            size = 1
            for d in t.dims:
                size *= d
            if size > MAX_VALUES:
                weights[t.name] = [t.data_type, list(t.dims)]
            else:
                kept.append(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t), t.name))
        del graph.initializer[:]
        graph.initializer.extend(kept)
    text = onnx.printer.to_text(model)
    sys.path.insert(0, str(HERE.parents[1] / "importers"))
    from parser_probes import model_of

    return text, weights, model_of(text, weights)


def main():
    from edgedla.errors import ModelError
    from edgedla.graph.document import to_document
    from edgedla.importers import load_onnx

    kept, left = [], []
    seen_operators = set()
    for source in ("extra", "node_const"):
        answers = {v: golden(v, source) for v in VERSIONS}
        for name in sorted(answers["10.3"]):
            path = SHARED / "corpus" / source / f"{name}.onnx"
            if not path.exists() or any(name not in answers[v] for v in VERSIONS):
                continue
            operators = {n.op_type for n in onnx.load(str(path)).graph.node}
            if source == "node_const" and operators <= seen_operators:
                continue
            try:
                text, weights, model = as_text(path)
            except Exception as e:
                left.append((name, f"{type(e).__name__}: {str(e)[:100]}"))
                continue
            fits = True
            for version in VERSIONS:
                trt = tuple(int(x) for x in version.split("."))
                try:
                    ours, code = json.loads(json.dumps(to_document(load_onnx(model, trt=trt)))), 0
                except ModelError:
                    ours, code = None, 3
                counts, misses = compare(answers[version][name], ours, code)
                fits = fits and not misses and (answers[version][name]["parsed"] or code == 3)
            if not fits:
                left.append((name, "the text form does not carry it"))
                continue
            seen_operators |= operators
            row = {"name": name, "model": text, "weights": weights}
            row.update({v: layers_of(answers[v][name]) for v in VERSIONS})
            kept.append(row)
    with open(HERE / "probes.jsonl", "w", encoding="utf-8") as f:
        for row in kept:
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(kept)} kept; left out:")
    for row in left:
        print("  ", *row)


if __name__ == "__main__":
    main()
