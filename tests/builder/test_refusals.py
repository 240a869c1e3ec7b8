"""A build's log as causes and consequences in words, from phrases of public logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

from edgedla.builder.building import build
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.request import BuildRequest
from edgedla.builder.tensorrt.backend import real_placement
from edgedla.builder.tensorrt.log_causes import read_log, what_went_elsewhere, why_it_failed
from edgedla.errors import BuildError

STRICT = "[E] [TRT] Layer 'softmax' is not supported on DLA but GPU fallback is not enabled"
REFUSED = [
    "[W] [TRT] gap: DLA cores do not support AVG Reduce operation.",
    "[W] [TRT] Layer 'gap' (REDUCE): Unsupported on DLA. Switching this layer's device type to GPU.",
]
SECOND_LOOK = [
    "[W] [TRT] Dimension: 3 (8400) exceeds maximum allowed size for DLA: 8192",
    "[W] [TRT] Validation failed for DLA layer: sub. Switching to GPU fallback.",
]
CAP = "[W] [TRT] DLA supports only 16 subgraphs per DLA core. Switching to GPU for layer late"
NO_TACTIC = "[E] [TRT] 10: Could not find any implementation for node {ForeignNode[conv...relu]}."


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([STRICT], "softmax: refused on the DLA, and no GPU is allowed"),
        (REFUSED, "gap: refused (layer check): "),
        (SECOND_LOOK, "sub: refused (validation): Dimension: 3 (8400)"),
        ([NO_TACTIC], "the DLA compiler found no implementation"),
    ],
)
def test_a_failed_builds_log_gives_its_causes(lines: list, told: str) -> None:
    causes = "\n".join(why_it_failed(read_log("\n".join(lines))))
    assert told in causes


def test_catalogued_error_lines_are_causes_of_a_failed_build() -> None:
    assert any(cause.startswith("MSG") for cause in why_it_failed(read_log(NO_TACTIC)))
    assert why_it_failed(read_log("[I] [TRT] nothing wrong")) == ()


def test_long_lists_of_refused_layers_are_cut_with_a_count() -> None:
    lines = [
        f"[W] [TRT] Layer 'l{i}' (SHUFFLE): Unsupported on DLA. Switching this layer's device type to GPU." for i in range(50)
    ]
    causes = why_it_failed(read_log("\n".join(lines)))
    assert "and 30 more layers, see the log" in causes


def test_layers_moved_by_the_second_look_and_the_cap_are_noted() -> None:
    elsewhere = what_went_elsewhere(read_log("\n".join([*SECOND_LOOK, CAP])))
    assert elsewhere[0].startswith("refused by TensorRT's second look: sub (Dimension: 3 (8400)")
    assert elsewhere[1] == "above the limit of DLA subgraphs, so on the GPU: those beginning with late"


def test_a_failed_build_names_the_refused_layers_of_its_log(
    fake_tensorrt: Callable[..., Any], chain: Callable[..., Path], tmp_path: Path
) -> None:
    layers = [
        ("conv1", "CONVOLUTION", ("image",), ("c1",)),
        ("relu1", "ACTIVATION", ("c1",), ("r1",)),
        ("pool1", "POOLING", ("r1",), ("p1",)),
        ("conv2", "CONVOLUTION", ("p1",), ("y",)),
    ]
    log = (("WARNING", SECOND_LOOK[0][10:]), ("WARNING", SECOND_LOOK[1][10:]), ("ERROR", NO_TACTIC[10:]))
    network = {"layers": layers, "inputs": {"image": (1, 3, 16, 16)}, "outputs": {"y": (1, 8, 8, 8)}}
    fake_tensorrt("10.3.0", build="none", log=log, **network)
    request = BuildRequest(target="agx-orin-64gb", trt="10.3", backend="tensorrt")
    with pytest.raises(BuildError, match="built nothing") as caught:
        build(chain(), tmp_path / "out", request)
    text = str(caught.value)
    assert "what the log says:" in text
    assert "sub: refused (validation)" in text
    assert "last lines of TensorRT's log" in text


def test_the_engine_inspector_takes_precedence_over_the_log(plan_for: Callable[..., BuildPlan]) -> None:
    plan = plan_for("10.3.0")
    assert real_placement(plan, None) is None
    inspector = {
        "Layers": [{"Name": "{ForeignNode[conv...relu]}", "LayerType": "DLA"}, {"Name": "softmax", "LayerType": "SoftMax"}]
    }
    assert real_placement(plan, inspector) == {"conv": "DLA0", "relu": "DLA0", "softmax": "GPU"}
    log = read_log("[W] [TRT] Layer 'softmax' (SOFTMAX): Unsupported on DLA. Switching this layer's device type to GPU.")
    assert (real_placement(plan, None, log) or {}).get("softmax") == "GPU"
    assert real_placement(plan_for("10.3.0", "standalone"), None) == dict.fromkeys(["conv", "relu", "softmax"], "DLA0")
