"""Models that onnx-ir reads but cannot write, that grow when folded, or whose names contain terminal commands."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser, save

from edgedla.cli.main import exit_code_of
from edgedla.errors import EnvironmentMissing, ModelError
from edgedla.fixes import judge
from edgedla.fixes.apply import apply_rewrites
from edgedla.fixes.fix import fix
from edgedla.fixes.network.model_file import open_model
from edgedla.fixes.network.network import Goal, Network
from edgedla.fixes.network.write_model import written_proto
from edgedla.fixes.proofs.sites import Budget
from edgedla.fixes.rewrites import all_rewrites
from edgedla.quantization.memory_limit import memory_limit
from edgedla.quantization.samples import InputSpec, synthetic_samples
from tests.hostile.nasty_models import chain, model, shape_doubles
from tests.models import ints

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx_ir", reason="onnx-ir is not installed")


def attribute_without_type() -> ModelProto:
    built = chain(3)
    built.graph.node[1].attribute.add(name="perm")
    return built


def output_that_nothing_makes() -> ModelProto:
    built = chain(3)
    built.graph.output[0].name = "absent"
    return built


def input_that_nothing_makes() -> ModelProto:
    built = chain(3)
    built.graph.node[1].input[0] = "absent\x1b[2J"
    return built


def weights_without_type() -> ModelProto:
    built = model([helper.make_node("Add", ["x", "w"], ["y"])], constants=[TensorProto(name="w", dims=[4], raw_data=b"0" * 16)])
    return built


def external_weights_without_type() -> ModelProto:
    """Named as the input, which therefore is none: files up to version 3 of the format list weights as inputs."""
    weights = TensorProto(name="x", dims=[4], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="x.bin")
    return model([helper.make_node("Relu", ["x"], ["y"])], constants=[weights])


def weights_cut_short() -> ModelProto:
    short = TensorProto(name="w", dims=[4], data_type=TensorProto.FLOAT, raw_data=b"0" * 12)
    return model([helper.make_node("Div", ["x", "w"], ["y"])], constants=[short])


def pool(**attributes: Any) -> Callable[[], ModelProto]:
    return lambda: model([helper.make_node("AveragePool", ["x"], ["y"], **{"kernel_shape": [3, 3], **attributes})])


def attribute_of_another_type() -> ModelProto:
    return model([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=[0.1])])


def attribute_that_is_no_text() -> ModelProto:
    return model([helper.make_node("Resize", ["x", "", "s"], ["y"], nearest_mode=b"\x1b\xff")], constants=[ints("s", 1)])


def bits_of_a_wider_type() -> ModelProto:
    wide = TensorProto(name="w", dims=[1], data_type=TensorProto.UINT64, int32_data=[47])
    return model([helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)], constants=[wide])


def input_without_element_type() -> ModelProto:
    built = model([helper.make_node("GlobalMaxPool", ["x"], ["y"])])
    built.graph.input[0].type.tensor_type.elem_type = 0
    return built


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (pool(strides=[2, 0], ceil_mode=1), r"'y' \[AveragePool\]: strides is \[2, 0\]"),
        (pool(pads=[3, 7]), r"pads \[3, 7\] does not fit a kernel of \[3, 3\]"),
        (lambda: model([helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=-1)]), "blocksize is -1"),
        (lambda: model([helper.make_node("ConvTranspose", ["x", "x"], ["y"], output_padding=[-1, 0])]), "output_padding is"),
        (attribute_of_another_type, "'alpha' has another type"),
        (attribute_that_is_no_text, "'nearest_mode' is not text"),
        (bits_of_a_wider_type, "initializer 'w' does not fit"),
        (input_without_element_type, "input 'x' has no element type"),
    ],
)
def test_nodes_with_invalid_inputs_are_named(make: Callable[[], ModelProto], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        open_model(make())


def test_a_resize_with_invalid_sizes_is_not_rewritten() -> None:
    """A Resize whose sizes are a column."""
    column = numpy_helper.from_array(np.array([[1], [8], [8], [8]], np.int64), "s")
    opened = open_model(model([helper.make_node("Resize", ["x", "", "", "s"], ["y"])], constants=[column]))
    changes = apply_rewrites(Network(opened, Goal()), all_rewrites())
    assert changes.applied == ()
    assert any("its sizes are" in r.reason for r in changes.refused)


def test_a_string_weight_is_not_rewritten() -> None:
    built = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> net (float[1,8,4,4] x) => (float[1,8,4,4] y) <float[1] w = {2.0}> '
        "{ y = Div(x, w) }"
    )
    built.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.STRING, [1], [b"2"]))
    changes = apply_rewrites(Network(open_model(built), Goal()), all_rewrites())
    assert changes.applied == ()
    assert {r.reason for r in changes.refused} == {"the elements of 'w' are of type STRING, no numbers"}


def test_huge_dims_of_an_old_model_are_refused_before_conversion() -> None:
    """ONNX's converter writes down the 2 ** 63 sizes that this Expand may have."""
    built = model([helper.make_node("Expand", ["x", "s"], ["y"]), helper.make_node("Concat", ["x", "s"], ["z"], axis=-1)])
    built.opset_import[0].version = 9
    built.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2**63 - 1]))
    built.graph.output.append(helper.make_empty_tensor_value_info("z"))
    with pytest.raises(ModelError, match="input 's' has 9223372036854775807 elements"):
        fix(built, target="orin")


