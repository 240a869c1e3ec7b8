"""Models of a few megabytes that would take gigabytes: refused, or answered within the limits."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import save

from edgedla.builder.building import build
from edgedla.builder.host import limits
from edgedla.builder.request import BuildRequest
from edgedla.errors import ModelError, ModelTooLarge
from edgedla.importers import load_onnx
from edgedla.importers.model_file import onnx_file
from edgedla.importers.network import core
from tests.hostile.nasty_models import LARGE, bipartite, chain, empty_nodes, fan_out, nested_functions, nested_ifs, sum_of_one

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("make", [lambda: empty_nodes(500_001), lambda: sum_of_one(500_001)], ids=["nodes", "inputs"])
def test_graphs_above_the_node_limit_are_refused(make) -> None:
    with pytest.raises(ModelError, match="500000"):
        load_onnx(make().SerializeToString())


def test_the_size_counts_nodes_inputs_and_subgraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert onnx_file.graph_size(fan_out(10).graph) == 20
    # Each If has two branches of one node and one input; its own input is the condition.
    assert onnx_file.graph_size(nested_ifs(1).graph) == 3 * 2 + 2 * 2
    monkeypatch.setattr(onnx_file, "MAX_NODES_AND_INPUTS", 19)
    with pytest.raises(ModelError, match="20 nodes and node inputs"):
        load_onnx(fan_out(10).SerializeToString())
    monkeypatch.setattr(onnx_file, "MAX_NODES_AND_INPUTS", 20)
    assert len(load_onnx(fan_out(10).SerializeToString()).layers) == 10


def test_nodes_that_become_too_many_layers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few nodes in a small file; a function's body multiplies once more."""
    monkeypatch.setattr(core, "MAX_LAYERS", 50)
    for make in (lambda: sum_of_one(52), lambda: nested_functions(4, 4), lambda: bipartite(8)):
        with pytest.raises(ModelError, match="more than 50 layers"):
            load_onnx(make().SerializeToString())
    assert len(load_onnx(sum_of_one(51).SerializeToString()).layers) == 50


def test_a_network_that_is_too_large_is_neither_simulated_nor_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(chain(6), str(tmp_path / "m.onnx"))
    fp16, int8 = (BuildRequest(target="orin", backend="host", precision=p) for p in ("fp16", "int8"))
    monkeypatch.setattr(limits, "MOST_MEASURED", 5)
    with pytest.raises(ModelTooLarge, match="6 layers are too many to measure INT8 ranges"):
        build(tmp_path / "m.onnx", tmp_path / "a", int8)
    monkeypatch.setattr(limits, "MOST_LAYERS", 5)
    with pytest.raises(ModelTooLarge, match="6 layers are too many to simulate"):
        build(tmp_path / "m.onnx", tmp_path / "a", fp16)
    monkeypatch.setattr(limits, "MOST_OUTPUTS", 2)
    save(fan_out(3), str(tmp_path / "m.onnx"))
    with pytest.raises(ModelTooLarge, match="3 outputs are too many"):
        build(tmp_path / "m.onnx", tmp_path / "a", fp16)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")
def test_fix_refuses_a_too_large_model_before_onnx_ir_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.fixes import fix as fixing
    from edgedla.fixes import judge

    monkeypatch.setattr(judge, "MOST_LAYERS", 5)
    monkeypatch.setattr(fixing, "open_model", None)
    for make, words in (
        (lambda: sum_of_one(500_001), "500000"),
        (lambda: nested_functions(4, 4), "256 layers"),
        (lambda: chain(6), "6 layers"),
    ):
        with pytest.raises(ModelTooLarge, match=words):
            fixing.fix(make().SerializeToString(), target="orin")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verb"), [*((name, verb) for name in sorted(LARGE) for verb in ("check", "layers")), ("wide_concat", "place")]
)
def test_large_models_end_within_20_cpu_seconds_and_a_gigabyte(name: str, verb: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(LARGE[name]().SerializeToString())

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 21))

    done = subprocess.run(
        [sys.executable, "-c", CHILD, verb, str(path), "--target", "orin"],
        cwd=str(ROOT),
        preexec_fn=limits,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, f"ended by signal {-done.returncode} (24: more than 20 CPU seconds): {done.stderr[-500:]}"
    code, kib = (int(word) for word in done.stderr.split()[-2:])
    assert code in (0, 1, 3), done.stderr[-500:]
    assert kib < 1 << 20


CHILD = """
import sys
from edgedla.processes import guard
from edgedla.cli import main
# It measures itself, so no second process watches over it.
guard.GUARDED = frozenset()
try:
    main.run(sys.argv[1:])
except SystemExit as e:
    code = e.code
# ru_maxrss would count the process that this one was forked from.
most = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(f" {code} {most}")
"""
