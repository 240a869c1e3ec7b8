"""The lines of TensorRT's and trtexec's build logs that carry information: one table of patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Pattern, Tuple

#: Patterns see only this much of a line. Only TensorRT 7's device lists are longer; they are split, not matched.
MATCHED_CHARACTERS = 16 * 1024


@dataclass(frozen=True)
class Line:
    """A kind of line: its name, a literal that it always contains (tested first, for speed), and its pattern."""

    kind: str
    needle: str
    pattern: Pattern[str]


def _line(kind: str, needle: str, pattern: str) -> Line:
    return Line(kind, needle, re.compile(pattern))


_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:e[-+]?\d{1,2})?"
_MIB = (
    r"(?:Managed )?SRAM = (?P<sram>" + _NUMBER + r") MiB,\s*"
    r"Local DRAM = (?P<local>" + _NUMBER + r") MiB,\s*Global DRAM = (?P<global>" + _NUMBER + r") MiB"
)

#: Tried in this order. Layer names may contain quotes, brackets, colons and commas, so names are matched greedily up to
#: the fixed text that follows them. No pattern may take long on a hostile line.
LINES: Tuple[Line, ...] = (
    _line(
        "command",
        "&&&&",
        r"&&&& (?P<state>RUNNING|PASSED|FAILED) (?P<tool>\S+)"
        r"(?: \[TensorRT v(?P<number>\d{1,9})\])?(?: \[b\d+\])?(?: # (?P<command>.*))?",
    ),
    _line("version", "TensorRT version: ", r"^TensorRT version: (?P<version>\d{1,4}(?:\.\d{1,6}){1,4})"),
    _line("version", "starting export with TensorRT", r"with TensorRT (?P<version>\d{1,4}(?:\.\d{1,6}){2,4})"),
    _line("device", "Selected Device: ", r"^Selected Device: (?P<device>.+)"),
    _line("dla_core", "DLACore: ", r"^DLACore: (?P<core>-?\d{1,9})?(?P<fallback>\(With GPU fallback\))?"),
    _line("fallback", "Allow GPU fallback", r"^Allow GPU fallback for DLA: (?P<state>Enabled|Disabled)"),
    _line("standalone", "DLA standalone loadable", r"^Build DLA standalone loadable: (?P<state>Enabled|Disabled)"),
    _line("precision", "Precision: ", r"^Precision: (?P<precision>[A-Z0-9+]+)"),
    _line("model", "Input filename:", r"^Input filename:\s*(?P<model>.+)"),
    _line(
        "strict_refusal",
        "is not supported on DLA",
        r"Layer:? '?(?P<layer>.{1,2000}?)'? is not supported on DLA but GPU fallback is not enabled",
    ),
    _line(
        "strict_refusal",
        "is not supported on DLA",
        r"DLA Standalone is enabled but layer:? '?(?P<layer>.{1,2000}?)'? is not supported on DLA",
    ),
    _line("strict_refusal", "is not supported on DLA", r"layer:? '(?P<layer>.+)' is not supported on DLA\.?$"),
    _line(
        "strict_refusal",
        "falling back to GPU is not enabled",
        r"Default DLA is enabled but layer (?P<layer>.+) is not supported on DLA and falling back to GPU is not enabled",
    ),
    _line("refused", "Unsupported on DLA", r"Layer '(?P<layer>.+)' \((?P<type>[A-Z_0-9]+)\): Unsupported on DLA\."),
    _line(
        "refused", "Default DLA is enabled", r"Default DLA is enabled but layer (?P<layer>.+) is not (?:supported|running) on DLA"
    ),
    _line(
        "refused",
        "device type to GPU",
        r"DLA only supports FP16 and Int8 precision type\. Switching (?P<layer>.+) device type to GPU",
    ),
    _line(
        "refused", "does not support dynamic shapes", r"DLA Layer (?P<layer>.+) does not support dynamic shapes in any dimension"
    ),
    _line("parser_refused", "DLA validation failed", r"DLA validation failed for layer:? '?(?P<layer>.+?)'?\.?$"),
    _line("all_refused", "All dla layers are falling back", r"(?P<reason>DLA requests all profiles have same .*)"),
    _line(
        "all_refused",
        "no layer in the network can run on DLA",
        r"(?P<reason>(?:setDefaultDeviceType .*)?no layer in the network can run on DLA)",
    ),
    _line(
        "validation",
        "Validation failed for DLA layer",
        r"Validation failed for DLA layer: (?P<layer>.+)\. Switching to GPU fallback",
    ),
    _line("split", "Splitting DLA subgraph", r"Splitting DLA subgraph at: (?P<layer>.+?)(?: because (?P<reason>.+?))?\.?$"),
    _line("segment", "Segmenting subgraph", r"Segmenting subgraph due to (?P<reason>.+)"),
    _line(
        "dropped",
        "subgraphs per DLA core",
        r"DLA supports only (?P<cap>\d{1,9}) subgraphs per DLA core\. " r"Switching to GPU for layer (?P<layer>.+?)\.?$",
    ),
    _line("dla_list", "ayers ", r"^-+ Layers [Rr]unning on DLA:?(?: -+)?$"),
    _line("gpu_list", "ayers ", r"^-+ Layers [Rr]unning on GPU:?(?: -+)?$"),
    _line("dla_layer", "[DlaLayer]", r"\[DlaLayer\] (?:in (?=\{))?(?:(?P<type>[A-Z][A-Z0-9_]*): )?(?P<layer>.+)"),
    _line("gpu_layer", "[GpuLayer]", r"\[GpuLayer\] (?:(?P<type>[A-Z][A-Z0-9_]*): )?(?P<layer>.+)"),
    _line("pools", "DLA Memory Pool Sizes", r"DLA Memory Pool Sizes: " + _MIB),
    _line("consumption", "Memory consumption", r"Memory consumption: " + _MIB),
    _line("total", "Total memory required", r"Total memory required by accepted candidates : " + _MIB),
    _line("offloaded", "successfully offloaded to DLA", r"^[^{]*(?P<layer>\{.+\}) successfully offloaded to DLA"),
    _line(
        "candidates",
        "node candidates offloaded",
        r"Number of DLA node candidates offloaded : (?P<count>\d{1,9}) out of (?P<of>\d{1,9})",
    ),
    _line("network", "DLA Network Layer Information", r"^[^{]*(?P<layer>\{.+\}): DLA Network Layer Information"),
    _line("engine", "Engine Layer Information", r"Engine Layer Information:"),
    _line("layer", "Layer(", r"(?:^|(?<=[\s|:>\])#/]))Layer\((?P<type>[^)]+)\): (?P<rest>.+)"),
    _line(
        "reformat",
        "Adding reformat layer",
        r"Adding reformat layer: (?P<name>.+) \((?P<tensor>.*)\) " r"from (?P<source>\S+) to (?P<target>\S+)$",
    ),
    _line(
        "no_implementation",
        "Could not find any implementation",
        r"Could not find any implementation for node (?P<layer>\{.+\}|.+?)(?: due to .*|\.?\)?\.?)$",
    ),
    _line("compile_failed", "DLA Node compilation", r"DLA Node compilation [Ff]ailed"),
    _line("built", "Engine built in", r"^Engine built in "),
    _line("built", "Engine generation completed", r"Engine generation completed"),
    _line("failed", "Engine could not be created", r"Engine could not be created"),
    _line("failed", "set up failed", r"^Engine set up failed"),
    _line("failed", "Building engine failed", r"^Building engine failed"),
    _line("failed", "Failed to create engine from model", r"^Failed to create engine from model"),
    _line("failed", "engine != nullptr failed", r"Assertion engine != nullptr failed"),
    _line("failed", "Building serialized network failed", r"Building serialized network failed"),
)

#: An error by its text; with a prefix, its severity says the same.
ERROR_CODE = re.compile(r"(?:Error Code (?P<code>\d{1,9})|^(?P<old>\d{1,2}): (?=[\[A-Z])|^Error\[(?P<bracket>\d{1,9})\])")

#: A line must match this to be the reason of the refusal on the next line.
REASON = re.compile(r"DLA|Dimension: \d|not supported|nsupported|requires at least|exceeds|missing scale")

#: Looks like a reason but is none: layers that run on the DLA get these lines too.
REMARK = re.compile(
    r"(?:.+: )?(?:DLA Softmax optimization is enabled|"
    r"Input tensor has less than 4 dimensions for (?P<layer>.+?)\.? At least one shuffle)"
)

_INDEX: Dict[str, List[Line]] = {}
for _each in LINES:
    _INDEX.setdefault(_each.needle, []).append(_each)


def recognise(text: str) -> Optional[Tuple[str, Dict[str, str]]]:
    """(kind, groups of its pattern) for a line in the table; None for any other."""
    text = text[:MATCHED_CHARACTERS]
    for needle, lines in _INDEX.items():
        if needle in text:
            for line in lines:
                match = line.pattern.search(text)
                if match:
                    return line.kind, {k: v for k, v in match.groupdict().items() if v is not None}
    return None


def version_of_number(number: str) -> str:
    """TensorRT's banner number as a version: 8502 is 8.5.2, 8510 is 8.5.10, 100300 is 10.3.0."""
    n = int(number[:9])
    if n >= 10_0000:
        return f"{n // 10000}.{n // 100 % 100}.{n % 100}"
    return f"{n // 1000}.{n // 100 % 10}.{n % 100}"


def split_names(text: str) -> List[str]:
    """A list of TensorRT 7 on one line: `{a,b}, {c}, ` or `a + b, PWN(c, d), `; commas inside brackets do not separate."""
    names: List[str] = []
    depth, begin = 0, 0
    for at, char in enumerate(text):
        if char in "({[":
            depth += 1
        elif char in ")}]":
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            names.append(text[begin:at])
            begin = at + 1
    names.append(text[begin:])
    return [name.strip() for name in names if name.strip()]


def is_name(text: str) -> bool:
    """True if `text` before a colon looks like another layer's name, not like the start of a sentence."""
    return text != "Dimension" and (" " not in text or text.startswith("(Unnamed"))


def inner_layer(rest: str) -> Tuple[str, str, str]:
    """The parts of `name, Precision: Int8, in'[..] -> out'[..]`."""
    name, separator, tail = rest.partition(", Precision: ")
    if not separator:
        return rest, "", ""
    precision, _, detail = tail.partition(", ")
    return name, precision, detail
