"""`bench --sweep-pools`: the fake TensorRT builds and runs an engine with each size of each pool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from edgedla.builder.building import build
from edgedla.builder.request import BuildRequest
from edgedla.builder.tensorrt.backend import build_on_device
from edgedla.cli.main import exit_code_of
from edgedla.runtime import runners as runners_module
from edgedla.runtime.measure import pool_sweep
from edgedla.runtime.measure.timing import BenchResult
from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner
from tests.builder.conftest import chain_net
from tests.models import save

LAYERS = [
    ("conv1", "CONVOLUTION", ("image",), ("c1",)),
    ("relu1", "ACTIVATION", ("c1",), ("r1",)),
    ("pool1", "POOLING", ("r1",), ("p1",)),
    ("conv2", "CONVOLUTION", ("p1",), ("y",)),
]
ON_DLA = {"Layers": [{"Name": "{ForeignNode[conv1...conv2]}", "LayerType": "DLA"}], "Bindings": ["image", "y"]}
ELSEWHERE = {"Layers": [{"Name": name, "LayerType": "CaskConvolution"} for name, _, _, _ in LAYERS], "Bindings": ["image", "y"]}
#: 2 MiB of local and 16 KiB of global DRAM are used.
LOG = (
    "DLA Memory Pool Sizes: Managed SRAM = {dla_sram_bytes:g} MiB, Local DRAM = {dla_local_dram_bytes:g} MiB, "
    "Global DRAM = {dla_global_dram_bytes:g} MiB",
    "Total memory required by accepted candidates : Managed SRAM = 1 MiB, Local DRAM = 2 MiB, Global DRAM = 0.015625 MiB",
)
QUICK = ["--warmUp", "0", "--duration", "0", "--iterations", "3", "--format", "json"]
MIB = 1 << 20


@pytest.fixture
def board(fake_tensorrt: Callable[..., Any], host_memory: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A TensorRT that answers by the pools of the plan it builds: `answer(pools)` changes its script; `ms(pools)` is the latency."""
    monkeypatch.setattr(runners_module, "_open_one", lambda a, name: TensorRtRunner(a, name, host_memory))
    module = fake_tensorrt(
        "10.3.0", layers=LAYERS, inputs={"image": (1, 3, 16, 16)}, outputs={"y": (1, 8, 8, 8)}, inspector=ON_DLA
    )
    real = build_on_device

    class Board:
        pools: Dict[str, int] = {}
        answer: Callable[[Any], Dict[str, Any]] = staticmethod(lambda pools: {})
        ms: Callable[[Any], float] = staticmethod(lambda pools: 1.0)
        tried: List[Any] = []

    def built(plan: Any, *arguments: Any, **keywords: Any) -> Any:
        Board.pools = plan.pools
        Board.tried = [*Board.tried, plan]
        sizes = {name: (size or 0) / MIB for name, size in vars(plan.pools).items()}
        script = {"build": "ok", "inspector": ON_DLA, "log": [("VERBOSE", line.format(**sizes)) for line in LOG]}
        vars(module.script).update({**script, **Board.answer(plan.pools)})
        return real(plan, *arguments, **keywords)

    def timed(runner: Any, inputs: Any, options: Any) -> BenchResult:
        runner.wait(runner.submit(inputs))
        ms = Board.ms(Board.pools)
        return BenchResult("fake", False, 3, 1.0, 1.0, ms, ms, ms, {"p50": ms}, times_ms=(ms - 0.01, ms, ms + 0.01))

    monkeypatch.setattr("edgedla.builder.tensorrt.backend.build_on_device", built)
    monkeypatch.setattr(pool_sweep, "build_on_device", built)
    monkeypatch.setattr("edgedla.runtime.measure.bench.time_runner", timed)
    return Board


@pytest.fixture
def artifact(board: Any, tmp_path: Path) -> Path:
    save(chain_net(), tmp_path / "chain.onnx")
    request = BuildRequest(target="agx-orin-64gb", trt="10.3", backend="tensorrt", precision="int8")
    build(tmp_path / "chain.onnx", tmp_path / "a", request)
    board.tried = []
    return tmp_path / "a"


