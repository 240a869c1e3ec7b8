"""The tools: what each takes, which document it answers with, and the call behind it. Nothing here writes a file."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.errors import EdgedlaError, UsageError
from edgedla.vocabulary import CHECK_MODES, PRECISIONS

#: An answer: the document, its text, and its page ("" where it has none).
Answer = Tuple[Dict[str, Any], str, str]
#: Longest string of an argument, and the longest text to explain: a verbose log of a large network.
MOST_WORD, MOST_TEXT = 4096, 4_000_000


def _text(description: str, most: int = MOST_WORD) -> Dict[str, Any]:
    return {"type": "string", "description": description, "maxLength": most}


_MODEL = {"model": _text("Path of an ONNX file: absolute, or relative to a root.")}
_SIZES: Mapping[str, Any] = {
    "shapes": {
        "type": "object",
        "description": "Dims of inputs whose sizes are open, by input name.",
        "maxProperties": 100,
        "additionalProperties": {"type": "array", "maxItems": 16, "items": {"type": "integer", "minimum": 1}},
    },
    "batch": {"type": "integer", "minimum": 1, "description": "First dim of every input."},
}
_PLATFORM: Mapping[str, Any] = {
    "target": _text("Module, as orin-nx-16gb. An unknown name is answered with the known ones."),
    "jetpack": _text("JetPack release; default: the module's newest with a DLA."),
    "trt": _text("TensorRT release, instead of jetpack."),
    "precision": {"enum": list(PRECISIONS), "description": "Default: that of the module's DLA."},
}


class Tool(NamedTuple):
    """One tool. `run`: (arguments, paths made safe) -> answer."""

    title: str
    description: str
    properties: Mapping[str, Any]
    required: Sequence[str]
    document: str
    run: Callable[[Dict[str, Any]], Answer]

    @property
    def takes(self) -> Dict[str, Any]:
        """JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


