"""Scripts for ten kinds of networks and each JetPack's trtexec: golden files, checked against its help and its format check."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from edgedla.builder.building import plan_build
from edgedla.builder.request import BuildRequest
from edgedla.builder.trtexec.script import trtexec_script
from edgedla.errors import EdgedlaError
from edgedla.quantization.calibration_cache import write_cache
from edgedla.version import version as edgedla_version
from tests.models import onnx_model

RELEASES = ["8.4.1", "8.5.1", "8.5.2", "8.6.1", "10.3.0", "10.7.0", "11.4.1"]
MODES = [("hybrid", "fp16"), ("hybrid", "int8"), ("standalone", "fp16"), ("standalone", "int8")]
FLOAT = TensorProto.FLOAT
#: What each release's own check of a standalone build takes (type, format; "": 11 takes no types), for (inputs, outputs).
CHECKED: Mapping[str, Tuple[Sequence[str], Sequence[str]]] = {
    "8.4.1": (("chw", "chw4", "chw16", "chw32"),) * 2,
    "8.5.1": (("chw", "chw4", "chw16", "chw32"),) * 2,
    "8.5.2": (("chw", "chw4", "chw16", "chw32"),) * 2,
    "8.6.1": (("dla_linear", "dla_hwc4", "chw16", "chw32"), ("dla_linear", "chw16", "chw32")),
}
HELP_OF = {"8.4.1": "8.4", "8.5.1": "8.5", "8.5.2": "8.5", "8.6.1": "8.6", "10.3.0": "10.3", "10.7.0": "10.7", "11.4.1": "11.1"}


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) * 0.1


class Net:
    """A network put together node by node."""

    def __init__(self, **inputs: Sequence[Any]) -> None:
        self.inputs = inputs
        self.nodes: List[Any] = []
        self.constants: List[Any] = []

    def add(self, op: str, inputs: Sequence[str], output: str, name: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=name or output, **attributes))
        return output

    def conv(self, source: str, output: str, shape: Sequence[int], name: str = "", **attributes: Any) -> str:
        self.constants.append(numpy_helper.from_array(weights(*shape), f"w{len(self.constants)}"))
        pads = attributes.pop("pads", [shape[2] // 2] * 4)
        return self.add("Conv", [source, self.constants[-1].name], output, name, pads=pads, **attributes)

    def const(self, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"k{len(self.constants)}"))
        return str(self.constants[-1].name)

    def model(self, **outputs: Sequence[Any]) -> Any:
        return onnx_model(self.nodes, self.inputs, outputs, self.constants)


def plain() -> Any:
    net = Net(image=[1, 3, 16, 16])
    net.add("Relu", [net.conv("image", "a", [8, 3, 3, 3])], "b")
    net.add("MaxPool", ["b"], "c", kernel_shape=[2, 2], strides=[2, 2])
    net.conv("c", "y", [16, 8, 1, 1])
    return net.model(y=[1, 16, 8, 8])


def two_heads() -> Any:
    net = Net(image=[1, 3, 16, 16])
    net.add("Relu", [net.conv("image", "a", [8, 3, 3, 3])], "b")
    net.conv("b", "scores", [4, 8, 1, 1])
    net.conv("b", "boxes", [16, 8, 1, 1])
    return net.model(scores=[1, 4, 16, 16], boxes=[1, 16, 16, 16])


def two_inputs() -> Any:
    net = Net(left=[1, 8, 16, 16], right=[1, 8, 16, 16])
    net.add("Add", [net.conv("left", "a", [8, 8, 3, 3]), net.conv("right", "b", [8, 8, 3, 3])], "y")
    return net.model(y=[1, 8, 16, 16])


def odd_names() -> Any:
    net = Net(**{"in put:0": [1, 3, 16, 16]})
    net.conv("in put:0", "a", [8, 3, 3, 3], name="block:0/conv,1")
    net.add("Erf", ["a"], "b", name="it's (Unnamed Layer* 3) [Erf]")
    net.add("Erf", ["b"], "c", name="scope:0/erf")
    net.conv("c", "out'put", [8, 8, 3, 3], name="last $conv")
    return net.model(**{"out'put": [1, 8, 16, 16]})


def dynamic() -> Any:
    net = Net(image=["n", 3, 16, 16])
    net.add("Relu", [net.conv("image", "a", [8, 3, 3, 3])], "y")
    return net.model(y=["n", 8, 16, 16])


def fallback() -> Any:
    net = Net(image=[1, 3, 16, 16])
    net.add("Erf", [net.conv("image", "a", [8, 3, 3, 3])], "b")
    net.add("GlobalAveragePool", [net.conv("b", "c", [8, 8, 3, 3])], "y")
    return net.model(y=[1, 8, 1, 1])


def deconvolution() -> Any:
    net = Net(image=[1, 8, 8, 8])
    net.constants.append(numpy_helper.from_array(weights(8, 4, 2, 2), "up"))
    net.add("ConvTranspose", ["image", "up"], "a", strides=[2, 2])
    net.add("Sigmoid", ["a"], "y")
    return net.model(y=[1, 4, 16, 16])


def concatenation() -> Any:
    net = Net(image=[1, 16, 8, 8])
    net.add("Concat", [net.conv("image", "a", [16, 16, 1, 1]), net.conv("image", "b", [16, 16, 3, 3])], "c", axis=1)
    net.add("AveragePool", ["c"], "y", kernel_shape=[2, 2], strides=[2, 2])
    return net.model(y=[1, 32, 4, 4])


def nothing_for_the_dla() -> Any:
    net = Net(x=[1, 8, 4, 4])
    net.add("Erf", ["x"], "y")
    return net.model(y=[1, 8, 4, 4])


def grouped() -> Any:
    net = Net(image=[1, 16, 16, 16])
    net.add("Clip", [net.conv("image", "a", [16, 1, 3, 3], group=16), net.const(np.float32(0)), net.const(np.float32(6))], "b")
    net.conv("b", "y", [32, 16, 1, 1])
    return net.model(y=[1, 32, 16, 16])


NETS: Dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (
        plain,
        two_heads,
        two_inputs,
        odd_names,
        dynamic,
        fallback,
        deconvolution,
        concatenation,
        nothing_for_the_dla,
        grouped,
    )
}


def scripts(net: str, folder: Path) -> Dict[Tuple[str, str, str], str]:
    """(release, mode, precision) -> script, or the error that says why there is none."""
    path = folder / f"{net}.onnx"
    model = NETS[net]()
    onnx.save(model, str(path))
    tensors = {t for node in model.graph.node for t in node.output} | {i.name for i in model.graph.input}
    cache = folder / f"{net}.cache"
    made = {}
    for release in RELEASES:
        version = tuple(int(n) for n in release.split("."))
        cache.write_text(write_cache({t: 1.0 for t in sorted(tensors)}, version))
        for mode, precision in MODES:
            calib = cache if precision == "int8" and version < (11,) else None
            batch = 1 if net == "dynamic" else None
            request = BuildRequest(target="agx-orin-64gb", trt=release, precision=precision, mode=mode, calib=calib, batch=batch)
            try:
                text = trtexec_script(plan_build(path, request)).text
            except EdgedlaError as e:
                text = f"no script: {type(e).__name__}: {e.what}\n"
            made[release, mode, precision] = text
    return made


@pytest.mark.parametrize("net", NETS)
def test_scripts_of_each_release_use_only_its_options(
    net: str, tmp_path: Path, golden: Callable[[str, str], None], shared_help: Mapping[str, Sequence[str]]
) -> None:
    made = scripts(net, tmp_path)
    parts = []
    for (release, mode, precision), text in made.items():
        for option in re.findall(r"^  (--\w+)", text, re.M):
            assert not shared_help or option in shared_help[HELP_OF[release]], f"{release}: {option}"
        if mode == "standalone" and release in CHECKED:
            for option, allowed in zip(("--inputIOFormats", "--outputIOFormats"), CHECKED[release]):
                for entry in re.findall(rf"^  {option}=(.*)$", text, re.M):
                    words = [word.partition(":")[2] for word in entry.strip("'").split(",")]
                    assert set(words) <= set(allowed), f"{release} {option}={entry}"
        parts.append(f"== {release} {mode} {precision}\n{shown(text)}")
    golden(f"trtexec/{net}.txt", "\n".join(parts))


def shown(text: str) -> str:
    """The script's comments that tell of it, and its arguments; the rest is the same everywhere."""
    lines = text.replace(edgedla_version(), "VERSION").splitlines()
    kept = [x for x in lines if x.startswith(("# NOT EXPRESSED", "# note", "  --", "no script"))]
    return "\n".join(kept) + "\n"


@pytest.fixture(scope="module")
def shared_help() -> Mapping[str, Sequence[str]]:
    """trtexec's published help by release; {} without ../shared, where only the golden files hold."""
    path = Path(__file__).resolve().parents[3] / "shared/facts/trtexec-flags.yaml"
    loaded: Mapping[str, Sequence[str]] = yaml.safe_load(path.read_text()) if path.is_file() else {}
    return loaded