def test_random_inputs_of_a_proof_stay_within_the_memory_budget() -> None:
    """A few bytes of a model name values of gigabytes."""
    budget = Budget(1 << 20)
    assert budget.draw("x", np.dtype("float32"), (1 << 10,)).nbytes == 4096
    with pytest.raises(EnvironmentMissing, match="too large for a model of this size"):
        budget.draw("x", np.dtype("float32"), (1 << 19,))
    with memory_limit(64 << 20), pytest.raises(EnvironmentMissing, match="random values of x would take 49152 MiB"):
        budget.draw("x", np.dtype("float32"), (1 << 32,))
    with pytest.raises(EnvironmentMissing, match="random samples would take"):
        synthetic_samples([InputSpec("x", (1 << 32,), np.float32)])


def output_made_twice() -> ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Tanh", ["x"], ["y"], name="b")])


def attribute_of_another_type() -> ModelProto:
    return model([helper.make_node("LeakyRelu", ["x"], ["y"], name="leak", alpha="two")])


@pytest.mark.parametrize(
    "make",
    [
        attribute_of_another_type,
        attribute_without_type,
        output_made_twice,
        weights_cut_short,
        output_that_nothing_makes,
        input_that_nothing_makes,
        weights_without_type,
        external_weights_without_type,
    ],
    ids=lambda f: f.__name__,
)
def test_fix_of_a_broken_model_exits_with_3_and_a_message(
    make: Callable[[], ModelProto], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save(make(), str(tmp_path / "m.onnx"))
    code = exit_code_of(["fix", str(tmp_path / "m.onnx"), "--dry-run"])
    out, err = capfd.readouterr()
    assert code == 3, err
    assert "\x1b" not in out + err
    assert f"edgedla: error: {tmp_path / 'm.onnx'}" in err
    assert "_deserialize" not in err


def doubled_values() -> ModelProto:
    """Known integers concatenated with themselves: 2 ** 42 of them, which data propagation would write down."""
    nodes = [helper.make_node("Concat", [f"s{i}", f"s{i}"], [f"s{i + 1}"], axis=0) for i in range(40)]
    nodes.append(helper.make_node("Reshape", ["x", "s40"], ["y"]))
    return model(nodes, constants=[ints("s0", 1, 8, 4, 4)])


def doubled_in_the_dark() -> ModelProto:
    """The same behind an operator whose dims inference leaves open."""
    nodes = [helper.make_node("NonZero", ["k"], ["n"]), helper.make_node("Squeeze", ["n", "zero"], ["s0"])]
    nodes += [helper.make_node("Concat", [f"s{i}", f"s{i}"], [f"s{i + 1}"], axis=0) for i in range(40)]
    nodes.append(helper.make_node("Reshape", ["x", "s40"], ["y"]))
    return model(nodes, constants=[ints("k", 1, 8, 4, 4), ints("zero", 0)])


@pytest.mark.parametrize(
    "make", [lambda: shape_doubles(40), doubled_values, doubled_in_the_dark], ids=["shape", "values", "dark"]
)
def test_constants_that_double_at_every_node_keep_fix_within_512_mib(make: Callable[[], ModelProto], tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    save(make(), str(tmp_path / "m.onnx"))
    program = (
        "import sys\nfrom edgedla.cli.main import exit_code_of\n"
        "code = exit_code_of(sys.argv[1:])\n"
        "most = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(code, most)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "fix", str(tmp_path / "m.onnx"), "--dry-run", "--shapes", "x:1x8x4x4"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30)),
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    code, kib = (int(word) for word in done.stdout.split()[-2:])
    assert code in (0, 1, 3)
    assert kib < 512 << 10


def test_strings_and_absent_values_are_not_folded(tmp_path: Path) -> None:
    words = helper.make_tensor("words", TensorProto.STRING, [2], [b"a", b"B"])
    nodes = [
        helper.make_node("StringNormalizer", ["words"], ["upper"], case_change_action="UPPER"),
        helper.make_node("StringNormalizer", ["upper"], ["lower"], case_change_action="LOWER"),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    built = model(nodes, constants=[words], outputs=("y", "lower"))
    built.graph.output[1].type.tensor_type.elem_type = TensorProto.STRING
    save(built, str(tmp_path / "m.onnx"))
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--dry-run", "--no-prove"]) in (0, 1, 3)


def test_a_constant_with_negative_dims_is_not_folded(tmp_path: Path) -> None:
    axes = TensorProto(name="axes", data_type=TensorProto.INT64, dims=[0, -(2**31)], raw_data=b"")
    nodes = [
        helper.make_node("Softmax", ["axes"], ["between"]),
        helper.make_node("ReduceL2", ["data", "between"], ["reduced"], keepdims=1),
    ]
    data = helper.make_tensor_value_info("data", TensorProto.FLOAT, [3, 2, 2])
    reduced = helper.make_tensor_value_info("reduced", TensorProto.FLOAT, [1, 1, 1])
    graph = helper.make_graph(nodes, "g", [data], [reduced], [axes])
    built = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    save(built, str(tmp_path / "m.onnx"))
    assert exit_code_of(["check", str(tmp_path / "m.onnx"), "--target", "orin"]) == 3


def conv(**attributes: Any) -> ModelProto:
    """A padded dilated convolution behind a Pad: two rewrites look at its window."""
    weights = numpy_helper.from_array(np.ones((4, 8, 3, 3), np.float32), "w")
    window = {"strides": [1, 1], "dilations": [9, 9], "pads": [9, 9, 9, 9], **attributes}
    nodes = [helper.make_node("Pad", ["x", "around"], ["p"]), helper.make_node("Conv", ["p", "w"], ["y"], **window)]
    return model(nodes, constants=[weights, ints("around", 0, 0, 1, 1, 0, 0, 1, 1)])


@pytest.mark.parametrize("attribute", ["strides", "dilations", "pads"])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_window_attributes_of_wrong_length_do_not_crash(attribute: str, count: int, tmp_path: Path) -> None:
    save(conv(**{attribute: [1] * count}), str(tmp_path / "m.onnx"))
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--dry-run", "--no-prove", "--shapes", "x:1x8x4x4"]) in (0, 1, 3)


@pytest.mark.parametrize("location", ["", "/etc/passwd", "../m.onnx"])
def test_external_data_without_a_valid_location_is_missing(location: str, tmp_path: Path) -> None:
    """Without a location the folder itself is named, which has a size; others lie outside of the folder."""
    elsewhere = TensorProto(name="s", dims=[4], data_type=TensorProto.INT64, data_location=TensorProto.EXTERNAL)
    if location:
        elsewhere.external_data.add(key="location", value=location)
    nodes = [helper.make_node("Abs", ["s"], ["t"]), helper.make_node("Reshape", ["x", "t"], ["y"])]
    folder = tmp_path / "model"
    folder.mkdir()
    content = model(nodes, constants=[elsewhere]).SerializeToString()
    for path in (folder / "m.onnx", tmp_path / "m.onnx"):
        path.write_bytes(content)
    assert exit_code_of(["fix", str(folder / "m.onnx"), "--dry-run", "--no-prove", "--shapes", "x:1x8x4x4"]) in (0, 1, 3)


def test_negative_dims_are_unknown(tmp_path: Path) -> None:
    built = model([helper.make_node("GlobalAveragePool", ["x"], ["y"])])
    for dim, size in zip(built.graph.input[0].type.tensor_type.shape.dim, (1, 8, -4, 4)):
        dim.dim_value = size
    save(built, str(tmp_path / "m.onnx"))
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--dry-run", "--no-prove"]) in (0, 1, 3)


def test_a_loop_body_that_reads_outer_values_is_valid(tmp_path: Path) -> None:
    """The body of a loop is no graph of its own: onnx.checker alone would call what it reads from outside missing."""
    truth = helper.make_tensor("truth", TensorProto.BOOL, [], [True])
    body = helper.make_graph(
        [helper.make_node("Add", ["carried", "x"], ["next"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, [1, 8, 4, 4]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [1, 8, 4, 4]),
        ],
    )
    built = model(
        [helper.make_node("Loop", ["times", "truth", "x"], ["y"], body=body)],
        constants=[helper.make_tensor("times", TensorProto.INT64, [], [2]), truth],
    )
    built.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 4, 4]))
    save(built, str(tmp_path / "m.onnx"))
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--dry-run", "--no-prove", "--shapes", "x:1x8x4x4"]) in (0, 1)


def test_a_network_of_too_many_layers_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judge, "MOST_LAYERS", 2)
    save(chain(3), str(tmp_path / "m.onnx"))
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--target", "orin", "-o", str(tmp_path / "f.onnx")]) == 3
    assert "3 layers are too many to fix (allowed: at most 2)" in capsys.readouterr().err
    assert not (tmp_path / "f.onnx").exists()


def test_an_initializer_with_too_little_data_is_refused_without_allocation() -> None:
    few = TensorProto(name="w", dims=[2**31], data_type=TensorProto.UINT4, int32_data=[1, 2])
    built = model([helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)], constants=[few])
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="initializer 'w' does not fit"):
            open_model(built.SerializeToString())
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_an_initializer_that_cannot_be_serialised_is_named() -> None:
    import onnx_ir as ir

    def elements() -> Any:
        raise ValueError("nonzero padding bits")

    opened = open_model(model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString())
    lazy = ir.LazyTensor(elements, dtype=ir.DataType.FLOAT, shape=ir.Shape([1]), name="w")
    opened.graph.initializers["w"] = ir.Value(name="w", const_value=lazy)
    with pytest.raises(ModelError, match="cannot be written: nonzero padding bits"):
        written_proto(opened)


def test_an_einsum_equation_that_hangs_shape_inference_is_skipped(tmp_path: Path) -> None:
    node = helper.make_node("Einsum", ["x", "y"], ["z"], equation="y\033")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5]) for name in ("x", "y", "z")]
    save(helper.make_model(helper.make_graph([node], "g", ends[:2], ends[2:])), str(tmp_path / "m.onnx"))
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", "check", str(tmp_path / "m.onnx"), "--target", "orin-nx-8gb"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ModelError.exit_code
    assert "Einsum equation" in done.stderr
