"""Build logs: the literal texts of public TensorRT logs from 5.x to 10.3, and files that are not logs."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path

import pytest

from edgedla.errors import DocumentError
from edgedla.records.build_log_lines import split_names, version_of_number
from edgedla.records.build_log_prefix import split_prefix
from edgedla.records.build_log_reader import read_build_log, read_build_logs
from edgedla.records.foreign_node import names_in, parse_foreign_node
from edgedla.records.real_placement import GPU, real_of_log

# Shortened excerpts of public logs; README.md beside them names the sources.
LOGS = Path(__file__).resolve().parent.parent / "data" / "build_logs"
RESNET = (LOGS / "resnet50_trt10.3_verbose.log").read_text()

YOLO = (LOGS / "yolo11l_trt8.5.log").read_text()

#: Of a build by edgedla itself.
GPU_ALONE = (LOGS / "rn_trt8.5.3_gpu.log").read_text()
TRT7 = (LOGS / "darknet_trt7.log").read_text()


def test_verbose_log_of_10_3_has_refusals_with_their_reason_on_the_line_before():
    log = read_build_log(RESNET.splitlines())
    assert log.version == "10.3.0"
    assert (log.device, log.precision, log.dla_core, log.gpu_fallback) == ("Orin", "FP32+FP16+INT8", 0, True)
    assert [(r.layer, r.type, r.reason) for r in log.refused] == [
        ("/avgpool/GlobalAveragePool", "REDUCE", "DLA cores do not support AVG Reduce operation."),
        ("/Flatten", "SHUFFLE", ""),
        ("fc.weight", "CONSTANT", ""),
    ]


def test_verbose_log_of_10_3_has_loadables_with_layers_and_memory():
    log = read_build_log(RESNET.splitlines())
    assert [loadable.node.name for loadable in log.loadables] == [
        "{ForeignNode[/conv1/Conv.../layer4/layer4.2/relu_2/Relu]}",
        "{ForeignNode[/fc/Gemm + (Unnamed Layer* 125) [ElementWise]]}",
    ]
    backbone, head = log.loadables
    assert [(layer.name, layer.type, layer.precision) for layer in backbone.layers] == [
        ("/conv1/Conv", "CONVOLUTION", "Int8"),
        ("/layer4/layer4.2/relu_2/Relu", "ACTIVATION", "Int8"),
    ]
    assert [layer.name for layer in head.layers] == ["/fc/Gemm + (Unnamed Layer* 125) [ElementWise]"]
    assert (backbone.memory.local_dram_mib, backbone.memory.global_dram_mib) == (4, 64)
    assert (log.pools.sram_mib, log.pools.local_dram_mib, log.pools.global_dram_mib) == (1, 1024, 512)
    assert (log.consumed.local_dram_mib, log.offloaded, log.candidates) == (6, 2, 2)


def test_layer_lists_of_a_verbose_log_are_not_final():
    log = read_build_log(RESNET.splitlines())
    assert not log.lists_are_final
    assert [layer.name for layer in log.dla_layers] == ["/conv1/Conv", "/fc/Gemm + (Unnamed Layer* 125) [ElementWise]"]
    assert [(layer.type, layer.name) for layer in log.gpu_layers] == [
        ("REDUCE", "/avgpool/GlobalAveragePool"),
        ("SHUFFLE", "reshape_after_/fc/Gemm"),
    ]


def test_engine_layers_reformats_and_success_are_read():
    log = read_build_log(RESNET.splitlines())
    assert [layer.type for layer in log.engine_layers] == ["Reformat", "DLA", "CaskPooling", "DLA"]
    (reformat,) = log.reformats
    assert (reformat.tensor, reformat.source, reformat.target) == ("input", "Float(150528,50176,224,1)", "Int8(50176,1:4,224,1)")
    assert log.built is True
    assert log.errors == ()


def test_a_non_verbose_log_of_8_5_has_final_nodes_and_second_look_refusals():
    log = read_build_log(YOLO.splitlines())
    assert log.version == "8.5.2.2"
    assert log.lists_are_final
    assert [n.node.first for n in log.loadables] == ["/model.0/conv/Conv", "/model.10/Split"]
    assert log.loadables[1].node.members == ("/model.10/Split",)
    assert [(r.layer, r.reason) for r in log.refused] == [
        ("/model.23/Div", "DLA cores do not support DIV ElementWise operation."),
        ("(Unnamed Layer* 636) [Concatenation]", "DLA only supports concatenation on the C dimension."),
    ]
    assert [(r.layer, r.reason) for r in log.validation] == [
        (
            "/model.10/m/m.0/attn/Reshape",
            "This version of DLA does not support reshape layers directly connected to Slice or Concat",
        ),
        (
            "/model.10/m/m.0/attn/Mul",
            "DLA only allows inputs of the same dimensions to Elementwise, " "but input shapes were: [1,4,400,400] and [1,1,1,1]",
        ),
        ("/model.23/Sub", "Dimension: 3 (8400) exceeds maximum allowed size for DLA: 8192"),
    ]
    assert "less than 4 dimensions" in log.validation[2].notes[0]
    assert [(c.layer, c.reason) for c in log.cuts] == [("/model.10/m/m.0/attn/Reshape", "DLA validation failed for this layer")]
    assert [layer.type for layer in log.gpu_layers] == ["POINTWISE", "COPY"]


def test_a_log_of_edgedlas_own_build_for_the_gpu_is_read():
    log = read_build_log(GPU_ALONE.splitlines())
    assert log.built
    assert not log.refused
    assert not log.errors
    engine = [layer.type for layer in log.engine_layers]
    assert (len(engine), engine.count("NoOp"), engine.count("Reformat")) == (17, 3, 2)
    assert real_of_log(log, ["/layer2/layer2.0/Add", "/fc/Gemm"]).devices == {"/layer2/layer2.0/Add": GPU, "/fc/Gemm": GPU}


def test_a_log_of_7_x_has_one_line_lists_and_reasons_before_the_layer():
    log = read_build_log(TRT7.splitlines())
    assert [(r.layer, r.reason) for r in log.refused] == [
        ("layer84-route", "Concatenation on DLA requires at least two inputs."),
        ("layer85-act", "ActivationLayer (with ActivationType = LEAKY_RELU) not supported for DLA."),
    ]
    assert (log.cap, log.dropped) == (8, ("conv_6", "conv_8"))
    assert [n.node.members for n in log.loadables] == [("conv_1", "batch_norm_1"), ("conv_2",)]
    assert [layer.name for layer in log.gpu_layers] == [
        "conv1 + activation_1/Relu",
        "PWN(a, b)",
        "(Unnamed Layer* 0) [Convolution] + (Unnamed Layer* 2) [Activation]",
    ]


def test_the_reason_of_another_layer_is_not_taken():
    log = read_build_log(
        [
            "[W] [TRT] /a/Div: DLA cores do not support DIV ElementWise operation.",
            "[W] [TRT] Layer '/b/Flatten' (SHUFFLE): Unsupported on DLA. Switching this layer's device type to GPU.",
        ]
    )
    assert [(r.layer, r.reason) for r in log.refused] == [("/b/Flatten", "")]


@pytest.mark.parametrize(
    ("text", "stage", "layer"),
    [
        (
            "[E] Error[2]: [x.cpp::y::1] Error Code 2: Internal Error (Assertion allowGPUFallback failed. "
            "Layer '644' is not supported on DLA but GPU fallback is not enabled.)",
            "strict",
            "644",
        ),
        (
            "[TRT] 2: DLA Standalone is enabled but layer: '/m/_input_quantizer/Constant' is not supported on DLA",
            "strict",
            "/m/_input_quantizer/Constant",
        ),
        (
            "[E] Error Code 2: layer '/model.2/Constant_1_output_0' is not supported on DLA",
            "strict",
            "/model.2/Constant_1_output_0",
        ),
    ],
)
def test_a_strict_build_names_its_first_offender_and_is_not_built(text, stage, layer):
    log = read_build_log([text, "&&&& FAILED TensorRT.trtexec [TensorRT v8502] # trtexec"])
    assert (log.fatal.stage, log.fatal.layer, log.built) == (stage, layer, False)
    assert log.errors[0].code == 2
    assert log.version == "8.5.2"


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("Default DLA is enabled but layer prob0 is not supported on DLA, falling back to GPU.", "prob0"),
        ("DLA Layer /a/b does not support dynamic shapes in any dimension", "/a/b"),
        ("DLA only supports FP16 and Int8 precision type. Switching Shape_1 device type to GPU", "Shape_1"),
        ("DLA validation failed for layer: conv.1", "conv.1"),
        ("Layer 'it's (odd)' (CONSTANT): Unsupported on DLA. Switching this layer's device type to GPU.", "it's (odd)"),
    ],
)
def test_every_known_refusal_text_gives_its_layer(text, layer):
    for prefix in ("", "[W] [TRT] ", "[11/20/2026-10:00:00] [TRT] [W] ", "WARNING: [TRT]: ", "[TensorRT] WARNING: "):
        assert [r.layer for r in read_build_log([prefix + text]).refused] == [layer], prefix


def test_catalogued_texts_other_than_refusals_are_read():
    log = read_build_log(
        [
            "[W] [TRT] DLA requests all profiles have same min, max, and opt value. " "All dla layers are falling back to GPU",
            "[I] [TRT] Segmenting subgraph due to mismatched batch size. Current layer has batch size: 1 but the rest",
            "[W] [TRT] DLA supports only 16 subgraphs per DLA core. Switching to GPU for layer /fuse2/act_1/Relu",
            "[E] Error[10]: [optimizer.cpp::computeCosts::3728] Error Code 10: Internal Error "
            "(Could not find any implementation for node {ForeignNode[a...b]}.)",
            "[E] [TRT] DLA Node compilation Failed.",
            "[E] Engine could not be created from network",
        ]
    )
    assert "same min" in log.all_refused
    assert "mismatched batch size" in log.cuts[0].reason
    assert (log.cap, log.dropped) == (16, ("/fuse2/act_1/Relu",))
    assert log.not_implemented == ("{ForeignNode[a...b]}",)
    assert [e.code for e in log.errors] == [10, None, None]
    assert log.built is False


def test_several_builds_in_one_file_are_separated():
    builds = read_build_logs((YOLO + YOLO).splitlines())
    assert [len(b.validation) for b in builds] == [3, 3]
    assert all(b.version == "8.5.2.2" for b in builds)
    assert [b.version for b in read_build_logs((RESNET + YOLO + RESNET).splitlines())] == ["10.3.0", "8.5.2.2", "10.3.0"]
    (one,) = read_build_logs(RESNET.splitlines())
    assert one.command.startswith("trtexec --onnx")


def test_crlf_colours_comments_utf16_and_gzip(tmp_path):
    plain = read_build_log(YOLO.splitlines()).refused
    assert read_build_log(YOLO.replace("\n", "\r\n").encode()).refused == plain
    assert read_build_log("".join("#" + line + "\n" for line in YOLO.splitlines()).encode()).refused == plain
    coloured = YOLO.replace("[04/", "\x1b[33m[04/").replace("GPU.\n", "GPU.\x1b[0m\n")
    assert read_build_log(coloured.encode()).refused == plain
    assert read_build_log(YOLO.encode("utf-16")).refused == plain
    path = tmp_path / "build.log.gz"
    path.write_bytes(gzip.compress(YOLO.encode()))
    assert read_build_log(path).refused == plain


def test_a_cut_off_gzip_log_is_marked_truncated(tmp_path):
    path = tmp_path / "half.gz"
    whole = gzip.compress((YOLO * 50).encode())
    path.write_bytes(whole[: len(whole) // 2])
    assert read_build_log(path).truncated


def test_a_missing_file_is_a_document_error(tmp_path):
    with pytest.raises(DocumentError, match="cannot read"):
        read_build_log(tmp_path / "none.log")


def test_an_empty_log_has_no_build():
    log = read_build_log(b"")
    assert not log.has_dla
    assert (log.built, log.version, log.lines) == (None, "", 0)


def test_garbage_is_read_in_bounded_time():
    rng = random.Random(7)
    fragments = RESNET.split("\n") + YOLO.split("\n") + TRT7.split("\n")
    start = time.process_time()
    for _ in range(200):
        lines = rng.sample(fragments, 20)
        text = "\n".join(lines)
        cut = rng.randrange(len(text))
        data = bytearray((text[cut:] + text[:cut]).encode())
        for _ in range(30):
            data[rng.randrange(len(data))] = rng.randrange(256)
        read_build_logs(bytes(data))
    read_build_logs(rng.randbytes(200_000) if hasattr(rng, "randbytes") else bytes(200_000))
    hostile = [
        "Layer '" * 200_000,
        "{" * 500_000 + " successfully offloaded to DLA",
        "[W]" * 300_000,
        "Adding reformat layer: " + " (" * 100_000,
        "&&&& RUNNING " * 50_000,
        "Could not find any implementation for node " + "{." * 100_000,
        "[DlaLayer] " + "A" * 900_000,
    ]
    read_build_logs(hostile)
    read_build_logs("\n".join(hostile).encode())
    assert time.process_time() - start < 20


def test_a_file_without_line_ends_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "one_line.log"
    with open(path, "wb") as f:
        for _ in range(64):
            f.write(b"x" * (1 << 20))
        f.write(("\n" + YOLO).encode())
    assert len(read_build_log(path).refused) == 2


@pytest.mark.parametrize(
    ("name", "first", "last", "members"),
    [
        ("{ForeignNode[/a/Conv.../b/Relu]}", "/a/Conv", "/b/Relu", None),
        ("{ForeignNode[a + (Unnamed Layer* 1) [Shuffle]]}", "a + (Unnamed Layer* 1) [Shuffle]", None, True),
        ("{ForeignNode[/model.10/Split]},", "/model.10/Split", "/model.10/Split", ("/model.10/Split",)),
        ("{conv_1,batch_norm_1}", "conv_1", "batch_norm_1", ("conv_1", "batch_norm_1")),
        ("{(Unnamed Layer* 0) [ElementWise]}", "(Unnamed Layer* 0) [ElementWise]", None, True),
    ],
)
def test_names_of_dla_nodes_are_parsed(name, first, last, members):
    node = parse_foreign_node(name)
    assert node.first == first
    assert node.last == (last or first)
    assert node.members == ((first,) if members is True else members)


def test_other_names_are_no_dla_nodes():
    assert parse_foreign_node("conv1 + relu1") is None
    assert parse_foreign_node("{}") is None


def test_fused_layer_names_are_split():
    assert names_in("a + b") == ("a", "b")
    assert names_in("PWN(PWN(x/Sigmoid), y/Mul)") == ("x/Sigmoid", "y/Mul")
    assert names_in("PWN(c + (Unnamed Layer* 687) [Shuffle], PWN(d, e))") == ("c", "(Unnamed Layer* 687) [Shuffle]", "d", "e")


def test_version_numbers_and_line_prefixes_are_parsed():
    assert [version_of_number(n) for n in ("7103", "8201", "8502", "8510", "8602", "100300", "101304")] == [
        "7.1.3",
        "8.2.1",
        "8.5.2",
        "8.5.10",
        "8.6.2",
        "10.3.0",
        "10.13.4",
    ]
    assert split_prefix("[11/20/2026-10:00:00] [W] [TRT] text: [x]") == ("W", "text: [x]")
    assert split_prefix("ERROR: [TRT]: text") == ("E", "text")
    assert split_prefix("[DlaLayer] x") == ("", "[DlaLayer] x")
    assert split_names("{a,b}, {c}, ") == ["{a,b}", "{c}"]
