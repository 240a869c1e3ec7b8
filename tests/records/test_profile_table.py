"""trtexec's printed profiles, as each release lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedla.inspection.file_kind import detect
from edgedla.records.profile_table import read_profile_table

#: 8.2 with its log prefix (TensorRT issue 3143): name first, three numbers.
OLD = """[07/06/2023-17:19:08] [I] === Profile (399 iterations ) ===
[07/06/2023-17:19:08] [I]                          Layer   Time (ms)   Avg. Time (ms)   Time %
[07/06/2023-17:19:08] [I]                  images to nvm        0.67           0.0017      0.0
[07/06/2023-17:19:08] [I] {ForeignNode[conv1...relu9]}        49.30           0.1236      1.6
[07/06/2023-17:19:08] [I]                head_3 from nvm     3069.55           7.6931     98.4
[07/06/2023-17:19:08] [I]                          Total     3119.52           7.8184    100.0
[07/06/2023-17:19:08] [I]
"""
#: 10.x: numbers first, with medians.
NEW = """[01/01/2026-10:00:00] [I] === Profile (10 iterations ) ===
[01/01/2026-10:00:00] [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
[01/01/2026-10:00:00] [I]        1.50       0.1500       0.1400      75.0   {ForeignNode[a b...c]}
[01/01/2026-10:00:00] [I]        0.50       0.0500       0.0500      25.0   soft max
[01/01/2026-10:00:00] [I]        2.00       0.2000       0.1900     100.0   Total
"""


@pytest.mark.parametrize(
    ("text", "count", "rows"),
    [
        (OLD, 399, [("images to nvm", 0.0017), ("{ForeignNode[conv1...relu9]}", 0.1236), ("head_3 from nvm", 7.6931)]),
        (NEW, 10, [("{ForeignNode[a b...c]}", 0.15), ("soft max", 0.05)]),
    ],
)
def test_rows_of_each_profile_table_layout_are_read(text: str, count: int, rows: list) -> None:
    table = read_profile_table(text.splitlines())
    assert table is not None
    assert table[0] == {"count": count}
    assert [(r["name"], r["averageMs"]) for r in table[1:]] == rows


def test_the_last_profile_table_of_a_log_is_read() -> None:
    table = read_profile_table((OLD + NEW).splitlines())
    assert table is not None
    assert table[0] == {"count": 10}


@pytest.mark.parametrize("text", ["", "=== Profile (3 iterations ) ===", "1.0 2.0 3.0 layer"])
def test_a_profile_table_without_rows_is_none(text: str) -> None:
    assert read_profile_table(text.splitlines()) is None


@pytest.mark.parametrize("text", [OLD, NEW])
def test_inspect_takes_a_printed_profile(text: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.txt"
    path.write_text(text)
    assert detect(path).kind == "profile"


@pytest.mark.parametrize(
    "text",
    [
        "[08/23/2023-10:06:30] [E] Error[9]: Cannot deserialize serialized engine built with EngineCapability::kDLA_STANDALONE\n",
        "[TensorRT] ERROR: DLA Layer x does not support dynamic shapes in any dimension.\n",
        "[I] [TRT] After DLA optimization: 13 layers\n",
        "NVMEDIA_DLA :  308, ERROR: setInputTensorDesc failed\n",
    ],
)
def test_a_pasted_part_of_a_log_is_detected_as_build_log(text: str, tmp_path: Path) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(text)
    assert detect(path).kind == "build-log"


@pytest.mark.parametrize(
    "line",
    [
        "frigate  | Input filename:   model.onnx",
        "web-1 | [02/14/2025-10:33:45] [TRT] [I] Input filename:   model.onnx",
        "[02/14/2025-10:33:45] [I] [TRT] Input filename:   model.onnx",
    ],
)
def test_container_line_prefixes_are_removed(line: str) -> None:
    from edgedla.records.build_log_reader import read_build_log

    assert read_build_log([line]).model == "model.onnx"


def test_html_entities_in_a_log_are_decoded() -> None:
    from edgedla.records.build_log_reader import read_build_log

    line = "[W] [TRT] Layer &#39;a&gt;b&#39; (SHUFFLE): Unsupported on DLA. Switching this layer&#x27;s device type to GPU."
    assert [(r.layer, r.type) for r in read_build_log([line]).refused] == [("a>b", "SHUFFLE")]


def test_the_older_fatal_message_is_recognised() -> None:
    from edgedla.records.build_log_reader import read_build_log

    line = "[E] [TRT] Default DLA is enabled but layer 283 copy is not supported on DLA and falling back to GPU is not enabled."
    log = read_build_log([line])
    assert log.fatal is not None
    assert log.fatal.layer == "283 copy"


def test_tensorrt_7_profiles_have_totals_only(tmp_path: Path) -> None:
    from edgedla.inspection.facts.document import of_document

    path = tmp_path / "profile.json"
    path.write_text('[{"count": 4}, {"name": "conv1", "timeMs": 2.0, "percentage": 100}]')
    found = detect(path)
    assert found.kind == "profile"
    assert [(f.key, f.value) for f in of_document(found.document, "profile") if "time" in f.section] == [("conv1", "0.5")]
