"""The state collected from the lines of one build, in bounded memory."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from edgedla.records.build_log import BuildLog, Cut, Loadable, LogError, LoggedLayer, Pools, Reformat, Refusal
from edgedla.records.build_log_lines import ERROR_CODE, REASON, REMARK, inner_layer, is_name, split_names, version_of_number
from edgedla.records.foreign_node import ForeignNode, parse_foreign_node

#: Lists of a log are cut at this length; the largest known log has some 12,000 reformats.
MAX_ENTRIES = 200_000


#: The reason of a refusal is searched in this many relevant lines before it,
LOOK_BACK = 3
#: ... and at most this many lines of the log back: verbose logs put other lines between.
NEAR_LINES = 12


def _pools(values: Dict[str, str]) -> Pools:
    return Pools(float(values["sram"]), float(values["local"]), float(values["global"]))


#: Kind of line -> (entry of the build, its value) for lines that say one thing.
_SAYS: Mapping[str, Tuple[str, Callable[[Dict[str, str]], Any]]] = {
    "version": ("version", lambda values: values["version"].rstrip(".")),
    "device": ("device", lambda values: values["device"]),
    "fallback": ("gpu_fallback", lambda values: values["state"] == "Enabled"),
    "standalone": ("standalone", lambda values: values["state"] == "Enabled"),
    "precision": ("precision", lambda values: values["precision"]),
    "model": ("model", lambda values: values["model"]),
    "all_refused": ("all_refused", lambda values: values["reason"]),
    "pools": ("pools", _pools),
    "total": ("consumed", _pools),
    "failed": ("built", lambda values: False),
}
#: Lines that are errors whatever their severity.
_ERRORS = frozenset({"strict_refusal", "compile_failed"})


class BuildState:
    """State between the lines of one build."""

    def __init__(self, before: Optional[BuildState] = None) -> None:
        # What trtexec prints once, before the first build, also holds for later builds in the same file.
        keep = ("version", "command", "device", "precision", "dla_core", "gpu_fallback", "standalone")
        self.one: Dict[str, Any] = {k: before.one[k] for k in keep if k in before.one} if before else {}
        self.many: Dict[str, List[Any]] = {}
        self.recent: List[Tuple[int, str]] = []
        self.section = ""
        self.node = ""
        self.nodes: Dict[str, ForeignNode] = {}
        self.members: Dict[str, List[LoggedLayer]] = {}
        self.memory: Dict[str, Pools] = {}
        self.began = False
        self.truncated = False
        self.number: int = before.number if before else 0
        self.first: int = self.number

    def ended_by(self, match: Tuple[str, Dict[str, str]]) -> bool:
        """True if a line starts the next build: trtexec starts again, or another model is parsed (from Python)."""
        kind, values = match
        if kind in ("model", "version"):
            return (kind == "model" and "model" in self.one) or bool(self.many)
        return self.began and kind == "command" and values["state"] == "RUNNING"

    def add(self, name: str, value: Any) -> None:
        entries = self.many.setdefault(name, [])
        if len(entries) < MAX_ENTRIES:
            entries.append(value)
        else:
            self.truncated = True

    def listed(self, name: str, layer: LoggedLayer) -> None:
        """A layer of a device list; a node whose name is incomplete is not recorded as a loadable."""
        if layer.name.startswith("{") and not layer.name.endswith("}"):
            self.truncated = True
        else:
            self.add(name, layer)

    def take(self, severity: str, text: str, match: Optional[Tuple[str, Dict[str, str]]], lines: int = 1) -> None:
        """Takes one line of text; `lines` is 0 if it shares its line of the file with the previous one."""
        self.number += lines
        if match is None:
            self.other(severity, text)
            return
        kind, values = match
        self.began |= kind not in ("command", "version", "device", "dla_core", "fallback", "standalone", "precision")
        self.began |= kind == "command"
        if kind in _SAYS:
            name, value_of = _SAYS[kind]
            self.one[name] = value_of(values)
        else:
            getattr(self, "on_" + kind)(values, severity, text)
        if kind not in ("dla_list", "gpu_list", "network", "engine", "layer", "dla_layer", "gpu_layer"):
            self.section = ""
        self.recent = []
        if severity in ("E", "F") or kind in _ERRORS or ERROR_CODE.search(text[:400]):
            self.error(text)

    def other(self, severity: str, text: str) -> None:
        """A line outside the table: a name list of TensorRT 7, an error, or the reason for the next line."""
        if self.section in ("dla_layers", "gpu_layers") and text and not text.startswith(("[", "---")):
            if "{" in text or "," in text:
                for name in split_names(text):
                    self.listed(self.section, LoggedLayer(name))
            self.section = ""
            return
        if severity:
            # A line with only a prefix is an empty list.
            self.section = ""
        if severity in ("E", "F") or ERROR_CODE.search(text[:400]):
            self.error(text)
        if text and severity not in ("V", "I"):
            self.recent = (self.recent + [(self.number, text)])[-LOOK_BACK:]

    def error(self, text: str) -> None:
        match = ERROR_CODE.search(text[:400])
        code = next((int(g) for g in match.groups() if g), None) if match else None
        self.add("errors", LogError(text[:4000], code, self.number))

    def reason_for(self, layer: str) -> Tuple[str, Tuple[str, ...]]:
        """(reason, further remarks) from the lines just before: `X: reason`, or a reason without a layer's name."""
        reasons: List[str] = []
        remarks: List[str] = []
        for number, text in self.recent:
            if number < self.number - NEAR_LINES or not REASON.search(text):
                continue
            remark = REMARK.match(text)
            if remark:
                # Also logged for layers that run on the DLA, so it explains nothing by itself.
                remarks += [text] if remark["layer"] in (layer, layer + ".") else []
                continue
            named, _, rest = text.partition(": ")
            mention = re.search(rf"(?<![\w/.-]){re.escape(layer)}(?P<colon>: |(?![\w/]))", text)
            if mention and mention["colon"]:
                reasons.append(text[mention.end() :])
            elif mention or not rest or not is_name(named):
                reasons.append(text)
        if not reasons:
            return "; ".join(remarks), ()
        return reasons[-1], (*remarks, *reasons[:-1])

    def refuse(self, values: Dict[str, str], stage: str, reason_in_line: str = "") -> Refusal:
        reason, notes = (reason_in_line, ()) if reason_in_line else self.reason_for(values["layer"])
        return Refusal(values["layer"], stage, values.get("type", ""), reason, notes, self.number)

    # One method per kind of line that _SAYS lacks, named after it (the table in build_log_lines).

    def on_command(self, values: Dict[str, str], severity: str, text: str) -> None:
        if "number" in values:
            self.one.setdefault("version", version_of_number(values["number"]))
        if values.get("command"):
            self.one["command"] = values["command"]
        if values["state"] != "RUNNING":
            self.one["built"] = values["state"] == "PASSED" and self.one.get("built") is not False

    def on_dla_core(self, values: Dict[str, str], severity: str, text: str) -> None:
        if "core" in values:
            self.one["dla_core"] = int(values["core"])
            if "fallback" in values:
                self.one["gpu_fallback"] = True

    def on_strict_refusal(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.one.setdefault("fatal", self.refuse(values, "strict"))

    def on_refused(self, values: Dict[str, str], severity: str, text: str) -> None:
        reason = text if "Default DLA" not in text and "Unsupported on DLA" not in text else ""
        self.add("refused", self.refuse(values, "layer check", reason))

    def on_parser_refused(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.add("refused", self.refuse(values, "parser"))

    def on_validation(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.add("validation", self.refuse(values, "validation"))

    def on_split(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.add("cuts", Cut(values.get("reason", ""), values["layer"], self.number))

    def on_segment(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.add("cuts", Cut(values["reason"], line=self.number))

    def on_dropped(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.one["cap"] = int(values["cap"])
        self.add("dropped", values["layer"])

    def on_dla_list(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.section = "dla_layers"

    def on_gpu_list(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.section = "gpu_layers"

    def on_dla_layer(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.listed("dla_layers", LoggedLayer(values["layer"].rstrip(","), values.get("type", "")))
        self.section = ""

    def on_gpu_layer(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.listed("gpu_layers", LoggedLayer(values["layer"].rstrip(","), values.get("type", "")))
        self.section = ""

    def on_consumption(self, values: Dict[str, str], severity: str, text: str) -> None:
        if self.node:
            self.memory[self.node] = _pools(values)

    def on_offloaded(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.node = values["layer"]
        self.remember(self.node)

    def on_candidates(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.one["offloaded"], self.one["candidates"] = int(values["count"]), int(values["of"])

    def on_network(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.section, self.node = "network", values["layer"]
        self.remember(self.node)
        self.members[self.node] = []

    def on_engine(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.section = "engine"
        self.many.pop("engine_layers", None)

    def on_layer(self, values: Dict[str, str], severity: str, text: str) -> None:
        if self.section == "network" and len(self.members[self.node]) < MAX_ENTRIES:
            name, precision, detail = inner_layer(values["rest"])
            self.members[self.node].append(LoggedLayer(name, values["type"], precision, detail))
        elif self.section == "engine" or not self.section:
            name, _, detail = values["rest"].partition(", Tactic: ")
            self.add("engine_layers", LoggedLayer(name, values["type"], detail=detail))
            if values["type"] == "DLA":
                self.remember(name)

    def on_reformat(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.add("reformats", Reformat(values["name"], values["tensor"], values["source"], values["target"]))

    def on_no_implementation(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.add("not_implemented", values["layer"])

    def on_compile_failed(self, values: Dict[str, str], severity: str, text: str) -> None:
        """Only an error line; `take` records it."""

    def on_built(self, values: Dict[str, str], severity: str, text: str) -> None:
        self.one.setdefault("built", True)

    def remember(self, name: str) -> None:
        node = parse_foreign_node(name)
        if node and len(self.nodes) < MAX_ENTRIES:
            self.nodes.setdefault(name, node)

    def finish(self) -> BuildLog:
        nodes = dict(self.nodes)
        listed = self.many.get("dla_layers", [])
        if listed and all(layer.name.startswith("{") for layer in listed):
            for layer in listed:
                node = parse_foreign_node(layer.name)
                if node:
                    nodes.setdefault(node.name, node)
        loadables = tuple(
            Loadable(node, tuple(self.members.get(name, ())), self.memory.get(name)) for name, node in nodes.items()
        )
        lists: Dict[str, Any] = {name: tuple(entries) for name, entries in self.many.items()}
        built = self.one.pop("built", None)
        if built is None and self.one.get("fatal"):
            built = False
        return BuildLog(
            **self.one, **lists, loadables=loadables, built=built, lines=self.number - self.first, truncated=self.truncated
        )
