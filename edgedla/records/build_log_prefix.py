"""The prefix of a log line: time, severity and logger, and what files, containers and forums add."""

from __future__ import annotations

import html
import json
import re
from contextlib import suppress
from typing import List, Tuple

#: Prefixes are within this many characters; later matches belong to the text.
_PREFIX_CHARACTERS = 240

# Terminal colours and control sequences, and the remainder of a colour if a tool dropped the escape character.
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_LOST_COLOUR = re.compile(r"^(?:\[\d{1,3}(?:;\d{1,3})*m)+|(?:\[(?:\d{1,3}(?:;\d{1,3})*)?m)+$")
# HTML entities for <, >, & and quotes in a log copied from a web page.
_ENTITY = re.compile(r"&(?:gt|lt|amp|quot|apos|nbsp|#\d{1,5}|#x[0-9a-fA-F]{1,4});")
# "frigate  | text": docker compose names the container before each line.
_CONTAINER = re.compile(r"^[A-Za-z0-9][\w.-]{0,62}\s+\|\s(?=\s*\S)")
# Forums turn quotes, dots and dashes into typographic ones.
_TYPOGRAPHIC = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "…": "...", "–": "--", "—": "---", "\ufeff": None})
_TIME = r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d(?:\.\d+)?\]"
_LOGGER = r"\[(?:TRT|TensorRT|(?:Torch-TensorRT|TRTorch)[^\]]*)\]"
_LONG = r"VERBOSE|INFO|WARNING|ERROR|INTERNAL_ERROR"
_TORCH = r"torch_tensorrt \[TensorRT Conversion Context\]"
# Time, severity and logger name stand in any order: trtexec writes [time] [W] [TRT], Python [time] [TRT] [W],
# DeepStream "WARNING: [TRT]:", TensorRT 7's Python logger "[TensorRT] WARNING:", Torch-TensorRT "WARNING: [name] - ",
# ONNX Runtime "[date time WARNING]", Triton "W0501 10:11:12.123456 1 logging.cc:43]", newer ones with the text in quotes,
# Torch-TensorRT's Python logger "WARNING:name:", mmdeploy "[mmdeploy] [warning] [trt_net.cpp:15] TRTNet: ", Polygraphy [X], [!].
_PREFIX = re.compile(
    rf"^\s*(?:[#>]\s*(?=\[))?(?:{_TIME}\s*|"
    r"\[(?P<short>[VIWEFX!])\]\s*|"
    rf"(?P<logger>{_LOGGER}):?\s*(?:- )?|"
    rf"(?:TRT )?(?P<long>{_LONG}):\s*|"
    rf"(?:(?P<python>DEBUG|CRITICAL):)?{_TORCH}:\s*|"
    r"\[[-\d :.]+\] \[mmdeploy\] \[(?P<spdlog>\w+)\] \[\S+:\d+\] TRTNet: |"
    rf"\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d +(?P<dated>{_LONG})\]\s*|"
    r"(?P<glog>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+:\d+\]\s*"
    r")+"
)
# The start of such a prefix after another one: that of a container, a service, a ROS node or a CI system.
_INNER = re.compile(
    rf"{_TIME}\s*\[|\[[VIWEF]\]\s*{_LOGGER}|{_LOGGER}:?\s|(?:{_LONG}): {_LOGGER}|TRT (?:{_LONG}): |"
    rf"\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d +(?:{_LONG})\]|(?<=[|:>\])] )\[[VIWEFX]\] |"
    rf"(?<=[|:>\])Z/] )(?:{_LONG}): |(?<=[#/:])(?:{_LONG}): |"
    r"(?<=[|\]] )[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+:\d+\] "
)
#: `_INNER` can only match if one of these occurs; searching for them is faster.
_INNER_NEEDLES = ("] [", "][", "[T", "] ", "ERBOSE: ", "INFO: ", "WARNING: ", "ERROR: ")
#: Two lines without a line break between them, as written by processes that share a file.
_GLUED = re.compile(rf"(?<=\S)(?={_TIME} ?(?:\[[VIWEF]\]|\[TRT\]))")
_SEVERITY = {
    "VERBOSE": "V",
    "INFO": "I",
    "WARNING": "W",
    "ERROR": "E",
    "INTERNAL_ERROR": "F",
    "X": "V",
    "!": "E",
    "DEBUG": "V",
    "CRITICAL": "F",
    "info": "I",
    "warning": "W",
    "error": "E",
}


def split_prefix(line: str) -> Tuple[str, str]:
    """(severity V, I, W, E, F or "", text without colours, time, severity and logger name)."""
    line = _plain(line)
    match = _PREFIX.match(line)
    if (not match or not match["logger"]) and any(n in line[:_PREFIX_CHARACTERS] for n in _INNER_NEEDLES):
        inner = _INNER.search(line, match.end() if match else 0, _PREFIX_CHARACTERS)
        if inner:
            line = line[inner.start() :]
            match = _PREFIX.match(line)
    if not match:
        return "", line.strip()
    word = next((match[name] for name in ("short", "long", "python", "spdlog", "dated", "glog") if match[name]), "")
    text = line[match.end() :].strip()
    if match["glog"] and len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return _SEVERITY.get(word, word), text


def split_glued(line: str) -> List[str]:
    """The line, or its parts if several log lines are joined without a line break."""
    line = _plain(line)
    if line.count("] [") < 2:
        return [line]
    parts = _GLUED.split(line)
    if len(parts) > 1 and not re.search(_TIME, parts[0]):  # only what stands before a line's own prefix
        parts[:2] = ["".join(parts[:2])]
    return parts


def _plain(line: str) -> str:
    """The text as a terminal shows it."""
    if line.startswith('{"log":'):  # Docker's json-file driver
        with suppress(ValueError, RecursionError):
            line = str(json.loads(line)["log"])
    if "\0" in line:  # a file that lost power while it grew, or UTF-16 without its mark
        line = line.replace("\0", "")
    if "\x1b" in line:
        line = _CONTROL.sub("", line)
    if "\r" in line:  # progress bars return to the begin of their line
        line = line.rstrip().rpartition("\r")[2]
    if "&" in line and ";" in line and _ENTITY.search(line):
        line = html.unescape(line).replace("\xa0", " ")
    if "|" in line[:80]:
        line = _CONTAINER.sub("", line, count=1)
    if not line.isascii():
        line = line.translate(_TYPOGRAPHIC)
    return _LOST_COLOUR.sub("", line.strip()) if "m" in line[:8] or line.rstrip().endswith("m") else line
