"""The memory of ONNX Runtime is estimated beforehand, and refused beyond the limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from edgedla.cli.main import exit_code_of  # noqa: E402
from edgedla.errors import EnvironmentMissing, UsageError  # noqa: E402
from edgedla.importers.model_file.shape_inference import inferred_by_values  # noqa: E402
from edgedla.processes.guard import resident_bytes  # noqa: E402
from edgedla.quantization import memory_limit as limits  # noqa: E402
from edgedla.quantization.session import WORTH_SAYING_BYTES, memory_of, open_session  # noqa: E402
from edgedla.quantization.session_memory import MIB, SessionMemory, session_memory, tensor_bytes  # noqa: E402
from tests.hostile.nasty_models import LARGE, SMALL, huge_batch, model  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def made_weights(count: int) -> onnx.ModelProto:
    """A Gemm whose weights of count * count floats are made by a node: a few hundred bytes of file."""
    nodes = [helper.make_node("ConstantOfShape", ["dims"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, dims=(1, count), constants=[numpy_helper.from_array(np.array([count, count], np.int64), "dims")])


def test_the_estimate_frees_a_tensor_after_its_last_reader() -> None:
    size = 8 * 4 * 4 * 4
    chain = model([helper.make_node("Relu", [a], [b]) for a, b in (("x", "a"), ("a", "b"), ("b", "y"))])
    assert session_memory(chain).live_bytes == 2 * size
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    assert session_memory(model([*nodes, helper.make_node("Add", ["a", "b"], ["y"])])).live_bytes == 3 * size
    assert session_memory(model([*nodes, helper.make_node("Relu", ["a"], ["y"])])).live_bytes == 2 * size, "b ends"


def test_the_estimate_keeps_outer_values_that_a_branch_reads() -> None:
    size = 8 * 4 * 4 * 4
    branch = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["r"])], "branch", [], [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["x"], ["b"]),
        helper.make_node("If", ["yes"], ["c"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    chosen = model(nodes, constants=[numpy_helper.from_array(np.asarray(True), "yes")])
    # a lives on beside b until the branch has read it.
    assert session_memory(chosen).live_bytes == 3 * size


def test_the_estimate_counts_constants_made_by_nodes() -> None:
    memory = session_memory(made_weights(1000))
    assert (memory.made_bytes, memory.live_bytes) == (4_000_000, 2 * 4000)
    assert memory.folded_bytes == 4_000_000


def test_the_estimate_counts_reordered_copies_of_computed_weights() -> None:
    """Every one of them is copied once more, and the largest twice beside that while it is in work."""
    nodes, last = [], "x"
    for i, name in enumerate(("a", "b")):
        nodes.append(helper.make_node("ConstantOfShape", [f"dims_{name}"], [name]))
        nodes.append(helper.make_node("Conv", [last, name], ["y" if i else "c"]))
        last = "c"
    dims = [numpy_helper.from_array(np.array([c, 8, 1, 1], np.int64), f"dims_{n}") for n, c in (("a", 8), ("b", 16))]
    small, large = 8 * 8 * 4, 16 * 8 * 4
    memory = session_memory(model(nodes, constants=dims))
    assert (memory.made_bytes, memory.folded_bytes) == (small + large, small + large + 2 * large)


def test_the_estimate_reports_tensors_of_unknown_size() -> None:
    odd = model([helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT)])
    memory = session_memory(odd)
    assert memory.unknown == 2
    assert "2 tensors of unknown size" in str(memory)


def test_the_estimate_counts_the_column_buffer_of_a_transposed_convolution() -> None:
    weights = numpy_helper.from_array(np.ones((8, 4, 3, 3), np.float32), "w")
    net = model([helper.make_node("ConvTranspose", ["x", "w"], ["y"])], constants=[weights])
    assert session_memory(net).scratch_bytes == 4 * 3 * 3 * 4 * 4 * 4


@pytest.mark.parametrize(("kind", "size"), [(TensorProto.FLOAT, 12), (TensorProto.INT8, 3), (TensorProto.DOUBLE, 24), (99, 24)])
def test_tensor_bytes_follow_the_element_type(kind: int, size: int) -> None:
    assert tensor_bytes([3], kind) == size


@pytest.mark.parametrize(
    ("text", "size"), [("1", MIB), ("512M", 512 * MIB), ("1.5G", 1536 * MIB), ("2 GiB", 2048 * MIB), ("64k", 65536)]
)
def test_memory_sizes_are_parsed(text: str, size: int) -> None:
    assert limits.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1X", "1GG", "0.0000001K"])
def test_an_invalid_memory_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        limits.parse_size(text)


def test_a_session_beyond_the_limit_is_refused_before_it_is_opened() -> None:
    data = made_weights(20_000).SerializeToString()
    assert len(data) < 1000
    with limits.memory_limit(512 * MIB), pytest.raises(EnvironmentMissing, match=r"up to 46[0-9][0-9] MiB"):
        open_session(data)
    with limits.memory_limit(resident_bytes(os.getpid()) + memory_of(data).total_bytes + MIB):
        limits.require(memory_of(data))


def test_without_a_limit_the_free_memory_is_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = session_memory(made_weights(100))
    monkeypatch.setattr(limits, "available_bytes", lambda: memory.total_bytes)
    limits.require(memory)
    monkeypatch.setattr(limits, "available_bytes", lambda: memory.total_bytes - 1)
    with pytest.raises(EnvironmentMissing, match="what is free"):
        limits.require(memory)
    monkeypatch.setattr(limits, "available_bytes", lambda: None)
    limits.require(memory)


def test_a_container_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most, used = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(limits, "_CGROUP", (most, used))
    without = limits.available_bytes()
    most.write_text("3000000\n")
    used.write_text("1000000\n")
    assert limits.available_bytes() == 2_000_000
    most.write_text("max\n")
    assert without is None or abs((limits.available_bytes() or 0) - without) < 1 << 30


def test_a_large_estimate_is_announced_before_the_session() -> None:
    said: List[str] = []
    open_session(made_weights(100).SerializeToString(), say=said.append)
    assert said == []
    big = made_weights(4200).SerializeToString()
    assert memory_of(big).total_bytes > WORTH_SAYING_BYTES
    open_session(big, say=said.append)
    assert said == ["ONNX Runtime takes up to 266 MiB of memory"]


def test_a_small_model_file_is_limited_to_a_gigabyte_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "available_bytes", lambda: 1 << 40)
    most = limits.SMALL_FILE_LIMIT
    small, large = limits.SMALL_FILE_BYTES - 1, limits.SMALL_FILE_BYTES

    def memory(file_bytes: int, total: int) -> SessionMemory:
        rest = total - SessionMemory(file_bytes, 0, 0, 0).total_bytes
        return SessionMemory(file_bytes, -(-rest // 2), 0, 0)

    limits.require(memory(small, most))
    limits.require(memory(large, 2 * most))
    with pytest.raises(EnvironmentMissing, match="1024 MiB for a model file below 10 MiB"):
        limits.require(memory(small, most + 2))
    with limits.memory_limit(1 << 40):
        limits.require(memory(small, 8 * most))
    monkeypatch.setenv("EDGEDLA_MAX_MEMORY", "900G")
    limits.require(memory(small, 8 * most))
    monkeypatch.setenv("EDGEDLA_MAX_MEMORY", "16M")
    with pytest.raises(EnvironmentMissing, match="16 MiB by --max-memory"):
        limits.require(memory(small, 64 * MIB))
    monkeypatch.setenv("EDGEDLA_MAX_MEMORY", "much")
    with pytest.raises(UsageError, match="'much' is not a size") as e:
        limits.require(memory(small, 64 * MIB))
    assert e.value.where == "EDGEDLA_MAX_MEMORY"


@pytest.mark.parametrize("verb", ["bench", "run", "deploy"])
def test_commands_on_artifacts_keep_the_memory_limit(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, built = tmp_path / "m.onnx", tmp_path / "a"
    onnx.save(huge_batch(1), str(path))
    assert exit_code_of(["build", str(path), "--backend", "host", "-o", str(built)]) == 0
    arguments = {
        "bench": ["bench", str(built)],
        "run": ["run", str(built), "--source", "synthetic://"],
        "deploy": ["deploy", str(path), "--backend", "host", "--level", "0", "-o", str(tmp_path / "d")],
    }[verb]
    if verb == "run":
        # A pipeline reads pictures: three channels.
        onnx.save(model([helper.make_node("Relu", ["x"], ["y"])], dims=(1, 3, 16, 16)), str(path))
        assert exit_code_of(["build", str(path), "--backend", "host", "-o", str(built)]) == 0
    capsys.readouterr()
    assert exit_code_of([*arguments, "--max-memory", "16M"]) == 4
    assert "16 MiB by --max-memory" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["build", "quantize", "evaluate"])
def test_every_command_that_runs_a_model_keeps_the_memory_limit(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, samples = tmp_path / "m.onnx", tmp_path / "s.npz"
    onnx.save(huge_batch(1), str(path))
    np.savez(str(samples), x=np.zeros((1, 8, 16, 16), np.float32))
    rest = {
        "build": ["--backend", "host", "-o", str(tmp_path / "a")],
        "quantize": ["--data", str(samples), "-o", str(tmp_path / "q")],
        "evaluate": ["--data", str(samples), "--metric", "cosine", "--against", str(path)],
    }[verb]
    assert exit_code_of([verb, str(path), *rest, "--max-memory", "16M"]) == 4
    assert "16 MiB by --max-memory" in capsys.readouterr().err
    assert exit_code_of([verb, str(path), *rest, "--max-memory", "much"]) == 2


def test_proofs_of_a_fix_keep_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx_ir", reason="onnx-ir is not installed")
    two = numpy_helper.from_array(np.array([2.0], np.float32), "k")
    path = tmp_path / "m.onnx"
    onnx.save(model([helper.make_node("Div", ["x", "k"], ["y"])], constants=[two]), str(path))
    asked = ["fix", str(path), "--dry-run", "--mode", "strict"]
    assert exit_code_of(asked) == 0
    assert exit_code_of([*asked, "--max-memory", "16M"]) == 4
    assert "16 MiB by --max-memory" in capsys.readouterr().err
    assert exit_code_of([*asked, "--max-memory", "16M", "--no-prove"]) == 0


def test_the_limit_ends_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(huge_batch(2), str(path))
    assert exit_code_of(["build", str(path), "--backend", "host", "-o", str(tmp_path / "a"), "--max-memory", "16M"]) == 4
    assert exit_code_of(["build", str(path), "--backend", "host", "-o", str(tmp_path / "a")]) == 0


def test_the_estimate_is_at_least_the_measured_peak(tmp_path: Path) -> None:
    """The peak of a whole process that opens and runs a session, twice, against the estimate."""
    (tmp_path / "m.onnx").write_bytes(huge_batch(2000).SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "m.onnx")],
        cwd=str(ROOT),
        capture_output=True,
        text=True,
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"},
        check=True,
    )
    taken, estimated = (int(word) for word in done.stdout.split())
    assert 2000 * 8 * 16 * 16 * 4 < taken <= estimated < 4 * taken


CHILD = """
import sys, numpy as np
from edgedla.quantization.session import memory_of, open_session
def most():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
data = open(sys.argv[1], "rb").read()
feed = {"x": np.ones((2000, 8, 16, 16), np.float32)}
before = most()
session = open_session(data)
for _ in range(2):
    session.run(None, feed)
