"""The message catalogue: every literal line of the evidence is explained by its own entry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.rules.messages import explain_line, explain_log, messages, strip_prefix

pytestmark = pytest.mark.once

EXAMPLES = [(m.id, example) for m in messages() for example in m.examples]


@pytest.mark.parametrize(("message", "line"), EXAMPLES)
def test_each_example_is_explained_by_its_own_entry(message: str, line: str) -> None:
    found = explain_line(line)
    assert found is not None
    assert found[0].id == message


def test_every_entry_has_an_example_and_a_known_source() -> None:
    known = {entry["id"] for entry in strict_yaml.load(rules_dir() / "sources.yaml").tables("sources")}
    for message in messages():
        assert message.examples, message.id
        assert message.sources, message.id
        assert set(message.sources) <= known, message.id


def test_ids_and_names_are_unique() -> None:
    assert len({m.id for m in messages()}) == len(messages()) == len({m.name for m in messages()})


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("[11/16/2020-09:39:45] [W] [TRT] x\r\n", "x"),
        ("[01/29/2026-15:42:39] [TRT] [W] x", "x"),
        ("ERROR: [TRT]: x", "x"),
        ("[V] x", "x"),
        ("[DlaLayer] x", "[DlaLayer] x"),
    ],
)
def test_strip_prefix_removes_time_severity_and_logger(line: str, text: str) -> None:
    assert strip_prefix(line) == text


@pytest.mark.parametrize("line", ["", "hello", "Engine build finish", "FAILED"])
def test_unknown_lines_are_not_explained(line: str) -> None:
    assert explain_line(line) is None


def test_an_explained_line_gives_layer_and_value() -> None:
    found = explain_line("[W] [TRT] /model.23/Mul: DLA cores do not support DIV ElementWise operation.")
    assert found is not None
    assert found[1] == {"layer": "/model.23/Mul", "found": "DIV"}


def test_a_log_is_grouped_by_message_and_unknown_lines_about_the_dla_are_named() -> None:
    log = [
        "[I] Memory Pools: workspace: default, dlaSRAM: default",
        "[W] [TRT] Layer 'a' (SHUFFLE): Unsupported on DLA. Switching this layer's device type to GPU.",
        "[W] [TRT] Layer 'b' (SHUFFLE): Unsupported on DLA. Switching this layer's device type to GPU.",
        "[W] [TRT] DLA has a bad day",
        "[I] Starting inference",
    ]
    found, unknown = explain_log(log)
    assert [(e.message.id, [number for number, _, _ in e.lines]) for e in found] == [("MSG103", [2, 3])]
    assert unknown == ((4, "DLA has a bad day"),)


@pytest.mark.parametrize(
    "line",
    ["Assertion dlaCore < count failed.", "libnvdla_other.so is old", "cudlaSubmitTask failed", "NvMediaDlaPing returned 3"],
)
def test_a_line_that_names_the_dlas_code_is_about_the_dla(line: str) -> None:
    assert explain_log([line]) == ((), ((1, line),))


def test_a_line_without_end_does_not_hang() -> None:
    assert explain_line("a: " * 1_000_000) is None


@given(st.text())
def test_any_log_text_is_explained_or_unknown(text: str) -> None:
    found, unknown = explain_log(text.splitlines())
    assert len(unknown) <= len(text.splitlines())
    assert all(e.lines for e in found)


def _facts(shared: Path) -> List[str]:
    text = (shared / "facts" / "how-tensorrt-decides.md").read_text(encoding="utf-8")
    table = text.split("## 4. Message catalogue")[1].split("\n## ")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ") and "`" in line]
    return [literal for cell in cells for literal in re.findall("`([^`]+)`", cell)]


def test_every_literal_of_the_fact_sheet_is_explained(shared: Path) -> None:
    literals = _facts(shared)
    assert len(literals) > 30
    # Written as "... is not running on DLA ..." there: the ends of the line are left out.
    whole = [t for t in literals if not t.startswith("...") or t.startswith("{")]
    assert [t for t in whole if explain_line(t) is None] == []


def test_every_literal_message_of_the_recorded_layers_is_explained(shared: Path) -> None:
    import yaml

    records = yaml.safe_load((shared / "evidence" / "layers.yaml").read_text(encoding="utf-8"))
    literals = {r["message"] for r in records if r["message"] and not r["message"].startswith("~")}
    # Not a line of a log but the recorder's words about a profile.
    literals -= {'"prob" profiled as its own GPU layer'}
    assert len(literals) > 40
    assert sorted(t for t in literals if explain_line(t) is None) == []


#: Lines of public logs, and siblings of these, that are none of the examples.
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[I] DLACore: 1", "MSG413"),
        ("[I] DLACore: 1(With GPU fallback)", "MSG413"),
        ("[V] [TRT] --------------- Timing Runner: {ForeignNode[a...b]} (DLA)", "MSG316"),
        ("[W] [TRT] I/O reformatting for region y, formats [in] Int8(1,1:4,1,1), [out] Half(1,1:16,1,1)", "MSG338"),
        ("[E] [TRT] 1: [cudlaUtils.cpp::submit::95] Error Code 1: Cudla (Failure to submit program to DLA engine.)", "MSG503"),
        ("[E] [TRT] 1: [cudlaUtils.cpp::deserialize::150] Error Code 1: DLA (Failed to load program.)", "MSG504"),
        ("OSError: /usr/lib/aarch64-linux-gnu/libcudla.so.1: file too short", "MSG526"),
        ("[E] Unknown option: --allowGPUFallback", "MSG419"),
        ("Layer(CaskConvolution): /conv1/Conv + /relu/Relu, Tactic: 0x3d, x (Half[1,3]) -> y (Half[1,64])", "MSG418"),
        ("Layer(DLA): {ForeignNode[a...b]}, Tactic: 0x3, x (Half[1,3]) -> y (Half[1,64])", "MSG408"),
        ("[I]  2.1  0.05  0.05  1.2  Reformatting CopyNode for Input Tensor 0 to {ForeignNode[a...b]}", "MSG415"),
        ("NVMEDIA_DLA : 1686, ERROR: runtime loadBare failed. err: 0x6.", "MSG504"),
        ("NVMEDIA_DLA : 1599, ERROR: registerTensorBuffer failed", "MSG505"),
        ("[eglUtils.cpp::setup::33] Error Code 2: Internal Error (Assertion X failed.)", "MSG335"),
        ("07-25-2026 09:08:28 RAM 20642/62817MB GR3D_FREQ 12%@[1300,1300] NVDLA0_FREQ @1408 NVDLA1 off", "MSG420"),
    ],
)
def test_siblings_of_known_lines_are_explained(line: str, message: str) -> None:
    found = explain_line(line)
    assert found is not None
    assert found[0].id == message


@pytest.mark.parametrize("core", ["0", "1"])
def test_an_echo_is_skipped_in_a_log_and_explained_where_it_is_asked(core: str) -> None:
    line = f"[I] DLACore: {core}"
    assert explain_log([line]) == ((), ())
    [explained], unknown = explain_log([line], echoes=True)
    assert (explained.message.id, unknown) == ("MSG413", ())


def test_the_calibrator_that_trtexec_switches_itself_is_no_failure() -> None:
    found = explain_line("[I] DLA requested. Setting Calibrator to use kENTROPY_CALIBRATOR_2.")
    assert found is not None
    assert found[0].fatal is False
