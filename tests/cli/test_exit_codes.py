"""A mistake has one exit code, whichever command meets it: `edgedla.errors.MISTAKES`, command by command."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

import numpy as np
import pytest

from edgedla import errors
from edgedla.cli.main import exit_code_of
from tests.hostile.commands import Scene

CODES = {mistake: error.exit_code for mistake, error in errors.MISTAKES}
OPTION, CORE, PIN, SIZE, OCCUPIED, INPUT, PARSER, BY_DATA, UNWRITABLE, LATER = CODES
#: As root every folder can be written; the kernel's own cannot.
READ_ONLY = "/sys/edgedla"
SOURCE = ("--source", "synthetic://?frames=2")
FIXES = sys.version_info >= (3, 10)

#: {m} a model, {refused} one that the parser refuses, {counts} one whose output has a size of the data, {broken} bytes that are
#: none, {gone} a path without a file, {art} an artifact, {npz} samples, {d} an empty folder, {below} a path below a file, {ro} a
#: folder that nobody can write.
LINES: Dict[str, Sequence[Tuple[str, ...]]] = {
    OPTION: [
        *(
            (verb, "{m}", "--target", "nowhere", *more)
            for verb, more in (
                ("check", ()),
                ("place", ()),
                ("layers", ()),
                ("build", ("--plan",)),
                ("inspect", ()),
                ("sweep", ("-o", "{d}/s.csv")),
                ("quantize", ("--data", "{npz}")),
            )
        ),
        ("targets", "nowhere"),
        ("check", "{m}", "--compare", "nowhere"),
        ("check", "{m}", "--compare", "orin-nx-16gb@fp99"),
        ("check", "{m}", "--compare", "orin-nx-16gb", "--with-fixes"),
        ("check", "{m}", "--all", "-q"),
        ("rules", "list", "--kind", "CONVOLUTIONS"),
        ("bundle", "{art}", "-o", "{d}/b.zip"),
        ("check", "{m}", "--compare", "orin-nx-16gb@fp16@int8"),
        ("sweep", "{m}", "-o", "{d}/s.csv", "--target", "orin-nx-16gb@fp99"),
        *(
            (verb, "{m}", "--power-mode", "nowhere", *more)
            for verb, more in (("check", ()), ("place", ()), ("sweep", ("--objective", "latency", "-o", "{d}/s.csv")))
        ),
        ("build", "{m}", "--set-ranges", "--plan"),
        ("build", "{m}", "--calib-method", "nonsense", "--plan"),
        ("place", "{m}", "--devices", "TPU"),
        ("build", "{m}", "--plan", "--layer-devices", "relu:TPU"),
        ("bench", "{art}", "--device", "TPU"),
        ("run", "{art}", *SOURCE, "--device", "TPU"),
    ],
    CORE: [
        ("check", "{m}", "--target", "orin-nx-8gb", "--useDLACore=1"),
        ("place", "{m}", "--target", "orin-nx-8gb", "--devices", "GPU,DLA1"),
        ("place", "{m}", "--target", "orin-nx-8gb", "--layer-device-types", "relu:DLA1"),
        ("build", "{m}", "--target", "orin-nx-8gb", "--dla-core", "1", "--plan"),
        ("build", "{m}", "--target", "orin-nx-8gb", "--layer-devices", "relu:DLA1", "--plan"),
    ],
    PIN: [
        ("place", "{m}", "--layer-device-types", "erf:DLA0"),
        ("place", "{m}", "--evaluate", "erf:DLA0"),
        ("build", "{m}", "--layer-devices", "erf:DLA", "--plan"),
        ("place", "{m}", "--layer-device-types", "nothing:GPU"),
        ("place", "{m}", "--evaluate", "nothing:GPU"),
        ("build", "{m}", "--layer-devices", "nothing:GPU", "--plan"),
    ],
    SIZE: [
        ("build", "{m}", "--pools", "dlaSRAM:3M", "--plan"),
        ("build", "{m}", "--pools", "dlaSRAM:2K", "--plan"),
        ("build", "{m}", "--pools", "dlaSRAM:1M", "--engines", "4", "--plan"),
        ("build", "{m}", "--input-formats", "int8:dla_hwc4", "--plan"),
        ("build", "{m}", "--output-formats", "int8:chw32", "--plan"),
    ],
    OCCUPIED: [
        ("check", "{m}", "-o", "{below}.json"),
        ("place", "{m}", "-o", "{below}.json"),
        ("layers", "{m}", "-o", "{below}.json"),
        ("inspect", "{m}", "-o", "{below}.json"),
        ("explain", "MSG201", "-o", "{below}.json"),
        ("rules", "docs", "-o", "{below}"),
        ("build", "{m}", "--backend", "host", "-o", "{below}"),
        ("build", "{m}", "--backend", "host", "-o", "{npz}"),
        ("build", "{m}", "--backend", "trtexec", "-o", "{below}"),
        ("sweep", "{m}", "-o", "{below}.csv"),
        ("quantize", "{m}", "--data", "{npz}", "-o", "{below}"),
        ("bench", "{art}", "--duration", "0", "--exportTimes", "{below}"),
        *(
            ("run", "{art}", *SOURCE, option, "{below}" + ending)
            for option, ending in (("--jsonl", ""), ("--images", ""), ("--video", ".avi"), ("--metrics", ""))
        ),
    ],
    INPUT: [
        *(
            (verb, model, *more)
            for model in ("{gone}.onnx", "{broken}.onnx")
            for verb, more in (
                ("check", ()),
                ("place", ()),
                ("layers", ()),
                ("build", ("--plan",)),
                ("inspect", ()),
                ("sweep", ("-o", "{d}/s.csv")),
                ("quantize", ("--data", "{npz}")),
                ("evaluate", ("--data", "{npz}")),
            )
        ),
        *(
            (verb, artifact, *more)
            for artifact in ("{gone}", "{d}")
            for verb, more in (("bench", ()), ("run", SOURCE), ("inspect", ()), ("evaluate", ("--data", "{npz}")))
        ),
        *(
            line
            for document in ("{gone}.json", "{broken}.json")
            for line in (
                ("build", "{m}", "--placement", document, "--plan"),
                ("run", "{art}", "--placement", document, *SOURCE),
                ("place", "{m}", "--verify", document),
                ("place", "{m}", "--profile", document),
                ("check", "{m}", "--profile", document),
                ("sweep", "{m}", "--objective", "latency", "--profile", document, "-o", "{d}/s.csv"),
            )
        ),
        ("place", "{m}", "--evaluate", "{gone}.json"),
        ("build", "{m}", "--precision", "int8", "--calib-data", "{gone}.npz", "--plan"),
        ("quantize", "{m}", "--data", "{gone}.npz"),
        ("evaluate", "{m}", "--data", "{gone}.npz"),
        ("build", "{m}", "--precision", "int8", "--calib", "{gone}.cache", "--plan"),
        ("quantize", "{m}", "--calib", "{gone}.cache", "-o", "{d}"),
        ("run", "{gone}.yaml"),
        *(("run", "{art}", "--source", film) for film in ("{gone}.mp4", "{gone}.jpg", "{d}")),
        ("convert", "{gone}.pt2", "-o", "{d}/x.onnx"),
        ("export", "triton", "{gone}", "-o", "{d}/x"),
        ("inspect", "{gone}.log"),
        # A model where an artifact, or a log, is wanted.
        ("bench", "{m}"),
        ("run", "{m}", *SOURCE),
        ("bundle", "{m}", "-o", "{d}/b"),
        ("explain", "{m}"),
        ("explain", "{gone}.log"),
        ("acceptance", "show", "{gone}.tar.gz"),
        ("build", "{gone}.onnx", "--plan", "--board", "nobody@192.0.2.1"),
    ],
    PARSER: [
        *(
            (verb, "{refused}", *more)
            for verb, more in (
                ("check", ()),
                ("place", ()),
                ("layers", ()),
                ("build", ("--plan",)),
                ("sweep", ("-o", "{d}/s.csv")),
            )
        )
    ],
    BY_DATA: [
        ("place", "{counts}"),
        ("place", "{counts}", "--evaluate", "GPU"),
        ("build", "{counts}", "--plan"),
        ("build", "{counts}", "--backend", "trtexec", "-o", "{d}/b"),
        ("deploy", "{counts}", "--data", "{npz}", "-o", "{d}/p"),
    ],
    UNWRITABLE: [
        ("check", "{m}", "-o", "{ro}.json"),
        ("place", "{m}", "-o", "{ro}.json"),
        ("build", "{m}", "--backend", "host", "-o", "{ro}"),
        ("build", "{m}", "--backend", "trtexec", "-o", "{ro}"),
        ("sweep", "{m}", "-o", "{ro}.csv"),
        ("quantize", "{m}", "--data", "{npz}", "-o", "{ro}"),
        ("bench", "{art}", "--duration", "0", "--exportTimes", "{ro}"),
        *(
            ("run", "{art}", *SOURCE, option, "{ro}" + ending)
            for option, ending in (("--jsonl", ""), ("--images", ""), ("--video", ".avi"), ("--metrics", ""))
        ),
    ],
    LATER: [("run", "{art}", *SOURCE, "--jsonl", "/dev/full")],
}
if FIXES:
    LINES[OPTION] = [*LINES[OPTION], ("fix", "{m}", "--dry-run", "--target", "nowhere")]
    LINES[OCCUPIED] = [*LINES[OCCUPIED], ("fix", "{m}", "--no-prove", "-o", "{below}.onnx")]
    LINES[INPUT] = [*LINES[INPUT], ("fix", "{gone}.onnx", "--dry-run"), ("fix", "{m}", "--dry-run", "--data", "{gone}")]
    LINES[PARSER] = [*LINES[PARSER], ("fix", "{refused}", "--dry-run")]
    LINES[UNWRITABLE] = [*LINES[UNWRITABLE], ("fix", "{m}", "--no-prove", "-o", "{ro}.onnx")]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dict[str, str]]:
    import onnx
    from onnx import helper

    folder = tmp_path_factory.mktemp("mistakes")
    scene = Scene(folder)
    scene.build_artifact()
    (folder / "broken.onnx").write_bytes(b"nothing of the kind" * 9)
    (folder / "broken.json").write_text('{"a":')
    (folder / "empty").mkdir()
    np.savez(str(folder / "s.npz"), x=np.random.default_rng(0).standard_normal((8, 3, 16, 16)).astype(np.float32))
    model = onnx.load(str(folder / "m.onnx"))
    model.graph.node[0].attribute.append(helper.make_attribute("strides", [0, 0]))
    onnx.save(model, str(folder / "refused.onnx"))
    model.graph.node[0].attribute.pop()
    model.graph.node.append(helper.make_node("NonZero", [model.graph.output[0].name], ["where"]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("where", onnx.TensorProto.INT64, [4, "count"]))
    onnx.save(model, str(folder / "counts.onnx"))
    return {
        "m": str(folder / "m.onnx"),
        "counts": str(folder / "counts.onnx"),
        "refused": str(folder / "refused.onnx"),
        "broken": str(folder / "broken"),
        "gone": str(folder / "gone"),
        "art": str(folder / "art"),
        "npz": str(folder / "s.npz"),
        "below": str(folder / "broken.json" / "below"),
        "d": str(folder / "empty"),
        "ro": READ_ONLY,
    }


def _writable() -> bool:
    try:
        Path(READ_ONLY).mkdir()
    except OSError:
        return False
    Path(READ_ONLY).rmdir()
    return True


@pytest.mark.parametrize("mistake", list(CODES))
def test_every_command_has_the_documented_exit_code_of_each_mistake(mistake: str, places: Dict[str, str]) -> None:
    if mistake == UNWRITABLE and _writable():
        pytest.skip(f"{READ_ONLY} can be made here")
    others: List[str] = []
    for line in LINES[mistake]:
        arguments = [word.format(**places) for word in line]
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            code = exit_code_of(arguments)
        if code != CODES[mistake]:
            others.append(f"{code}: {' '.join(line)}: {said.getvalue().strip()[-200:]}")
    assert not others, f"expected {CODES[mistake]} for {mistake}:\n" + "\n".join(others)