print((most() - before) * 1024, memory_of(data).total_bytes)
"""


MUL = [helper.make_node("Mul", ["a", "hundred"], ["k"]), helper.make_node("Concat", ["k", "k"], ["dims"], axis=0)]


def large(nodes: List[onnx.NodeProto], name: str = "w") -> onnx.ModelProto:
    """x (1, 2000) times a 2000 x 2000 tensor of 16 MB that these nodes make of k, which is computed."""
    made = [*MUL, *nodes, helper.make_node("MatMul", ["x", name], ["y"])]
    numbers = {"a": [20], "hundred": [100]}
    constants = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in numbers.items()]
    constants.append(numpy_helper.from_array(np.ones((1, 1), np.float32), "one"))
    return model(made, dims=(1, 2000), constants=constants, opset=17)


def in_a_branch() -> onnx.ModelProto:
    built = large(MUL[:0], "one")
    value = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    body = helper.make_graph(
        [helper.make_node("ConstantOfShape", ["fixed"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["b"])],
        "body",
        [],
        [value],
    )
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "other", [], [value])
    built.graph.initializer.append(numpy_helper.from_array(np.array([2000, 2000], np.int64), "fixed"))
    del built.graph.node[:]
    built.graph.node.extend(
        [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["which"], to=TensorProto.BOOL),
            helper.make_node("If", ["which"], ["y"], then_branch=body, else_branch=other),
        ]
    )
    return built


def in_a_function() -> onnx.ModelProto:
    built = large([helper.make_node("make", ["dims"], ["w"], domain="own")])
    nodes = [helper.make_node("ConstantOfShape", ["d"], ["z"]), helper.make_node("Neg", ["z"], ["w"])]
    opset = helper.make_opsetid("", 17)
    built.functions.append(helper.make_function("own", "make", ["d"], ["w"], nodes, [opset]))
    built.opset_import.append(helper.make_opsetid("own", 1))
    return built


def sparse(as_node: bool) -> onnx.ModelProto:
    one, place = (helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0]), helper.make_tensor("i", TensorProto.INT64, [1], [7]))
    value = helper.make_sparse_tensor(one, place, [2000, 2000])
    if as_node:
        return large([helper.make_node("Constant", [], ["w"], sparse_value=value)])
    built = large([], "s")
    built.graph.sparse_initializer.append(value)
    return built


@pytest.mark.parametrize(
    "make",
    [
        lambda: large([helper.make_node("ConstantOfShape", ["dims"], ["w"])]),
        lambda: large([helper.make_node("Expand", ["one", "dims"], ["w"])]),
        in_a_branch,
        in_a_function,
        lambda: sparse(True),
        lambda: sparse(False),
    ],
    ids=["ConstantOfShape", "Expand", "branch", "function", "sparse constant", "sparse initializer"],
)
def test_weights_whose_size_the_graph_computes_or_that_a_part_holds_count(make: Callable[[], onnx.ModelProto]) -> None:
    built = make()
    memory = session_memory(built)
    assert built.ByteSize() < 600
    assert memory.made_bytes >= 2000 * 2000 * 4
    assert memory.total_bytes > 3 * 2000 * 2000 * 4


def test_the_estimate_of_an_empty_tensor_is_known() -> None:
    none = numpy_helper.from_array(np.zeros((0, 8, 4, 4), np.float32), "none")
    joined = model([helper.make_node("Concat", ["none", "none"], ["y"], axis=0)], constants=[none])
    assert session_memory(joined).unknown == 0


@pytest.mark.parametrize("name", ["nested_functions", "wide_functions", "nested_ifs"])
def test_the_estimate_of_deeply_nested_subgraphs_ends(name: str) -> None:
    """Written out, one of them would hold millions of nodes."""
    assert session_memory({**SMALL, **LARGE}[name]()).total_bytes


def test_shape_inference_does_not_propagate_long_vectors() -> None:
    """Each number of a vector takes ONNX's data propagation some 150 bytes: a Range of 400 million took 60 GB."""
    numbers = {"zero": 0, "count": 1 << 30, "one": 1}
    constants = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in numbers.items()]
    nodes = [
        helper.make_node("Range", ["zero", "count", "one"], ["r"]),
        helper.make_node("Cast", ["r"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["c", "c"], ["y"]),
    ]
    before = resident_bytes(os.getpid())
    found = inferred_by_values(model(nodes, constants=constants))
    assert found.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 1 << 30
    assert resident_bytes(os.getpid()) - before < 64 * MIB
