"""Chains of real architectures with random weights compute what one engine with the same layers on a DLA does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chain_placements import TARGET, Devices, on_one_core, placed, runs

from edgedla.builder import HostSession, build, load_artifact
from edgedla.builder.building import BuildRequest
from edgedla.builder.host import TOLERANCE_REL_L2
from edgedla.builder.host_chain import HostChain

#: Skip connections, grouped convolutions with channel shuffles (5-D tensors, static shape arithmetic), and branches.
NETS = ("tv_resnet18", "tv_shufflenet_v2_x1_0", "tv_googlenet")
SHAPES = {
    "two": runs("DLA0", "DLA1"),
    "there-and-back": runs("DLA0", "GPU", "DLA1", "DLA0"),
    "by-turns": lambda i, n: ("DLA0", "DLA1", "GPU")[i // 9 % 3],
}


@pytest.fixture(scope="module")
def materialized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shared = Path(__file__).resolve().parents[3] / "shared"
    if not (shared / "tools/materialize.py").is_file():
        pytest.skip("the corpus ../shared does not stand beside this checkout")
    folder = tmp_path_factory.mktemp("nets")
    for net in NETS:
        command = [sys.executable, str(shared / "tools/materialize.py"), str(shared / f"corpus/nets/{net}.onnx")]
        subprocess.run([*command, str(folder / f"{net}.onnx")], check=True)
    return folder


@pytest.mark.parametrize(
    ("net", "shape", "precision"),
    [
        ("tv_resnet18", "two", "fp16"),
        ("tv_resnet18", "there-and-back", "int8"),
        ("tv_shufflenet_v2_x1_0", "there-and-back", "int8"),
        ("tv_shufflenet_v2_x1_0", "by-turns", "fp16"),
        ("tv_googlenet", "by-turns", "fp16"),
        ("tv_googlenet", "two", "int8"),
    ],
)
def test_a_chain_agrees_with_one_engine(
    net: str, shape: str, precision: str, materialized: Path, tmp_path: Path
) -> None:
    path, devices = materialized / f"{net}.onnx", SHAPES[shape]

    def built(name: str, to: Devices) -> Any:
        file = placed(path, tmp_path / f"{name}.json", to, precision=precision, only_legal=True)
        request = BuildRequest(target=TARGET, trt="10.3", precision=precision, backend="host", placement=file)
        build(path, tmp_path / name, request)
        return load_artifact(tmp_path / name, model=path)

    chain, one = built("chain", devices), built("one", on_one_core(devices))
    assert len(chain.stages) >= 2
    assert chain.accuracy["within"], chain.accuracy["worst_rel_l2"]
    image = np.random.default_rng(99).standard_normal(chain.inputs[0].shape_nchw).astype(np.float32)
    output = chain.outputs[0].name
    found = HostChain([s.artifact for s in chain.stages]).run_arrays({chain.inputs[0].name: image})[output]
    want = HostSession(one).run_arrays({chain.inputs[0].name: image})[output].astype(np.float64)
    error = float(np.linalg.norm(found - want) / np.linalg.norm(want))
    # Both are within the tolerance of FP32. What the GPU hands to both DLA and GPU is rounded in the chain alone.
    assert error <= TOLERANCE_REL_L2[precision], error
    if shape == "two":
        assert error <= 1e-6, error
