"""Real lines of public logs, and their entries in the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedla.rules.messages import explain_line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "[W] [TRT] DLA LAYER: Batch size (combined volume except for CHW dimensions) 128 for layer EltWise multiplication in "
            "likelihood calculation exceeds max batch size allowed of 32.",
            "MSG113",
        ),
        (
            "[E] [TRT] Default DLA is enabled but layer 283 copy is not supported on DLA and falling back to GPU is not enabled.",
            "MSG101",
        ),
        ("[W] [TRT] Default DLA is enabled but layer prob0 is not supported on DLA, falling back to GPU.", "MSG104"),
        ("prob input reformatter 0", "MSG407"),
        ("{a,b} output to be reformatted 1 finish", "MSG407"),
        ("{a,b}", "MSG406"),
        ("head_3 from nvm", "MSG405"),
        ("&lt;x&gt; [W] DLA Layer &quot;a&quot; does not support dynamic shapes in any dimension", "MSG114"),
        ("frigate  | [02/14/2025-10:33:45] [TRT] [W] 066_maxpool: DLA only supports windows in the range of [1-8].", "MSG123"),
    ],
)
def test_log_lines_are_explained_by_their_message(line: str, message: str) -> None:
    answer = explain_line(line)
    assert answer is not None
    assert answer[0].id == message


def test_the_profile_warning_is_explained_as_harmless_without_dla() -> None:
    answer = explain_line(
        "[W] DLA requests all profiles have same min, max, and opt value. All dla layers are falling back to GPU"
    )
    assert answer is not None
    assert "asked for no DLA" in answer[0].meaning


def test_every_recorded_line_is_explained(shared: Path) -> None:
    lines = (shared / "evidence" / "log_lines.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) > 60
    assert [line.split("\t")[0] for line in lines if explain_line(line.split("\t")[0]) is None] == []
