"""One build log as files, containers, services, forums and terminals write it: it always reads the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from edgedla.records.build_log_prefix import split_glued, split_prefix
from edgedla.records.build_log_reader import read_build_log, read_build_logs

LOGS = sorted((Path(__file__).resolve().parent.parent / "data" / "build_logs").glob("*.log"))


def _before(prefix):
    return lambda text: "\n".join(prefix + line for line in text.splitlines()).encode()


FORMS = {
    "Windows line ends": lambda text: text.replace("\n", "\r\n").encode(),
    "UTF-8 with a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, Windows line ends": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "UTF-16 without its mark": lambda text: text.encode("utf-16-le"),
    "gzip": lambda text: gzip.compress(text.encode()),
    "gzip in two members": lambda text: gzip.compress(text[:900].encode()) + gzip.compress(text[900:].encode()),
    "gzip of UTF-16": lambda text: gzip.compress(text.encode("utf-16")),
    "a file that lost power": lambda text: (text + "\0" * 512).encode(),
    "docker compose": _before("trt-build-1  | "),
    "docker compose, coloured": _before("\x1b[36mtrt-build-1  | \x1b[0m"),
    "docker json-file": lambda text: "\n".join(
        json.dumps({"log": line + "\n", "stream": "stderr"}, separators=(",", ":")) for line in text.splitlines()
    ).encode(),
    "ROS 2 launch": _before("[component_container_mt-1] "),
    "journal": _before("Jan 12 10:11:12 orin trtexec[4711]: "),
    "CI with time": _before("2024-05-01T10:11:12.1234567Z "),
    "Jenkins": _before("[2024-05-01T10:11:12.123Z] "),
    "quoted mail": _before("> "),
    "shell comment": _before("#"),
    "indented": _before("    "),
    "grep -n": _before("build.log:17:"),
    "terminal colours": lambda text: "".join(f"\x1b[1;33m\x1b[K{x}\x1b[0m\x1b[K\n" for x in text.splitlines()).encode(),
    "colours without their escape": lambda text: "".join(f"[33m{x}[0m\n" for x in text.splitlines()).encode(),
    "double spaced": lambda text: text.replace("\n", "\n\n").encode(),
    "progress bars": lambda text: "".join(f"10%\r20%\r{x}\n" for x in text.splitlines()).encode(),
    "a forum's typography": lambda text: text.replace("'s ", "’s ").replace("...", "…").replace("---", "—").encode(),
}


def _told(data):
    """What the builds say, without line numbers."""
    found = []
    for build in read_build_logs(data):
        document = build.to_dict()
        document.pop("lines")
        for entries in document.values():
            for entry in entries if isinstance(entries, list) else [entries]:
                if isinstance(entry, dict):
                    entry.pop("line", None)
        found.append(document)
    return found


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_a_log_reads_the_same_in_every_form(log, form):
    text = log.read_text(encoding="utf-8")
    assert _told(FORMS[form](text)) == _told(text.encode())


@pytest.mark.parametrize(
    ("line", "severity", "text"),
    [
        ("[05/01/2024-10:11:12.345] [W] [TRT] x: y", "W", "x: y"),
        ("[05/01/2024-10:11:12] [05/01/2024-10:11:12] [W] [TRT] x: y", "W", "x: y"),
        ("ERROR: [Torch-TensorRT TorchScript Conversion Context] - 1: [a.cpp::b::2] z", "E", "1: [a.cpp::b::2] z"),
        ("[2024-05-01 10:11:12 WARNING] x: y", "W", "x: y"),
        ("2024-05-01 10:11:12.1 [W:onnxruntime:, ep.h:60 log] [2024-05-01 10:11:12 WARNING] x: y", "W", "x: y"),
        ("W0501 10:11:12.123456 1 logging.cc:43] x: y", "W", "x: y"),
        ('W0501 10:11:12.123456 1 logging.cc:46] "x: y"', "W", "x: y"),
        ('[component_container_mt-1] I0501 10:11:12.123456 43399 logging.cc:46] "x: y"', "I", "x: y"),
        ("WARNING:torch_tensorrt [TensorRT Conversion Context]:x: y", "W", "x: y"),
        ("DEBUG:torch_tensorrt [TensorRT Conversion Context]:x: y", "V", "x: y"),
        ("[2024-05-01 10:11:12.345] [mmdeploy] [warning] [trt_net.cpp:15] TRTNet: x: y", "W", "x: y"),
        ("[X]     x: y", "V", "x: y"),
        ("[!] x", "E", "x"),
        ("2024-05-01 10:11:12.1 ERROR gxf/tensor_rt.cpp@123: TRT ERROR: x: y", "E", "x: y"),
        ("[TRT]    x: y", "", "x: y"),
        ("(Unnamed Layer* 5) [Shuffle]: y", "", "(Unnamed Layer* 5) [Shuffle]: y"),
    ],
)
def test_line_prefixes_of_other_tools_are_split_off(line, severity, text):
    assert split_prefix(line) == (severity, text)


def test_two_log_lines_without_a_line_break_are_split():
    first = "[05/01/2024-10:11:12] [W] [TRT] Layer 'a' (SHUFFLE): Unsupported on DLA. Switching"
    second = "[05/01/2024-10:11:12] [W] [TRT] Layer 'b' (CAST): Unsupported on DLA. Switching"
    log = read_build_log([first + second, "[I] [TRT] and more"])
    assert [(r.layer, r.line) for r in log.refused] == [("a", 1), ("b", 1)]
    assert log.lines == 2
    assert split_glued("trt | " + first) == [first]


def test_the_trtexec_command_after_a_build_number_is_read():
    log = read_build_log(["&&&& RUNNING TensorRT.trtexec [TensorRT v100700] [b23] # trtexec --onnx=a.onnx"])
    assert (log.version, log.command) == ("10.7.0", "trtexec --onnx=a.onnx")


def test_a_reason_is_matched_within_a_few_lines_only():
    reason = "[W] [TRT] This version of DLA does not support reshape layers directly connected to Slice or Concat"
    refused = "[W] [TRT] Validation failed for DLA layer: r. Switching to GPU fallback."
    chatter = "[V] [TRT] Tactic: 0x1 Time: 0.1"
    assert "reshape layers" in read_build_log([reason, *[chatter] * 8, refused]).validation[0].reason
    assert read_build_log([reason, *[chatter] * 40, refused]).validation[0].reason == ""


def test_warnings_on_layers_that_run_on_the_dla_are_not_refusals():
    log = read_build_log(
        [
            "[W] [TRT] DLA Softmax optimization is enabled because the volume of non-axis dimensions is greater than 1.",
            "[W] [TRT] Input tensor has less than 4 dimensions for /x/Add. At least one shuffle layer will be inserted",
            "[W] [TRT] Layer 'c' (CONSTANT): Unsupported on DLA. Switching this layer's device type to GPU.",
        ]
    )
    assert [(r.layer, r.reason, r.notes) for r in log.refused] == [("c", "", ())]


def test_a_reason_is_matched_by_the_whole_layer_name():
    log = read_build_log(
        [
            "[W] [TRT] Reshape_64: DLA cores do not support POW ElementWise operation.",
            "[W] [TRT] Layer '64' (SHUFFLE): Unsupported on DLA. Switching this layer's device type to GPU.",
            "[W] [TRT] /a/Div: DLA cores do not support DIV ElementWise operation.",
            "[W] [TRT] Layer 'Div' (SHUFFLE): Unsupported on DLA. Switching this layer's device type to GPU.",
        ]
    )
    assert [r.reason for r in log.refused] == ["", ""]


def test_an_empty_list_of_7_x_does_not_take_the_next_line():
    log = read_build_log(
        [
            "[I] [TRT] --------------- Layers running on DLA: ",
            "[I] [TRT] {a,b}, ",
            "[I] [TRT] --------------- Layers running on GPU: ",
            "[I] [TRT] ",
            "[I] [TRT] Some tactics do not have sufficient workspace memory to run, see the verbose output.",
        ]
    )
    assert [layer.name for layer in log.dla_layers] == ["{a,b}"]
    assert log.gpu_layers == ()


def test_a_foreign_node_with_a_truncated_name_is_ignored():
    log = read_build_log(["[I] [TRT] [DlaLayer] {ForeignNode[a...b]}", "[I] [TRT] [DlaLayer] {ForeignNode[c...d"])
    assert [n.node.name for n in log.loadables] == ["{ForeignNode[a...b]}"]
    assert log.truncated


@pytest.mark.parametrize(
    ("line", "node"),
    [
        ("[E] Error[10]: Could not find any implementation for node {ForeignNode[a...b]}.", "{ForeignNode[a...b]}"),
        ("10: [optimizer.cpp] Internal Error (Could not find any implementation for node {ForeignNode[a]}.)", "{ForeignNode[a]}"),
        ("Could not find any implementation for node {ForeignNode[a]}", "{ForeignNode[a]}"),
        ("[E] Could not find any implementation for node conv.1 due to insufficient workspace. See verbose log.", "conv.1"),
        ("[E] Could not find any implementation for node conv.1 + relu.", "conv.1 + relu"),
    ],
)
def test_a_node_without_implementation_is_read(line, node):
    assert read_build_log([line]).not_implemented == (node,)


def test_empty_dla_and_failed_build_messages_are_read_in_all_wordings():
    log = read_build_log(["[W] [TRT] setDefaultDeviceType was called but no layer in the network can run on DLA."])
    assert "no layer in the network" in log.all_refused
    assert log.has_dla
    for line in (
        "[E] Building engine failed",
        "[E] Failed to create engine from model or file.",
        "2: [builder.cpp::buildSerializedNetwork::751] Error Code 2: Internal Error (Assertion engine != nullptr failed. )",
    ):
        assert read_build_log([line]).built is False, line
    listed = read_build_log(["[V] [TRT] [DlaLayer] in {ForeignNode[a...b]}"])
    assert [n.node.first for n in listed.loadables] == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        "[W] [TRT] DLA supports only " + "9" * 6000 + " subgraphs per DLA core. Switching to GPU for layer x",
        "&&&& RUNNING TensorRT.trtexec [TensorRT v" + "9" * 5000 + "] # trtexec",
        "[I] TensorRT version: " + "9" * 6000 + ".1",
        "[I] TensorRT version: ...",
        "[V] [TRT] DLA Memory Pool Sizes: Managed SRAM = 1..2 MiB, Local DRAM = 1 MiB, Global DRAM = 1 MiB",
        "[I] DLACore: " + "9" * 6000,
        "[E] Error Code " + "9" * 6000,
        "[V] [TRT] Number of DLA node candidates offloaded : " + "9" * 6000 + " out of 1",
    ],
    ids=lambda line: line[:40],
)
def test_invalid_numbers_are_not_read_as_numbers(line):
    log = read_build_log([line])
    assert (log.cap, log.version, log.pools, log.candidates) == (None, "", None, None)
    assert all(e.code is None or e.code < 10**9 for e in log.errors)


def test_small_pools_in_scientific_notation():
    line = "[V] [TRT] DLA Memory Pool Sizes: Managed SRAM = 0.5 MiB, Local DRAM = 1e+03 MiB, Global DRAM = 512 MiB"
    pools = read_build_log([line]).pools
    assert (pools.sram_mib, pools.local_dram_mib, pools.global_dram_mib) == (0.5, 1000, 512)