def _on_platform(given: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments, with the precision of the module's DLA where none is named."""
    from edgedla.targets import platform_for

    place = {key: given[key] for key in ("target", "jetpack", "trt") if key in given}
    return {"precision": platform_for(**place).precision, **given}


def _check(given: Dict[str, Any]) -> Answer:
    from edgedla.placement.check_cost import check

    report = check(cost=True, **given)
    return report.to_dict(), report.text(), report.html()


def _compare(given: Dict[str, Any]) -> Answer:
    from edgedla.cli.arguments.platforms import parse_platforms
    from edgedla.errors import ModelError
    from edgedla.placement.check_cost import check
    from edgedla.reports.table import Cell, Table, render_table
    from edgedla.reports.table.table import Row, column_at
    from edgedla.targets import platform_for

    model, cells, columns = given.pop("model"), [], []
    for label, place in parse_platforms(",".join(given.pop("platforms")), "").items():
        asked = _on_platform(dict(place))
        precision = asked.pop("precision")
        columns.append(column_at(platform_for(**asked), precision, label))
        try:
            cells.append(Cell(check(model, cost=True, precision=precision, **asked, **given)))
        except ModelError as e:
            cells.append(Cell(None, e))
    name = next((cell.report.model for cell in cells if cell.report), os.path.basename(model))
    table = Table(tuple(columns), (Row(name, model, tuple(cells)),))
    return json.loads(render_table(table, "json")), render_table(table, "text"), render_table(table, "html")


def _fix(given: Dict[str, Any]) -> Answer:
    from edgedla.fixes.fix import fix

    result = fix(**given)
    return result.to_dict(), result.text(), result.html()


def _predict(given: Dict[str, Any]) -> Answer:
    from edgedla.placement.prediction.predict import predict

    prediction = predict(given.pop("model"), **_on_platform(given))
    return prediction.to_dict(), prediction.text(), ""


def _explain(given: Dict[str, Any]) -> Answer:
    from edgedla.cli.explain import answer

    render, _ = answer(given["text"].strip(), given["text"].strip().splitlines())
    return json.loads(render("json", False)), render("text", False), ""


def _rules(given: Dict[str, Any]) -> Answer:
    from edgedla.cli.rules import rules_for
    from edgedla.reports.rules import render_rules

    chosen = rules_for(given.get("kind"))
    return json.loads(render_rules(chosen, "json")), render_rules(chosen, "text"), ""


TOOLS: Mapping[str, Tool] = {
    "check": Tool(
        "Check a model for the DLA",
        "Which layers of an ONNX model run on the DLA of a Jetson module, why not the others, what "
        "to change first, and whether the DLA is worth it in time, energy, GPU time and frames per second. Predicted: no board.",
        {**_MODEL, **_PLATFORM, "mode": {"enum": list(CHECK_MODES)}, **_SIZES},
        ("model", "target"),
        "edgedla.check",
        _check,
    ),
    "compare": Tool(
        "Compare modules",
        "One model on several modules and releases, as a table.",
        {
            **_MODEL,
            "platforms": {
                "type": "array",
                "minItems": 1,
                "maxItems": 24,
                "items": _text("As orin-nx-16gb or " "xavier-nx-8gb@jp5.1.4@int8."),
            },
            **_SIZES,
        },
        ("model", "platforms"),
        "edgedla.compare",
        _compare,
    ),
    "fix": Tool(
        "Try rewrites",
        "What `edgedla fix` would rewrite so that more of the model runs on the DLA, each place proven in ONNX "
        "Runtime, with the predicted gain. A dry run: no model is written; the command `edgedla fix MODEL -o OUT` writes it.",
        {
            **_MODEL,
            **_PLATFORM,
            "objective": {"enum": ["latency", "throughput", "energy", "loadables"]},
            "purpose": {"enum": ["hybrid", "strict", "standalone"]},
            **_SIZES,
        },
        ("model", "target"),
        "edgedla.fixes",
        _fix,
    ),
    "predict": Tool(
        "Predict a placement",
        "Predicted time, energy, frames per second and memory of a model on named devices.",
        {
            **_MODEL,
            **_PLATFORM,
            "devices": _text(
                "tensorrt (its default), GPU, DLA0, DLA1, or pins as " "trtexec's --layerDeviceTypes: conv1:DLA0,*:GPU."
            ),
            "power_mode": _text("nvpmodel mode."),
            **_SIZES,
        },
        ("model", "target"),
        "edgedla.prediction",
        _predict,
    ),
    "explain": Tool(
        "Explain a log or a rule",
        "What lines of a TensorRT, trtexec or cuDLA log mean for the DLA and what to do, or what an "
        "id of a report means (CONV006, MSG201, average-pool).",
        {"text": {**_text("The line, the lines, or one id.", MOST_TEXT), "minLength": 1}},
        ("text",),
        "edgedla.explain",
        _explain,
    ),
    "rules": Tool(
        "List rules",
        "The rules behind the verdicts: what must hold for which layer type, and how sure that is.",
        {"kind": _text("TensorRT layer type, as CONVOLUTION; default: all.")},
        (),
        "edgedla.rules",
        _rules,
    ),
}


def answer(name: str, given: Dict[str, Any], roots: Sequence[str]) -> Tuple[Optional[Answer], str]:
    """(answer, "") of a tool, or (None, what is wrong). Arguments conform to the tool's schema.

    Runs in a process of its own, which a client that cancels ends.
    """
    from edgedla.text.printable import printable_text

    try:
        if "model" in given:
            given["model"] = below_a_root(given["model"], roots)
        if str(given.get("devices", "")) and os.path.lexists(given.get("devices", "")):
            # A placement's file: not one of the ways that the tool takes.
            raise UsageError("a file names no devices here", where="devices", allowed="tensorrt, GPU, DLA0, DLA1, or pins")
        document, text, page = TOOLS[name].run(given)
        return (document, printable_text(text), page), ""
    except EdgedlaError as e:
        return None, printable_text(str(e))


def below_a_root(path: str, roots: Sequence[str]) -> str:
    """The real path of a model below one of the roots, with links followed.

    Raises:
        UsageError: it is elsewhere, or no path at all.
    """
    if "\0" in path or not path:
        raise UsageError("not a path", where="model", allowed="a file below a root")
    for root in roots:
        real = os.path.realpath(os.path.join(root, path))
        if real != root and os.path.commonpath([root, real]) == root and (os.path.exists(real) or len(roots) == 1):
            return real
    raise UsageError(
        "outside the roots, or no such file",
        where=path,
        allowed=", ".join(roots),
        hint="start `edgedla mcp` with --root FOLDER for each folder to read",
    )


def shortened(document: Dict[str, Any], uri: str) -> Dict[str, Any]:
    """The document as a tool answers it: without what runs on the DLA as it should, which an agent would have to read past."""
    layers: List[Any] = document.get("layers", [])
    lists = [key for key in ("nodes", "layers_before", "layers_after") if document.get(key)]
    if document["document"] == "edgedla.check":
        lists.append("layers")
        document = {**document, "layers": [x for x in layers if x["placed"] == "gpu" or x["findings"]]}
    note = f"shortened: {', '.join(lists)} hold no more than what needs a look; the whole document is {uri}"
    short = {**document, **{key: [] for key in lists if key != "layers"}}
    return {**short, "notes": [*document.get("notes", []), note]} if lists else short
