"""Makes probes.jsonl and classes.jsonl out of ../shared: python tests/data/parser_lowerings/make.py (see README.md)."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import onnx
from google.protobuf.json_format import MessageToDict

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SHARED = ROOT.parent / "shared"
sys.path.insert(0, str(SHARED / "tools"))

from score_layers import PARAMS, compare  # noqa: E402

#: Initializers with more elements are carried without their data.
MAX_VALUES = 32
VERSIONS = ("8.4", "8.5", "8.6", "10.0", "10.3", "10.7")


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


PAYLOADS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def as_json(path):
    model = onnx.load(str(path), load_external_data=False)
    model.ClearField("doc_string")
    for t in model.graph.initializer:
        size = 1
        for d in t.dims:
            size *= d
        if size > MAX_VALUES or t.external_data:
            for field in (*PAYLOADS, "external_data", "data_location"):
                t.ClearField(field)
    del model.graph.value_info[:]
    form = MessageToDict(model, preserving_proto_field_name=True)
    sys.path.insert(0, str(HERE.parents[2]))
    from tests.importers.parser_probes import model_of

    return form, model_of(form)


def unlike_the_release_before(answers):
    """Answers by version, without those that equal the one of the version before."""
    row, before = {}, []
    for version in VERSIONS:
        if answers[version] != before:
            row[version] = before = answers[version]
    return row


def classes():
    """A smallest model of each way in which releases differ, with the kinds of layers that the parser made of it."""
    folder = SHARED / "golden" / "parser" / "min"
    entries = re.findall(r"^- (\d[\d.]*) \| (.*?)(?=^- \d|\Z)", (folder / "README.md").read_text(), re.S | re.M)
    models = {}
    for version, text in entries:
        seen = re.search(r"\| (\S+)\.onnx \| parser: (.*?) \| edgedla: ", text, re.S)
        if seen is None or not (folder / f"{seen[1]}.onnx").exists():
            continue
        answer = seen[2].strip()
        # The record cuts long answers off; the last kind may be cut, too.
        whole = len(answer) < 190
        kinds = None if answer.startswith("REFUSES") else answer.split() if whole else answer.split()[:-1]
        models.setdefault(seen[1], {})[version] = {"kinds": kinds, "whole": whole}
    return [
        {"name": name, "model": as_json(folder / f"{name}.onnx")[0], "answers": answers}
        for name, answers in sorted(models.items())
    ]


def networks():
    """Whole networks without their weights; not those of licences that ask more than the project's own."""
    answers = {v: golden(v, "corpus") for v in VERSIONS}
    for path in sorted((SHARED / "corpus" / "nets").glob("*.onnx")):
        if not path.stem.startswith("yolo") and all(path.stem in answers[v] for v in VERSIONS):
            row = {"name": path.stem, "model": as_json(path)[0]}
            yield {**row, **unlike_the_release_before({v: layers_of(answers[v][path.stem]) for v in VERSIONS})}


def main():
    with gzip.GzipFile(HERE / "networks.jsonl.gz", "wb", mtime=0) as f:
        for row in networks():
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    with open(HERE / "classes.jsonl", "w", encoding="utf-8") as f:
        for row in classes():
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
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
                form, model = as_json(path)
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
                left.append((name, "the JSON form does not carry it"))
                continue
            seen_operators |= operators
            row = {"name": name, "model": form}
            row.update(unlike_the_release_before({v: layers_of(answers[v][name]) for v in VERSIONS}))
            kept.append(row)
    with open(HERE / "probes.jsonl", "w", encoding="utf-8") as f:
        for row in kept:
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(kept)} kept; left out:")
    for row in left:
        print("  ", *row)


if __name__ == "__main__":
    main()