def swept(artifact: Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    capsys.readouterr()
    model = artifact.parent / "chain.onnx"
    assert exit_code_of(["bench", str(artifact), "--sweep-pools", str(model), *QUICK]) == code
    return json.loads(capsys.readouterr().out)


def rows(document: Any, pool: str) -> Dict[int, Any]:
    return {t["size_bytes"]: t for t in document["pools"]["trials"] if t["pool"] == pool}


def test_every_size_is_built_from_the_artifacts_plan_and_timed(
    board: Any, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in artifact.rglob("*") if path.is_file()}
    board.ms = lambda pools: 0.5 if pools.dla_sram_bytes == 1 << 18 else 1.0
    document = swept(artifact, capsys)
    assert list(rows(document, "dlaSRAM")) == [1 << n for n in range(12, 21)]
    assert list(rows(document, "dlaLocalDRAM")) == [1 << n for n in range(21, 11, -1)]
    assert list(rows(document, "dlaGlobalDRAM")) == [16384, 8192, 4096]
    assert document["pools"]["best"] == "--memPoolSize=dlaSRAM:0.25"
    assert document["pools"]["planned_ms"] == 1.0
    assert rows(document, "dlaSRAM")[1 << 18]["median_ms"] == 0.5
    plan = json.loads(next(artifact.glob("plan-*.json")).read_text())
    for tried in board.tried:
        assert plan == {**json.loads(tried.to_json()), "pools": plan["pools"]}
    assert before == {path: path.read_bytes() for path in artifact.rglob("*") if path.is_file()}


def test_what_tensorrt_refuses_is_told_and_less_dram_is_not_tried(
    board: Any, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(pools: Any) -> Dict[str, Any]:
        if pools.dla_sram_bytes == 1 << 12:
            return {"log": [("VERBOSE", LOG[0].format(dla_sram_bytes=1, dla_local_dram_bytes=1, dla_global_dram_bytes=1))]}
        if pools.dla_global_dram_bytes == 1 << 13:
            return {"inspector": ELSEWHERE}
        return {"build": "none"} if pools.dla_local_dram_bytes < 1 << 20 else {}

    board.answer = answer
    document = swept(artifact, capsys)
    sram, local, weights = (rows(document, f"dla{pool}") for pool in ("SRAM", "LocalDRAM", "GlobalDRAM"))
    assert sram[1 << 12]["refused"] == "TensorRT takes 1 MiB"
    assert not any("refused" in sram[1 << n] for n in range(13, 21))
    assert list(local) == [1 << 21, 1 << 20, 1 << 19]
    assert local[1 << 19]["refused"]
    assert list(weights) == [16384, 8192]
    assert weights[8192]["refused"] == "TensorRT places layers elsewhere"
    assert document["pools"]["best"] is None


def test_a_gain_below_what_the_planned_sizes_vary_by_is_noise(
    board: Any, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([1.0])
    # The artifact itself takes 1 ms, the same sizes built anew 0.9, another size 0.85.
    board.ms = lambda pools: next(times, None) or (0.85 if pools.dla_sram_bytes == 1 << 14 else 0.9)
    document = swept(artifact, capsys)
    assert document["pools"]["noise_ms"] == 0.1
    assert document["pools"]["best"] == "--memPoolSize=dlaSRAM:0.015625"
    times = iter([0.94])
    assert swept(artifact, capsys)["pools"]["best"] == "--memPoolSize=dlaSRAM:0.015625"
    times = iter([0.96])
    board.ms = lambda pools: next(times, None) or (0.89 if pools.dla_sram_bytes == 1 << 14 else 0.9)
    assert swept(artifact, capsys)["pools"]["best"] == "--memPoolSize=dlaSRAM:0.015625"
    times = iter([0.96])
    board.ms = lambda pools: next(times, None) or 0.9
    assert swept(artifact, capsys)["pools"]["best"] is None


def test_ctrl_c_keeps_what_was_measured(board: Any, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(pools: Any) -> Dict[str, Any]:
        if pools.dla_sram_bytes == 1 << 14:
            raise KeyboardInterrupt
        return {}

    board.answer = answer
    document = swept(artifact, capsys, 130)
    assert document["interrupted"] is True
    assert list(rows(document, "dlaSRAM")) == [1 << 12, 1 << 13]


def test_the_text_is_a_table_with_the_option_that_sets_the_best(
    board: Any, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board.answer = lambda pools: {"build": "none"} if pools.dla_local_dram_bytes < 1 << 20 else {}
    board.ms = lambda pools: 0.5 if pools.dla_sram_bytes == 1 << 18 else 1.0
    capsys.readouterr()
    model = str(artifact.parent / "chain.onnx")
    assert exit_code_of(["bench", str(artifact), "--sweep-pools", model, *QUICK[:-2]]) == 0
    out = capsys.readouterr().out
    assert "  dlaSRAM            256 KiB  0.5 ms  0.01 ms\n" in out
    assert "  dlaLocalDRAM       512 KiB  refused: " in out
    assert "  best  --memPoolSize=dlaSRAM:0.25\n" in out


def test_what_cannot_be_swept_is_refused_before_anything_is_measured(
    board: Any, artifact: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = str(artifact.parent / "chain.onnx")
    assert exit_code_of(["build", model, "--backend", "host", "-o", str(tmp_path / "host")]) == 0
    capsys.readouterr()
    assert exit_code_of(["bench", str(tmp_path / "host"), "--sweep-pools", model]) == 2
    assert "--sweep-pools: the artifact is simulated" in capsys.readouterr().err
    assert exit_code_of(["bench", str(artifact), "--sweep-pools", model, "--device", "GPU"]) == 2
    assert "--sweep-pools" in capsys.readouterr().err


def test_off_a_board_the_error_is_that_of_every_engine(
    artifact: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    model = str(artifact.parent / "chain.onnx")
    without = exit_code_of(["bench", str(artifact)])
    expected = capsys.readouterr().err
    assert exit_code_of(["bench", str(artifact), "--sweep-pools", model]) == without != 0
    assert expected.splitlines()[-1] in capsys.readouterr().err
